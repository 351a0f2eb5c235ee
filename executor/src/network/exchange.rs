//! What the ranks of a tensor group do together within a layer, as operations that gradients go back through.
//!
//! Source: Shoeybi et al., arXiv:1909.08053, section 3 (the operators f and g); Korthikanti et al., arXiv:2205.05198,
//! section 4.2.2 (g and its conjugate along the sequence).

use super::peers::{Peers, from_host, to_host};
use crate::device::JoinedGpus;
use crate::process_group::{GroupError, ProcessGroup, Reduction, share};
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, DispatchKindConversion, DispatchTensor, Flex};
use burn::tensor::Tensor;
use std::sync::Arc;

/// The backward rule of an operation on `N` tensors, on tensors that record nothing.
#[derive(Clone)]
struct GradientRule<const N: usize>(Arc<dyn Fn(Tensor<2>) -> [Tensor<2>; N] + Send + Sync>);

impl<const N: usize> std::fmt::Debug for GradientRule<N> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("GradientRule")
    }
}

/// An operation whose gradients are given.
#[derive(Debug)]
struct WithGradients;

impl<B: Backend, const N: usize> Backward<B, N> for WithGradients
where
    DispatchTensor: DispatchKindConversion<B>,
{
    type State = GradientRule<N>;

    fn backward(self, ops: Ops<GradientRule<N>, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let GradientRule(rule) = ops.state;
        let found = rule(Tensor::from_primitive::<B>(gradients.consume::<B>(&ops.node)));
        for (parent, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(parent) = parent {
                gradients.register::<B>(parent.id, primitive::<B, 2>(gradient));
            }
        }
    }
}

pub(super) const ONE_DEVICE: &str = "a rank computes on one device";

/// Returns what a backend computes with of a tensor that records nothing.
pub(super) fn primitive<B: Backend, const D: usize>(tensor: Tensor<D>) -> FloatTensor<B>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    tensor.try_into_primitive::<B>().expect(ONE_DEVICE)
}

/// Returns `forward` of `input`, with `backward` as its backward rule: from the result's gradient to the input's. Both
/// work on tensors that record nothing; where `input` records nothing either, `backward` is never called.
pub(crate) fn with_gradient(
    input: Tensor<2>,
    forward: impl FnOnce(Tensor<2>) -> Tensor<2>,
    backward: impl Fn(Tensor<2>) -> Tensor<2> + Send + Sync + 'static,
) -> Tensor<2> {
    with_gradients([input], |[input]| forward(input), move |gradient| [backward(gradient)])
}

/// Does the same for an operation on several tensors, of which all are recorded or none.
pub(crate) fn with_gradients<const N: usize>(
    inputs: [Tensor<2>; N],
    forward: impl FnOnce([Tensor<2>; N]) -> Tensor<2>,
    backward: impl Fn(Tensor<2>) -> [Tensor<2>; N] + Send + Sync + 'static,
) -> Tensor<2> {
    if !inputs[0].is_autodiff() {
        return forward(inputs);
    }
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    if !crate::kernels::lies_on_host(&inputs[0]) {
        return recorded::<crate::device::GpuBackend, N>(inputs, forward, backward);
    }
    recorded::<Flex, N>(inputs, forward, backward)
}

/// Does the same for tensors that record what a backend computes.
fn recorded<B: Backend, const N: usize>(
    inputs: [Tensor<2>; N],
    forward: impl FnOnce([Tensor<2>; N]) -> Tensor<2>,
    backward: impl Fn(Tensor<2>) -> [Tensor<2>; N] + Send + Sync + 'static,
) -> Tensor<2>
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    let inputs = inputs.map(|input| input.try_into_primitive::<Autodiff<B>>().expect(ONE_DEVICE));
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the type of the tensor is private in Burn")]
    let nodes = inputs.each_ref().map(|input| input.node());
    let inputs = inputs.map(|input| Tensor::from_primitive::<B>(input.into_primitive()));
    let prepared = Backward::<B, N>::prepare::<NoCheckpointing>(WithGradients, nodes).compute_bound().stateful();
    let output = match prepared {
        OpsKind::Tracked(preparation) => {
            preparation.finish(GradientRule(Arc::new(backward)), primitive::<B, 2>(forward(inputs)))
        }
        OpsKind::UnTracked(preparation) => preparation.finish(primitive::<B, 2>(forward(inputs))),
    };
    Tensor::from_primitive::<Autodiff<B>>(output)
}

/// The ranks that share a layer's weights, as layers see them.
#[derive(Clone)]
pub(crate) struct TensorGroup {
    peers: Peers,
    /// Their GPUs, where sums need not go through main memory.
    joined: Option<JoinedGpus>,
    /// `true` if they share the rows outside of tensor-parallel parts as well (sequence parallelism).
    sequence: bool,
}

impl TensorGroup {
    pub(crate) fn new(group: ProcessGroup, sequence: bool, joined: Option<JoinedGpus>) -> Self {
        let sequence = sequence && group.size() > 1;
        Self { peers: Peers::new(group), joined, sequence }
    }

    pub(crate) fn size(&self) -> usize {
        self.peers.size()
    }

    pub(crate) fn rank(&self) -> usize {
        self.peers.rank()
    }

    /// Returns `true` with sequence parallelism: outside of tensor-parallel parts each rank has only its share of every
    /// sample's tokens. Gradients of parameters that are not split are then partial sums.
    pub(crate) fn shares_tokens(&self) -> bool {
        self.sequence
    }

    /// Returns the range of a sample's tokens that this rank has outside of tensor-parallel parts.
    pub(crate) fn own_tokens(&self, tokens: usize) -> std::ops::Range<usize> {
        if self.sequence { share(tokens, self.size(), self.rank()) } else { 0..tokens }
    }

    /// Returns an error if an exchange failed since the group was made; results after it mean nothing.
    pub(crate) fn check(&self) -> Result<(), GroupError> {
        self.peers.check()
    }

    /// Enters a tensor-parallel part: every rank has the same rows before, and again all of them inside. With sequence
    /// parallelism, `samples` times the own tokens become all tokens.
    pub(crate) fn enter(&self, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        if self.size() == 1 {
            return rows;
        }
        let (forth, back) = (self.clone(), self.clone());
        if self.sequence {
            let gather = move |rows| forth.gathered(rows, samples);
            return with_gradient(rows, gather, move |gradient| back.scattered(gradient, samples));
        }
        with_gradient(rows, |rows| rows, move |gradient| back.summed(gradient))
    }

    /// Leaves a tensor-parallel part: each rank's result is a partial sum.
    pub(crate) fn leave(&self, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        if self.size() == 1 {
            return rows;
        }
        let (forth, back) = (self.clone(), self.clone());
        if self.sequence {
            let scatter = move |rows| forth.scattered(rows, samples);
            return with_gradient(rows, scatter, move |gradient| back.gathered(gradient, samples));
        }
        with_gradient(rows, move |rows| forth.summed(rows), |gradient| gradient)
    }

    /// Returns a weight that every rank has all of and applies to its own heads, so that each has a part of its gradient.
    /// These are summed here unless they are for all weights that are not split (see [`Self::shares_tokens`]).
    pub(crate) fn applied_to_parts(&self, weight: Tensor<1>) -> Tensor<1> {
        if self.size() == 1 || self.sequence {
            return weight;
        }
        let (back, width) = (self.clone(), weight.dims()[0]);
        with_gradient(weight.reshape([1, width]), |row| row, move |gradient| back.summed(gradient)).reshape([width])
    }

    /// Sums over all ranks what stays replicated, whose gradient is the same on each of them.
    pub(crate) fn sum(&self, rows: Tensor<2>) -> Tensor<2> {
        if self.size() == 1 {
            return rows;
        }
        let forth = self.clone();
        with_gradient(rows, move |rows| forth.summed(rows), |gradient| gradient)
    }

    /// Returns the greatest value over all ranks; no gradient flows through it.
    pub(crate) fn maximum(&self, rows: Tensor<2>) -> Tensor<2> {
        let [height, width] = rows.dims();
        let device = rows.device().inner();
        let (values, dtype) = to_host(rows.inner());
        let gathered = self.peers.exchange(|group| group.all_gather(&values));
        let Some(gathered) = gathered else { return from_host(values, [height, width], dtype, &device) };
        let mut most = vec![f32::NEG_INFINITY; values.len()];
        for rank in gathered.chunks(values.len().max(1)) {
            most.iter_mut().zip(rank).for_each(|(most, value)| *most = most.max(*value));
        }
        from_host(most, [height, width], dtype, &device)
    }

    fn summed(&self, rows: Tensor<2>) -> Tensor<2> {
        let ([height, width], device) = (rows.dims(), rows.device());
        if let Some(gpus) = &self.joined {
            let flat = rows.clone().reshape([height * width]);
            let sum = self.peers.exchange(|_| gpus.all_reduce(flat, Reduction::Sum));
            return sum.map_or(rows, |sum| sum.resolve().reshape([height, width]));
        }
        let (mut values, dtype) = to_host(rows);
        self.peers.exchange(|group| group.all_reduce(&mut values, Reduction::Sum));
        from_host(values, [height, width], dtype, &device)
    }

    /// All-gathers (samples × own tokens, features) of every rank → (samples × all tokens, features).
    fn gathered(&self, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        let ([height, width], device) = (rows.dims(), rows.device());
        let (values, dtype) = to_host(rows);
        let Some(all) = self.peers.exchange(|group| group.all_gather(&values)) else {
            return Tensor::<2>::zeros([height * self.size(), width], &device).cast(dtype);
        };
        let own = height / samples;
        let ranks = from_host(all, [self.size(), samples, own, width], dtype, &device);
        ranks.swap_dims(0, 1).reshape([samples * self.size() * own, width])
    }

    /// Reduce-scatters (samples × all tokens, features), partial sums → the own tokens of the sum.
    fn scattered(&self, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        let ([height, width], device) = (rows.dims(), rows.device());
        let own = height / samples / self.size();
        let by_rank = rows.reshape([samples, self.size(), own, width]).swap_dims(0, 1);
        let (mut values, dtype) = to_host(by_rank.reshape([height, width]));
        let reduced = self.peers.exchange(|group| group.reduce_scatter(&mut values, Reduction::Sum));
        match reduced {
            Some(values) => from_host(values, [samples * own, width], dtype, &device),
            None => Tensor::<2>::zeros([samples * own, width], &device).cast(dtype),
        }
    }
}
