//! What the recommendation rests on: pictures, and the tables with their numbers.

use super::html::{facts, figure, list, table};
use super::step_name;
use crate::campaign::{QUANTITIES, SCENARIOS, phases, quantities, scenarios};
use crate::explanation::path;
use crate::format::{bytes, percent, rate, seconds, usd};
use crate::front::row;
use crate::layout::{cluster, exposed};
use crate::plan::{alternative, cost_title, methods_table};
use crate::plots::{
    bandwidth, campaign_plot, front_plot, memory_plot, path_plot, roofline_plot, step_gantt, what_if_plot,
};
use crate::what_if::limit;
use maud::{Markup, html};
use trainyard_plan::WhatIfCase;
use trainyard_plan::document::StageMemory;
use trainyard_planner::ReportContent;

pub(super) fn step(content: &ReportContent) -> Markup {
    let explained = &content.explanation.plan;
    let prediction = &content.document.prediction;
    let gantt = "One lane for each stage of the pipeline, the first device of each. Bars are passes of micro-batches with \
                 their numbers; what is left is idle.";
    let waterfall = "What the step waits for from its start to its end: the parts add up to the step. Exposed \
                     communication is what the step would save if links took no time, but for collectives inside layers; of a plan \
                     that offloads, so are copies to and from other memory and the updates there.";
    let facts_of = [
        (exposed(&content.document.plan), seconds(prediction.exposed_communication_s)),
        ("bubble", percent(prediction.bubble)),
        ("throughput", format!("{} samples/s", rate(prediction.samples_per_s))),
    ];
    html! {
        (figure(gantt, |breadth| step_gantt(&step_name(content), &content.timeline, breadth)))
        (figure(waterfall, |breadth| path_plot(explained, breadth)))
        (table("Critical path of a step", &["part", ">time", ">share"], &path(explained)))
        (facts(&facts_of))
    }
}

pub(super) fn memory(content: &ReportContent) -> Markup {
    let memory = &content.document.prediction.memory_bytes;
    let row = |(stage, held): (usize, &StageMemory)| {
        [
            stage.to_string(),
            bytes(held.weights()),
            bytes(held.gradients),
            bytes(held.optimizer_state),
            bytes(held.activations),
            bytes(held.buffers_and_workspace()),
            bytes(held.software),
            bytes(held.total),
        ]
    };
    let rows: Vec<[String; 8]> = memory.stages.iter().enumerate().map(row).collect();
    let header = [
        "stage",
        ">weights",
        ">gradients",
        ">optimizer state",
        ">activations",
        ">buffers, workspace",
        ">software",
        ">total",
    ];
    let kept = [("main memory of a machine", memory.host), ("disk of a machine", memory.disk)];
    let kept: Vec<(&str, String)> = kept.into_iter().filter_map(|(name, size)| Some((name, bytes(size?)))).collect();
    html! {
        (figure("", |breadth| memory_plot(&content.document.plan.model.name, memory, breadth)))
        (table("", &header, &rows))
        @if !kept.is_empty() { (facts(&kept)) }
    }
}

pub(super) fn cost(content: &ReportContent) -> Option<Markup> {
    let document = &content.document;
    let parts: Vec<[String; 2]> =
        content.explanation.plan.cost_parts.iter().map(|part| [part.what.clone(), usd(part.usd)]).collect();
    let runners: Vec<[String; 6]> = document.alternatives.iter().map(|other| alternative(other, document)).collect();
    let front: Vec<[String; 6]> = document.pareto.iter().enumerate().map(|(index, point)| row(index, point)).collect();
    let (header, methods) = methods_table(document);
    if parts.is_empty() && runners.is_empty() && front.len() < 2 && methods.is_empty() {
        return None;
    }
    let caption = "Plans on the lines are beaten by no other on the same terms in both time and cost.";
    let columns = ["machines", "strategy", "micro-batch, formats", ">in all", cost_title(document), ">memory"];
    Some(html! {
        @if front.len() > 1 { (figure(caption, |breadth| front_plot(document, breadth))) }
        (table("Cost of the training", &["for", ">USD"], &parts))
        (table("Methods of fine-tuning on the same data", &header, &methods))
        (table("Runners-up", &columns, &runners))
        @if front.len() > 1 {
            (table("Time against cost", &["point", "terms", "machines", "strategy", ">in all", ">cost"], &front))
        }
    })
}

pub(super) fn scaling(content: &ReportContent) -> Option<Markup> {
    let found = content.scaling.as_ref()?;
    let row = |case: &WhatIfCase| {
        let own = case.figures.as_ref()?;
        let known = |value: Option<f64>, shown: fn(f64) -> String| value.map_or_else(|| "–".into(), shown);
        Some([
            cluster(&own.plan),
            seconds(own.in_all_s),
            known(own.cost_usd, usd),
            seconds(own.step_time_s),
            rate(own.samples_per_s),
            known(case.scaling_efficiency, percent),
            limit(own),
        ])
    };
    let rows: Vec<[String; 7]> = found.cases.iter().filter_map(row).collect();
    let none: Vec<String> = found
        .cases
        .iter()
        .filter_map(|case| Some(format!("{} machines: {}", case.values.first()?, case.reason.as_ref()?)))
        .collect();
    let caption = "The same plan on fewer and more machines: replicas fill them, the global batch stays.";
    let header = ["machines", ">in all", ">cost", ">a step", ">samples/s", ">efficiency", "limited by"];
    Some(html! {
        (figure(caption, |breadth| what_if_plot(found, breadth)))
        (table("", &header, &rows))
        @if !none.is_empty() { h3 { "No plan" } (list(&none)) }
    })
}

pub(super) fn machines(content: &ReportContent) -> Option<Markup> {
    let name = content.document.plan.model.name.as_str();
    let machines = cluster(&content.document.plan);
    if content.roofline.is_none() && content.collectives.is_empty() {
        return None;
    }
    let roof = "One mark for each pass of each operator over a micro-batch, as it is predicted. Under the slope memory \
                limits it, under the flat part arithmetic.";
    let links = "Each collective alone on its links. Small messages wait for latencies, large ones for bandwidth.";
    Some(html! {
        @if let Some(found) = &content.roofline { (figure(roof, |breadth| roofline_plot(name, found, breadth))) }
        (figure(links, |breadth| bandwidth(&machines, &content.collectives, breadth)))
    })
}

pub(super) fn risks(content: &ReportContent) -> Markup {
    let tornado = "Each assumption alone at the ends of its own uncertainty, all others as planned.";
    let campaign = "Simulated runs of the whole training: start-up, checkpoints, interruptions and restarts as chance \
                    has them.";
    let drawn = content.sensitivities.as_ref();
    html! {
        @if let Some(found) = drawn { (figure(tornado, |breadth| what_if_plot(found, breadth))) }
        @match &content.campaign {
            Ok(found) => {
                (figure(campaign, |breadth| campaign_plot(found, breadth)))
                (table("Simulated runs", &QUANTITIES, &quantities(found)))
                (table("Where the time goes", &["part", ">mean", ">share"], &phases(&found.phases, found.time_s.mean)))
                (table("If spot instances are reclaimed more often", &SCENARIOS, &scenarios(found)))
                (list(&found.warnings))
            }
            Err(why) => { p { "What may become of the whole training is not known: " (why) "." } }
        }
    }
}
