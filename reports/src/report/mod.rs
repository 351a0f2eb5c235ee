//! A plan as a page for everybody who has to agree with it: what is recommended and why, pictures, tables, what it rests
//! on, and how to find the same again.

mod evidence;
mod fragment;
mod html;
mod recommendation;

pub use fragment::{front_fragment, picture_fragment, plan_fragment, what_if_fragment};

use crate::chart::{Breadth, Picture};
use crate::layout::cluster;
use crate::plots::{
    bandwidth, campaign_plot, front_plot, memory_plot, path_plot, roofline_plot, step_gantt, what_if_plot,
};
use maud::html as markup;
use trainyard_planner::ReportContent;

/// The table of contents: the anchor and the title of each part.
const PARTS: [(&str, &str); 9] = [
    ("recommendation", "Recommendation"),
    ("step", "Where a step goes"),
    ("memory", "Memory"),
    ("cost", "Time and cost"),
    ("scaling", "Scaling"),
    ("machines", "What the machines reach"),
    ("risks", "Uncertainty"),
    ("assumptions", "Assumptions and sources"),
    ("reproduce", "How to find this again"),
];

/// Returns one self-contained HTML file about a plan: pictures are part of it, in light and dark, for a page and for a
/// phone; it has no script and makes no requests.
pub fn report(content: &ReportContent) -> String {
    let document = &content.document;
    let title = format!("Training plan: {} on {}", document.plan.model.name, cluster(&document.plan));
    let parts = [
        Some(recommendation::recommendation(content)),
        Some(evidence::step(content)),
        Some(evidence::memory(content)),
        evidence::cost(content),
        evidence::scaling(content),
        evidence::machines(content),
        Some(evidence::risks(content)),
        Some(recommendation::assumptions(content)),
        Some(recommendation::reproduce(content)),
    ];
    let shown: Vec<_> = PARTS.iter().zip(parts).filter_map(|((id, name), part)| Some((id, name, part?))).collect();
    let page = markup! {
        header { h1 { (title) } p { "Predicted by Trainyard " (env!("CARGO_PKG_VERSION")) "; nothing here was measured unless it says so." } }
        (recommendation::tiles(document))
        nav aria-label="Contents" { ul { @for (id, name, _) in &shown { li { a href={ "#" (id) } { (name) } } } } }
        @for (id, name, part) in &shown { (html::section(id, name, part)) }
        footer { "All durations, costs and memory are predictions with the intervals that stand beside them." }
    };
    html::page(&title, &page)
}

/// Returns the pictures of a report with their file names.
pub fn pictures(content: &ReportContent, breadth: Breadth) -> Vec<(&'static str, Picture)> {
    let document = &content.document;
    let model = document.plan.model.name.as_str();
    let what_if = |found: Option<&_>| found.map_or_else(|| Err(String::new()), |found| what_if_plot(found, breadth));
    let drawn = [
        ("step", step_gantt(&step_name(content), &content.timeline, breadth)),
        ("critical-path", path_plot(&content.explanation.plan, breadth)),
        ("memory", memory_plot(model, &document.prediction.memory_bytes, breadth)),
        ("front", front_plot(document, breadth)),
        ("scaling", what_if(content.scaling.as_ref())),
        ("sensitivities", what_if(content.sensitivities.as_ref())),
        (
            "roofline",
            content.roofline.as_ref().map_or_else(|| Err(String::new()), |found| roofline_plot(model, found, breadth)),
        ),
        ("bandwidth", bandwidth(&cluster(&document.plan), &content.collectives, breadth)),
        (
            "campaign",
            content.campaign.as_ref().map_or_else(|why| Err(why.clone()), |found| campaign_plot(found, breadth)),
        ),
    ];
    drawn.into_iter().filter_map(|(name, picture)| Some((name, picture.ok()?))).collect()
}

/// Returns the title of the Gantt chart of the step.
fn step_name(content: &ReportContent) -> String {
    format!("{}: one step on each stage", content.document.plan.model.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::{campaign_document, explained, methods, plan_document};
    use trainyard_plan::{Activity, EXPLANATION_SCHEMA, ExplanationDocument, Interval, StageId, StreamKind, Timeline};
    use trainyard_planner::SourcedConstant;
    use trainyard_units::Instant;

    fn content() -> ReportContent {
        let (start, end) = (Instant::START, Instant::from_nanoseconds(100_000_000));
        let (stage, micro_batch) = (StageId(0), 0);
        let activity = Activity::Forward { stage, micro_batch };
        ReportContent {
            document: plan_document(),
            explanation: ExplanationDocument {
                schema: EXPLANATION_SCHEMA.into(),
                plan: explained(),
                against: None,
                differences: Vec::new(),
                verdict: Vec::new(),
                notes: Vec::new(),
            },
            timeline: Timeline {
                intervals: vec![Interval { activity, stream: StreamKind::Compute(stage), start, end }],
                window: None,
            },
            roofline: None,
            collectives: Vec::new(),
            scaling: None,
            sensitivities: Some(crate::what_if::tests::tornado()),
            campaign: Ok(campaign_document()),
            constants: vec![SourcedConstant {
                what: "memory bandwidth".into(),
                value: "1555 GB/s".into(),
                source: "a data sheet & a <measurement>".into(),
            }],
        }
    }

    #[test]
    fn a_report_has_the_parts_that_apply_and_tells_its_sources() {
        let page = report(&content());
        for words in [
            "<title>Training plan: gpt2 on 2 × p4d.24xlarge</title>",
            "it is the cheapest within 3 days",
            "prices are of one day",
            "a data sheet &amp; a &lt;measurement&gt;",
            "a price list",
            "a machine fails every 6000 h (a published cluster)",
            "trainyard report plan.json --runs 430 --seed 0",
            "Critical path of a step",
        ] {
            assert!(page.contains(words), "{words}");
        }
        assert!(!page.contains("id=\"scaling\"") && !page.contains("id=\"machines\""));
        assert_eq!(page.matches("<figure>").count() * 2, page.matches("<svg ").count());
        assert_eq!(page, report(&content()));
    }

    #[test]
    fn machines_that_are_not_rented_have_no_cost() {
        let mut own = content();
        let document = &mut own.document;
        (document.prediction.cost_usd, document.prediction.price) = (None, None);
        (document.alternatives, document.pareto) = (Vec::new(), Vec::new());
        own.explanation.plan.cost_parts.clear();
        own.campaign = Err("the machines are not rented".into());
        let page = report(&own);
        assert!(page.contains("Use 2 × p4d.24xlarge") && !page.contains("id=\"cost\""));
        assert!(page.contains("is not known: the machines are not rented."));
    }

    #[test]
    fn methods_of_fine_tuning_have_a_table() {
        let mut own = content();
        assert!(!report(&own).contains("Methods of fine-tuning"));
        own.document.methods = methods();
        let page = report(&own);
        let table = page.split("<caption>Methods of fine-tuning on the same data").nth(1).expect("a table");
        let table = table.split("</table>").next().expect("it ends");
        assert!(
            table.contains("LoRA (this plan)") && table.contains("QLoRA") && table.contains("does not fit"),
            "{table}"
        );
        assert!(table.contains("0.50 %") && table.contains("22.00 USD"), "{table}");
    }

    #[test]
    fn pictures_are_those_that_can_be_drawn() {
        let names: Vec<&str> = pictures(&content(), Breadth::Wide).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["step", "critical-path", "memory", "front", "sensitivities", "campaign"]);
    }
}
