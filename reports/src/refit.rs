//! Refitted constants as a page.

use crate::format::{Width, bullets, percent, seconds, table};
use trainyard_calibration::{ConstantChange, Errors, RefitDocument, StackErrors};

/// Formats a refit: what changed, and how well steps are predicted before and after.
pub fn refit(document: &RefitDocument, width: Width) -> String {
    let mut page = changes(document, width);
    if document.stacks.is_empty() {
        return page + &unsupported(document, width);
    }
    let stacks = document.stacks.iter().map(|stack| {
        let name = if stack.stack == "*" { "all" } else { &stack.stack };
        let replaced = if stack.replaced { "refitted" } else { "as it was" };
        let [before, after, left_out, unseen] = shown(stack.errors);
        [name.into(), stack.rows.to_string(), replaced.into(), before, after, left_out, unseen]
    });
    page.push('\n');
    page += &table(width, ["stack", ">rows", "constants", ">before", ">after", ">left out", ">unseen"], stacks);
    let suites = document.suites.iter().map(|suite| {
        let [before, after, left_out, unseen] = shown(suite.errors);
        [suite.suite.clone(), suite.rows.to_string(), before, after, left_out, unseen]
    });
    if !document.suites.is_empty() {
        page.push('\n');
        page += &table(width, ["suite", ">rows", ">before", ">after", ">left out", ">unseen"], suites);
    }
    page += "\nMean errors. Left out: groups of one model, scale or release, predicted by what the others say. Unseen: the\n\
             same, starting from the mean of all other stacks.\n";
    page += &bullets(width, "Software", &called(document));
    page += &unsupported(document, width);
    page
}

/// Tells which rows name their software otherwise than the stack that was fitted on them.
fn called(document: &RefitDocument) -> Vec<String> {
    let of = |stack: &StackErrors| {
        let labels: Vec<String> = stack.called.iter().map(|label| format!("`{label}`")).collect();
        format!("{} stands for rows whose `stack` is {}", stack.stack, labels.join(", "))
    };
    document.stacks.iter().filter(|stack| !stack.called.is_empty()).map(of).collect()
}

/// Formats the corrections that runs made to a machine's profile, and how well steps are predicted before and after.
pub fn corrections(document: &RefitDocument, width: Width) -> String {
    let mut page = if document.constants.is_empty() {
        "What the profile says already predicts these runs better than what each says of the others.\n".into()
    } else {
        changes(document, width)
    };
    let runs = document.suites.iter().map(|suite| (suite.suite.as_str(), suite.errors));
    let all = document.stacks.iter().map(|stack| ("all", stack.errors)).filter(|_| document.rows > 1);
    let rows = runs.chain(all).map(|(name, errors)| {
        let [before, after, left_out, _] = shown(errors);
        [name.into(), before, after, left_out]
    });
    page.push('\n');
    page += &table(width, ["run", ">before", ">after", ">left out"], rows);
    page += "\nErrors of the step time. Left out: the run predicted by what the others say.\n";
    page
}

fn shown(errors: Errors) -> [String; 4] {
    [errors.before, errors.after, errors.left_out, errors.unseen].map(percent)
}

fn changes(document: &RefitDocument, width: Width) -> String {
    if document.constants.is_empty() {
        return "No other constants predict the rows that are left out better than the present ones.\n".into();
    }
    let rows = document.constants.iter().map(|change| {
        let ConstantChange { name, before, after, deviation, rows } = change;
        let time =
            ["launch", "region_selection", "sharded_copy", "separate_update", "step_overhead", "kernel_floor", ".step"];
        let value = |value: f64| {
            if time.iter().any(|own| name.ends_with(own)) { seconds(value) } else { format!("{value:.3}") }
        };
        [name.clone(), value(*before), value(*after), format!("± {}", percent(*deviation)), rows.to_string()]
    });
    table(width, ["constant", ">before", ">after", ">deviation", ">rows"], rows)
}

fn unsupported(document: &RefitDocument, width: Width) -> String {
    const TOLD: usize = 5;
    let mut reasons: Vec<String> = document.unsupported.iter().take(TOLD).cloned().collect();
    if document.unsupported.len() > TOLD {
        reasons.push(format!("and {} more", document.unsupported.len() - TOLD));
    }
    bullets(width, "Rows that were not used", &reasons)
}

/// Formats the half-widths of which intervals are made, beside those that held-out rows ask for.
pub fn refit_widths(document: &RefitDocument, width: Width) -> String {
    let rows = document.widths.iter().map(|term| {
        [
            term.term.clone(),
            term.rows.to_string(),
            percent(term.present),
            percent(term.fitted),
            percent(term.coverage90),
        ]
    });
    let header = ["half-width of an interval", ">rows", ">in use", ">asked for", ">90 % intervals hold"];
    let all =
        document.coverage90.map_or_else(String::new, |held| format!("All rows left out: {} held.\n", percent(held)));
    format!("\n{}{all}", table(width, header, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_calibration::{REFIT_SCHEMA, StackErrors, SuiteErrors, TermWidth};

    #[test]
    fn a_page_shows_every_constant_and_every_stack() {
        let errors = Errors { before: 0.2, after: 0.05, left_out: 0.06, unseen: 0.08 };
        let change =
            ConstantChange { name: "stacks.mine.launch".into(), before: 35e-6, after: 42e-6, deviation: 0.1, rows: 3 };
        let document = RefitDocument {
            schema: REFIT_SCHEMA.into(),
            rows: 3,
            unsupported: vec!["four: no such model".into()],
            constants: vec![change],
            stacks: vec![StackErrors {
                stack: "mine".into(),
                called: vec!["ours".into()],
                rows: 3,
                replaced: true,
                errors,
            }],
            suites: vec![SuiteErrors { suite: "here".into(), rows: 3, errors }],
            widths: vec![TermWidth { term: "maps".into(), rows: 3, present: 0.15, fitted: 0.2, coverage90: 0.9 }],
            coverage90: Some(0.9),
        };
        let page = refit(&document, Width(100)) + &refit_widths(&document, Width(100));
        for part in [
            "35.0 us",
            "42.0 us",
            "stacks.mine.launch",
            "refitted",
            "here",
            "four: no such model",
            "maps",
            "mine stands for rows whose `stack` is `ours`",
        ] {
            assert!(page.contains(part), "{page}");
        }
        let page = corrections(&document, Width(100));
        assert!(page.contains("here") && page.contains("5.0 %") && !page.contains("unseen"), "{page}");
        let none = refit(&RefitDocument { constants: Vec::new(), ..document.clone() }, Width(100));
        assert!(none.contains("No other constants"), "{none}");
    }
}
