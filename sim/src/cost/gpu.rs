//! Operators on a GPU: matrix products, memory traffic, and the host thread that launches kernels.

use super::convolution::Library;
use super::device::{DeviceCosts, LinkCosts, OperatorCost, Peaks, Usage};
use super::wired::Wired;
use super::work::{Kernels, LayerWork, soft_maximum};
use super::{gemm, recurrence, softmax};
use crate::machine::{Machine, MachineError};
use trainyard_hardware_profiles::{FIRST_FLASH_ATTENTION, Gpu, Rate, Stack};
use trainyard_plan::operators::{
    AttentionKernel, Gemm, Image, Layer, LayerRole, Mask, OperatorKind, Pass, Quantization, Sharing, Tuned, nf4_bytes,
};
use trainyard_plan::{BaseFormat, FineTuningSpec, OperatorRate, Optimizer, ParameterCounts, Plan, Precision};
use trainyard_units::{Bytes, BytesPerSecond, Invalid, Seconds};

/// Extra speed of traffic that stays inside the second-level cache, relative to memory. Fitted; see docs/physics.md.
const CACHE_GAIN: f64 = 0.9;

/// Kernels that tensor parallelism adds to a layer in each direction: its collectives.
const TENSOR_KERNELS: u32 = 2;

/// GPUs that hang on one processor socket in machines with eight.
const SOCKET_DEVICES: u64 = 4;

/// Time that the host threads of a tensor-parallel group that spans both sockets lose at each reduction, waiting for
/// the slowest. Groups of two and four show nothing of the kind. Fitted; see docs/physics.md.
const SOCKET_LAG: Seconds = Seconds(80e-6);

/// Keys of a sample at which a fused kernel reaches half of what it does with long samples, where a mask hides those behind a
/// query and where none does. Kernels of three makers agree (Shah et al., arXiv:2407.08608, figure 5): with a mask 0.57, 0.77,
/// 0.89 and 0.96 of their rate at 16 384 keys with 512, 1 024, 2 048 and 4 096, without one 0.84, 0.95 and 0.98 with the first three.
const fn flash_run_in(mask: Mask) -> f64 {
    if matches!(mask, Mask::Full) { 80.0 } else { 300.0 }
}

/// Rate of PyTorch's memory-efficient attention relative to that of FlashAttention's first release. xFormers' CUTLASS kernels, which it is,
/// took 1.05 times as long forward and 1.55 times backward on an A100 (facebookresearch/xformers, pull request 362),
/// twice as long forward on an A40 (issue 1074). On V100, where FlashAttention does not run, they were compared with
/// separate kernels only, and took about as long. Between the two: known to a quarter.
const MEMORY_EFFICIENT: f64 = 0.6;

/// Fused attention backward, relative to forward: 2.5 times the arithmetic (scores are computed again).
const FLASH_BACKWARD_WORK: f64 = 2.5;

/// And at this share of forward's rate, as with later releases: 0.8 to 0.87 of those that Shah et al. measured on an H100
/// (arXiv:2407.08608, figures 5 and 6).
const FLASH_BACKWARD: f64 = 0.8;

/// Kernels of bringing weights in int8 to the compute precision: a cast, and a product with their scales.
const INT8_KERNELS: u32 = 2;

/// By how much a product of LLM.int8 is faster than one in half precision, all that it does besides included: it quantises
/// its input, and computes columns with outliers in half precision. By width h of a product of h by 4 h: Dettmers et al.,
/// arXiv:2208.07339, appendix D, table 5, "LLM.int8() (vector-wise+decomp)".
const INT8_SPEED: [(f64, f64); 8] = [
    (768.0, 0.14),
    (1024.0, 0.20),
    (1536.0, 0.36),
    (2048.0, 0.51),
    (2560.0, 0.64),
    (4096.0, 0.86),
    (5140.0, 1.22),
    (12288.0, 1.81),
];

/// Returns how many times as long as in half precision a product with weights in int8 takes, forward; 1 for any other.
/// Between the widths that were measured the speed is linear in the logarithm of the width, beyond them it is that of
/// the last.
fn int8_slowdown(operator: OperatorKind, pass: Pass) -> f64 {
    let OperatorKind::Tuned(Tuned::Frozen { inputs, outputs, quantised: Some(Quantization::Int8), .. }) = operator
    else {
        return 1.0;
    };
    if pass == Pass::Backward {
        return 1.0;
    }
    let width = (inputs as f64 * outputs as f64).sqrt() / 2.0;
    let above = INT8_SPEED.iter().position(|(measured, _)| *measured >= width);
    let speed = match above {
        Some(0) => INT8_SPEED[0].1,
        None => INT8_SPEED[INT8_SPEED.len() - 1].1,
        Some(above) => {
            let ((from, slow), (to, fast)) = (INT8_SPEED[above - 1], INT8_SPEED[above]);
            slow + (fast - slow) * (width / from).ln() / (to / from).ln()
        }
    };
    1.0 / speed
}

/// Kernels that bring a matrix from NF4 to the compute precision: its scales from eight bits, their mean added, and the
/// weights (bitsandbytes, `functional.py`, `dequantize_4bit` of a nested quantisation state).
const DEQUANTISATION_KERNELS: u32 = 3;

/// Part of the memory's rate at which they do that: values are looked up by comparisons. Fitted on what QLoRA takes
/// more than LoRA for a sample of models of 7, 14 and 72 billion parameters on an A100 of 80 GB with full
/// recomputation, three uses of each weight: 9.4, 8.8 and 8.9 ps a weight (modelscope/ms-swift,
/// docs/source_en/LLM/Benchmark.md, bitsandbytes 0.41.3).
const DEQUANTISATION_RATE: f64 = 0.176;

impl DeviceCosts for Gpu {
    fn layer(
        &self,
        usage: Usage<'_>,
        layer: &Layer,
        samples: u64,
        sharing: Sharing,
    ) -> Result<LayerWork, MachineError> {
        Ok(GpuPricing::new(self, usage).layer(layer, samples, sharing))
    }

    fn operator_costs(
        &self,
        usage: Usage<'_>,
        layer: &Layer,
        pass: Pass,
        samples: u64,
        sharing: Sharing,
    ) -> Vec<OperatorCost> {
        GpuPricing::new(self, usage).operator_costs(layer, pass, samples, sharing)
    }

    fn operator_rates(&self, usage: Usage<'_>, layer: &Layer, samples: u64, sharing: Sharing) -> Vec<OperatorRate> {
        GpuPricing::new(self, usage).operator_rates(layer, samples, sharing)
    }

    fn accumulate(&self, usage: Usage<'_>, held: ParameterCounts) -> Result<Seconds, MachineError> {
        Ok(GpuPricing::new(self, usage).accumulate(held.updated()))
    }

    fn update(
        &self,
        usage: Usage<'_>,
        optimizer: Optimizer,
        held: ParameterCounts,
        touched: u64,
    ) -> Result<Seconds, MachineError> {
        let pricing = GpuPricing::new(self, usage);
        Ok(pricing.update(optimizer, held, touched) + pricing.separate_update(optimizer, held.tensors))
    }

    fn memory_rate(&self) -> f64 {
        self.memory_bandwidth.value.0 * self.achieved.memory.value
    }

    fn streaming(&self, bytes: f64) -> Seconds {
        Seconds(bytes / self.memory_rate()) + self.achieved.kernel_floor.value
    }

    fn host_bandwidth(&self) -> BytesPerSecond {
        self.host_bandwidth.value
    }

    fn peaks(&self, precision: Precision) -> Option<Peaks> {
        let rate = rate(precision);
        let products = self.gemm_fraction(rate);
        Some(Peaks { arithmetic: self.peak(rate), products, memory: self.memory_bandwidth.value })
    }

    fn has_units(&self, precision: Precision) -> Result<(), MachineError> {
        if self.has(rate(precision)) {
            return Ok(());
        }
        let rule = format!("`{}` has no units for it", self.name);
        Err(Invalid::breaks("precision", precision, rule).with_hint("every GPU runs fp32 and fp16-mixed").into())
    }

    fn admits(&self, machine: &Machine, plan: &Plan) -> Result<(), MachineError> {
        machine.has_units(plan.precision())?;
        admits_int8(self, plan)?;
        machine.places(plan.mesh().placement())?;
        machine.has_stores(plan)
    }

    fn links(&self) -> &dyn LinkCosts {
        &Wired
    }
}

/// Refuses weights in int8 on GPUs before Turing, for which bitsandbytes has no product of them.
fn admits_int8(gpu: &Gpu, plan: &Plan) -> Result<(), MachineError> {
    let base = plan.spec().fine_tuning.as_ref().and_then(FineTuningSpec::base);
    if base != Some(BaseFormat::Int8) || gpu.generation != "Volta" {
        return Ok(());
    }
    let rule = format!("`{}` is of Volta, and bitsandbytes multiplies in int8 from Turing on", gpu.name);
    let hint = "take lora.base = \"nf4\", or other GPUs";
    Err(Invalid::breaks("fine_tuning.lora.base", BaseFormat::Int8, rule).with_hint(hint).into())
}

/// A GPU as a stack uses it in one precision.
#[derive(Clone, Copy)]
pub(crate) struct GpuPricing<'a> {
    pub(crate) gpu: &'a Gpu,
    pub(crate) stack: &'a Stack,
    /// Host time to launch a kernel.
    pub(crate) launch: Seconds,
    pub(crate) precision: Precision,
    /// One standard deviation of a sample's work over its mean.
    pub(crate) work_cv: f64,
    /// `true` in a layer that takes its loss in tiles of logits.
    pub(crate) in_tiles: bool,
    /// `true` in a layer whose products are in eight bits.
    pub(crate) in_eight_bits: bool,
}

impl<'a> GpuPricing<'a> {
    fn new(gpu: &'a Gpu, usage: Usage<'a>) -> Self {
        let Usage { stack, launch, precision, work_cv, .. } = usage;
        Self { gpu, stack, launch, precision, work_cv, in_tiles: false, in_eight_bits: false }
    }

    /// The same for the operators of a layer.
    fn within(&self, layer: &Layer) -> Self {
        let in_eight_bits = self.precision == Precision::Fp8Mixed && layer.role == LayerRole::Block;
        Self { in_tiles: layer.loss_in_tiles && self.stack.tiles_loss(), in_eight_bits, ..*self }
    }

    /// The work of a layer over `samples` samples on one of the ranks that share it, without its reductions.
    pub(crate) fn layer(&self, layer: &Layer, samples: u64, sharing: Sharing) -> LayerWork {
        let operators: Vec<OperatorKind> =
            layer.operators.iter().map(|operator| operator.on_rank(samples, sharing)).collect();
        let within = self.within(layer);
        let (forward, cores) = within.forward(layer, &operators, sharing);
        let (backward, weights_share) = within.backward(layer, &operators, sharing);
        let spread = self.work_cv / (samples.max(1) as f64).sqrt();
        LayerWork { forward, backward, cores, weights_share, spread }
    }

    /// Returns the forward pass, and the cores of attention in it: what selective recomputation does again.
    fn forward(&self, layer: &Layer, operators: &[OperatorKind], sharing: Sharing) -> (Kernels, Vec<Kernels>) {
        let fused = self.fused(layer);
        let (mut device, mut kernels, mut cores) = (Seconds::ZERO, 0, Vec::new());
        let called = self.calls_of_experts(operators, Pass::Forward);
        for operator in operators {
            let own = self.operator(*operator, Pass::Forward, fused);
            let launches = self.kernels(*operator, Pass::Forward);
            device += own;
            kernels += launches;
            if matches!(operator, OperatorKind::Attention(_)) {
                let host = self.launch * f64::from(launches);
                cores.push(Kernels { device: own, host, ..Kernels::default() });
            }
        }
        let apart = self.selection(operators);
        (Kernels { device, host: self.host(layer, kernels, sharing) + called, apart }, cores)
    }

    /// Returns the backward pass, and the part of its kernels that is for gradients of weights.
    fn backward(&self, layer: &Layer, operators: &[OperatorKind], sharing: Sharing) -> (Kernels, f64) {
        if layer.frozen {
            return (Kernels::default(), 0.0);
        }
        let fused = self.fused(layer);
        let (mut device, mut kernels, mut weights) = (Seconds::ZERO, 0, Seconds::ZERO);
        for operator in operators {
            let products = self.products(*operator, Pass::Backward);
            // Of the two products that backward has for each weight, the second is its gradient.
            if operator.multiplies_weights() {
                weights = products.iter().skip(1).step_by(2).fold(weights, |sum, product| sum + *product);
            }
            device += self.with_products(*operator, Pass::Backward, fused, &products);
            kernels += self.kernels(*operator, Pass::Backward);
        }
        let share = if device.0 > 0.0 { weights.0 / device.0 } else { 0.0 };
        let host = self.host(layer, kernels, sharing) + self.calls_of_experts(operators, Pass::Backward);
        (Kernels { device, host, apart: Seconds::ZERO }, share)
    }

    /// Returns the host's time to call the products of a rank's experts one by one, where the stack does so: one each
    /// forward, and two backward.
    fn calls_of_experts(&self, operators: &[OperatorKind], pass: Pass) -> Seconds {
        let Some(call) = &self.stack.expert_launch else { return Seconds::ZERO };
        // As much slower as the host's other launches.
        let slower = self.launch.0 / self.stack.launch.value.0.max(f64::MIN_POSITIVE);
        let products = if pass == Pass::Forward { 1 } else { 2 };
        let calls = operators.iter().map(|operator| match operator {
            OperatorKind::ExpertLinear { experts, .. } => products * experts,
            _ => 0,
        });
        call.value * (slower * calls.sum::<u64>() as f64)
    }

    /// Returns the host's time to launch the kernels of a pass of a layer, with those of its reductions.
    fn host(&self, layer: &Layer, kernels: u32, sharing: Sharing) -> Seconds {
        let reductions = if sharing.tensor > 1 { layer.tensor_reductions } else { 0 };
        let added = if reductions > 0 { TENSOR_KERNELS } else { 0 };
        let lag = if sharing.tensor > SOCKET_DEVICES { SOCKET_LAG * f64::from(reductions) } else { Seconds::ZERO };
        self.launch * f64::from(kernels + added) + lag
    }

    /// Host time to choose the regions that a layer cuts out of maps.
    fn selection(&self, operators: &[OperatorKind]) -> Seconds {
        let regions = operators.iter().map(|operator| match operator {
            OperatorKind::Image(Image::RegionAlign { samples, .. }) => *samples,
            _ => 0,
        });
        self.stack.region_selection.value * regions.sum::<u64>() as f64
    }

    /// The matrix products of a pass, one by one.
    fn products(&self, operator: OperatorKind, pass: Pass) -> Vec<Seconds> {
        if let OperatorKind::Image(Image::Convolution(convolution)) = operator {
            return self.convolutions().products(convolution, pass);
        }
        // Masks and scores of routing are products in single precision. Fitted; see docs/physics.md.
        let single = matches!(operator, OperatorKind::Routing(_));
        let precise = if single { Self { precision: self.precision.single(), ..*self } } else { *self };
        let slower = int8_slowdown(operator, pass);
        let mut products = operator.gemms(pass);
        if self.in_tiles && pass == Pass::Backward {
            // Of a tile that was let go logits are computed again.
            products.extend(operator.gemms(Pass::Forward));
        }
        let (rate, element) = precise.format(operator);
        let at = |rate, product| gemm::duration(product, self.gpu, rate, element, self.stack.gemm.value);
        let time = |product| match rate {
            // What may be rounded need not be.
            Rate::Tf32 => Seconds(at(rate, product).0.min(at(Rate::Fp32, product).0)),
            _ => at(rate, product),
        };
        products.into_iter().map(|product| time(product) * slower).collect()
    }

    fn convolutions(&self) -> Library<'_> {
        let element = self.precision.element_bytes();
        let channels_first = self.stack.map_layout.channels_first(element);
        let convolution = self.stack.convolution.as_ref().map_or(1.0, |part| part.value);
        let stack_factor = self.stack.gemm.value * convolution;
        Library { gpu: self.gpu, rate: self.rate(), element, stack_factor, channels_first }
    }

    /// The unit that an operator's products run on, and the bytes of their elements.
    fn format(&self, operator: OperatorKind) -> (Rate, u64) {
        if self.in_eight_bits && operator.may_be_in_eight_bits() {
            return (Rate::Fp8, 1);
        }
        (self.rate(), self.precision.element_bytes())
    }

    /// Bytes of bringing what a product reads to eight bits: its input forward, the gradient of its output backward,
    /// each read, and written as it lies and transposed (NVIDIA Transformer Engine,
    /// `common/transpose/cast_transpose.cu`; it does some of this in kernels of normalisation and activation). Weights
    /// are brought once a step, which is left out.
    fn cast(&self, operator: OperatorKind, pass: Pass) -> f64 {
        if !self.in_eight_bits || !operator.may_be_in_eight_bits() {
            return 0.0;
        }
        let element = self.precision.element_bytes() + 2;
        let products = operator.gemms(Pass::Forward);
        let elements =
            |product: &Gemm| product.batch * product.m * if pass == Pass::Forward { product.k } else { product.n };
        Bytes(element * products.iter().map(elements).sum::<u64>()).as_f64()
    }

    /// Memory traffic of a layer's kernels other than products, relative to what is counted. Models of tables are few
    /// kernels, made for them, in every framework.
    fn fused(&self, layer: &Layer) -> f64 {
        let any = |kind: fn(OperatorKind) -> bool| layer.operators.iter().any(|operator| kind(operator.kind));
        let mixed = self.precision.master_bytes() > 0;
        if any(|kind| matches!(kind, OperatorKind::Image(_))) {
            self.stack.map_traffic.value
        } else if any(|kind| matches!(kind, OperatorKind::Recommendation(_))) {
            1.0
        } else if mixed {
            let frozen = self.stack.frozen_traffic.as_ref().filter(|_| layer.frozen_values() > 0);
            self.stack.traffic.value * frozen.unwrap_or(&self.stack.mixed_traffic).value
        } else {
            self.stack.traffic.value
        }
    }

    /// One pass of one operator, on the device alone.
    fn operator(&self, operator: OperatorKind, pass: Pass, fused: f64) -> Seconds {
        self.with_products(operator, pass, fused, &self.products(operator, pass))
    }

    /// The same, with the times of its matrix products.
    fn with_products(&self, operator: OperatorKind, pass: Pass, fused: f64, products: &[Seconds]) -> Seconds {
        let count = products.len() as u32;
        let products: Seconds = products.iter().copied().sum();
        let transposes = match operator {
            OperatorKind::Image(Image::Convolution(convolution)) => self.convolutions().transposes(convolution, pass),
            _ => Seconds::ZERO,
        };
        let attention = self.fused_attention(operator, pass) + self.separate_softmax(operator, pass);
        let others = self.sequential(operator, pass) + attention + self.dequantisation(operator, pass);
        products + transposes + self.traffic(operator, pass, fused, count) + others
    }

    /// Bringing quantised weights to the compute precision. Of NF4 half a byte and their scales are read, and they are
    /// written. Of int8, which forward computes with as it is, they are read and written, and read and written again with
    /// their scales (bitsandbytes, `MatMul8bitLt.backward`).
    fn dequantisation(&self, operator: OperatorKind, pass: Pass) -> Seconds {
        let bytes = self.dequantised_bytes(operator, pass);
        if bytes == 0.0 {
            return Seconds::ZERO;
        }
        let (rate, kernels) = match operator.quantization() {
            Some(Quantization::Int8) => (1.0, INT8_KERNELS),
            _ => (DEQUANTISATION_RATE, DEQUANTISATION_KERNELS),
        };
        Seconds(bytes / (self.memory_rate() * rate)) + self.gpu.achieved.kernel_floor.value * f64::from(kernels)
    }

    fn dequantised_bytes(&self, operator: OperatorKind, pass: Pass) -> f64 {
        let (weights, element) = (operator.dequantised(), self.precision.element_bytes());
        match (operator.quantization(), pass) {
            (None, _) | (Some(Quantization::Int8), Pass::Forward) => 0.0,
            (Some(Quantization::Nf4), _) => (nf4_bytes(weights) + weights * element) as f64,
            (Some(Quantization::Int8), Pass::Backward) => (weights * (1 + 3 * element)) as f64,
        }
    }

    /// Products that wait for one another.
    fn sequential(&self, operator: OperatorKind, pass: Pass) -> Seconds {
        let Some(sequence) = operator.sequential(pass) else { return Seconds::ZERO };
        let element = self.precision.element_bytes();
        recurrence::duration(sequence, self.gpu, self.rate(), element, self.stack.gemm.value)
    }

    /// The unit of what is not in eight bits.
    fn rate(&self) -> Rate {
        match rate(self.precision) {
            Rate::Fp8 => Rate::Bf16,
            other => other,
        }
    }

    fn fused_attention(&self, operator: OperatorKind, pass: Pass) -> Seconds {
        let OperatorKind::Attention(attention) = operator else { return Seconds::ZERO };
        let over_products = match attention.kernel {
            AttentionKernel::Unfused => return Seconds::ZERO,
            AttentionKernel::Flash => self.stack.flash_attention_on(&self.gpu.generation),
            AttentionKernel::MemoryEfficient => FIRST_FLASH_ATTENTION * MEMORY_EFFICIENT,
        };
        let unmasked = operator.flops(Pass::Forward) * attention.unmasked_share();
        let rate = self.rate();
        let products = self.gpu.peak(rate) * self.gpu.gemm_fraction(rate);
        let keys = attention.keys as f64;
        let forward = products * (over_products * keys / (keys + flash_run_in(attention.mask)));
        match pass {
            Pass::Forward => unmasked / forward,
            Pass::Backward => unmasked * FLASH_BACKWARD_WORK / (forward * FLASH_BACKWARD),
        }
    }

    /// Kernels that the host launches for a pass of an operator.
    fn kernels(&self, operator: OperatorKind, pass: Pass) -> u32 {
        operator.kernels(pass) + self.softmax(operator, pass).map_or(0, |separate| separate.kernels)
    }

    /// The separate kernels of softmax where the stack's fused kernel, of half precision, does not take the rank's
    /// heads.
    fn softmax(&self, operator: OperatorKind, pass: Pass) -> Option<softmax::Separate> {
        let OperatorKind::Attention(attention) = operator else { return None };
        if self.precision.master_bytes() == 0 {
            return None;
        }
        let Stack { softmax_heads, causal_softmax, .. } = self.stack;
        let fused = softmax::Fused {
            heads: softmax_heads.as_ref().map(|heads| heads.value.into()),
            causal: causal_softmax.as_ref().is_some_and(|causal| causal.value),
        };
        softmax::separate(attention, pass, fused)
    }

    /// Elements that the stack's fused softmax does not read because the mask hides them.
    fn skipped(&self, operator: OperatorKind, pass: Pass) -> f64 {
        let OperatorKind::Attention(attention) = operator else { return 0.0 };
        let fused = attention.kernel == AttentionKernel::Unfused
            && self.stack.softmax_heads.is_some()
            && self.precision.master_bytes() > 0
            && self.softmax(operator, pass).is_none();
        if fused { softmax::skipped(attention, pass) } else { 0.0 }
    }

    fn separate_softmax(&self, operator: OperatorKind, pass: Pass) -> Seconds {
        let Some(separate) = self.softmax(operator, pass) else { return Seconds::ZERO };
        let starts = self.gpu.achieved.kernel_floor.value * f64::from(separate.kernels);
        Seconds(separate.bytes.as_f64() / self.memory_rate()) + starts
    }

    /// Bytes that the kernels of a pass other than products read and write.
    fn streamed(&self, operator: OperatorKind, pass: Pass, fused: f64) -> f64 {
        let element = self.precision.element_bytes();
        if self.in_tiles && operator.is_over_vocabulary() {
            return self.streamed_in_tiles(operator, pass);
        }
        let loss = matches!(operator, OperatorKind::CrossEntropy { .. });
        let counted = operator.traffic(pass).bytes(element).as_f64() - self.skipped(operator, pass) * element as f64;
        counted * fused * if loss { self.stack.loss_traffic.value } else { 1.0 } + self.cast(operator, pass)
    }

    /// The same for a loss in tiles, of which one kernel reads logits, bounded or not, and backward writes their gradient in
    /// their place (TRL, `trl/kernels/chunked_logprob.py`).
    fn streamed_in_tiles(&self, operator: OperatorKind, pass: Pass) -> f64 {
        let OperatorKind::CrossEntropy { rows, vocab } = operator else { return 0.0 };
        let times = if pass == Pass::Forward { 1 } else { 2 };
        Bytes(times * rows * vocab * self.precision.element_bytes()).as_f64()
    }

    /// Bytes that a pass of an operator reads and writes, its products included.
    fn moved(&self, operator: OperatorKind, pass: Pass, fused: f64) -> f64 {
        let products: u64 = match operator {
            // Of an implicit product the matrix of windows is never written down.
            OperatorKind::Image(Image::Convolution(convolution)) => {
                convolution.elements() * operator.gemms(pass).len() as u64
            }
            _ => operator.gemms(pass).into_iter().map(Gemm::elements).sum(),
        };
        let sequential = operator.sequential(pass).map_or(0, |sequence| sequence.steps * sequence.product.elements());
        let elements = products + sequential;
        let (_, element) = self.format(operator);
        let own = Bytes(elements * element).as_f64() + self.dequantised_bytes(operator, pass);
        own + self.streamed(operator, pass, fused)
    }

    /// The cost of each operator of a layer in a pass, over `samples` samples on one of the ranks that share it. Their
    /// times tell how the layer's is shared out; together they are not it, because host and device overlap.
    pub(crate) fn operator_costs(
        &self,
        layer: &Layer,
        pass: Pass,
        samples: u64,
        sharing: Sharing,
    ) -> Vec<OperatorCost> {
        let (fused, within) = (self.fused(layer), self.within(layer));
        let operators = layer.operators.iter().map(|operator| operator.on_rank(samples, sharing));
        let cost = |operator: OperatorKind| {
            let device = within.operator(operator, pass, fused);
            let host = self.launch * f64::from(self.kernels(operator, pass));
            // Of the two products that backward has for each weight, the second is its gradient.
            let products = if operator.multiplies_weights() { within.products(operator, pass) } else { Vec::new() };
            let weights: Seconds = products.into_iter().skip(1).step_by(2).sum();
            OperatorCost {
                name: operator.name(),
                seconds: soft_maximum(device, host),
                weights_share: if device.0 > 0.0 { weights.0 / device.0 } else { 0.0 },
                flops: operator.flops(pass).0,
                bytes: within.moved(operator, pass, fused),
            }
        };
        operators.map(cost).filter(|cost| cost.seconds > Seconds::ZERO).collect()
    }

    /// Every pass of a layer's operators that has arithmetic, over `samples` samples on one of the ranks that share it.
    pub(super) fn operator_rates(&self, layer: &Layer, samples: u64, sharing: Sharing) -> Vec<OperatorRate> {
        let (fused, within) = (self.fused(layer), self.within(layer));
        let passes = if layer.frozen { &[Pass::Forward][..] } else { &[Pass::Forward, Pass::Backward] };
        let operators = layer.operators.iter().map(|operator| operator.on_rank(samples, sharing));
        let rate = |operator: OperatorKind, pass| OperatorRate {
            layer: layer.name.to_string(),
            operator: operator.name().into(),
            backward: pass == Pass::Backward,
            flops: operator.flops(pass).0,
            bytes: within.moved(operator, pass, fused),
            seconds: within.operator(operator, pass, fused).0,
            times: 1,
        };
        let rates = operators.flat_map(|operator| passes.iter().map(move |pass| rate(operator, *pass)));
        rates.filter(|rate| rate.flops > 0.0 && rate.bytes > 0.0 && rate.seconds > 0.0).collect()
    }

    /// Kernels other than products: bytes over the bandwidth they reach, which is higher for what stays in cache.
    fn traffic(&self, operator: OperatorKind, pass: Pass, fused: f64, products: u32) -> Seconds {
        let bytes = self.streamed(operator, pass, fused);
        if bytes == 0.0 {
            return Seconds::ZERO;
        }
        let kernels = f64::from(operator.kernels(pass).saturating_sub(products).max(1));
        let per_kernel = bytes / kernels / self.gpu.cache.value.as_f64();
        let speed_up = 1.0 + CACHE_GAIN / (1.0 + per_kernel * per_kernel);
        Seconds(bytes / (self.memory_rate() * speed_up)) + self.gpu.achieved.kernel_floor.value * kernels
    }

    fn memory_rate(&self) -> f64 {
        DeviceCosts::memory_rate(self.gpu)
    }

    /// Adding one micro-batch's weight gradients to the sum: the sum read and written in the gradients' precision,
    /// the new ones read in compute precision, half of which the product's own epilogue hides; or, by kernels of their
    /// own, all of it, the new ones being cleared besides.
    pub(crate) fn accumulate(&self, parameters: u64) -> Seconds {
        let element = self.precision.element_bytes();
        let fused = self.stack.fused_accumulation.value;
        let bytes = Bytes(if fused { 4 + element / 2 } else { 8 + 2 * element }) * parameters;
        Seconds(bytes.as_f64() / self.memory_rate())
    }

    /// The optimizer's update: everything it keeps is read and written, once if one kernel does all of it; of tables,
    /// what was looked up.
    pub(crate) fn update(&self, optimizer: Optimizer, held: ParameterCounts, looked_up: u64) -> Seconds {
        let dense = update_bytes(optimizer, self.precision, held).as_f64() * self.stack.update_traffic.value;
        Seconds((dense + row_update_bytes(optimizer, looked_up).as_f64()) / self.memory_rate())
    }

    /// Time that an update adds where every tensor is updated by kernels of its own.
    pub(crate) fn separate_update(&self, optimizer: Optimizer, tensors: u32) -> Seconds {
        let fused = self.precision.master_bytes() > 0 || optimizer != Optimizer::AdamW;
        match &self.stack.separate_update {
            Some(time) if !fused => time.value * f64::from(tensors),
            _ => Seconds::ZERO,
        }
    }
}

/// Bytes that an update of what is outside tables reads and writes: the gradient, the weight, the optimizer's state, and the
/// copy that computes. Moments in eight bits are brought to single precision and back inside the kernel (Dettmers et al.,
/// arXiv:2110.02861, section 2.1): they are traffic of eight bits.
pub(crate) fn update_bytes(optimizer: Optimizer, precision: Precision, held: ParameterCounts) -> Bytes {
    let copy = if precision.master_bytes() > 0 { precision.element_bytes() } else { 0 };
    Bytes(besides_state(optimizer) + copy) * held.updated() + held.updated_state(optimizer) * 2
}

/// The same for so many values in rows of tables, which have no copy that computes and all of their state in 32 bits.
pub(crate) fn row_update_bytes(optimizer: Optimizer, looked_up: u64) -> Bytes {
    Bytes(besides_state(optimizer)) * looked_up + optimizer.in_32_bits().state(looked_up) * 2
}

/// Gradient read, weight read and written, and what norms need, in bytes per value.
fn besides_state(optimizer: Optimizer) -> u64 {
    12 + optimizer.norm_bytes()
}

/// The arithmetic unit that a precision's matrix products run on.
pub(crate) fn rate(precision: Precision) -> Rate {
    match precision {
        Precision::Fp32 => Rate::Fp32,
        Precision::Tf32 => Rate::Tf32,
        Precision::Fp16Mixed => Rate::Fp16,
        Precision::Bf16Mixed => Rate::Bf16,
        Precision::Fp8Mixed => Rate::Fp8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    /// A transformer block of hidden width 1024 with 1024 tokens a sample.
    fn block() -> Layer {
        let graph = trainyard_models::find("gpt2-medium").expect("in the catalog").model.graph();
        graph.distinct()[1].clone()
    }

    fn pricing(precision: Precision) -> GpuPricing<'static> {
        GpuPricing {
            gpu: catalog().gpu("a100-sxm4-40gb").expect("in the catalog"),
            stack: catalog().stack("megatron").expect("in the catalog"),
            launch: catalog().stack("megatron").expect("in the catalog").launch.value,
            precision,
            work_cv: 0.0,
            in_tiles: false,
            in_eight_bits: false,
        }
    }

    #[test]
    fn products_in_int8_are_as_fast_as_was_measured() {
        let slower = |inputs, outputs, pass| {
            let quantised = Some(Quantization::Int8);
            let kind = Tuned::Frozen { experts: 1, rows: 4096, inputs, outputs, bias: false, quantised };
            int8_slowdown(OperatorKind::Tuned(kind), pass)
        };
        let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one} {other}");
        // GPT-3 6.7B and 175B, the first product of the feed-forward part; and narrower and wider than all that was
        // measured.
        near(slower(4096, 4 * 4096, Pass::Forward), 1.0 / 0.86);
        near(slower(12288, 4 * 12288, Pass::Forward), 1.0 / 1.81);
        near(slower(64, 64, Pass::Forward), 1.0 / 0.14);
        near(slower(65536, 65536, Pass::Forward), 1.0 / 1.81);
        // Backward multiplies in half precision.
        near(slower(4096, 4 * 4096, Pass::Backward), 1.0);
        let between = slower(4600, 4 * 4600, Pass::Forward);
        assert!(between < 1.0 / 0.86 && between > 1.0 / 1.22, "{between}");
    }

    #[test]
    fn products_of_blocks_are_faster_in_eight_bits_and_what_they_read_is_brought_there() {
        let h100 = catalog().gpu("h100-sxm5-80gb").expect("in the catalog");
        let of = |precision| GpuPricing { gpu: h100, launch: Seconds::ZERO, ..pricing(precision) };
        let [half, eighths] = [Precision::Bf16Mixed, Precision::Fp8Mixed].map(of);
        let kind = OperatorKind::Linear { rows: 32_768, inputs: 8192, outputs: 8192, bias: false };
        let layer = block();
        let time = |pricing: &GpuPricing<'_>, layer: &Layer| {
            pricing.within(layer).products(kind, Pass::Forward).into_iter().sum::<Seconds>().0
        };
        // Twice the peak, of which products reach 0.883 times as much; starting a tile takes as long.
        let depth = |rate| 8192.0 + h100.gemm_depth(rate);
        let expected = 2.0 * 0.883 * depth(Rate::Fp16) / depth(Rate::Fp8);
        let faster = time(&half, &layer) / time(&eighths, &layer);
        assert!((faster / expected - 1.0).abs() < 0.02, "{faster} for {expected}");
        let cast = eighths.within(&layer).cast(kind, Pass::Backward);
        assert!((cast - f64::from(4 * 32_768 * 8192)).abs() < 1.0, "{cast}");
        // The head and scores stay in half precision.
        let head = Layer { role: LayerRole::Output, ..layer };
        assert!((time(&eighths, &head) - time(&half, &head)).abs() < 1e-12);
    }

    #[test]
    fn memory_efficient_attention_takes_longer_than_flash_and_less_than_separate_kernels() {
        use AttentionKernel::{Flash, MemoryEfficient, Unfused};
        let core = |kernel| {
            let spec = trainyard_models::find("gpt2-medium").expect("in the catalog").model.spec();
            let spec = trainyard_models::ModelSpec { attention: Some(kernel), seq_len: Some(4096), ..spec };
            let graph = trainyard_models::Model::try_from(spec).expect("a valid model").graph();
            pricing(Precision::Fp16Mixed).layer(&graph.distinct()[1], 4, Sharing::WHOLE).among(1).core.0
        };
        let [flash, efficient, unfused] = [Flash, MemoryEfficient, Unfused].map(core);
        assert!(flash < efficient && efficient < unfused, "{flash} {efficient} {unfused}");
        assert!(efficient < flash / MEMORY_EFFICIENT, "the bytes are the same");
    }

    #[test]
    fn little_work_is_launch_bound() {
        // 64 kernels of a block at 35 us are 2.24 ms, whatever the device does in less.
        let pricing = pricing(Precision::Fp16Mixed);
        let cost = pricing.layer(&block(), 1, Sharing::tensor(8)).among(1);
        let both = cost.forward + cost.backward;
        let host = 35e-6 * f64::from(24 + 40 + 2 * TENSOR_KERNELS) + 4.0 * SOCKET_LAG.0;
        assert!((1.0..1.25).contains(&(both.0 / host)), "{} against {host}", both.0);
    }

    #[test]
    fn a_separate_update_is_for_adam_in_single_precision() {
        let mut stack = pricing(Precision::Fp32).stack.clone();
        stack.separate_update = Some(trainyard_hardware_profiles::Sourced::new(Seconds(1e-3), "a test"));
        let time =
            |precision, optimizer| GpuPricing { stack: &stack, ..pricing(precision) }.separate_update(optimizer, 400).0;
        assert!((time(Precision::Tf32, Optimizer::AdamW) - 0.4).abs() < 1e-12);
        assert!(time(Precision::Fp16Mixed, Optimizer::AdamW).abs() < 1e-12);
        assert!(time(Precision::Fp32, Optimizer::Lamb).abs() < 1e-12);
    }

    /// Of 256 parameters: 14 bytes each beside the state, which is read and written, 2 bytes each and two scales.
    #[test]
    fn an_update_in_eight_bits_streams_what_it_keeps() {
        let held = ParameterCounts { parameters: 256, ..ParameterCounts::default() };
        let of = |optimizer, held| update_bytes(optimizer, Precision::Bf16Mixed, held);
        assert_eq!(of(Optimizer::AdamW8bit, held), Bytes(256 * 14 + 2 * (512 + 8)));
        let exempt = ParameterCounts { in_32_bits: 256, ..held };
        assert_eq!(of(Optimizer::AdamW8bit, exempt), of(Optimizer::AdamW, held));
        assert_eq!(row_update_bytes(Optimizer::AdamW8bit, 10), row_update_bytes(Optimizer::AdamW, 10));
    }

    #[test]
    fn much_work_takes_as_long_as_its_arithmetic() {
        let pricing = pricing(Precision::Fp16Mixed);
        let once = pricing.layer(&block(), 32, Sharing::WHOLE).among(1).forward.0;
        let twice = pricing.layer(&block(), 64, Sharing::WHOLE).among(1).forward.0;
        assert!((1.85..2.15).contains(&(twice / once)), "{once} {twice}");
    }

    #[test]
    fn single_precision_is_slower_than_half() {
        let time = |precision| pricing(precision).layer(&block(), 32, Sharing::WHOLE).among(1).forward.0;
        assert!(time(Precision::Fp32) > 3.0 * time(Precision::Fp16Mixed));
    }
}
