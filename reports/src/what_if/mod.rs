//! What would be if something were otherwise, as a page and as rows for other programs.

mod csv;

pub use csv::what_if_csv;

use crate::format::{
    Width, bullets, columns, deviation, facts, percent, rate, seconds, table, three_significant, usd, wrap,
};
use crate::layout::{cluster, laid_out, recomputed, strategy_and_state};
use std::collections::BTreeMap;
use trainyard_plan::{Bottleneck, Objective, Plan, Sensitivity, WhatIfCase, WhatIfDocument, WhatIfFigures};
use trainyard_planner::{CERTAIN, likelihood};

/// Number of caveats that are told: more of them hide what matters.
const CAVEATS: usize = 6;

/// The longest key that heads a column as it is.
const COLUMN: usize = 20;

/// Formats a what-if document for a reader: the baseline, a line for each case, and the cases that are not possible.
pub fn what_if(document: &WhatIfDocument, width: Width) -> String {
    let mut parts = vec![format!("{}\n\n{}", title(document), base(document))];
    if !document.cases.is_empty() {
        parts.push(cases(document, width));
    }
    if plans_differ(document) {
        parts.push(plans(document, width));
    }
    if document.axes.len() == 2 {
        parts.push(grid(document, width));
    }
    if !document.sensitivities.is_empty() {
        parts.push(sensitivities(&document.sensitivities, width));
    }
    let mut text = parts.join("\n");
    text += &bullets(width, "Software", &software_differs(document).into_iter().collect::<Vec<_>>());
    text += &bullets(width, "Scaling", &types_differ(document).into_iter().collect::<Vec<_>>());
    text += &bullets(width, "Prices", &dates_differ(document).into_iter().collect::<Vec<_>>());
    text += &bullets(width, "Choice", &told(document, |case| case.choice.as_ref()));
    text += &bullets(width, "No plan", &without_plan(document));
    text += &bullets(width, "Caveats", &caveats(document));
    text += &bullets(width, "Little memory left", &told(document, |case| case.within_margin.as_ref()));
    text += &bullets(width, "Beyond the goal", &told(document, |case| case.missed_goal.as_ref()));
    text
}

/// Formats the title: `gpt2-xl: what if instances, cluster.network were otherwise`.
pub(crate) fn title(document: &WhatIfDocument) -> String {
    let any = document.base.as_ref().or_else(|| document.cases.iter().find_map(|case| case.figures.as_ref()));
    let model = any.map_or("the job", |figures| figures.plan.model.name.as_str());
    let keys: Vec<&str> = document.axes.iter().map(|axis| axis.key.as_str()).collect();
    match (keys.is_empty(), document.held) {
        (true, _) => format!("{model}: which assumptions matter"),
        (false, true) => format!("{model}: one plan, {} varied", keys.join(" and ")),
        (false, false) => format!("{model}: the best plan by {}", keys.join(" and ")),
    }
}

/// Returns why cases have no plan, and how a plan is sought where one is held.
fn without_plan(document: &WhatIfDocument) -> Vec<String> {
    let mut all = told(document, |case| case.reason.as_ref());
    if document.held && !all.is_empty() {
        all.push(
            "one plan is held here: `trainyard what-if JOB.toml`, without --hold, seeks the best one for each value"
                .into(),
        );
    }
    all
}

/// Returns what `plan` warns of, with the cases that it is about, and how much more there is.
fn caveats(document: &WhatIfDocument) -> Vec<String> {
    let mut all = told(document, |case| &case.warnings);
    let more = all.len().saturating_sub(CAVEATS);
    if more > 1 {
        all.truncate(CAVEATS);
        all.push(format!("{more} more with --format json"));
    }
    all
}

fn base(document: &WhatIfDocument) -> String {
    let name = if document.axes.is_empty() { "plan" } else { "unvaried" };
    let Some(base) = &document.base else {
        let why = document.base_reason.as_deref().unwrap_or("there is no plan");
        return facts(&[(name, why.to_owned())]);
    };
    let cost = base.cost_usd.map_or_else(String::new, |cost| format!(", {}", usd(cost)));
    let present = document.axes.iter().filter_map(|axis| Some(format!("{} {}", axis.key, axis.present.as_ref()?)));
    let mut rows = vec![
        (name, format!("{}, {}", cluster(&base.plan), laid_out(&base.plan))),
        ("takes", format!("{} in all{cost}, {} a step", seconds(base.in_all_s), seconds(base.step_time_s))),
        ("90 %", interval(base)),
        ("limited by", limit(base)),
    ];
    rows.extend(present.map(|present| ("at present", present)));
    rows.extend(document.software.as_deref().map(|stack| ("software", kept(document, stack))));
    facts(&rows)
}

/// Says which software the cases keep, and that some do not where *Choice* says why.
fn kept(document: &WhatIfDocument, stack: &str) -> String {
    let mut plans = document.cases.iter().filter_map(|case| Some(&case.figures.as_ref()?.plan));
    let all = plans.all(|plan| plan.stack.as_deref() == Some(stack));
    let but = if all { " throughout" } else { ", except where Choice names another" };
    format!("{stack}{but}; --vary stack=A,B compares several")
}

/// Formats the intervals of the step and of the cost that hold 90 % of measurements.
fn interval(own: &WhatIfFigures) -> String {
    let [low, high] = own.interval_s.map(seconds);
    let cost = own.cost_usd.and(own.cost_interval_usd).map(|ends| ends.map(usd));
    let cost = cost.map_or_else(String::new, |[low, high]| format!("; {low} to {high}"));
    format!("{low} to {high} a step{cost}")
}

/// Names what limits a training: within one machine no network does.
pub(crate) fn limit(figures: &WhatIfFigures) -> String {
    match (figures.bottleneck, figures.plan.cluster.instances) {
        (Bottleneck::Network, 1) => "communication".into(),
        (Bottleneck::Memory, _) => "memory traffic".into(),
        (what, _) => what.to_string(),
    }
}

/// Returns the tokens of a plan's samples; `None` if they are something else.
fn tokens_per_sample(figures: &WhatIfFigures) -> Option<u64> {
    Plan::try_from(figures.plan.clone()).ok()?.tokens_per_sample()
}

/// Formats a throughput, in tokens if those of a sample are given.
fn throughput(samples_per_s: f64, tokens: Option<u64>) -> String {
    tokens.map_or_else(|| rate(samples_per_s), |tokens| three_significant(tokens as f64 * samples_per_s))
}

/// Returns `true` if the plans of the cases differ, so that they are printed.
fn plans_differ(document: &WhatIfDocument) -> bool {
    let all = || document.cases.iter().filter_map(|case| case.figures.as_ref()).chain(&document.base);
    let first = all().next().map(layout);
    all().any(|figures| Some(layout(figures)) != first)
}

/// Says which cases have prices of which date, where these differ.
fn dates_differ(document: &WhatIfDocument) -> Option<String> {
    let mut dates: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for case in &document.cases {
        if let Some(date) = case.figures.as_ref().and_then(|figures| figures.price.as_ref()?.date.as_deref()) {
            dates.entry(date).or_default().push(case.values.join(" / "));
        }
    }
    let each: Vec<String> =
        dates.iter().rev().map(|(date, cases)| format!("{} as of {date}", cases.join(", "))).collect();
    (each.len() > 1)
        .then(|| format!("they are of different dates, and so costs may differ for that alone: {}", each.join("; ")))
}

/// Says why cases differ in their software, where they do and nobody asked for it.
fn software_differs(document: &WhatIfDocument) -> Option<String> {
    let stack = |figures: &WhatIfFigures| figures.plan.stack.clone();
    let mut stacks: Vec<_> = document.cases.iter().filter_map(|case| stack(case.figures.as_ref()?)).collect();
    stacks.sort();
    stacks.dedup();
    let is_varied = document.axes.iter().any(|axis| ["stack", "cluster.stack"].contains(&axis.key.as_str()));
    (stacks.len() > 1 && !is_varied && document.software.is_none()).then(|| {
        "it differs between cases, each of which has what `plan` would recommend; --stack NAME holds it".into()
    })
}

/// Says why cases have no scaling, where others do: their machines are of another type.
fn types_differ(document: &WhatIfDocument) -> Option<String> {
    let has_none = |case: &&WhatIfCase| case.figures.is_some() && case.scaling_efficiency.is_none();
    let scales = document.cases.iter().any(|case| case.scaling_efficiency.is_some());
    let others: Vec<&WhatIfCase> = document.cases.iter().filter(has_none).collect();
    (scales && !others.is_empty()).then(|| {
        let on = names(document, &others);
        format!("it compares machines of one type: {on} are on another than the fewest; --fix instance=TYPE holds it")
    })
}

/// Formats a plan's layout: machines, degrees and sharding, micro-batch and number formats, and software where it is named.
fn layout(figures: &WhatIfFigures) -> Vec<String> {
    let (plan, batch) = (&figures.plan, figures.plan.batch);
    let formats = format!("{} × {}, {}{}", batch.micro, batch.accumulation, plan.precision, recomputed(plan));
    let shown = [cluster(plan), strategy_and_state(plan), formats];
    shown.into_iter().chain(plan.stack.clone()).collect()
}

/// Formats the plan of each case.
fn plans(document: &WhatIfDocument, width: Width) -> String {
    let keys = document.axes.iter().map(|axis| column(&axis.key));
    let layouts = ["plan", "strategy", "micro × accumulation, precision", "software"];
    let named = document.cases.iter().filter_map(|case| case.figures.as_ref()).any(|own| own.plan.stack.is_some());
    let header: Vec<&str> = keys.chain(layouts.into_iter().take(if named { 4 } else { 3 })).collect();
    let rows = document.cases.iter().filter_map(|case| {
        let own = case.figures.as_ref()?;
        Some(case.values.iter().cloned().chain(layout(own)).collect::<Vec<String>>())
    });
    columns(width, &header, rows)
}

/// Returns a key as the head of a column: without its table if it is so long that numbers would be broken. The title has all
/// of it.
fn column(key: &str) -> &str {
    let short = key.rsplit_once('.').map_or(key, |(_, name)| name);
    if key.len() > COLUMN && !key.starts_with("price.") { short } else { key }
}

type Chance = fn(&WhatIfFigures) -> Option<f64>;

/// The columns that say how likely a case is to keep to a deadline and a budget, where that is not certain of all.
const CHANCES: [(&str, Chance); 2] = [(">in time", |own| own.within_deadline), (">in budget", |own| own.within_budget)];

/// Formats a line for each case. Changes are printed where there is room for them: with one key.
fn cases(document: &WhatIfDocument, width: Width) -> String {
    let figures = || document.cases.iter().filter_map(|case| case.figures.as_ref());
    let scales = document.cases.iter().any(|case| case.scaling_efficiency.is_some());
    let costs = figures().next().is_none() || figures().any(|own| own.cost_usd.is_some());
    let changes = document.axes.len() == 1;
    let of_each: Vec<Option<u64>> = document
        .cases
        .iter()
        .map(|case| case.figures.as_ref().or(document.base.as_ref()))
        .map(|own| own.and_then(tokens_per_sample))
        .collect();
    let in_tokens = of_each.iter().all(Option::is_some);
    let mut header: Vec<&str> = document.axes.iter().map(|axis| column(&axis.key)).collect();
    header.push(">in all");
    header.extend(changes.then_some(">±"));
    header.extend(costs.then_some(">USD"));
    header.extend((costs && changes).then_some(">±"));
    let told = |(_, chance): &(_, Chance)| figures().any(|own| chance(own).is_some_and(|chance| chance <= CERTAIN));
    let chances: Vec<_> = CHANCES.into_iter().filter(told).collect();
    header.extend(chances.iter().map(|(name, _)| name));
    header.extend([">step", if in_tokens { ">tokens/s" } else { ">samples/s" }, ">a device"]);
    header.extend(scales.then_some(">scaling"));
    header.push("limit");
    let rows = document.cases.iter().zip(of_each).map(|(case, tokens)| {
        let (own, tokens) = (case.figures.as_ref(), tokens.filter(|_| in_tokens));
        let show = |cell: &dyn Fn(&WhatIfFigures) -> String| own.map_or_else(|| "–".into(), cell);
        let told = |change: Option<f64>| change.map_or_else(String::new, change_of);
        let mut row = case.values.clone();
        row.push(show(&|own| seconds(own.in_all_s)));
        row.extend(changes.then(|| told(case.time_change)));
        row.extend(costs.then(|| show(&|own| own.cost_usd.map_or_else(|| "–".into(), amount))));
        row.extend((costs && changes).then(|| told(case.cost_change)));
        row.extend(chances.iter().map(|(_, chance)| show(&|own| chance(own).map_or_else(String::new, likelihood))));
        row.extend([
            show(&|own| seconds(own.step_time_s)),
            show(&|own| throughput(own.samples_per_s, tokens)),
            show(&|own| throughput(own.samples_per_s_per_device, tokens)),
        ]);
        row.extend(scales.then(|| case.scaling_efficiency.map_or_else(String::new, percent)));
        row.push(show(&limit));
        row
    });
    columns(width, &header, rows)
}

/// Formats a change with the digits that matter: `+3.2 %`, `+144 %`.
fn change_of(change: f64) -> String {
    match change.abs() {
        nothing if nothing < 5e-4 => "0 %".into(),
        little if little < 0.1 => deviation(change),
        _ => format!("{:+.0} %", change * 100.0),
    }
}

/// Formats an amount without its currency, which stands above.
fn amount(usd_amount: f64) -> String {
    usd(usd_amount).trim_end_matches(" USD").into()
}

/// Formats a table of the wanted figure, one key downwards and the other to the right.
fn grid(document: &WhatIfDocument, width: Width) -> String {
    let [down, right] = document.axes.as_slice() else { return String::new() };
    let by_time = document.objective == Objective::Time
        || document.cases.iter().filter_map(|case| case.figures.as_ref()).all(|own| own.cost_usd.is_none());
    let what = if by_time { "time in all" } else { "USD" };
    let corner = format!("{what}, {} by {}", down.key, right.key);
    let titles: Vec<String> = right.values.iter().map(|value| format!(">{value}")).collect();
    let header: Vec<&str> = std::iter::once(corner.as_str()).chain(titles.iter().map(String::as_str)).collect();
    let cell = |case: &WhatIfCase| {
        let sought = |own: &WhatIfFigures| if by_time { Some(seconds(own.in_all_s)) } else { own.cost_usd.map(amount) };
        case.figures.as_ref().and_then(sought).unwrap_or_else(|| "–".into())
    };
    let rows =
        down.values.iter().zip(document.cases.chunks(right.values.len().max(1))).map(|(value, cases)| {
            std::iter::once(value.clone()).chain(cases.iter().map(cell)).collect::<Vec<String>>()
        });
    columns(width, &header, rows)
}

/// Returns sentences with the cases that they are about, each once.
fn told<'a, T>(document: &'a WhatIfDocument, what: impl Fn(&'a WhatIfCase) -> T) -> Vec<String>
where
    T: IntoIterator<Item = &'a String>,
{
    let mut all: Vec<(&String, Vec<&WhatIfCase>)> = Vec::new();
    for case in &document.cases {
        for sentence in what(case) {
            match all.iter_mut().find(|(known, _)| *known == sentence) {
                Some((_, cases)) => cases.push(case),
                None => all.push((sentence, vec![case])),
            }
        }
    }
    all.into_iter().map(|(sentence, cases)| format!("{}: {sentence}", names(document, &cases))).collect()
}

/// Formats the names of cases: `instances 4, pricing spot; instances 8, pricing spot`, of one key `instances 4, 8`.
fn names(document: &WhatIfDocument, cases: &[&WhatIfCase]) -> String {
    if cases.len() == document.cases.len() && cases.len() > 1 {
        return "all of them".into();
    }
    if let [only] = document.axes.as_slice() {
        let values: Vec<String> = cases.iter().map(|case| case.values.join(", ")).collect();
        return format!("{} {}", only.key, values.join(", "));
    }
    let name = |case: &&WhatIfCase| {
        let parts = document.axes.iter().zip(&case.values).map(|(axis, value)| format!("{} {value}", axis.key));
        parts.collect::<Vec<_>>().join(", ")
    };
    cases.iter().map(name).collect::<Vec<_>>().join("; ")
}

/// Formats a factor: `×0.87`.
pub(crate) fn factor(factor: f64) -> String {
    format!("×{}", (factor * 100.0).round() / 100.0)
}

fn sensitivities(all: &[Sensitivity], width: Width) -> String {
    let header = ["assumption", ">from", ">to", ">time", ">", ">cost", ">", "why these factors"];
    let rows = all.iter().map(|own| {
        let [low, high] = own.time_change.map(change_of);
        let [cheap, dear] = own.cost_change.map_or_else(|| ["–".into(), "–".into()], |change| change.map(change_of));
        [own.key.clone(), factor(own.factors[0]), factor(own.factors[1]), low, high, cheap, dear, own.basis.clone()]
    });
    let apart = "one at a time; they do not add up to the interval of a step, which also holds how far published steps lie from what \
                 is predicted of them";
    format!("{}\n{}\n", table(width, header, rows), wrap(apart, width.0.into()).join("\n"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use trainyard_plan::document::PriceUsed;
    use trainyard_plan::{ClusterSpec, JobSpec, PlanSpec, Pricing, VariedKey, WHAT_IF_SCHEMA};

    fn price(date: &str) -> PriceUsed {
        let place = (Some("us-east-1".into()), Some("ec2".into()));
        let (pricing, date) = (Some(Pricing::OnDemand), Some(date.into()));
        PriceUsed { region: place.0, service: place.1, pricing, date, ..PriceUsed::stated(24.48, "a list", Vec::new()) }
    }

    fn figures(instances: u32, time_s: f64) -> WhatIfFigures {
        let model = trainyard_models::find("gpt2").expect("in the catalog").model.spec();
        WhatIfFigures {
            plan: PlanSpec::plain(model, ClusterSpec::of("p3.16xlarge", instances), 14),
            devices: 8 * instances,
            step_time_s: time_s / 100.0,
            interval_s: [time_s / 120.0, time_s / 80.0],
            samples_per_s: 1e5 / time_s,
            samples_per_s_per_device: 1e5 / time_s / f64::from(8 * instances),
            mfu: Some(0.3),
            exposed_communication_s: 0.0,
            bottleneck: Bottleneck::Compute,
            memory_peak_bytes: 1 << 33,
            steps: 100,
            time_s,
            in_all_s: 1.25 * time_s,
            cost_usd: Some(time_s * f64::from(instances)),
            cost_interval_usd: Some([0.5, 2.0].map(|part| part * time_s * f64::from(instances))),
            price: Some(price("2026-07-20")),
            within_deadline: None,
            within_budget: None,
        }
    }

    fn case(values: &[&str], figures: Option<WhatIfFigures>) -> WhatIfCase {
        WhatIfCase {
            values: values.iter().map(ToString::to_string).collect(),
            reason: figures.is_none().then(|| "does not fit".into()),
            missed_goal: None,
            within_margin: None,
            choice: None,
            warnings: Vec::new(),
            time_change: figures.as_ref().map(|own| own.time_s / 1000.0 - 1.0),
            cost_change: None,
            scaling_efficiency: figures.as_ref().map(|own| 1000.0 / own.time_s / f64::from(own.plan.cluster.instances)),
            figures,
        }
    }

    pub(crate) fn axis(key: &str, unit: Option<&str>, values: &[&str]) -> VariedKey {
        let amounts = values.iter().filter_map(|value| value.parse().ok()).filter(|_| unit.is_some()).collect();
        let values = values.iter().map(ToString::to_string).collect();
        VariedKey { key: key.into(), unit: unit.map(Into::into), values, amounts, present: None }
    }

    /// Returns a plan on one machine, two and four, the last of which has no plan.
    pub(crate) fn document() -> WhatIfDocument {
        WhatIfDocument {
            schema: WHAT_IF_SCHEMA.into(),
            job: JobSpec::default(),
            held: true,
            objective: Objective::Cost,
            axes: vec![axis("instances", Some("1"), &["1", "2", "4"])],
            base: Some(figures(1, 1000.0)),
            base_reason: None,
            software: None,
            cases: vec![
                case(&["1"], Some(figures(1, 1000.0))),
                case(&["2"], Some(figures(2, 600.0))),
                case(&["4"], None),
            ],
            sensitivities: Vec::new(),
        }
    }

    /// Returns the same cases for two prices.
    pub(crate) fn two_keys() -> WhatIfDocument {
        let one = document();
        let axes = vec![one.axes[0].clone(), axis("pricing", None, &["spot", "on-demand"])];
        let both = |case: &WhatIfCase| {
            ["spot", "on-demand"]
                .map(|price| WhatIfCase { values: vec![case.values[0].clone(), price.into()], ..case.clone() })
        };
        WhatIfDocument { axes, cases: one.cases.iter().flat_map(both).collect(), ..one }
    }

    pub(crate) fn tornado() -> WhatIfDocument {
        let own = |key: &str, change: f64| Sensitivity {
            key: key.into(),
            what: "something".into(),
            factors: [0.8, 1.2],
            basis: "none is stated".into(),
            time_s: [1000.0 * (1.0 + change), 1000.0 * (1.0 - change)],
            cost_usd: Some([10.0 * (1.0 + change), 10.0 * (1.0 - change)]),
            time_change: [change, -change],
            cost_change: Some([change, -change]),
        };
        let sensitivities = vec![own("gpu.peak", 0.2), own("stack.launch", -0.05), own("cluster.latency", 0.0)];
        WhatIfDocument { axes: Vec::new(), cases: Vec::new(), sensitivities, ..document() }
    }

    #[test]
    fn a_page_has_a_line_for_each_case_and_says_why_there_is_no_plan() {
        let page = what_if(&document(), Width(120));
        for words in
            ["unvaried", "instances", "scaling", "100.0 %", "83.3 %", "-40 %", "instances 4: does not fit", "JOB.toml"]
        {
            assert!(page.contains(words), "{words}\n{page}");
        }
    }

    #[test]
    fn the_software_that_all_cases_keep_is_told_above_them() {
        let mut document = WhatIfDocument { software: Some("deepspeed".into()), ..document() };
        for figures in document.cases.iter_mut().filter_map(|case| case.figures.as_mut()) {
            figures.plan.stack = Some("deepspeed".into());
        }
        let told = |document: &_| {
            let page = what_if(document, Width(120));
            page.lines().find(|line| line.contains("software    ")).expect("it is told").trim().to_owned()
        };
        assert_eq!(told(&document), "software    deepspeed throughout; --vary stack=A,B compares several");
        document.cases[0].figures.as_mut().expect("a plan").plan.stack = Some("megatron-core".into());
        assert!(told(&document).starts_with("software    deepspeed, except where Choice names another; "));
    }

    #[test]
    fn the_time_of_a_case_is_that_in_all() {
        let page = what_if(&document(), Width(120));
        assert!(
            page.contains("takes       21 min in all")
                && page.contains("90 %        8.33 s to 12.5 s a step; 500.00 USD to 2,000 USD\n")
                && page.contains("  instances  in all ")
                && page.contains("750 s"),
            "{page}"
        );
    }

    #[test]
    fn cases_say_how_likely_they_keep_to_a_goal() {
        let mut document = document();
        assert!(!what_if(&document, Width(120)).contains("in time"));
        document.cases[0].figures.as_mut().expect("a plan").within_deadline = Some(0.6);
        document.cases[1].figures.as_mut().expect("a plan").within_deadline = Some(0.999);
        let page = what_if(&document, Width(120));
        assert!(page.contains("in time") && !page.contains("in budget"), "{page}");
        assert!(page.contains(" 60 % ") && page.contains(" over 99 % "), "{page}");
    }

    #[test]
    fn long_keys_leave_numbers_whole() {
        let mut document = document();
        document.axes[0].key = "campaign.checkpoint_interval".into();
        for figures in document.cases.iter_mut().filter_map(|case| case.figures.as_mut()) {
            (figures.in_all_s, figures.cost_usd) = (3.7e6, Some(2_062_374.0));
        }
        let page = what_if(&document, Width(100));
        assert!(page.contains("  checkpoint_interval") && page.contains("  2,062,374  "), "{page}");
    }

    #[test]
    fn what_machines_have_at_present_and_why_cases_compare_otherwise_are_told() {
        let mut document = document();
        document.axes[0].present = Some("2 × 50 Gbit/s = 100 Gbit/s a machine".into());
        document.cases[1].choice = Some("the fastest plans of both differ by 0 %, not by -2.1 %".into());
        let page = what_if(&document, Width(120));
        assert!(page.contains("  at present  instances 2 × 50 Gbit/s = 100 Gbit/s a machine"), "{page}");
        assert!(page.contains("Choice\n  · instances 2: the fastest plans of both differ by 0 %"), "{page}");
    }

    #[test]
    fn cases_that_plan_refuses_are_told_and_one_machine_has_no_network() {
        let mut document = document();
        document.cases[0].within_margin = Some("it fits, but needs 21.6 GiB".into());
        for figures in document.cases.iter_mut().filter_map(|case| case.figures.as_mut()) {
            figures.bottleneck = Bottleneck::Network;
        }
        let page = what_if(&document, Width(120));
        assert!(page.contains("Little memory left\n  · instances 1: it fits, but needs 21.6 GiB"), "{page}");
        let limits: Vec<&str> = page.lines().filter_map(|line| line.split_whitespace().last()).collect();
        assert!(limits.contains(&"communication") && limits.contains(&"network"), "{page}");
    }

    #[test]
    fn what_plan_warns_of_is_told_once_with_its_cases() {
        let mut document = document();
        let over = "the plan needs 1536 vCPUs, but the quota of `P` is 768";
        document.cases[0].warnings = vec![over.into()];
        document.cases[1].warnings = vec![over.into(), "another".into()];
        let page = what_if(&document, Width(120));
        assert!(page.contains(&format!("Caveats\n  · instances 1, 2: {over}\n  · instances 2: another")), "{page}");
        document.cases[2].warnings = vec![over.into()];
        assert!(what_if(&document, Width(120)).contains(&format!("  · all of them: {over}")));
        document.cases[1].warnings = (0..10).map(|index| format!("warning {index}")).collect();
        assert!(what_if(&document, Width(120)).contains("  · 5 more with --format json"));
    }

    #[test]
    fn the_throughput_of_language_models_is_in_tokens() {
        let page = what_if(&document(), Width(120));
        // 100 samples of 1,024 tokens a second, on 8 devices.
        for words in ["tokens/s", "102,000", "12,800"] {
            assert!(page.contains(words), "{words}\n{page}");
        }
        let mut images = document();
        let resnet = trainyard_models::find("resnet50").expect("in the catalog").model.clone();
        let layers = trainyard_plan::Architecture::new(resnet.clone()).graph().len();
        for figures in images.cases.iter_mut().filter_map(|case| case.figures.as_mut()).chain(&mut images.base) {
            figures.plan = PlanSpec::plain(resnet.spec(), figures.plan.cluster.clone(), layers);
        }
        let page = what_if(&images, Width(120));
        assert!(page.contains("samples/s") && !page.contains("tokens/s"), "{page}");
    }

    #[test]
    fn machines_of_other_types_do_not_scale() {
        let mut document = document();
        assert_eq!(types_differ(&document), None);
        document.cases[1].scaling_efficiency = None;
        let told = types_differ(&document).expect("another type");
        assert!(told.contains("instances 2 are on another than the fewest"), "{told}");
        assert!(!what_if(&document, Width(120)).contains("83.3 %"));
    }

    #[test]
    fn prices_of_different_dates_are_told() {
        let mut document = document();
        assert_eq!(dates_differ(&document), None);
        document.cases[0].figures.as_mut().expect("a plan").price = Some(price("2025-04-05"));
        let told = dates_differ(&document).expect("two dates");
        assert!(told.ends_with(&format!("{} as of 2025-04-05", document.cases[0].values[0])), "{told}");
    }

    #[test]
    fn two_keys_make_a_grid_of_what_is_sought() {
        let page = what_if(&two_keys(), Width(120));
        assert!(page.contains("USD, instances by pricing"), "{page}");
        assert!(page.contains("instances 4, pricing spot; instances 4, pricing on-demand: does not fit"), "{page}");
    }

    #[test]
    fn assumptions_are_a_table() {
        let page = what_if(&tornado(), Width(120));
        assert!(page.contains("which assumptions matter") && page.contains("×0.8") && page.contains("+20 %"), "{page}");
    }
}
