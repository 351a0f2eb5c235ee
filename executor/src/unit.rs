//! One layer as a rank keeps it: weights, gradients, and its shards of the state that is sharded over ranks.
//!
//! Every parameter is cut into as many equal pieces as there are ranks that state is sharded over, the last ones being
//! shorter where it does not divide. Collectives move one buffer for the whole layer: the first pieces of all its
//! parameters, then the second ones, and so on, each padded to the same length, so that the equal shares of the buffer
//! are the ranks' pieces.
//!
//! Source: Rajbhandari et al., arXiv:1910.02054, section 5; one buffer for each layer: Zhao et al., arXiv:2304.11277,
//! section 3.2.

use crate::network::operators::{from_vec, single, to_vec, to_vecs};
use crate::network::{
    Elements, ExpertGroup, Network, ParameterKey, Postponed, Role, Shelf, TensorGroup, Weight, Weights,
};
use burn::tensor::{Device, FloatDType, Tensor};
use std::ops::Range;
use trainyard_plan::StateSharding;

/// The kind of state that is sharded, and the pieces of it that a rank owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shards {
    /// The state that is sharded.
    pub(crate) state: StateSharding,
    /// Number of ranks that it is sharded over; 1 where nothing is sharded.
    pub(crate) count: usize,
    /// Index of this rank's piece.
    pub(crate) own: usize,
    /// `true` if weights are kept in main memory, and on the device only while their layer computes (Rajbhandari et al.,
    /// arXiv:2104.07857, section 5.1).
    pub(crate) fetched: bool,
}

impl Shards {
    /// Returns the range of elements of a parameter of `length` elements that the rank `of` owns.
    pub(crate) fn piece(self, length: usize, of: usize) -> Range<usize> {
        let each = length.div_ceil(self.count);
        (of * each).min(length)..((of + 1) * each).min(length)
    }

    /// Returns `true` if weights are brought together when they are needed, and let go of afterwards.
    pub(crate) fn gathers_weights(self) -> bool {
        self.fetched || (self.count > 1 && self.state == StateSharding::Parameters)
    }

    /// Returns `true` if each rank updates its pieces only.
    pub(crate) fn shares_updates(self) -> bool {
        self.count > 1
    }
}

/// One parameter of the layer.
#[expect(clippy::struct_excessive_bools, reason = "each tells where else its values are")]
pub(crate) struct Slot {
    pub(crate) key: ParameterKey,
    /// The shape of this rank's part under tensor parallelism.
    pub(crate) shape: Vec<usize>,
    pub(crate) length: usize,
    pub(crate) role: Role,
    /// `true` if all ranks of the tensor group have the same values of it.
    pub(crate) replicated: bool,
    /// `true` if the gradients of all of them are parts of a sum.
    pub(crate) has_partial_gradient: bool,
    /// `true` if another layer of this rank holds the same parameter (tied weights).
    pub(crate) held_elsewhere: bool,
    /// `true` if it is an expert's. It has gradients only where a token was sent to the expert.
    pub(crate) of_expert: bool,
    /// `true` if it is that of an expert that another rank has: this one has no values of it.
    pub(crate) absent: bool,
    /// The format in which it computes.
    format: FloatDType,
    /// The whole of this rank's tensor-parallel part, in the format that computes; absent between uses where weights
    /// are sharded.
    working: Shelf,
    /// The own piece in single precision, where `working` is not that; in main memory where the optimizer is offloaded. Of
    /// what stays as it is, the own piece in the format that computes, where weights are sharded.
    master: Option<Tensor<1>>,
    /// Gradients of the micro-batches so far, whole.
    gradient: Option<Tensor<1>>,
    /// The sum over ranks, of the own piece.
    pub(crate) reduced: Option<Tensor<1>>,
    /// The value of a running mean when the step began, once it has changed.
    before: Option<Tensor<1>>,
}

/// A layer as a rank holds it.
pub(crate) struct Unit {
    pub(crate) slots: Vec<Slot>,
    shards: Shards,
    /// Ranks that share the experts of the layer.
    expert_ranks: usize,
    format: FloatDType,
    device: Device,
    home: Option<Device>,
}

/// The builder of a rank's layers.
pub(crate) struct Builder<'a> {
    pub(crate) network: &'a Network,
    pub(crate) tensor: &'a TensorGroup,
    pub(crate) experts: &'a ExpertGroup,
    pub(crate) shards: Shards,
    /// The format that computes.
    pub(crate) format: FloatDType,
    pub(crate) device: &'a Device,
    /// The device that updates weights, if it is another one: main memory, where the optimizer is offloaded.
    pub(crate) home: Option<&'a Device>,
    /// Whole values of parameters.
    pub(crate) values: &'a dyn Fn(ParameterKey) -> Vec<f32>,
    /// Tells whether another layer of the rank holds a parameter.
    pub(crate) held_elsewhere: &'a dyn Fn(ParameterKey) -> bool,
}

impl Builder<'_> {
    /// Builds a layer.
    pub(crate) fn unit(&self, layer: usize) -> Unit {
        let (shards, format, device) = (self.shards, self.format, self.device.clone());
        let (expert_ranks, home) = (self.experts.size(), self.home.cloned());
        let mut unit = Unit { slots: Vec::new(), shards, expert_ranks, format, device, home };
        for (slot, parameter) in self.network.parameters_of(layer).iter().enumerate() {
            let key = ParameterKey::new(layer, slot);
            let (ranks, rank) = (self.tensor.size(), self.tensor.rank());
            let (experts, own) = (self.experts.size(), self.experts.rank());
            let absent = parameter.expert.is_some_and(|expert| !expert.is_on(own, experts));
            let shape = if absent { vec![0, 0] } else { parameter.local_shape(ranks, rank) };
            let mut slot = Slot {
                key,
                length: shape.iter().product(),
                shape,
                role: parameter.role,
                replicated: parameter.split.is_none(),
                has_partial_gradient: parameter.has_partial_gradient,
                held_elsewhere: (self.held_elsewhere)(key),
                of_expert: parameter.expert.is_some(),
                absent,
                format: if parameter.is_single { FloatDType::F32 } else { format },
                working: Shelf::default(),
                master: None,
                gradient: None,
                reduced: None,
                before: None,
            };
            if absent {
                slot.working.put(Tensor::<1>::zeros([0], &unit.device).cast(slot.format));
            } else if !slot.held_elsewhere {
                let whole = (self.values)(parameter.tied_to.unwrap_or(key));
                unit.set(&mut slot, parameter.local(&whole, ranks, rank));
            }
            unit.slots.push(slot);
        }
        unit
    }
}

impl Unit {
    /// Gives a parameter its first values.
    fn set(&self, slot: &mut Slot, values: Vec<f32>) {
        let piece = self.shards.piece(slot.length, self.shards.own);
        let shares = self.shards.shares_updates() && slot.role == Role::Trained;
        let apart = self.has_masters() && slot.role == Role::Trained;
        if slot.role == Role::Frozen && self.gathers(slot) {
            let own = from_vec(values[piece.clone()].to_vec(), [piece.len()], self.home());
            slot.master = Some(own.cast(slot.format));
        } else if self.gathers(slot) || (apart && shares) {
            slot.master = Some(from_vec(values[piece.clone()].to_vec(), [piece.len()], self.home()));
        } else if apart {
            slot.master = Some(from_vec(values.clone(), [slot.length], self.home()));
        }
        if !self.gathers(slot) {
            let working = from_vec(values, [slot.length], &self.device);
            slot.working.put(if slot.role == Role::Statistic { working } else { working.cast(slot.format) });
        }
    }

    /// Returns the running means of the layer, one behind the other.
    pub(crate) fn statistics(&self) -> Vec<f32> {
        let slots = self.slots.iter().filter(|slot| slot.role == Role::Statistic);
        slots.flat_map(|slot| to_vec(slot.working())).collect()
    }

    /// Sets the running means of the layer, in the same order.
    pub(crate) fn set_statistics(&mut self, values: &mut impl Iterator<Item = f32>) {
        for slot in self.slots.iter_mut().filter(|slot| slot.role == Role::Statistic) {
            let own: Vec<f32> = values.by_ref().take(slot.length).collect();
            slot.working.put(from_vec(own, [slot.length], &self.device));
        }
    }

    /// Returns a number that stands in a recording for weights that it does not keep.
    fn number(&self) -> Tensor<1> {
        Tensor::from_inner(Tensor::<1>::zeros([1], &self.device).cast(self.format))
    }

    /// Returns the device that updates weights: masters and what the optimizer remembers lie there.
    pub(crate) fn home(&self) -> &Device {
        self.home.as_ref().unwrap_or(&self.device)
    }

    /// Returns `true` if weights that compute are not those that are updated.
    fn has_masters(&self) -> bool {
        self.format != FloatDType::F32 || self.home.is_some()
    }

    fn gathers(&self, slot: &Slot) -> bool {
        self.shards.gathers_weights() && slot.role != Role::Statistic
    }

    /// Returns `true` if this layer itself holds parameters that are trained.
    pub(crate) fn trains(&self) -> bool {
        self.trained().next().is_some()
    }

    /// Returns the parameters that ranks bring together: those that a step changed, or all where they share weights out.
    fn gathered(&self) -> impl Iterator<Item = &Slot> {
        let all = self.shards.gathers_weights();
        self.slots.iter().filter(move |slot| slot.is_brought_together(all))
    }

    /// Returns the trained parameters that this layer itself holds.
    fn trained(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.is_own())
    }

    /// Returns the weights as layers compute with them, in the order of slots. Recorded where gradients shall reach
    /// them, with the leaves of those that gradients may reach; `elsewhere` gives those that another layer holds.
    pub(crate) fn weights(
        &self,
        recorded: bool,
        postponed: Option<Postponed>,
        elsewhere: &dyn Fn(ParameterKey) -> Tensor<1>,
    ) -> (Weights, Vec<Option<Tensor<1>>>) {
        let mut leaves = Vec::new();
        let mut values = Vec::new();
        for slot in &self.slots {
            let plain = || if slot.held_elsewhere { elsewhere(slot.key) } else { slot.working() };
            if slot.role == Role::Frozen {
                let shelf = if slot.held_elsewhere { Shelf::of(plain()) } else { slot.working.clone() };
                values.push(Weight { elements: Elements::Frozen { shelf, recorded }, shape: slot.shape.clone() });
                leaves.push(None);
                continue;
            }
            let leaf = match (recorded, slot.role) {
                (true, Role::Trained) if self.gathers(slot) => self.number().require_grad(),
                (true, Role::Trained) => Tensor::from_inner(plain()).require_grad(),
                (true, _) => Tensor::from_inner(plain()),
                (false, _) => plain(),
            };
            leaves.push(Some(leaf.clone()));
            let elements = if recorded && self.gathers(slot) {
                Elements::Fetched { leaf, shelf: slot.working.clone() }
            } else {
                Elements::Here(leaf)
            };
            values.push(Weight { elements, shape: slot.shape.clone() });
        }
        (Weights::new(values, postponed), leaves)
    }

    /// Adds the gradient of a parameter to those of the micro-batches before.
    pub(crate) fn add_gradient(&mut self, slot: usize, gradient: Tensor<1>) {
        let gradient = single(gradient);
        let sum = &mut self.slots[slot].gradient;
        *sum = Some(match sum.take() {
            Some(sum) => sum + gradient,
            None => gradient,
        });
    }

    /// Takes the gradients out.
    ///
    /// # Panics
    ///
    /// When a parameter got no gradient: the model is wrong.
    pub(crate) fn take_gradients(&mut self) -> Vec<Tensor<1>> {
        let own: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].is_own()).collect();
        let gradient = |slot| self.take_gradient(slot).expect("every parameter takes part in the loss");
        own.into_iter().map(gradient).collect()
    }

    /// Takes the gradient of a parameter out. That of an expert to which nobody sent a token is zero; that of one to
    /// which several ranks send theirs is a sum over their losses, and becomes a mean.
    fn take_gradient(&mut self, slot: usize) -> Option<Tensor<1>> {
        let (experts, device) = (self.expert_ranks, self.device.clone());
        let slot = &mut self.slots[slot];
        let gradient = slot.gradient.take();
        if !slot.of_expert || !slot.is_own() {
            return gradient;
        }
        let gradient = gradient.unwrap_or_else(|| Tensor::zeros([slot.length], &device));
        Some(if experts > 1 { gradient * (1.0 / experts as f32) } else { gradient })
    }

    /// Tells of each parameter of [`Self::take_gradients`] whether ranks that share experts have it apart from each
    /// other.
    pub(crate) fn shared_out(&self) -> Vec<bool> {
        self.trained().map(|slot| slot.of_expert && self.expert_ranks > 1).collect()
    }

    /// Takes the gradients out for collectives of the host: as one buffer where ranks share them out, as they are
    /// where not.
    ///
    /// # Panics
    ///
    /// When a parameter got no gradient.
    pub(crate) fn take_for_host(&mut self) -> Vec<Vec<f32>> {
        let gradients = to_vecs(self.take_gradients());
        if self.shards.count == 1 { gradients } else { vec![self.packed(&gradients)] }
    }

    /// Keeps the gradients as they are: nobody else has others.
    pub(crate) fn keep_gradients(&mut self) {
        for slot in 0..self.slots.len() {
            self.slots[slot].reduced = self.take_gradient(slot);
        }
    }

    /// Takes what a reduction made of [`Self::take_for_host`].
    pub(crate) fn put_from_host(&mut self, reduced: Vec<Vec<f32>>) {
        let pieces = if self.shards.count == 1 { reduced } else { self.pieces_of(&reduced.concat()) };
        let tensor = |piece: Vec<f32>| {
            let length = piece.len();
            from_vec(piece, [length], &self.device)
        };
        let pieces = pieces.into_iter().map(tensor).collect();
        self.put_reduced(pieces);
    }

    /// Adds this rank's pieces of the sum over ranks to what an earlier reduction of the same step left.
    pub(crate) fn put_reduced(&mut self, pieces: Vec<Tensor<1>>) {
        for (slot, sum) in self.slots.iter_mut().filter(|slot| slot.is_own()).zip(pieces) {
            slot.reduced = Some(match slot.reduced.take() {
                Some(before) => before + sum,
                None => sum,
            });
        }
    }

    /// Splits a share of the layer's buffer (see the head of this file) into this rank's pieces.
    fn pieces_of(&self, share: &[f32]) -> Vec<Vec<f32>> {
        let Shards { count, own, .. } = self.shards;
        let mut rest = share;
        let piece = |slot: &Slot| {
            let (filled, after) = rest.split_at(slot.length.div_ceil(count));
            rest = after;
            filled[..self.shards.piece(slot.length, own).len()].to_vec()
        };
        self.trained().map(piece).collect()
    }

    /// Packs whole parameters into the layer's buffer (see the head of this file).
    fn packed(&self, whole: &[Vec<f32>]) -> Vec<f32> {
        let count = self.shards.count;
        let mut buffer = Vec::with_capacity(whole.iter().map(|values| values.len().div_ceil(count) * count).sum());
        for rank in 0..count {
            for values in whole {
                let piece = self.shards.piece(values.len(), rank);
                let end = buffer.len() + values.len().div_ceil(count);
                buffer.extend_from_slice(&values[piece]);
                buffer.resize(end, 0.0);
            }
        }
        buffer
    }

    /// Returns this rank's pieces as one buffer, for [`Self::put_gathered`] of all ranks.
    pub(crate) fn pieces(&self) -> Vec<f32> {
        let own = to_vecs(self.gathered().map(|slot| self.master_of(slot)).collect());
        let mut buffer = Vec::new();
        for (slot, piece) in self.gathered().zip(own) {
            let end = buffer.len() + slot.length.div_ceil(self.shards.count);
            buffer.extend(piece);
            buffer.resize(end, 0.0);
        }
        buffer
    }

    /// Makes weights whole from the pieces of all ranks, first rank first.
    pub(crate) fn put_gathered(&mut self, all: &[f32]) {
        let Shards { count, .. } = self.shards;
        let stride = all.len() / count;
        let mut start = 0;
        let device = self.device.clone();
        let everything = self.shards.gathers_weights();
        for slot in self.slots.iter_mut().filter(|slot| slot.is_brought_together(everything)) {
            let each = slot.length.div_ceil(count);
            let mut whole: Vec<f32> =
                (0..count).flat_map(|rank| &all[rank * stride + start..][..each]).copied().collect();
            whole.truncate(slot.length);
            slot.working.put(from_vec(whole, [slot.length], &device).cast(slot.format));
            start += each;
        }
    }

    /// Lets go of gathered weights until they are needed again.
    pub(crate) fn release(&self) {
        if self.shards.gathers_weights() {
            self.gathered().for_each(|slot| drop(slot.working.take()));
        }
    }

    /// Returns this rank's piece of a parameter in single precision.
    pub(crate) fn master_of(&self, slot: &Slot) -> Tensor<1> {
        let piece = self.shards.piece(slot.length, self.shards.own);
        slot.master.clone().unwrap_or_else(|| {
            let working = slot.working();
            if piece.len() == slot.length || slot.role == Role::Statistic { working } else { working.slice([piece]) }
        })
    }

    /// Takes the pieces to update, so that nobody else holds them meanwhile.
    pub(crate) fn take_master(&mut self, slot: usize) -> Tensor<1> {
        let Shards { count, .. } = self.shards;
        let slot_ = &mut self.slots[slot];
        match slot_.master.take() {
            Some(master) => master,
            None if count == 1 => slot_.working.take().expect("weights that nobody shares out are always there"),
            None => self.master_of(&self.slots[slot]),
        }
    }

    /// Gives an updated piece back. Where ranks update pieces, weights are whole again after they were gathered.
    pub(crate) fn put_master(&mut self, slot: usize, value: Tensor<1>) {
        let (shares, gathers, apart) =
            (self.shards.shares_updates(), self.shards.gathers_weights(), self.has_masters());
        let slot = &mut self.slots[slot];
        let working = (!shares && !gathers).then(|| value.clone().cast(slot.format).to_device(&self.device));
        working.map(|working| slot.working.put(working));
        if shares || gathers || apart {
            slot.master = Some(value);
        }
    }
}

impl Slot {
    /// Returns `true` if this layer holds the parameter and the optimizer changes it.
    pub(crate) fn is_own(&self) -> bool {
        self.role == Role::Trained && !self.held_elsewhere && !self.absent
    }

    /// Returns `true` if this layer holds the parameter and ranks bring it together, with `everything` or what is trained.
    fn is_brought_together(&self, everything: bool) -> bool {
        let stays = self.role == Role::Frozen && !self.held_elsewhere && !self.absent;
        self.is_own() || (everything && stays)
    }

    /// Returns all values of this rank in the format that computes.
    pub(crate) fn working(&self) -> Tensor<1> {
        self.working.elements()
    }

    /// Sets a running mean's new values.
    pub(crate) fn set_statistic(&mut self, values: Tensor<1>) {
        let old = self.working.put(values);
        self.before = self.before.take().or(old);
    }

    /// Keeps the running mean at the end of a step that updated the parameters.
    pub(crate) fn keep_statistic(&mut self) {
        self.before = None;
    }

    /// Discards a step that is skipped: its gradient, and the running mean's new value.
    pub(crate) fn leave_out(&mut self) {
        self.reduced = None;
        if let Some(before) = self.before.take() {
            self.working.put(before);
        }
    }
}
