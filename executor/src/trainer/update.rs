//! The end of a step: sums that are left, the gradient's norm, the update.

use super::{HELD, StepResult, Trainer};
use crate::network::operators::{from_vec, to_vec, to_vecs};
use crate::optimizer::{Update, square_sums};
use crate::process_group::{GroupError, Reduction, Tag};
use crate::report::Phase;
use crate::unit::Slot;
use burn::tensor::Tensor;
use std::collections::BTreeMap;
use trainyard_plan::StageId;

/// The message in which the holders of a shared table exchange its gradients.
const TIE: Tag = Tag(u32::MAX / 2);

impl Trainer {
    /// Updates the own pieces, if all gradients of all ranks are finite.
    pub(super) fn update(&mut self, loss: f32, learning_rate: f64) -> Result<StepResult, GroupError> {
        self.sum_parts()?;
        self.sum_ties()?;
        let loss_scale = self.scale.value();
        let gradient_norm = self.gradient_norm()? / f64::from(loss_scale);
        let result = StepResult { loss, gradient_norm, loss_scale, skipped: !gradient_norm.is_finite() };
        self.scale.note(!result.skipped);
        let slots = self.units.values_mut().flat_map(|unit| &mut unit.slots);
        if result.skipped {
            slots.for_each(Slot::leave_out);
            return Ok(result);
        }
        slots.for_each(Slot::keep_statistic);
        let clip = self.clip.filter(|limit| gradient_norm > *limit).map_or(1.0, |limit| limit / gradient_norm);
        let factor = clip / f64::from(loss_scale);
        for layer in self.units.keys().copied().collect::<Vec<_>>() {
            self.update_unit(layer, factor, learning_rate)?;
        }
        if self.shards.shares_updates() && !self.shards.gathers_weights() {
            let trained = self.units.iter().filter(|(_, unit)| unit.trains()).map(|(layer, _)| *layer);
            for layer in trained.collect::<Vec<_>>() {
                self.gather(layer)?;
            }
        }
        Ok(result)
    }

    fn update_unit(&mut self, layer: usize, factor: f64, learning_rate: f64) -> Result<(), GroupError> {
        let unit = self.units.get_mut(&layer).expect(HELD);
        let mut slots = Vec::new();
        let mut updates = Vec::new();
        for slot in 0..unit.slots.len() {
            let Some(gradient) = unit.slots[slot].reduced.take() else { continue };
            let gradient = if (factor - 1.0).abs() > 0.0 { gradient * factor } else { gradient };
            let gradient = gradient.to_device(unit.home());
            let key = unit.slots[slot].key;
            let is_matrix = unit.slots[slot].shape.len() > 1;
            updates.push(Update { key, is_matrix, value: unit.take_master(slot), gradient });
            slots.push((slot, unit.slots[slot].replicated));
        }
        let (weights, tensor) = (&self.groups.weights, &self.groups.tensor_plain);
        let norms = |squares: Vec<f32>| {
            let mut squares = squares;
            weights.all_reduce(&mut squares, Reduction::Sum)?;
            // Ranks of a tensor group have other parts of what is cut, and the same of what is not.
            let mut of_all = squares.clone();
            tensor.all_reduce(&mut of_all, Reduction::Sum)?;
            let cut = slots.iter().flat_map(|(_, replicated)| [!replicated; 2]);
            Ok(squares.iter().zip(of_all).zip(cut).map(|((own, all), cut)| if cut { all } else { *own }).collect())
        };
        let values = self.optimizer.step(updates, learning_rate, &norms)?;
        for ((slot, _), value) in slots.into_iter().zip(values) {
            unit.put_master(slot, value);
        }
        Ok(())
    }

    /// Sums over the tensor group the gradients of what is not split over it and of which each rank has a partial sum: of
    /// all such parameters with sequence parallelism, else of those of adapters.
    fn sum_parts(&mut self) -> Result<(), GroupError> {
        let of_all = self.groups.tensor.shares_tokens();
        let is_part = |slot: &Slot| slot.replicated && (of_all || slot.has_partial_gradient);
        let mut slots = self.units.values().flat_map(|unit| &unit.slots);
        if self.groups.tensor.size() == 1 || !slots.any(|slot| is_part(slot) && slot.reduced.is_some()) {
            return Ok(());
        }
        let started = self.now_and_waited();
        let mut slots: Vec<_> = self
            .units
            .values_mut()
            .flat_map(|unit| &mut unit.slots)
            .filter(|slot| is_part(slot) && slot.reduced.is_some())
            .collect();
        let parts = to_vecs(slots.iter_mut().map(|slot| slot.reduced.take().expect("filtered")).collect());
        let mut buffer = parts.concat();
        self.groups.tensor_plain.all_reduce(&mut buffer, Reduction::Sum)?;
        let mut rest = buffer.as_slice();
        for (slot, part) in slots.into_iter().zip(&parts) {
            let (own, after) = rest.split_at(part.len());
            slot.reduced = Some(from_vec(own.to_vec(), [own.len()], &self.device));
            rest = after;
        }
        self.record_exchange(Phase::Reduce, None, started);
        Ok(())
    }

    /// Sums the gradients of a tied token table over both of its holders, as Megatron-LM does, so that the copies stay
    /// equal.
    fn sum_ties(&mut self) -> Result<(), GroupError> {
        let Some((copy, source)) = self.network.tie() else { return Ok(()) };
        let take = |units: &mut BTreeMap<usize, crate::unit::Unit>, key: crate::network::ParameterKey| {
            let slot = &mut units.get_mut(&(key.layer as usize))?.slots[key.slot as usize];
            slot.reduced.take()
        };
        let (of_copy, of_source) = (take(&mut self.units, copy), take(&mut self.units, source));
        let started = self.now_and_waited();
        let put = |units: &mut BTreeMap<usize, crate::unit::Unit>, key: crate::network::ParameterKey, sum| {
            units.get_mut(&(key.layer as usize)).expect(HELD).slots[key.slot as usize].reduced = sum;
        };
        match (of_copy, of_source) {
            (None, None) => return Ok(()),
            // One rank holds both.
            (Some(of_copy), Some(of_source)) => {
                let sum = of_source + of_copy;
                put(&mut self.units, copy, Some(sum.clone()));
                put(&mut self.units, source, Some(sum));
                return Ok(());
            }
            (Some(own), None) if !self.place.holds(source.layer as usize) => {
                let sum = self.sum_with(StageId(0), own)?;
                put(&mut self.units, copy, Some(sum));
            }
            (None, Some(own)) if !self.place.holds(copy.layer as usize) => {
                let last = self.groups.last_stage();
                let sum = self.sum_with(last, own)?;
                put(&mut self.units, source, Some(sum));
            }
            // The copy is the very table.
            (own_copy, own_source) => {
                put(&mut self.units, source, own_source.or(own_copy));
                return Ok(());
            }
        }
        self.record_exchange(Phase::Reduce, None, started);
        Ok(())
    }

    /// Sums a gradient with that of another stage. A sum of two does not depend on their order, so both get the same
    /// bits.
    fn sum_with(&self, StageId(other): StageId, own: Tensor<1>) -> Result<Tensor<1>, GroupError> {
        let mut own = to_vec(own);
        self.groups.pipeline.send(other as usize, TIE, own.clone())?;
        let theirs = self.groups.pipeline.recv(other as usize, TIE)?;
        own.iter_mut().zip(&theirs).for_each(|(sum, value)| *sum += value);
        let length = own.len();
        Ok(from_vec(own, [length], &self.device))
    }

    /// Returns the norm of the gradient of all parameters, each counted once; not finite where any gradient is not.
    fn gradient_norm(&mut self) -> Result<f64, GroupError> {
        let tied = self.network.tie().map(|(copy, _)| copy);
        let first_of_tensor = self.groups.tensor.rank() == 0;
        let counted = self
            .units
            .values()
            .flat_map(|unit| &unit.slots)
            .filter(|slot| (first_of_tensor || !slot.replicated) && (tied != Some(slot.key)));
        let experts = self.groups.ranks_of_experts();
        let (counted, times): (Vec<&Tensor<1>>, Vec<f32>) = counted
            .filter_map(|slot| Some((slot.reduced.as_ref()?, if slot.of_expert { experts } else { 1.0 })))
            .unzip();
        let mut sum = vec![square_sums(&counted).into_iter().zip(times).map(|(square, times)| square * times).sum()];
        // Where nothing was exchanged since backward, stages that are done early wait here for the others.
        let started = self.now_and_waited();
        self.groups.world.all_reduce(&mut sum, Reduction::Sum)?;
        self.record_exchange(Phase::Communication, None, started);
        // Replicas that hold the same pieces count them as often; experts are on fewer of them.
        Ok(f64::from(sum[0] / self.groups.copies_of_pieces()).sqrt())
    }
}
