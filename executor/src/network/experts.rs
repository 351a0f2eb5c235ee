//! Feed-forward parts of several experts, of which every token is sent to a few.
//!
//! A router scores every token for every expert. The best few of a token are its choices; what they make of it is added
//! up, weighted by its scores among them. Tokens are copied to their experts by index, on the rank that has the experts.
//!
//! Sources: Jiang et al., "Mixtral of Experts", arXiv:2401.04088, section 2.1, and transformers' `MixtralForCausalLM`,
//! whose softmax is over all experts before the best are chosen; Lepikhin et al., "GShard", arXiv:2006.16668, section
//! 2.2 and algorithm 1, for capacity; section 3.2 there for what ranks exchange.

use super::operators::{integers, picked_rows, plain, single, to_vec};
use super::parts::{Cut, DEVIATION, Linear, Slots, silu_gated};
use super::peers::{Peers, from_host, to_host};
use super::{Initial, Pass, Weights, with_gradient};
use crate::kernels;
use crate::process_group::{GroupError, ProcessGroup};
use burn::tensor::activation::softmax;
use burn::tensor::{FloatDType, Int, Tensor};
use trainyard_models::Experts;
use trainyard_units::Invalid;

const NORMAL: Initial = Initial::Normal(DEVIATION);

/// The products of one expert.
#[derive(Clone, Copy, Debug)]
pub(super) enum Expert {
    /// down · (silu(gate · x) · (up · x))
    Gated { gate: Linear, up: Linear, down: Linear },
    /// The positive part between two products.
    Relu { expand: Linear, contract: Linear },
}

impl Expert {
    /// (own tokens, hidden) → the same, a partial sum over the ranks of a tensor group.
    fn forward(self, weights: &Weights, rows: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Gated { gate, up, down } => {
                let gated = silu_gated(gate.forward(weights, rows.clone()), up.forward(weights, rows));
                down.forward(weights, gated)
            }
            Self::Relu { expand, contract } => contract.forward(weights, kernels::relu(expand.forward(weights, rows))),
        }
    }
}

/// A feed-forward part of experts.
#[derive(Clone, Debug)]
pub(super) struct ExpertPart {
    router: Linear,
    experts: Vec<Expert>,
    per_token: usize,
    /// Places of each expert for the tokens of a sample, relative to what they would need if experts were equally
    /// popular.
    capacity_factor: Option<f64>,
}

impl ExpertPart {
    /// Declares a router and the products of each expert, by `declare`.
    pub(super) fn new(
        slots: &mut Slots,
        router: &str,
        (hidden, experts): (usize, Experts),
        declare: impl Fn(&mut Slots, usize) -> Expert,
    ) -> Self {
        let count = experts.count as usize;
        let router = slots.product(router, hidden, count, NORMAL, Cut::Whole);
        let declared = (0..count).map(|expert| slots.of_expert((expert, count), |slots| declare(slots, expert)));
        Self {
            router,
            experts: declared.collect(),
            per_token: experts.per_token as usize,
            capacity_factor: experts.capacity_factor,
        }
    }

    /// (own tokens, hidden), normalised → the same.
    pub(super) fn forward(&self, pass: &Pass, weights: &Weights, rows: Tensor<2>, samples: usize) -> Tensor<2> {
        let scores = pass.tensor.enter(self.router.forward(weights, rows.clone()), samples);
        let rows = pass.tensor.enter(rows, samples);
        let [tokens, hidden] = rows.dims();
        let format = FloatDType::from(rows.dtype());
        let shares = softmax(single(scores), 1);
        let routes = self.routes(pass, &to_vec(plain(shares.clone())), samples);
        let chosen = shares.gather(1, integers::<2>(routes.choices.clone(), [tokens, self.per_token], &pass.device));
        let chosen = chosen.clone() / chosen.sum_dim(1);
        let copies = picked_rows(rows, indices(pass, routes.tokens(self.per_token)));
        let found = self.on_experts(pass, weights, copies, &routes.counts);
        // Behind what experts found is a row of zeros, for choices without a place.
        let found = picked_rows(found, indices(pass, routes.places(tokens * self.per_token)));
        let weighted = found.reshape([tokens, self.per_token, hidden]) * chosen.cast(format).unsqueeze_dim::<3>(2);
        pass.tensor.leave(weighted.sum_dim(1).reshape([tokens, hidden]), samples)
    }

    /// Sends copies of tokens, sorted by expert, of which each has so many, to where experts are, and brings back what
    /// these make of them, with a row of zeros behind it.
    fn on_experts(&self, pass: &Pass, weights: &Weights, copies: Tensor<2>, counts: &[usize]) -> Tensor<2> {
        let group = &pass.experts;
        if group.size() == 1 {
            return followed_by_zeros(each(weights, &copies, &self.experts, counts));
        }
        let own = self.experts.len() / group.size();
        let experts = &self.experts[group.rank() * own..][..own];
        let incoming = group.counts(counts);
        let sent: Vec<usize> = counts.chunks(own).map(|counts| counts.iter().sum()).collect();
        let received: Vec<usize> = incoming.iter().map(|counts| counts.iter().sum()).collect();
        let here = group.exchange(copies, &sent, &received);
        let (order, back) = by_expert(&incoming);
        if order.is_empty() {
            // Nobody sent anything: the row of zeros goes back to nobody.
            return group.exchange(here, &received, &sent);
        }
        let counts: Vec<usize> = (0..own).map(|expert| incoming.iter().map(|counts| counts[expert]).sum()).collect();
        let found = each(weights, &picked_rows(here, indices(pass, order)), experts, &counts);
        group.exchange(picked_rows(found, indices(pass, back)), &received, &sent)
    }

    /// Chooses experts for all tokens of some samples, by their shares, (tokens, experts).
    fn routes(&self, pass: &Pass, shares: &[f32], samples: usize) -> Routes {
        let count = self.experts.len();
        let choices: Vec<i32> = shares.chunks(count).flat_map(|shares| best(shares, self.per_token)).collect();
        let kept = match self.capacity_factor {
            Some(factor) => {
                // A sample's capacity is that of all its tokens, wherever they are.
                let all = pass.context.all_tokens(&choices, self.per_token);
                let capacity = capacity(factor, all.len() / samples, count);
                let kept: Vec<bool> = all
                    .chunks(all.len() / samples)
                    .flat_map(|sample| kept(sample, self.per_token, capacity, count))
                    .collect();
                pass.context.own_tokens(&kept, self.per_token)
            }
            None => vec![true; choices.len()],
        };
        Routes::new(choices, &kept, count)
    }
}

/// Hands each of some experts its part of rows that are sorted by expert.
fn each(weights: &Weights, rows: &Tensor<2>, experts: &[Expert], counts: &[usize]) -> Tensor<2> {
    let mut start = 0;
    let mut found = Vec::new();
    for (expert, count) in experts.iter().zip(counts).filter(|(_, count)| **count > 0) {
        found.push(expert.forward(weights, rows.clone().narrow(0, start, *count)));
        start += count;
    }
    Tensor::cat(found, 0)
}

fn indices(pass: &Pass, values: Vec<i32>) -> Tensor<1, Int> {
    let length = values.len();
    integers(values, [length], &pass.device.clone().inner())
}

fn followed_by_zeros(rows: Tensor<2>) -> Tensor<2> {
    let zeros = plain(rows.clone().narrow(0, 0, 1)).zeros_like();
    let zeros = if rows.is_autodiff() { Tensor::from_inner(zeros) } else { zeros };
    Tensor::cat(vec![rows, zeros], 0)
}

/// Returns the experts with the largest shares, the largest first; of equal ones the first.
fn best(shares: &[f32], count: usize) -> Vec<i32> {
    let mut experts: Vec<usize> = (0..shares.len()).collect();
    experts.sort_by(|a, b| shares[*b].total_cmp(&shares[*a]));
    experts[..count].iter().map(|expert| *expert as i32).collect()
}

/// Returns the places of each of `experts` for so many choices of the tokens of a sample.
fn capacity(factor: f64, choices: usize, experts: usize) -> usize {
    (choices as f64 * factor / experts as f64).ceil() as usize
}

/// Tells which choices of a sample's tokens, (tokens, choices of a token), get one of the places of their expert: first
/// choices before second ones, tokens in their order.
fn kept(choices: &[i32], per_token: usize, capacity: usize, experts: usize) -> Vec<bool> {
    let mut taken = vec![0; experts];
    let mut kept = vec![false; choices.len()];
    for rank in 0..per_token {
        for at in (rank..choices.len()).step_by(per_token) {
            let taken = &mut taken[choices[at] as usize];
            kept[at] = *taken < capacity;
            *taken += usize::from(kept[at]);
        }
    }
    kept
}

/// Which expert every choice of every token is sent to.
#[derive(Clone, Debug, PartialEq)]
struct Routes {
    /// The expert of each choice, (tokens, choices of a token).
    choices: Vec<i32>,
    /// The choices that are sent, sorted by expert.
    sent: Vec<usize>,
    /// How many are sent to each expert.
    counts: Vec<usize>,
}

impl Routes {
    fn new(choices: Vec<i32>, kept: &[bool], experts: usize) -> Self {
        let mut sent: Vec<usize> = (0..choices.len()).filter(|choice| kept[*choice]).collect();
        sent.sort_by_key(|choice| choices[*choice]);
        let mut counts = vec![0; experts];
        sent.iter().for_each(|choice| counts[choices[*choice] as usize] += 1);
        Self { choices, sent, counts }
    }

    /// Returns the token of everything that is sent.
    fn tokens(&self, per_token: usize) -> Vec<i32> {
        self.sent.iter().map(|choice| (choice / per_token) as i32).collect()
    }

    /// Returns where the result of each of so many choices is among those of all that is sent; behind them for choices
    /// that are not sent.
    fn places(&self, choices: usize) -> Vec<i32> {
        let mut places = vec![self.sent.len() as i32; choices];
        self.sent.iter().enumerate().for_each(|(place, choice)| places[*choice] = place as i32);
        places
    }
}

/// Returns the order that sorts rows by expert which lie sorted by source and then by expert, so many of each, and the
/// order that puts them back.
fn by_expert(incoming: &[Vec<usize>]) -> (Vec<i32>, Vec<i32>) {
    let mut rows: Vec<(usize, i32)> = Vec::new();
    for (expert, count) in incoming.iter().flat_map(|counts| counts.iter().enumerate()) {
        let start = rows.len() as i32;
        rows.extend((start..).take(*count).map(|row| (expert, row)));
    }
    rows.sort_by_key(|(expert, _)| *expert);
    let order: Vec<i32> = rows.into_iter().map(|(_, row)| row).collect();
    let mut back = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, row)| back[*row as usize] = place as i32);
    (order, back)
}

/// The ranks that share the experts of a layer: each has as many, in their order.
#[derive(Clone)]
pub(crate) struct ExpertGroup(Peers);

impl ExpertGroup {
    pub(crate) fn new(group: ProcessGroup) -> Self {
        Self(Peers::new(group))
    }

    pub(crate) fn size(&self) -> usize {
        self.0.size()
    }

    pub(crate) fn rank(&self) -> usize {
        self.0.rank()
    }

    /// Returns an error if an exchange failed since the group was made; results after it mean nothing.
    pub(crate) fn check(&self) -> Result<(), GroupError> {
        self.0.check()
    }

    /// Returns how many rows each rank sends to each expert of this one, from how many this one sends to all.
    fn counts(&self, counts: &[usize]) -> Vec<Vec<usize>> {
        let own = counts.len() / self.size();
        let parts = counts.chunks(own).map(|counts| counts.iter().map(|count| *count as f32).collect()).collect();
        match self.0.exchange(|group| group.all_to_all(parts)) {
            Some(parts) => {
                parts.into_iter().map(|part| part.into_iter().map(|count| count as usize).collect()).collect()
            }
            None => vec![vec![0; own]; self.size()],
        }
    }

    /// Sends so many rows to each rank, one after another, and returns those that come, first rank first, with a row of
    /// zeros behind them. Rows behind those that are sent stay.
    fn exchange(&self, rows: Tensor<2>, sent: &[usize], received: &[usize]) -> Tensor<2> {
        let height = rows.dims()[0];
        let (forth, back) = (self.clone(), self.clone());
        let from = received.to_vec();
        let forward = |rows| forth.moved(rows, sent, received.iter().sum::<usize>() + 1);
        with_gradient(rows, forward, move |gradient| back.moved(gradient, &from, height))
    }

    /// Sends so many rows to each rank, and returns what comes as so many rows, the last ones zero.
    fn moved(&self, rows: Tensor<2>, sent: &[usize], height: usize) -> Tensor<2> {
        let ([_, width], device) = (rows.dims(), rows.device());
        let (values, format) = to_host(rows);
        let mut rest = values.as_slice();
        let part = |count: &usize| {
            let (own, after) = rest.split_at(count * width);
            rest = after;
            own.to_vec()
        };
        let parts = sent.iter().map(part).collect();
        let mut values = self.0.exchange(|group| group.all_to_all(parts)).unwrap_or_default().concat();
        values.resize(height * width, 0.0);
        from_host(values, [height, width], format, &device)
    }
}

/// Returns an error for a model with experts that the executor has not.
pub(super) fn check(experts: Experts) -> Result<(), Invalid> {
    match experts.group {
        None => Ok(()),
        Some(group) => Err(Invalid::breaks("model.expert_group", group, "the executor copies tokens by index")
            .with_hint("leave expert_group out of the model")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_shares_are_chosen_and_of_equal_ones_the_first() {
        assert_eq!(best(&[0.1, 0.4, 0.2, 0.3], 2), [1, 3]);
        assert_eq!(best(&[0.25; 4], 3), [0, 1, 2]);
    }

    #[test]
    fn first_choices_get_their_places_before_second_ones() {
        // Three tokens; expert 0 is everybody's first or second choice and has two places.
        let choices = [1, 0, 0, 1, 0, 2];
        assert_eq!(kept(&choices, 2, 2, 3), [true, false, true, true, true, true]);
        assert_eq!(capacity(1.0, 6, 3), 2);
        assert_eq!(capacity(1.25, 6, 4), 2);
        let routes = Routes::new(choices.to_vec(), &kept(&choices, 2, 2, 3), 3);
        assert_eq!((routes.sent.clone(), routes.counts.clone()), (vec![2, 4, 0, 3, 5], vec![2, 2, 1]));
        assert_eq!(routes.tokens(2), [1, 2, 0, 1, 2]);
        assert_eq!(routes.places(6), [2, 5, 0, 3, 1, 4]);
    }

    #[test]
    fn rows_of_several_sources_are_sorted_by_expert_and_put_back() {
        let (order, back) = by_expert(&[vec![2, 1], vec![0, 2], vec![1, 0]]);
        assert_eq!(order, [0, 1, 5, 2, 3, 4]);
        assert!(order.iter().enumerate().all(|(place, row)| back[*row as usize] == place as i32));
    }
}
