//! Reports and plots as files: whole, the same every time, and in need of nothing else.

use crate::trainyard::{done, ended, path};

const PLAN: &str = "tests/cmd/explain.in/two.json";

#[test]
fn a_report_is_one_file_that_asks_for_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = path(folder.path(), "report.html");
    done(".", &["report", PLAN, "--out", &file, "--runs", "50", "-q"]);
    let page = std::fs::read_to_string(&file).expect("it was written");
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    for part in ["recommendation", "step", "memory", "cost", "scaling", "machines", "risks", "assumptions", "reproduce"]
    {
        assert!(page.contains(&format!("<section id=\"{part}\">")), "{part}");
    }
    for words in [
        "Rent 2 × p3.8xlarge",
        "stage 7",
        "exposed communication",
        "Critical path",
        "name=\"viewport\"",
        "@media print",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Sources are told as text; nothing is fetched.
    for asking in ["<script", "<link", "<img", "src=", "@import", "url(", "href=\"http"] {
        assert!(!page.contains(asking), "{asking}");
    }
    let again = ended(".", &["report", PLAN, "--runs", "50", "-q"]);
    assert_eq!(again.stdout, page.as_bytes());
}

#[test]
fn what_a_plan_is_called_is_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (plan, file) = (path(folder.path(), "plan.json"), path(folder.path(), "report.html"));
    let text = std::fs::read_to_string(PLAN).expect("a plan");
    let evil = text.replace("gpt2-medium", "<script>alert(1)</script>&amp;");
    assert_ne!(text, evil);
    std::fs::write(&plan, evil).expect("room");
    done(".", &["report", &plan, "--out", &file, "--runs", "20", "-q"]);
    let page = std::fs::read_to_string(&file).expect("it was written");
    assert!(!page.contains("<script") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;"));
}

#[test]
fn every_plot_of_a_report_is_a_file_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let page = path(folder.path(), "report.html");
    for (format, start) in [("svg", &b"<svg "[..]), ("png", b"\x89PNG\r\n\x1a\n")] {
        let plots = folder.path().join(format);
        let named = plots.display().to_string();
        done(".", &["report", PLAN, "--out", &page, "--plots", &named, "--plot-format", format, "--runs", "50", "-q"]);
        for name in [
            "step",
            "critical-path",
            "memory",
            "front",
            "scaling",
            "sensitivities",
            "roofline",
            "bandwidth",
            "campaign",
        ] {
            let content = std::fs::read(plots.join(format!("{name}.{format}"))).expect("it was written");
            assert!(content.starts_with(start), "{name}.{format}");
        }
    }
}

#[test]
fn nothing_is_written_where_something_cannot_be() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (page, plots) = (path(folder.path(), "report.html"), path(folder.path(), "file"));
    std::fs::write(&plots, "not a folder").expect("room");
    let failed = ended(".", &["report", PLAN, "--out", &page, "--plots", &plots, "--runs", "20", "-q"]);
    assert_eq!(failed.status.code(), Some(2), "{}", String::from_utf8_lossy(&failed.stderr));
    assert_eq!(std::fs::read_dir(folder.path()).expect("readable").count(), 1);
}
