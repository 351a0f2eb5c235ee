//! Weights that are there only while their layer is computed: a recording does not keep them, and asks for them anew
//! when gradients go back.
//!
//! Burn's autodiff can compute a tensor again in backward instead of keeping it. The operation here says of weights that
//! they are computed by taking them from where they lie, so that every operator that saves them saves only that.
//!
//! Source: Rajbhandari et al., arXiv:1910.02054, section 5.3: parameters are discarded once they have been used, in
//! forward as in backward.

use super::exchange::{ONE_DEVICE, primitive};
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::retro_forward::RetroForward;
use burn::backend::autodiff::checkpoint::state::BackwardStates;
use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, DispatchKindConversion, DispatchTensor, Flex};
use burn::tensor::Tensor;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

const UNPOISONED: &str = "nothing panics while it holds this lock";

/// A place for the elements of one parameter, which recordings share with the layer that holds it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelf(Arc<Mutex<Option<Tensor<1>>>>);

impl Shelf {
    /// Makes a shelf with these elements.
    pub(crate) fn of(elements: Tensor<1>) -> Self {
        Self(Arc::new(Mutex::new(Some(elements))))
    }

    /// Puts elements there, and returns those that were there before.
    pub(crate) fn put(&self, elements: Tensor<1>) -> Option<Tensor<1>> {
        self.0.lock().expect(UNPOISONED).replace(elements)
    }

    /// Takes the elements away.
    pub(crate) fn take(&self) -> Option<Tensor<1>> {
        self.0.lock().expect(UNPOISONED).take()
    }

    /// Returns the elements.
    ///
    /// # Panics
    ///
    /// When there are none.
    pub(crate) fn elements(&self) -> Tensor<1> {
        self.0.lock().expect(UNPOISONED).clone().expect("weights are gathered before they are used")
    }
}

/// Returns the weights on a shelf as a tensor of this shape, in a recording that does not keep them. They must be there
/// again when gradients go back. `leaf` is any recorded number; the gradient of the weights becomes its own, as
/// (elements).
pub(super) fn fetched<const D: usize>(leaf: &Tensor<1>, shelf: &Shelf, shape: [usize; D]) -> Tensor<D> {
    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    if !crate::kernels::lies_on_host(leaf) {
        return recorded::<crate::device::GpuBackend, D>(leaf, shelf, shape);
    }
    recorded::<Flex, D>(leaf, shelf, shape)
}

fn recorded<B: Backend, const D: usize>(leaf: &Tensor<1>, shelf: &Shelf, shape: [usize; D]) -> Tensor<D>
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B>>,
{
    let leaf = leaf.clone().try_into_primitive::<Autodiff<B>>().expect(ONE_DEVICE);
    let again = Again::<B, D> { shelf: shelf.clone(), shape, leaf: leaf.id(), backend: PhantomData };
    let weights = again.weights();
    let prepared = Backward::<B, 1>::prepare::<BalancedCheckpointing>(Fetch, [leaf.node()])
        .memory_bound()
        .retro_forward(again)
        .parents([&leaf])
        .stateful();
    let output = match prepared {
        OpsKind::Tracked(preparation) => preparation.finish(shape.iter().product(), weights),
        OpsKind::UnTracked(preparation) => preparation.finish(weights),
    };
    Tensor::from_primitive::<Autodiff<B>>(output)
}

/// Takes weights from their shelf in backward.
#[derive(Debug)]
struct Again<B, const D: usize> {
    shelf: Shelf,
    shape: [usize; D],
    leaf: NodeId,
    backend: PhantomData<B>,
}

impl<B: Backend, const D: usize> Again<B, D>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    fn weights(&self) -> FloatTensor<B> {
        primitive::<B, D>(self.shelf.elements().reshape(self.shape))
    }
}

impl<B: Backend, const D: usize> RetroForward for Again<B, D>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    fn forward(&self, states: &mut BackwardStates, node: NodeId) {
        // Burn counts the leaf as an operand and wants it read.
        let _ = states.get_state::<FloatTensor<B>>(&self.leaf);
        states.save(node, self.weights());
    }
}

/// The gradient of fetched weights, one element after another.
#[derive(Debug)]
struct Fetch;

impl<B: Backend> Backward<B, 1> for Fetch {
    /// Number of elements.
    type State = usize;

    fn backward(self, ops: Ops<usize, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let elements = ops.state;
        unary::<B, _>(ops.parents, ops.node, gradients, |gradient| B::float_reshape(gradient, [elements].into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{self, testing::use_kernels};
    use crate::network::operators::{from_vec, to_vec};
    use burn::tensor::Device;

    /// Returns the gradients of an input, (2, 2), and of fetched weights, where the shelf holds others in backward.
    fn gradients(
        operator: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<2>,
        [in_forward, in_backward]: [f32; 2],
    ) -> [Vec<f32>; 2] {
        let device = Device::flex();
        let number = |value: f32, length| from_vec(vec![value; length], [length], &device);
        let shelf = Shelf::default();
        shelf.put(number(in_forward, 4));
        let leaf = Tensor::from_inner(number(0.0, 1)).require_grad();
        let input = Tensor::from_inner(from_vec(vec![1.0, 2.0, 3.0, 4.0], [2, 2], &device)).require_grad();
        let result = operator(input.clone(), fetched(&leaf, &shelf, [2, 2]));
        let kept = shelf.take().expect("they were put there").try_into_primitive::<Flex>().expect("on the host");
        assert!(kept.is_unique(), "a recording keeps weights");
        shelf.put(number(in_backward, 4));
        let mut gradients = result.sum().backward();
        [
            to_vec(input.grad_remove(&mut gradients).expect("it takes part")),
            to_vec(leaf.grad_remove(&mut gradients).expect("it takes part")),
        ]
    }

    #[test]
    fn recordings_keep_no_weights_and_take_them_anew() {
        for used in [true, false] {
            use_kernels(used);
            let bias = || Some(Tensor::zeros([2], &Device::flex().autodiff()));
            let with_bias = gradients(|x, weights| kernels::linear(x, weights, bias()), [1.0, 5.0]);
            assert_eq!(with_bias, [vec![10.0; 4], vec![4.0, 4.0, 6.0, 6.0]]);
            let without = gradients(|x, weights| kernels::linear(x, weights, None), [1.0, 5.0]);
            assert_eq!(without, with_bias);
            let twice = gradients(|x, weights| kernels::linear(x, weights.clone(), None) + weights, [1.0, 5.0]);
            assert_eq!(twice, [vec![10.0; 4], vec![5.0, 5.0, 7.0, 7.0]]);
        }
        use_kernels(true);
        let transposed = gradients(kernels::linear_transposed, [1.0, 5.0]);
        assert_eq!(transposed, [vec![10.0; 4], vec![4.0, 6.0, 4.0, 6.0]]);
    }
}
