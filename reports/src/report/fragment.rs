//! Documents as fragments of pages that are not ours, such as notebooks: text in the colours of the page around it,
//! pictures on white.

use super::html::{facts, list, table};
use super::recommendation::{goal, sentence, tiles};
use crate::chart::{Breadth, Picture, Scheme, Theme};
use crate::format::{percent, seconds, usd};
use crate::front;
use crate::layout::{cluster, strategy};
use crate::plan::headline;
use crate::plots::{front_plot, what_if_plot};
use crate::what_if::title;
use maud::{Markup, PreEscaped, html};
use trainyard_plan::document::PlanDocument;
use trainyard_plan::{WhatIfCase, WhatIfDocument};

/// Rules for what is inside a fragment, and nothing else of the page.
const STYLE: &str = ".trainyard{max-width:944px;line-height:1.5}\
.trainyard .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:10px 0}\
.trainyard .tiles div{padding:8px 12px;border:1px solid #8886;border-radius:8px}\
.trainyard .tiles dt{font-size:.8em;font-weight:400;opacity:.75}\
.trainyard .tiles dd{margin:0;font-size:1.25em;font-weight:600}\
.trainyard .tiles small{display:block;font-size:.64em;font-weight:400;opacity:.75}\
.trainyard .scroll{overflow-x:auto}\
.trainyard table{width:100%;border-collapse:collapse;font-size:.9em;font-variant-numeric:tabular-nums}\
.trainyard th,.trainyard td{padding:4px 10px 4px 0;border-bottom:1px solid #8884;text-align:left;vertical-align:top}\
.trainyard th{font-weight:500;opacity:.75}\
.trainyard .number{text-align:right;white-space:nowrap}\
.trainyard table.facts th{width:8em}\
.trainyard ul.plain{margin:6px 0;padding-left:20px}\
.trainyard figure{margin:10px 0;padding:8px;background:#fff;border-radius:8px}\
.trainyard figure svg{display:block;width:100%;height:auto}";

fn fragment(content: &Markup) -> String {
    html! { div.trainyard { style { (PreEscaped(STYLE)) } (content) } }.into_string()
}

fn figure(picture: Result<Picture, String>) -> Markup {
    let drawn = picture.map(|picture| picture.svg(Scheme::Always(Theme::Light)));
    html! { @if let Ok(svg) = drawn { figure { (PreEscaped(svg)) } } }
}

/// Returns a plan: the recommendation, its figures, reasons, and the front on which it stands.
pub fn plan_fragment(document: &PlanDocument) -> String {
    fragment(&html! {
        p { b { (sentence(document)) } }
        @if let Some(goal) = goal(document) { p { (goal) } }
        (tiles(document))
        (facts(&headline(document)))
        (list(&document.reasons))
        (figure(front_plot(document, Breadth::Wide)))
    })
}

/// Returns the front of time against cost of a plan: its picture, and its points.
pub fn front_fragment(document: &PlanDocument) -> String {
    let rows: Vec<[String; 6]> =
        document.pareto.iter().enumerate().map(|(index, point)| front::row(index, point)).collect();
    fragment(&html! {
        (figure(front_plot(document, Breadth::Wide)))
        (table("Time against cost", &["point", "terms", "on", "strategy", ">in all", ">cost"], &rows))
    })
}

/// Returns a sweep: its picture, and a line for each case.
pub fn what_if_fragment(document: &WhatIfDocument) -> String {
    let keys = document.axes.iter().map(|axis| axis.key.as_str());
    let header: Vec<&str> = keys.chain(["plan", "strategy", ">step", ">in all", ">cost", ">MFU", "note"]).collect();
    let rows: Vec<Vec<String>> = document.cases.iter().map(case).collect();
    fragment(&html! {
        p { b { (title(document)) } }
        (figure(what_if_plot(document, Breadth::Wide)))
        (table("", &header, &rows))
    })
}

fn case(case: &WhatIfCase) -> Vec<String> {
    let own = case.figures.as_ref();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
    let told = case.reason.as_ref().or(case.missed_goal.as_ref()).or(case.within_margin.as_ref());
    let cells = [
        or_dash(own.map(|own| cluster(&own.plan))),
        or_dash(own.map(|own| strategy(&own.plan))),
        or_dash(own.map(|own| seconds(own.step_time_s))),
        or_dash(own.map(|own| seconds(own.in_all_s))),
        or_dash(own.and_then(|own| own.cost_usd).map(usd)),
        or_dash(own.and_then(|own| own.mfu).map(percent)),
        told.cloned().unwrap_or_default(),
    ];
    case.values.iter().cloned().chain(cells).collect()
}

/// Returns a picture.
pub fn picture_fragment(picture: Picture) -> String {
    fragment(&figure(Ok(picture)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plots::tests::plan_document;

    #[test]
    fn a_plan_shows_its_sentence_its_figures_and_its_front() {
        let shown = plan_fragment(&plan_document());
        assert!(shown.starts_with("<div class=\"trainyard\"><style>") && shown.ends_with("</div>"));
        for words in ["Rent 2 × p4d.24xlarge", "time of the training", "<th scope=\"row\">batch", "<svg "] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }

    #[test]
    fn a_front_and_a_sweep_have_a_row_for_each_point() {
        let document = plan_document();
        let rows = |text: &str| text.matches("<tr>").count();
        assert_eq!(rows(&front_fragment(&document)), 1 + document.pareto.len());
        let sweep = crate::what_if::tests::document();
        assert_eq!(rows(&what_if_fragment(&sweep)), 1 + sweep.cases.len());
    }

    #[test]
    fn styles_and_names_stay_inside() {
        assert!(STYLE.split('}').filter(|rule| !rule.is_empty()).all(|rule| rule.starts_with(".trainyard")));
        let mut document = plan_document();
        document.plan.model.name = "<img src=x>".into();
        assert!(!plan_fragment(&document).contains("<img"));
    }
}
