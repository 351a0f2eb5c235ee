//! The catalogs, as lists and entry by entry with the source of every number.

use crate::abilities;
use crate::format::{Width, bandwidth, bytes, facts, percent, rate, seconds, table};
use std::collections::BTreeSet;
use trainyard_hardware_profiles::{
    Arithmetic, Catalog, Gpu, Instance, Interconnect, Network, Price, Purchase, Rate, Service, Sourced, Stack,
    Transport,
};
use trainyard_models::{CatalogEntry, Family, LayerRole, Model, ModelSpec, Pass, PublishedRate};
use trainyard_plan::ScheduleName;
use trainyard_planner::DEFAULT_REGION;
use trainyard_units::{BytesPerSecond, Seconds, human_count};

/// Lists the catalogs that can be shown, with descriptions.
pub fn catalogs(catalogs: &[(String, String)], width: Width) -> String {
    table(width, ["catalog", "what it is"], catalogs.iter().map(|(name, about)| [name.clone(), about.clone()]))
}

/// Formats a table of models.
pub fn models(entries: &[CatalogEntry], width: Width) -> String {
    let rows = entries.iter().map(|entry| {
        let graph = entry.model.graph();
        let spec = entry.model.spec();
        let or_dash = |value: Option<u64>| value.map_or_else(|| "–".into(), |value| value.to_string());
        // A residual network has blocks and channels instead of layers and a width.
        let blocks = || graph.layers().filter(|layer| layer.role == LayerRole::Block).count() as u32;
        [
            entry.model.name().into(),
            entry.model.family().to_string(),
            human_count(graph.parameters()),
            spec.layers.unwrap_or_else(blocks).to_string(),
            or_dash(spec.hidden),
            or_dash(spec.heads),
            or_dash(spec.seq_len),
            tera(graph.training_flops().0),
        ]
    });
    let header = ["model", "family", ">parameters", ">layers", ">hidden", ">heads", ">sequence", ">TFLOP a sample"];
    table(width, header, rows)
}

fn tera(flops: f64) -> String {
    match flops {
        ..1e10 => format!("{:.1e}", flops / 1e12),
        ..1e12 => format!("{:.3}", flops / 1e12),
        _ => rate(flops / 1e12),
    }
}

/// Formats one model: of the catalog with its publication, data set and learning rate, or of a file.
pub fn model(model: &Model, entry: Option<&CatalogEntry>, source: &str) -> String {
    let graph = model.graph();
    let mut rows = vec![
        ("parameters", human_count(graph.parameters())),
        ("forward", format!("{} TFLOP per sample", tera(graph.flops(Pass::Forward).0))),
        ("training", format!("{} TFLOP per sample", tera(graph.training_flops().0))),
    ];
    let spec = model.spec();
    rows.extend(dimensions(&spec));
    rows.extend(chosen_parts(&spec));
    let longest =
        entry.and_then(|entry| entry.context_length).filter(|longest| Some(*longest) != model.tokens_per_sample());
    rows.extend(longest.map(|longest| ("context length", longest.to_string())));
    rows.extend(entry.map(|entry| ("data set", entry.dataset.clone())));
    let rate = entry.and_then(|entry| entry.learning_rate.as_ref());
    rows.extend(rate.map(|rate| ("learning rate", published(rate, None))));
    rows.push(("source", source.to_owned()));
    format!("{}\n\n{}", model.name(), facts(&rows))
}

/// The ratio of batches from which on a learning rate is told to be one for batches of another size.
const OTHER_BATCH: f64 = 2.0;

/// Tells the peak of the learning rate of a published pretraining, and if it was published for batches of another size than
/// the `tokens` of a job's.
pub(crate) fn published(rate: &PublishedRate, tokens: Option<u64>) -> String {
    let batch = rate.batch_tokens.map(|tokens| format!(" at batches of {} tokens", human_count(tokens)));
    let is_other = |(published, own): &(u64, u64)| {
        let ratio = *own as f64 / *published as f64;
        ratio.max(ratio.recip()) > OTHER_BATCH
    };
    let other = rate.batch_tokens.zip(tokens).filter(is_other);
    let other = other.map(|(_, own)| format!("; this job has {}", human_count(own)));
    let (batch, other) = (batch.unwrap_or_default(), other.unwrap_or_default());
    format!("{:e} at most in its pretraining{batch}{other} ({})", rate.peak, rate.source)
}

/// Returns the parts of a stack of chosen ones that are not those of every stack, in words.
fn chosen_parts(spec: &ModelSpec) -> Vec<(&'static str, String)> {
    let number = |count: Option<u64>| count.map(|count| count.to_string());
    let yes = |flag: Option<bool>| flag.filter(|flag| *flag).map(|_| "yes".to_owned());
    let blocks = |blocks: Option<&Vec<u32>>| {
        let listed: Vec<String> = blocks?.iter().map(u32::to_string).collect();
        Some(listed.join(", ")).filter(|listed| !listed.is_empty())
    };
    let word = |word: Result<serde_json::Value, serde_json::Error>| word.ok()?.as_str().map(str::to_owned);
    let parts = [
        ("window in blocks", blocks(spec.window_blocks.as_ref())),
        ("attends to earlier tokens only", spec.causal.map(|causal| if causal { "yes" } else { "no" }.into())),
        ("positions are", word(serde_json::to_value(spec.position))),
        ("rotated features of a head", number(spec.rotary_width)),
        ("rotary positions scaled by", spec.rotary_scaling.as_ref().map(ToString::to_string)),
        ("table of distances", number(spec.distances)),
        ("normalisation", word(serde_json::to_value(spec.norm))),
        ("normalisations of a part", number(spec.part_norms)),
        ("norms of parts side by side", number(spec.parallel_norms)),
        ("queries and keys normalised by", word(serde_json::to_value(spec.query_key_norm))),
        ("feed-forward part", word(serde_json::to_value(spec.feed_forward))),
        ("features of the token table", number(spec.embedding_width.filter(|width| Some(*width) != spec.hidden))),
        ("number under scores' root", number(spec.query_scalar.filter(|number| Some(*number) != spec.head_width))),
        ("bound of scores", spec.score_cap.map(|cap| cap.to_string())),
        ("bound of logits", spec.logit_cap.map(|cap| cap.to_string())),
        ("attention sinks", yes(spec.sinks)),
        ("rank of keys and values", number(spec.kv_rank)),
        ("rank of queries", number(spec.query_rank)),
        ("width of values", number(spec.value_width.filter(|width| Some(*width) != spec.head_width))),
        ("width of an expert", number(spec.expert_ffn)),
        ("width of the shared expert", number(spec.shared_ffn)),
        ("scores of routers", word(serde_json::to_value(spec.router))),
        ("groups of experts", number(spec.router_groups)),
        ("groups of a token", number(spec.router_groups_per_token)),
        ("routed experts times", spec.routed_scale.map(|scale| scale.to_string())),
        ("biases that follow the load", yes(spec.correction_bias)),
        ("blocks without experts", blocks(spec.dense_blocks.as_ref())),
        ("width of a state", number(spec.state_width)),
        ("tokens of a chunk", number(spec.chunk)),
        ("image blocks", spec.vision_layers.map(|layers| layers.to_string())),
        ("image hidden", number(spec.vision_hidden)),
        ("image heads", number(spec.vision_heads)),
        ("image feed-forward", number(spec.vision_ffn)),
    ];
    parts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Returns the fields of a specification that are set, in words.
fn dimensions(spec: &ModelSpec) -> Vec<(&'static str, String)> {
    let tokens = |count: Option<u64>| count.map(|count| format!("{count} tokens"));
    let number = |count: Option<u64>| count.map(|count| count.to_string());
    let yes_no = |flag: Option<bool>| flag.map(|flag| if flag { "yes" } else { "no" }.to_owned());
    let list = |counts: Vec<String>| counts.join(", ");
    let numbers =
        |counts: Option<&Vec<u64>>| counts.map(|counts| list(counts.iter().map(ToString::to_string).collect()));
    let layers = if spec.family == Family::Mlp { "hidden layers" } else { "blocks" };
    let dimensions = [
        (layers, spec.layers.map(|layers| layers.to_string())),
        ("decoder blocks", spec.decoder_layers.map(|layers| layers.to_string())),
        ("hidden", number(spec.hidden)),
        ("heads", number(spec.heads)),
        ("key-value heads", number(spec.kv_heads)),
        ("head width", number(spec.head_width)),
        ("feed-forward", number(spec.ffn)),
        ("gated", yes_no(spec.gated)),
        ("experts", number(spec.experts)),
        ("experts of a token", number(spec.experts_per_token)),
        ("blocks per expert block", number(spec.expert_interval)),
        ("capacity factor", spec.capacity_factor.map(|factor| factor.to_string())),
        ("routing group", tokens(spec.expert_group)),
        ("vocabulary", number(spec.vocab)),
        ("segments", number(spec.type_vocab)),
        ("positions", number(spec.positions)),
        ("sequence", tokens(spec.seq_len)),
        ("decoder sequence", tokens(spec.decoder_seq_len)),
        ("window", tokens(spec.window)),
        ("tied head", yes_no(spec.tied_head)),
        ("head", spec.head.map(|head| head.to_string())),
        ("stages", spec.depths.as_ref().map(|depths| list(depths.iter().map(ToString::to_string).collect()))),
        ("channels of stages", numbers(spec.widths.as_ref())),
        ("channels after stem", number(spec.base_channels)),
        ("width factor", number(spec.width_factor)),
        ("kernel factor", number(spec.kernel_factor)),
        ("groups", number(spec.groups)),
        ("squeeze and excitation", spec.squeeze_excite.map(|ratio| format!("1/{ratio} of the channels"))),
        ("input", spec.input.map(|input| input.to_string())),
        ("image", spec.image_size.map(|size| format!("{size} × {size}"))),
        ("patch", spec.patch_size.map(|size| format!("{size} × {size}"))),
        ("image channels", number(spec.channels)),
        ("classes", number(spec.classes)),
        ("inputs", number(spec.inputs)),
        ("outputs", number(spec.outputs)),
        ("memory", tokens(spec.memory)),
        ("vocabulary cutoffs", numbers(spec.cutoffs.as_ref())),
        ("cluster divisor", number(spec.cluster_divisor)),
        ("generator hidden", number(spec.generator_hidden)),
        ("decoder hidden", number(spec.decoder_hidden)),
        ("layers after stacking", spec.stacked_layers.map(|layers| layers.to_string())),
        ("stacked frames", number(spec.stack)),
        ("joint", number(spec.joint)),
        ("tables", numbers(spec.tables.as_ref())),
        ("bottom perceptron", numbers(spec.bottom.as_ref())),
        ("top perceptron", numbers(spec.top.as_ref())),
    ];
    dimensions.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Formats a table of all GPUs.
pub fn gpus(catalog: &Catalog, width: Width) -> String {
    let rows = catalog.gpus().iter().map(|gpu| {
        [
            gpu.name.clone(),
            gpu.generation.clone(),
            bytes(gpu.memory.value.0),
            bandwidth(gpu.memory_bandwidth.value),
            peak(gpu, Rate::Fp32),
            peak(gpu, Rate::Tf32),
            peak(gpu, Rate::Fp16),
            peak(gpu, Rate::Bf16),
        ]
    });
    let header = ["gpu", "generation", ">memory", ">bandwidth", ">fp32 *", ">tf32 *", ">fp16 *", ">bf16 *"];
    format!("{}\n  * peak in TFLOP/s, without sparsity\n", table(width, header, rows))
}

/// Formats the peak rate in a number format in TFLOP/s, if the GPU has the format.
fn peak(gpu: &Gpu, rate: Rate) -> String {
    if gpu.has(rate) { (gpu.peak(rate).0 / 1e12).to_string() } else { "–".into() }
}

/// Formats one number with its source.
fn sourced<T: std::fmt::Display>(name: &'static str, number: &Sourced<T>) -> (&'static str, String) {
    (name, format!("{}  [{}]", number.value, provenance(number)))
}

/// Formats a rounded number with its source.
fn sourced_as<T: Copy>(name: &'static str, number: &Sourced<T>, print: impl Fn(T) -> String) -> (&'static str, String) {
    (name, format!("{}  [{}]", print(number.value), provenance(number)))
}

/// Tells the source of a number, and its uncertainty if it was fitted.
fn provenance<T>(number: &Sourced<T>) -> String {
    let Sourced { source, fitted, .. } = number;
    fitted.as_ref().map_or_else(|| source.clone(), |fitted| format!("{source}; {fitted}"))
}

/// Formats one GPU.
pub fn gpu(gpu: &Gpu) -> String {
    let mut rows = vec![
        sourced("memory", &gpu.memory),
        sourced_as("memory bandwidth", &gpu.memory_bandwidth, bandwidth),
        sourced("cache", &gpu.cache),
        sourced("multiprocessors", &gpu.multiprocessors),
        sourced("peak fp32", &gpu.peak_fp32),
        sourced("peak fp16", &gpu.peak_fp16),
    ];
    let formats = [("peak tf32", &gpu.peak_tf32), ("peak bf16", &gpu.peak_bf16), ("peak fp8", &gpu.peak_fp8)];
    rows.extend(formats.into_iter().filter_map(|(name, peak)| peak.as_ref().map(|peak| sourced(name, peak))));
    rows.extend([
        sourced_as("host link", &gpu.host_bandwidth, bandwidth),
        sourced("reached of peak fp16", &gpu.achieved.gemm_fp16),
        sourced("reached of peak fp32", &gpu.achieved.gemm_fp32),
        sourced("depth offset of a product", &gpu.achieved.gemm_depth),
        sourced("reached of the bandwidth", &gpu.achieved.memory),
        sourced_as("shortest kernel", &gpu.achieved.kernel_floor, duration),
        sourced("uncertainty", &gpu.achieved.uncertainty),
    ]);
    rows.extend(gpu.achieved.gemm_fp8.as_ref().map(|part| sourced("reached of peak fp8, relative to fp16", part)));
    rows.extend(gpu.pytorch_index.as_ref().map(|index| sourced("index of PyTorch's packages", index)));
    rows.extend(gpu.jpeg_decode.as_ref().map(|decode| sourced_as("JPEG engines", decode, bandwidth)));
    format!("{} ({})\n\n{}", gpu.name, gpu.generation, facts(&rows))
}

/// Formats a table of all instances with their on-demand price in the Region that jobs have by default, where it is known, and the systems that
/// nobody rents out.
pub fn instances(catalog: &Catalog, width: Width) -> String {
    let listed = |instance: &'_ Instance| {
        let here = |price: &&Price| price.region == DEFAULT_REGION && price.purchase == Purchase::OnDemand;
        instance.prices.iter().filter(here).find(|price| price.service == Service::Ec2).cloned()
    };
    let rows = catalog.machine_types().map(|instance| {
        [
            instance.name.clone(),
            format!("{} × {}", instance.gpus, instance.gpu),
            interconnect(&instance.interconnect).into(),
            format!("{} {}", instance.network.baseline.value.0 / 1.25e8, transport(instance.network.transport)),
            instance.vcpus.to_string(),
            bytes(instance.memory.value.0),
            listed(instance).map_or_else(|| "–".into(), |price| format!("{:.2}", price.low.0)),
        ]
    });
    let header = ["instance", "gpus", "links", "Gbit/s", ">vcpus", ">memory", ">USD/h *"];
    let dates: BTreeSet<String> = catalog.instances().iter().filter_map(listed).map(|price| price.date).collect();
    let dates = dates.into_iter().collect::<Vec<_>>().join(", ");
    format!("{}\n  * ec2, on-demand, {DEFAULT_REGION}, as of {dates}\n", table(width, header, rows))
}

fn interconnect(interconnect: &Interconnect) -> &'static str {
    match interconnect {
        Interconnect::Pcie { .. } => "PCIe",
        Interconnect::NvlinkMesh { .. } => "NVLink mesh",
        Interconnect::Nvswitch { .. } => "NVSwitch",
    }
}

fn transport(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::TcpPods => "TCP in pods",
        Transport::Efa => "EFA",
        Transport::EfaGpudirect => "EFA, GPUDirect",
        Transport::Infiniband => "InfiniBand",
        Transport::Roce => "RoCE",
        Transport::OmniPath => "Omni-Path",
    }
}

/// Formats one instance.
pub fn instance(instance: &Instance, width: Width) -> String {
    let mut rows =
        vec![("gpus", format!("{} × {}", instance.gpus, instance.gpu)), ("vcpus", instance.vcpus.to_string())];
    rows.extend(host(instance));
    if let Some(processor) = &instance.processor {
        let source = instance.processor_source.as_ref().map_or_else(String::new, |source| format!("  [{source}]"));
        rows.insert(2, ("processor", format!("{}{source}", processor.description)));
        rows.insert(3, sourced("CoreMark a vCPU", &processor.coremark));
        rows.insert(4, sourced("speed of a thread (launches)", &processor.single_thread));
    }
    rows.extend(network(&instance.network));
    if let Some(storage) = &instance.storage {
        rows.extend([
            sourced_as("from S3", &storage.s3, bandwidth),
            sourced_as("from EBS, sustained", &storage.ebs, bandwidth),
        ]);
    }
    rows.extend(wiring(&instance.interconnect));
    let facts = facts(&rows);
    if instance.prices.is_empty() {
        return format!("{}\n\n{facts}\n  no price is known\n", instance.name);
    }
    let prices = instance.prices.iter().map(|price| {
        let range = if price.low == price.high {
            format!("{}", price.low.0)
        } else {
            format!("{} to {}", price.low.0, price.high.0)
        };
        let terms = format!("{} {}", price.service.name(), price.purchase.name());
        [price.region.clone(), terms, range, price.date.clone(), price.source.clone()]
    });
    let prices = table(width, ["region", "terms", ">USD/h", "as of", "source"], prices);
    format!("{}\n\n{facts}\n{prices}", instance.name)
}

fn host(instance: &Instance) -> [(&'static str, String); 6] {
    let host = &instance.host;
    [
        sourced("memory", &instance.memory),
        sourced_as("memory bandwidth", &host.memory_bandwidth, bandwidth),
        sourced_as("disk", &instance.disk, |disk| bytes(disk.0)),
        sourced_as("disk, reading", &host.disk_bandwidth, bandwidth),
        sourced("gpus per PCIe uplink", &host.gpus_per_pcie_switch),
        sourced_as("PCIe uplink", &host.pcie_uplink, bandwidth),
    ]
}

fn network(network: &Network) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        sourced_as("network, sustained", &network.baseline, bandwidth),
        sourced_as("network, burst", &network.burst, bandwidth),
        ("network cards", network.interfaces.to_string()),
        ("transport", transport(network.transport).into()),
    ];
    rows.extend(network.sockets.as_ref().map(|rate| sourced_as("sockets", rate, bandwidth)));
    rows.extend(network.flow_limit.as_ref().map(|limit| sourced_as("one connection", limit, bandwidth)));
    rows
}

fn wiring(links: &Interconnect) -> Vec<(&'static str, String)> {
    let mut rows = vec![("links", interconnect(links).into())];
    match links {
        Interconnect::Pcie { bandwidth: ring } => rows.push(sourced_as("ring over PCIe", ring, bandwidth)),
        Interconnect::Nvswitch { port, fraction } => {
            rows.extend([sourced_as("port", port, bandwidth), sourced("reached by a ring", fraction)]);
        }
        Interconnect::NvlinkMesh { link, fraction, pairs, pcie_bandwidth } => {
            let each: Vec<String> = pairs.value.iter().map(|(a, b, links)| format!("{a}–{b} ×{links}")).collect();
            rows.extend([
                sourced_as("link", link, bandwidth),
                sourced("reached by a ring", fraction),
                ("pairs", format!("{}  [{}]", each.join(", "), pairs.source)),
                sourced_as("other pairs, PCIe", pcie_bandwidth, bandwidth),
            ]);
        }
    }
    rows
}

fn duration(time: Seconds) -> String {
    seconds(time.0)
}

/// Formats a table of all software stacks, those in use today first.
pub fn stacks(catalog: &Catalog, width: Width) -> String {
    let mut all: Vec<&Stack> = catalog.stacks().iter().map(AsRef::as_ref).collect();
    all.sort_by_key(|stack| !stack.runs.today);
    let rows = all.into_iter().map(|stack| {
        let runs = &stack.runs;
        [stack.name.clone(), stack.description.clone(), abilities::in_brief(runs), abilities::targets(runs)]
    });
    table(width, ["stack", "what it is", "what it can run", "launch targets"], rows)
}

/// Formats one software stack.
pub fn stack(stack: &Stack, width: Width) -> String {
    let mut rows = vec![
        sourced_as("host time per kernel", &stack.launch, duration),
        sourced("memory traffic", &stack.traffic),
        sourced("besides, in half precision", &stack.mixed_traffic),
        sourced("memory traffic of maps", &stack.map_traffic),
        sourced("memory traffic of the loss", &stack.loss_traffic),
        sourced("fused gradient accumulation", &stack.fused_accumulation),
        sourced("rate of products", &stack.gemm),
        sourced("memory traffic of the update", &stack.update_traffic),
        sourced("gradient bucket", &stack.bucket),
        sourced("blocking transfers", &stack.blocking_transfers),
        sourced("scattered transfers", &stack.scattered_transfers),
        sourced("gradients in compute precision", &stack.compute_precision_gradients),
        sourced("sharded layers overlap", &stack.sharded_overlap),
        sourced("sharded tensor by tensor", &stack.sharded_by_tensor),
        sourced_as("copy of a sharded part", &stack.sharded_copy, duration),
        sourced_as("resident memory", &stack.resident, |memory| bytes(memory.0)),
        sourced("fragmentation", &stack.fragmentation),
        sourced_as("step overhead", &stack.step_overhead, duration),
        sourced("uncertainty", &stack.uncertainty),
    ];
    let handled = |rate: &Sourced<BytesPerSecond>| sourced_as("rate of a sharded copy", rate, bandwidth);
    rows.extend(stack.sharded_copy_rate.as_ref().map(handled));
    rows.extend(stack.convolution.as_ref().map(|part| sourced("rate of convolutions", part)));
    rows.extend(stack.flash_attention.iter().map(|(generation, rate)| {
        ("flash attention over products", format!("{} ({generation})  [{}]", rate.value, provenance(rate)))
    }));
    rows.extend(stack.host_update_traffic.as_ref().map(|part| sourced("traffic of an update by the processor", part)));
    rows.extend(stack.bucket_per_rank.as_ref().map(|size| sourced("and for each rank at least", size)));
    rows.extend(stack.expert_launch.as_ref().map(|time| sourced("host time of an expert's product", time)));
    rows.extend(stack.scores_sent.as_ref().map(|sent| sourced("scores sent to experts", sent)));
    rows.extend(stack.token_activations.as_ref().map(|part| sourced("activations of tokens", part)));
    rows.extend(stack.frozen_activations.as_ref().map(|part| sourced("the same, frozen in half precision", part)));
    rows.extend(stack.frozen_traffic.as_ref().map(|part| sourced("traffic, frozen in half precision", part)));
    rows.extend(stack.keeps_half_gradients.as_ref().map(|kept| sourced("keeps half-precision gradients", kept)));
    rows.extend(stack.updated_weights.as_ref().map(|time| sourced("updated weights gathered", time)));
    rows.extend(stack.gradients_on_host.as_ref().map(|kept| sourced("gradients kept in main memory", kept)));
    rows.extend(stack.let_go_at_once.as_ref().map(|does| sourced("values let go after their last use", does)));
    rows.extend(stack.tiled_loss.as_ref().map(|does| sourced("loss of adapters and preferences in tiles", does)));
    rows.extend(stack.offload_memory.as_ref().map(|part| sourced("main memory over what is offloaded", part)));
    rows.extend(stack.memory_spread.as_ref().map(|part| sourced("memory beyond predictions", part)));
    rows.extend(stack.softmax_heads.as_ref().map(|heads| sourced("heads of a fused softmax", heads)));
    rows.extend(stack.causal_softmax.as_ref().map(|only| sourced("fused softmax for causal masks only", only)));
    let (numbers, abilities) = (facts(&rows), abilities::in_full(stack));
    let page = format!("{}: {}\n\nWhat it can run\n{abilities}\nIts numbers\n{numbers}", stack.name, stack.description);
    if stack.seen.is_empty() {
        page
    } else {
        format!("{page}\nPublished steps, and how far off they are predicted\n{}", seen(stack, width))
    }
}

/// How far published steps with a stack were off, by kind.
fn seen(stack: &Stack, width: Width) -> String {
    let rows = stack.seen.iter().map(|seen| {
        [
            seen.generation.clone(),
            seen.work.name().into(),
            seen.arithmetic.map_or("all", Arithmetic::name).into(),
            seen.network.map_or("one machine", Transport::name).into(),
            seen.rows.to_string(),
            seen.devices.to_string(),
            percent(seen.half_width.value),
        ]
    });
    table(
        width,
        ["GPUs", "work", "precision", "between machines", "published steps", "most GPUs", "nine in ten within"],
        rows,
    )
}

/// Formats a table of all schedules.
pub fn schedules(width: Width) -> String {
    let rows = ScheduleName::ALL.iter().map(|schedule| [schedule.to_string(), schedule.about().into()]);
    table(width, ["schedule", "what it does"], rows)
}

/// Formats one schedule.
pub fn schedule(schedule: ScheduleName) -> String {
    format!(
        "{schedule}\n\n{}",
        facts(&[("what it does", schedule.about().into()), ("source", schedule.source().into())])
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    #[test]
    fn a_list_of_instances_names_every_machine_type_once() {
        let list = instances(catalog(), Width(120));
        for machine in catalog().machine_types() {
            let lines = list.lines().filter(|line| line.split_whitespace().next() == Some(machine.name.as_str()));
            assert_eq!(lines.count(), 1, "{}: {list}", machine.name);
        }
    }

    #[test]
    fn a_gpu_without_a_number_format_shows_no_rate_for_it() {
        let page = |name| gpu(catalog().gpu(name).expect("in the catalog"));
        assert!(page("a100-sxm4-40gb").contains("peak bf16"));
        assert!(!page("t4").contains("peak bf16") && page("t4").contains("peak fp16"));
        let list = gpus(catalog(), Width(120));
        assert!(list.lines().any(|line| line.trim_start().starts_with("t4 ") && line.contains('–')), "{list}");
    }

    #[test]
    fn a_system_that_nobody_rents_out_says_so() {
        let page = |name| instance(catalog().instance(name).expect("in the catalog"), Width(120));
        assert!(page("jean-zay-a100").contains("no price") && page("jean-zay-a100").contains("Omni-Path"));
        assert!(page("p3.2xlarge").contains("one connection") && !page("p3.2xlarge").contains("no price"));
    }
}
