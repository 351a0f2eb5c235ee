//! Methods of fine-tuning, compared on the same data.

use super::{alternative, cost_title};
use crate::format::{Width, lines, table, wrap};
use crate::layout::{cluster, recomputed};
use std::collections::BTreeSet;
use trainyard_models::{Layer, Sharing};
use trainyard_plan::document::{MethodChoice, PlanDocument, SmallestMachine};
use trainyard_plan::{BaseFormat, Method, Offload, Plan, PlanSpec, Reference};
use trainyard_units::human_count;

/// Formats a table of what each method needs at least, and of its best plan.
pub(super) fn methods(document: &PlanDocument, width: Width) -> String {
    if document.methods.is_empty() {
        return String::new();
    }
    let (header, rows) = methods_table(document);
    let indented = |text: &String| {
        let wrapped = wrap(text, usize::from(width.0).saturating_sub(2));
        lines(wrapped.into_iter().map(|line| format!("  {line}")))
    };
    let told: String = conditions(document).iter().chain(loaded_whole(document).iter()).map(indented).collect();
    format!("\n{}{told}", table(width, header, rows))
}

/// Says why QLoRA may need larger GPUs than LoRA.
fn loaded_whole(document: &PlanDocument) -> Option<String> {
    let smallest = |method| {
        let own = document.methods.iter().find(|own| own.method == method)?;
        own.smallest.as_ref().map(|smallest| smallest.hourly_usd)
    };
    let (lora, qlora) = (smallest(Method::Lora)?, smallest(Method::Qlora)?);
    (qlora > lora).then(|| {
        "weights in 4 bits are loaded whole on each GPU, also where ZeRO-3 shards them afterwards (transformers 5); weights in \
         16 bits are sharded as they are loaded"
            .into()
    })
}

/// Returns the table of what each method needs at least, and of its best plan.
pub(crate) fn methods_table(document: &PlanDocument) -> ([&'static str; 7], Vec<[String; 7]>) {
    let rented = document.methods.iter().any(|own| own.smallest.is_some());
    let smallest = if rented { "smallest machine" } else { "" };
    let header = ["fine-tuning", ">trained", smallest, "best plan", ">in all", cost_title(document), ">memory"];
    (header, document.methods.iter().map(|own| row(own, document, rented)).collect())
}

/// Formats what else decides the time and memory of each best plan, as far as it differs: software, micro-batch,
/// recomputation and offload.
fn conditions(document: &PlanDocument) -> Option<String> {
    let each = || document.methods.iter().filter_map(|own| Some((own, &own.best.as_ref()?.plan)));
    let differs = |of: fn(&PlanSpec) -> String| each().map(|(_, plan)| of(plan)).collect::<BTreeSet<_>>().len() > 1;
    let told: Vec<fn(&PlanSpec) -> String> = [software, micro_batch].into_iter().filter(|of| differs(*of)).collect();
    if told.is_empty() {
        return None;
    }
    let of = |plan: &PlanSpec| told.iter().map(|of| of(plan)).collect::<Vec<_>>().join(", ");
    let each: Vec<String> = each().map(|(own, plan)| format!("{}: {}", title(own.method), of(plan))).collect();
    Some(each.join("; "))
}

fn software(plan: &PlanSpec) -> String {
    plan.stack.clone().unwrap_or_default()
}

fn micro_batch(plan: &PlanSpec) -> String {
    let offload = if plan.offload == Offload::NONE { String::new() } else { format!(", offloaded: {}", plan.offload) };
    format!("micro-batch {}{}{offload}", plan.batch.micro, recomputed(plan))
}

fn row(own: &MethodChoice, document: &PlanDocument, rented: bool) -> [String; 7] {
    let base = own.best.as_ref().and_then(|best| best.plan.fine_tuning.as_ref()?.base());
    let int8 = if base == Some(BaseFormat::Int8) { " int8" } else { "" };
    let this = if own.chosen { " (this plan)" } else { "" };
    let name = format!("{}{int8}{this}", title(own.method));
    let trained = share(own);
    let smallest = own.smallest.as_ref().map(|smallest| {
        let SmallestMachine { instance, instances, .. } = smallest;
        format!("{instances} × {instance}")
    });
    let smallest = smallest.unwrap_or_else(|| if rented { "none".into() } else { String::new() });
    let Some(best) = &own.best else {
        let why = own.reason.clone().unwrap_or_default();
        return [name, trained, smallest, why, String::new(), String::new(), String::new()];
    };
    let [_, _, _, time, cost, memory] = alternative(best, document);
    [name, trained, smallest, cluster(&best.plan), time, cost, memory]
}

fn share(own: &MethodChoice) -> String {
    part_of(own.trained_parameters, own.parameters)
}

/// Formats the part of the values that is trained, of which adapters are few.
fn part_of(trained: u64, all: u64) -> String {
    let share = 100.0 * trained as f64 / all.max(1) as f64;
    if share < 10.0 { format!("{share:.2} %") } else { format!("{share:.0} %") }
}

fn title(method: Method) -> &'static str {
    match method {
        Method::Full => "full",
        Method::Lora => "LoRA",
        Method::Qlora => "QLoRA",
        Method::Frozen => "last blocks",
    }
}

/// Tells which weights are trained: `QLoRA, rank 16 on all-linear: 41.9 M of 8.07 B parameters (0.52 %)`.
pub(super) fn trained(document: &PlanDocument) -> Option<String> {
    let own = document.methods.iter().find(|own| own.chosen);
    let share = own.map(|own| format!(": {}", of_parameters(own.trained_parameters, own.parameters)));
    Some(format!("{}{}{}", in_words(&document.plan)?, share.unwrap_or_default(), preferences(&document.plan)))
}

/// Tells what a training on preferences compares with; nothing of another.
fn preferences(plan: &PlanSpec) -> &'static str {
    let Some(spec) = &plan.fine_tuning else { return "" };
    match (spec.reference(), spec.method) {
        (None, _) => "",
        (Some(Reference::Precomputed), _) => "; DPO with precomputed scores",
        (Some(Reference::Model), Method::Full) => "; DPO beside a copy of the model",
        (Some(Reference::Model), _) => "; DPO beside the model without adapters",
    }
}

/// Tells the same of a plan that runs; `None` if it trains all weights.
pub fn trained_part(plan: &Plan) -> Option<String> {
    let trained: u64 = plan.graph().own_layers().map(|layer| layer.parameters(Sharing::WHOLE)).sum();
    let frozen: u64 = plan.graph().own_layers().map(Layer::frozen_values).sum();
    Some(format!("{}: {}", in_words(plan.spec())?, of_parameters(trained, trained + frozen)))
}

fn of_parameters(trained: u64, all: u64) -> String {
    format!("{} of {} parameters ({})", human_count(trained), human_count(all), part_of(trained, all))
}

fn in_words(plan: &PlanSpec) -> Option<String> {
    let spec = plan.fine_tuning.as_ref()?;
    let adapters = spec.lora.as_ref().map(|lora| {
        let targets = lora.targets.as_ref().map(|targets| targets.join(", ")).unwrap_or_default();
        let base = if lora.base == Some(BaseFormat::Int8) { " beside int8" } else { "" };
        format!("{base}, rank {} on {targets}", lora.rank.unwrap_or_default())
    });
    let blocks = spec.trained_blocks.map(|blocks| format!(", {blocks} trained"));
    Some(format!("{}{}", title(spec.method), adapters.or(blocks).unwrap_or_default()))
}
