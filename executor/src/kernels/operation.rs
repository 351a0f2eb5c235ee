//! Operators over host memory as differentiable operators of Burn.

use super::halves::{rounded, widened};
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind, Flex,
    GradientCheckpointingStrategy,
};
use burn::tensor::{DType, FloatDType, Tensor, TensorData};
use half::bf16;
use std::fmt::Debug;

/// An operator on `N` tensors. All of its numbers are single precision, unless it says that it takes others; operands of
/// half precision are converted on the way in and the result on the way out.
pub(super) trait Kernel<const N: usize>: Clone + Debug + Send + 'static {
    /// The values saved for backward.
    type Kept: Clone + Debug + Send + 'static;

    /// `true` if operands that are all bf16 are taken as they are, and the gradient of the result too.
    const TAKES_HALVES: bool = false;

    /// Returns the tensors among what is saved that are the result or operands other than weights, with what they are. Where
    /// those are of half precision they are saved as they came, and share their memory with whoever else keeps them.
    fn saved(_: &mut Self::Kept) -> Vec<(&mut FlexTensor, Saves)> {
        Vec::new()
    }

    /// Positions of the weights among the operands, as far as backward needs them. They are saved apart from
    /// [`Self::Kept`]: a recording may let go of weights until then.
    const WEIGHTS: &'static [usize] = &[];

    /// Returns the places of those weights in what is saved.
    fn weights(_: &mut Self::Kept) -> Vec<&mut FlexTensor> {
        Vec::new()
    }

    /// Computes the result, and the values saved for backward.
    fn forward(&self, operands: [FlexTensor; N]) -> (FlexTensor, Self::Kept);

    /// Computes the gradients of the operands that are `wanted`, from that of the result.
    fn backward(&self, kept: Self::Kept, gradient: FlexTensor, wanted: [bool; N]) -> [Option<FlexTensor>; N];
}

/// A tensor that is saved for backward.
#[derive(Clone, Copy, Debug)]
pub(super) enum Saves {
    /// The operand of this position.
    Operand(usize),
    /// The result.
    Result,
}

/// A tensor on the host as autodiff has it.
type Tracked = FloatTensor<Autodiff<Flex>>;

/// Returns `true` if kernels can run on a tensor: it lies in host memory.
pub(super) fn on_host(tensor: &DispatchTensor) -> bool {
    let recomputes = tensor.autodiff == DispatchAutodiffContext::Enabled(GradientCheckpointingStrategy::Balanced);
    !recomputes && are_used() && flex(&tensor.kind)
}

#[allow(unreachable_patterns, clippy::match_wildcard_for_single_variants, reason = "features add backends")]
fn flex(kind: &DispatchTensorKind) -> bool {
    match kind {
        DispatchTensorKind::Flex(_) => true,
        DispatchTensorKind::Autodiff(kind) => flex(kind),
        _ => false,
    }
}

/// Returns `true` if a tensor lies in host memory.
pub(crate) fn lies_on_host<const D: usize>(tensor: &Tensor<D>) -> bool {
    flex(&tensor.clone().into_dispatch().kind)
}

/// Returns `true` if kernels are used where they apply.
#[cfg(not(test))]
fn are_used() -> bool {
    true
}

#[cfg(test)]
fn are_used() -> bool {
    super::testing::are_used()
}

/// Returns `true` if kernels can run on a tensor.
pub(super) fn is_on_host<const D: usize>(tensor: &Tensor<D>) -> bool {
    on_host(&tensor.clone().into_dispatch())
}

/// Returns a tensor's numbers, if they are single precision on the host and the tensor records nothing.
pub(super) fn plain<const D: usize>(tensor: Tensor<D>) -> Option<FlexTensor> {
    match tensor.try_into_primitive::<Flex>() {
        Ok(tensor) if tensor.dtype() == DType::F32 && are_used() => Some(tensor),
        _ => None,
    }
}

/// Applies a kernel to operands that lie [on the host](on_host).
pub(super) fn apply<const N: usize, K: Kernel<N>>(kernel: K, operands: [DispatchTensor; N]) -> DispatchTensor {
    let tracked = operands.iter().any(|operand| operand.autodiff != DispatchAutodiffContext::Disabled);
    let operands = operands.map(primitive);
    let kernel =
        Operation { kernel, types: operands.each_ref().map(|operand| float_type(operand.primitive().dtype())) };
    if !tracked {
        let (result, _) = kernel.forward(operands.map(Tracked::into_primitive));
        return Tensor::<2>::from_primitive::<Flex>(result).into_dispatch();
    }
    let guards = operands.each_ref().map(Tracked::node);
    let result = match kernel.clone().prepare::<NoCheckpointing>(guards).compute_bound().stateful() {
        OpsKind::Tracked(mut preparation) => {
            let weights = K::WEIGHTS.iter().map(|at| preparation.checkpoint(&operands[*at])).collect();
            let (result, mut kept) = kernel.forward(operands.map(Tracked::into_primitive));
            for weight in K::weights(&mut kept) {
                *weight = from_numbers(Vec::new(), [0]);
            }
            preparation.finish(Saved { kept, weights }, result)
        }
        OpsKind::UnTracked(preparation) => preparation.finish(kernel.forward(operands.map(Tracked::into_primitive)).0),
    };
    Tensor::<2>::from_primitive::<Autodiff<Flex>>(result).into_dispatch()
}

/// Converts a tensor on the host to one that autodiff knows; a constant if it is not tracked.
fn primitive(tensor: DispatchTensor) -> Tracked {
    fn unboxed(kind: DispatchTensorKind) -> DispatchTensorKind {
        if let DispatchTensorKind::Autodiff(kind) = kind { unboxed(*kind) } else { kind }
    }
    match unboxed(tensor.kind) {
        DispatchTensorKind::Flex(BackendTensor::Autodiff(tensor)) => tensor,
        DispatchTensorKind::Flex(BackendTensor::Float(tensor)) => Tracked::new(tensor),
        _ => unreachable!("kernels are applied to float tensors on the host"),
    }
}

fn float_type(data: DType) -> FloatDType {
    data.into()
}

/// A kernel and the types of its operands.
#[derive(Clone, Debug)]
struct Operation<K, const N: usize> {
    kernel: K,
    types: [FloatDType; N],
}

/// The values saved for backward, and where Burn saves the weights among them.
#[derive(Clone, Debug)]
struct Saved<T> {
    kept: T,
    weights: Vec<NodeId>,
}

impl<const N: usize, K: Kernel<N>> Operation<K, N> {
    /// Returns the type in which the kernel computes.
    fn computes_in(&self) -> FloatDType {
        let halves = K::TAKES_HALVES && self.types.iter().all(|own| *own == FloatDType::BF16);
        if halves { FloatDType::BF16 } else { FloatDType::F32 }
    }

    fn forward(&self, operands: [FlexTensor; N]) -> (FlexTensor, K::Kept) {
        let computed = |operand: FlexTensor| cast(operand, self.computes_in());
        if self.types.iter().all(|own| *own == self.computes_in()) {
            return self.kernel.forward(operands);
        }
        let (result, mut kept) = self.kernel.forward(operands.clone().map(computed));
        let result = cast(result, self.types[0]);
        for (place, which) in K::saved(&mut kept) {
            *place = match which {
                Saves::Operand(at) => operands[at].clone(),
                Saves::Result => result.clone(),
            };
        }
        (result, kept)
    }
}

impl<const N: usize, K: Kernel<N>> Backward<Flex, N> for Operation<K, N> {
    type State = Saved<K::Kept>;

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, checkpointer: &mut Checkpointer) {
        let gradient = cast(gradients.consume::<Flex>(&ops.node), self.computes_in());
        let Saved { mut kept, weights } = ops.state;
        for (place, _) in K::saved(&mut kept) {
            *place = cast(std::mem::replace(place, from_numbers(Vec::new(), [0])), self.computes_in());
        }
        for (place, node) in K::weights(&mut kept).into_iter().zip(weights) {
            *place = cast(checkpointer.retrieve_node_output::<FlexTensor>(node), self.computes_in());
        }
        let parents: [Option<NodeId>; N] = ops.parents.each_ref().map(|parent| parent.as_ref().map(|node| node.id));
        let found = self.kernel.backward(kept, gradient, parents.map(|parent| parent.is_some()));
        for ((parent, gradient), float) in parents.into_iter().zip(found).zip(self.types) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<Flex>(parent, cast(gradient, float));
            }
        }
    }
}

/// Converts a tensor to another type: between bf16 and single precision in one pass of vectors.
pub(super) fn cast(tensor: FlexTensor, to: FloatDType) -> FlexTensor {
    let shape = tensor.layout().shape().clone();
    match (float_type(tensor.dtype()), to) {
        (own, to) if own == to => tensor,
        (FloatDType::BF16, FloatDType::F32) => {
            FlexTensor::from_data(TensorData::new(widened(contiguous(tensor).storage()), shape))
        }
        (FloatDType::F32, FloatDType::BF16) => {
            FlexTensor::from_data(TensorData::new(rounded(contiguous(tensor).storage()), shape))
        }
        (_, to) => Flex::float_cast(tensor, to),
    }
}

/// Makes a tensor from its numbers.
pub(super) fn from_numbers<const D: usize>(numbers: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(numbers, shape))
}

/// Makes a tensor from its numbers in bf16.
pub(super) fn from_halves<const D: usize>(numbers: Vec<bf16>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(numbers, shape))
}

/// Returns the same numbers, one after another from the start of their storage.
pub(super) fn contiguous(tensor: FlexTensor) -> FlexTensor {
    let stored =
        if tensor.dtype() == DType::BF16 { tensor.storage::<bf16>().len() } else { tensor.storage::<f32>().len() };
    let whole = stored == tensor.layout().shape().num_elements();
    if tensor.is_contiguous() && whole { tensor } else { tensor.to_contiguous() }
}

/// Returns (rows, features) of a two-dimensional tensor.
pub(super) fn extent(tensor: &FlexTensor) -> [usize; 2] {
    let shape = tensor.layout().shape();
    [shape[0], shape[1]]
}
