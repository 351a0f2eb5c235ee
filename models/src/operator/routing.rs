//! Operators that bring tokens to experts and back.

use super::{Gemm, Pass, Storage, elements};

/// What is computed around the experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Routing {
    /// Scores every token for every expert and chooses: (tokens, width) · (width, experts), softmax, the best few.
    Router {
        /// Where tokens go.
        places: Places,
        /// Experts of a token, where they take all tokens that are sent to them; nothing where they have a capacity.
        per_token: Option<u64>,
        /// `true` if a bias is added to the scores.
        bias: bool,
    },
    /// Copies tokens into the places of the experts that they are sent to.
    Dispatch(Places),
    /// Sums what experts made of each token, weighted by its scores.
    Combine(Places),
}

/// Tokens of a rank and the places that experts hold for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Places {
    pub tokens: u64,
    /// Places over all experts: tokens × experts of a token × capacity factor.
    pub places: u64,
    /// Features of a token.
    pub width: u64,
    /// Experts to choose from, on all ranks.
    pub experts: u64,
    /// Ranks that the experts are divided among.
    pub ranks: u64,
    /// Tokens that are routed together by products with masks of (tokens of a group, places of a group), as in GShard
    /// (Lepikhin et al., arXiv:2006.16668, algorithm 1); otherwise tokens are copied by index.
    pub group: Option<u64>,
}

impl Places {
    pub(super) fn for_samples(self, samples: u64) -> Self {
        Self { tokens: self.tokens * samples, places: self.places * samples, ..self }
    }

    pub(super) fn share_tokens(self, parts: u64) -> Self {
        Self { tokens: self.tokens.div_ceil(parts), places: self.places.div_ceil(parts), ..self }
    }

    pub(super) fn share_experts(self, ranks: u64) -> Self {
        Self { ranks: self.ranks * ranks, ..self }
    }

    /// Returns the tokens that are read and written to sort by expert what arrives from other ranks, or to put it back in
    /// the order of ranks before it returns to them: tokens come rank by rank, and each of several experts takes its own of
    /// all of them.
    ///
    /// # Source
    ///
    /// megatron-core 0.16, `transformer/moe/token_dispatcher.py`, `MoEAlltoAllTokenDispatcher`: `dispatch_postprocess` and
    /// `combine_preprocess` where a rank has more than one expert.
    fn sorted(self) -> u64 {
        let sorts = self.group.is_none() && self.ranks > 1 && self.experts > self.ranks;
        if sorts { 2 * self.places } else { 0 }
    }

    /// Groups, and tokens and places of each. A rank with fewer tokens than a group has a part of one, whose tokens may
    /// go to any place of the whole group.
    fn groups(self, group: u64) -> (u64, u64, u64) {
        let count = self.tokens.div_ceil(group);
        let places =
            if self.tokens < group { self.places * group / self.tokens.max(1) } else { self.places.div_ceil(count) };
        (count, self.tokens.min(group), places)
    }

    /// Returns the elements of the masks.
    fn masks(self) -> u64 {
        self.group.map_or(0, |group| {
            let (groups, tokens, places) = self.groups(group);
            groups * tokens * places
        })
    }
}

impl Routing {
    /// Returns how many times the mean the fullest of `ranks` ranks has to do that share the experts evenly, where the
    /// router is new and nothing balances it: tokens of a layer are then so alike that all go to the same few experts,
    /// which any few may be. 1 for what is no router, and where experts have a capacity.
    pub fn fullest_share(self, ranks: u64) -> f64 {
        match self {
            Self::Router { places, per_token: Some(chosen), .. } if ranks > 1 => {
                fullest_draw(places.experts, chosen, ranks) * ranks as f64 / chosen as f64
            }
            _ => 1.0,
        }
    }

    pub(super) fn places_mut(&mut self) -> &mut Places {
        match self {
            Self::Router { places, .. } | Self::Dispatch(places) | Self::Combine(places) => places,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Router { .. } => "router",
            Self::Dispatch(_) => "dispatch to experts",
            Self::Combine(_) => "combination of experts",
        }
    }

    pub(super) fn parameters(self) -> u64 {
        match self {
            Self::Router { places, bias, .. } => (places.width + u64::from(bias)) * places.experts,
            Self::Dispatch(_) | Self::Combine(_) => 0,
        }
    }

    pub(super) fn parameter_tensors(self) -> u32 {
        match self {
            Self::Router { bias, .. } => 1 + u32::from(bias),
            Self::Dispatch(_) | Self::Combine(_) => 0,
        }
    }

    pub(super) fn gemms(self) -> Vec<Gemm> {
        match self {
            Self::Router { places, .. } => {
                vec![Gemm { batch: 1, m: places.tokens, n: places.experts, k: places.width }]
            }
            Self::Dispatch(places) => masked(places, |tokens, slots| (slots, tokens)),
            Self::Combine(places) => masked(places, |tokens, slots| (tokens, slots)),
        }
    }

    pub(super) fn traffic(self, pass: Pass) -> Storage {
        match self {
            // Softmax and choice over the scores, in single precision; masks are written forward and read backward.
            Self::Router { places, .. } => {
                let scores = places.tokens * places.experts;
                let passes = if pass == Pass::Forward { 4 } else { 3 };
                Storage { elements: places.masks(), single: scores * passes, masks: places.masks() }
            }
            Self::Dispatch(Places { group: Some(_), .. }) | Self::Combine(Places { group: Some(_), .. }) => {
                Storage::default()
            }
            Self::Dispatch(places) => elements((2 * places.places + places.sorted()) * places.width),
            Self::Combine(places) => elements((places.places + places.tokens + places.sorted()) * places.width),
        }
    }

    /// Returns the kernels that are launched: with masks, softmax, choice, positions of tokens among the places and
    /// normalised weights besides products; by index, what counts tokens, chooses, spreads them evenly by a loss and sorts them.
    ///
    /// # Source
    ///
    /// megatron-core 0.16, counted in `transformer/moe/router.py`, `moe_utils.py` and `token_dispatcher.py` with fused
    /// permutations: operators on tensors between the input of `TopKRouter` and that of the experts.
    pub(super) fn kernels(self, pass: Pass) -> u32 {
        let is_forward = pass == Pass::Forward;
        let products = self.gemms().len() as u32 * if is_forward { 1 } else { 2 };
        let [forward, backward] = match self {
            Self::Router { places: Places { group: Some(_), .. }, .. } => [6, 6],
            Self::Dispatch(Places { group: Some(_), .. }) | Self::Combine(Places { group: Some(_), .. }) => [0, 0],
            Self::Router { .. } => [24, 12],
            Self::Dispatch(_) => [18, 6],
            Self::Combine(_) => [4, 4],
        };
        products + if is_forward { forward } else { backward }
    }

    pub(super) fn stored(self) -> Storage {
        match self {
            Self::Router { places, .. } => Storage {
                elements: places.tokens * places.width + places.masks(),
                single: places.tokens * places.experts,
                masks: places.masks(),
            },
            // The tokens are kept by the router, the copies by the experts' products.
            Self::Dispatch(_) => Storage::default(),
            Self::Combine(Places { places, width, .. }) => elements(places * width),
        }
    }
}

/// Returns the products with masks, if there are groups: (m, k) from tokens and places of a group.
fn masked(places: Places, shape: impl Fn(u64, u64) -> (u64, u64)) -> Vec<Gemm> {
    let product = |group| {
        let (batch, tokens, slots) = places.groups(group);
        let (m, k) = shape(tokens, slots);
        Gemm { batch, m, n: places.width, k }
    };
    places.group.map(product).into_iter().collect()
}

/// Returns the expected largest number from one of `parts` equal parts of `all` when `chosen` of `all` are drawn at random:
/// the sum over m of the probability that some part has more than m.
fn fullest_draw(all: u64, chosen: u64, parts: u64) -> f64 {
    let of_each = all.div_ceil(parts);
    let draws = |most: u64| {
        // The coefficient of x^chosen in (sum over j <= most of C(of_each, j) x^j)^parts counts draws.
        let part: Vec<f64> = (0..=most.min(of_each)).map(|drawn| binomial(of_each, drawn)).collect();
        let mut ways = vec![0.0; chosen as usize + 1];
        ways[0] = 1.0;
        for _ in 0..parts {
            let of = |total: usize| part.iter().zip(ways[..=total].iter().rev()).map(|(a, b)| a * b).sum();
            ways = (0..ways.len()).map(of).collect();
        }
        ways[chosen as usize]
    };
    let every = draws(chosen);
    (0..chosen).map(|most| 1.0 - draws(most) / every).sum()
}

fn binomial(all: u64, chosen: u64) -> f64 {
    (0..chosen).map(|taken| (all - taken) as f64 / (taken + 1) as f64).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_rank_is_that_of_all_draws() {
        for (experts, chosen, ranks) in [(4, 2, 2), (8, 2, 4), (8, 3, 2), (6, 1, 3), (8, 8, 4), (9, 4, 3)] {
            let of_each = experts / ranks;
            let draws = (0..1_u32 << experts).filter(|draw| u64::from(draw.count_ones()) == chosen);
            let fullest =
                |draw: u32| (0..ranks).map(|rank| (draw >> (rank * of_each) & ((1 << of_each) - 1)).count_ones()).max();
            let all: Vec<f64> = draws.map(|draw| fullest(draw).unwrap_or_default().into()).collect();
            let slow = all.iter().sum::<f64>() / all.len() as f64;
            assert!((fullest_draw(experts, chosen, ranks) - slow).abs() < 1e-9, "{chosen} of {experts}");
        }
    }

    #[test]
    fn a_new_router_is_uneven_and_a_capacity_makes_it_even() {
        let places = Places { tokens: 64, places: 128, width: 16, experts: 4, ranks: 1, group: None };
        let router = |per_token| Routing::Router { places, per_token, bias: false };
        // Two of four experts lie on one of two ranks in two of six draws.
        assert!((router(Some(2)).fullest_share(2) - 4.0 / 3.0).abs() < 1e-12);
        assert!((router(Some(2)).fullest_share(1) - 1.0).abs() < 1e-12);
        assert!((router(None).fullest_share(2) - 1.0).abs() < 1e-12);
    }
    use trainyard_units::Flops;

    #[test]
    fn products_with_masks_follow_the_published_formula() {
        // Alpa's count of dispatch and combine: 2 · tokens · hidden · 2 · group each, at two places for each token.
        let places = Places { tokens: 8192, places: 2 * 8192, width: 768, experts: 8, ranks: 1, group: Some(2048) };
        let formula = Flops(2.0 * 8192.0 * 768.0 * 2.0 * 2048.0);
        for routing in [Routing::Dispatch(places), Routing::Combine(places)] {
            assert_eq!(routing.gemms().into_iter().map(Gemm::flops).sum::<Flops>(), formula);
        }
    }

    #[test]
    fn a_part_of_a_group_costs_its_part() {
        // Half of a group's tokens are multiplied with masks over all its places: half of the work.
        let flops = |tokens| {
            let places = Places { tokens, places: 2 * tokens, width: 768, experts: 8, ranks: 1, group: Some(2048) };
            Routing::Dispatch(places).gemms().into_iter().map(Gemm::flops).sum::<Flops>()
        };
        assert_eq!(flops(2048), flops(1024) * 2.0);
    }

    #[test]
    fn copying_by_index_has_no_products() {
        let places = Places { tokens: 64, places: 128, width: 16, experts: 8, ranks: 1, group: None };
        assert!(Routing::Dispatch(places).gemms().is_empty());
        assert_eq!(Routing::Dispatch(places).traffic(Pass::Forward), elements(2 * 128 * 16));
    }

    #[test]
    fn several_experts_of_a_rank_sort_what_other_ranks_send() {
        let places = Places { tokens: 64, places: 128, width: 16, experts: 8, ranks: 1, group: None };
        let more = |ranks| {
            let of = |places| Routing::Dispatch(places).traffic(Pass::Forward).elements;
            let back = |places| Routing::Combine(places).traffic(Pass::Backward).elements;
            let shared = places.share_experts(ranks);
            [of(shared) - of(places), back(shared) - back(places)]
        };
        assert_eq!([more(1), more(4), more(8)], [[0, 0], [2 * 128 * 16; 2], [0, 0]]);
    }
}
