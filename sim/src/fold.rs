//! Rank folding: ranks that must behave alike are simulated once.
//!
//! Ranks, communications and links form a graph: a rank takes part in communications, a communication uses links.
//! Classes of vertices are refined until every two members of a class have the same numbers of neighbours of each class
//! (an
//! *equitable* partition). The engine is deterministic and knows of a rank only its work, its communications and how
//! full their links are, so by induction over events members of a class do the same at the same time, and one of them
//! stands for all. Whatever breaks a symmetry (ranks that share a network card with others of another kind, machines of
//! two kinds, a slow device) splits just the classes that it must.
//!
//! # Source
//!
//! Colour refinement: Weisfeiler and Leman 1968; Berkholz, Bonsma and Grohe, arXiv:1509.08251. Here colours are 64-bit
//! hashes: c classes collide with a chance of about c²/2⁶⁵, one in thirty million for a million classes.

use crate::cost::{Operation, Phase};
use crate::network::LinkId;
use std::collections::BTreeMap;
use trainyard_plan::Rank;

/// A communication of a group of ranks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Communication {
    /// The work of the step that it does; communications of one work have the same index.
    pub(crate) work: u32,
    /// Who takes part.
    pub(crate) members: Vec<Rank>,
    /// Its load on the links.
    pub(crate) operation: Operation,
}

/// The ranks, communications and links that stand for others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fold {
    /// For each rank, the actor that stands for it.
    pub(crate) actor_of: Vec<u32>,
    /// For each actor, its first rank.
    pub(crate) ranks: Vec<Rank>,
    /// Communications that stand for all of their class, with actors instead of ranks as members.
    pub(crate) communications: Vec<Folded>,
    /// Capacities of the links that stand for all of their class.
    pub(crate) links: Vec<f64>,
}

/// A communication of a fold.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Folded {
    pub(crate) work: u32,
    /// Actors that take part, ascending.
    pub(crate) actors: Vec<u32>,
    /// Uses are by the links of the fold, with the flows of all communications of the class on one of them.
    pub(crate) operation: Operation,
}

/// Mixes a value into a hash (the finalizer of SplitMix64; Steele, Lea and Flood 2014).
fn mix(hash: u64, value: u64) -> u64 {
    let mut z = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Every rank by itself.
pub(crate) fn unfolded(ranks: u32, communications: Vec<Communication>, capacities: &[f64]) -> Fold {
    Fold {
        actor_of: (0..ranks).collect(),
        ranks: (0..ranks).map(Rank).collect(),
        communications: communications
            .into_iter()
            .map(|communication| {
                let mut actors: Vec<u32> = communication.members.iter().map(|rank| rank.0).collect();
                actors.sort_unstable();
                Folded { work: communication.work, actors, operation: communication.operation }
            })
            .collect(),
        links: capacities.to_vec(),
    }
}

/// The coarsest equitable partition that keeps ranks of different `kinds` apart.
pub(crate) fn folded(kinds: &[u64], communications: &[Communication], capacities: &[f64]) -> Fold {
    let mut colours = Colours::new(kinds, communications, capacities);
    while colours.refine(communications) {}
    colours.quotient(communications, capacities)
}

struct Colours {
    ranks: Vec<u64>,
    communications: Vec<u64>,
    links: Vec<u64>,
    /// Colours of each kind of vertex.
    counts: [usize; 3],
}

impl Colours {
    fn new(kinds: &[u64], communications: &[Communication], capacities: &[f64]) -> Self {
        let ranks: Vec<u64> = kinds.iter().map(|kind| mix(1, *kind)).collect();
        let of_communications = communications
            .iter()
            .map(|communication| {
                communication.operation.phases.iter().fold(mix(2, u64::from(communication.work)), |hash, phase| {
                    let Phase { latency, volume, limit, .. } = phase;
                    mix(mix(mix(hash, latency.0.to_bits()), volume.to_bits()), limit.to_bits())
                })
            })
            .collect();
        let links = capacities.iter().map(|capacity| mix(3, capacity.to_bits())).collect();
        let mut colours = Self { ranks, communications: of_communications, links, counts: [0; 3] };
        colours.counts = colours.count();
        colours
    }

    fn count(&self) -> [usize; 3] {
        [&self.ranks, &self.communications, &self.links].map(|colours| {
            let mut sorted = colours.clone();
            sorted.sort_unstable();
            sorted.dedup();
            sorted.len()
        })
    }

    /// One round: every vertex takes on the colours of its neighbours. Whether that made a difference.
    fn refine(&mut self, communications: &[Communication]) -> bool {
        let mut next = self.communications.clone();
        for (colour, communication) in next.iter_mut().zip(communications) {
            let members: u64 = communication
                .members
                .iter()
                .enumerate()
                .map(|(place, rank)| mix(self.ranks[rank.0 as usize], role(communication, place)))
                .fold(0, u64::wrapping_add);
            let links = communication
                .uses()
                .map(|(phase, link, flows)| mix(mix(self.links[link.0 as usize], phase), flows.to_bits()))
                .fold(0, u64::wrapping_add);
            *colour = mix(mix(*colour, members), links);
        }
        let (mut at_ranks, mut at_links) = (vec![0u64; self.ranks.len()], vec![0u64; self.links.len()]);
        for (colour, communication) in next.iter().zip(communications) {
            for (place, rank) in communication.members.iter().enumerate() {
                let at = &mut at_ranks[rank.0 as usize];
                *at = at.wrapping_add(mix(*colour, role(communication, place)));
            }
            for (phase, link, flows) in communication.uses() {
                let at = &mut at_links[link.0 as usize];
                *at = at.wrapping_add(mix(mix(*colour, phase), flows.to_bits()));
            }
        }
        self.communications = next;
        for (colours, at) in [(&mut self.ranks, at_ranks), (&mut self.links, at_links)] {
            for (colour, neighbours) in colours.iter_mut().zip(at) {
                *colour = mix(*colour, neighbours);
            }
        }
        let counts = self.count();
        let finer = counts != self.counts;
        self.counts = counts;
        finer
    }

    fn quotient(&self, communications: &[Communication], capacities: &[f64]) -> Fold {
        let (actor_of, first_ranks) = classes(&self.ranks);
        let (class_of, first) = classes(&self.communications);
        let (link_of, first_links) = classes(&self.links);
        let flows = Self::flows(communications, &class_of, &link_of, &first_links);
        let folded = first
            .iter()
            .enumerate()
            .map(|(class, index)| {
                let communication = &communications[*index as usize];
                let mut actors: Vec<u32> = communication.members.iter().map(|rank| actor_of[rank.0 as usize]).collect();
                actors.sort_unstable();
                actors.dedup();
                let phases = communication.operation.phases.iter().enumerate();
                let phases = phases.map(|(number, phase)| Phase {
                    uses: flows.get(&(class as u32, number as u64)).cloned().unwrap_or_default(),
                    ..*phase
                });
                Folded { work: communication.work, actors, operation: Operation { phases: phases.collect() } }
            })
            .collect();
        Fold {
            actor_of,
            ranks: first_ranks.into_iter().map(Rank).collect(),
            communications: folded,
            links: first_links.iter().map(|link| capacities[*link as usize]).collect(),
        }
    }

    /// Per class of communications and phase, the flows of all of the class on one link of each class of links.
    fn flows(
        communications: &[Communication],
        class_of: &[u32],
        link_of: &[u32],
        first_links: &[u32],
    ) -> BTreeMap<(u32, u64), Vec<(LinkId, f64)>> {
        let mut sums: BTreeMap<(u32, u64, u32), f64> = BTreeMap::new();
        for (communication, class) in communications.iter().zip(class_of) {
            for (phase, link, flows) in communication.uses() {
                let link_class = link_of[link.0 as usize];
                if first_links[link_class as usize] == link.0 {
                    *sums.entry((*class, phase, link_class)).or_default() += flows;
                }
            }
        }
        let mut flows: BTreeMap<(u32, u64), Vec<(LinkId, f64)>> = BTreeMap::new();
        for ((class, phase, link), sum) in sums {
            flows.entry((class, phase)).or_default().push((LinkId(link), sum));
        }
        flows
    }
}

impl Communication {
    /// All its uses of links: phase, link, flows.
    fn uses(&self) -> impl Iterator<Item = (u64, LinkId, f64)> {
        let phases = (0u64..).zip(&self.operation.phases);
        phases.flat_map(|(number, phase)| phase.uses.iter().map(move |(link, flows)| (number, *link, *flows)))
    }
}

/// Sender and receiver of a pair are different; members of larger groups are not.
fn role(communication: &Communication, place: usize) -> u64 {
    if communication.members.len() == 2 { place as u64 } else { 0 }
}

/// Classes in the order of their first members: each member's class, and each class's first member.
fn classes(colours: &[u64]) -> (Vec<u32>, Vec<u32>) {
    let mut known: BTreeMap<u64, u32> = BTreeMap::new();
    let mut first = Vec::new();
    let class_of = (0..)
        .zip(colours)
        .map(|(index, colour)| {
            *known.entry(*colour).or_insert_with(|| {
                first.push(index);
                first.len() as u32 - 1
            })
        })
        .collect();
    (class_of, first)
}
