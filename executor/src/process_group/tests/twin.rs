//! Slow and obvious collectives, and what a rank calls to be held against them.

use super::{GroupError, ProcessGroup, Reduction, Tag, Wire};
use std::collections::BTreeSet;

fn value(rank: usize, i: usize) -> f32 {
    ((i * 7 + rank * 13) % 29) as f32 * 0.37 - 3.0
}

fn brought(rank: usize, length: usize) -> Vec<f32> {
    (0..length).map(|i| value(rank, i)).collect()
}

/// A case of a property: ranks, what they bring, and how they are grouped.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Ranks of each process.
    pub(crate) threads: usize,
    /// Per rank.
    pub(crate) colours: Vec<usize>,
    /// Of buffers that must be equally long, and per rank of those that need not.
    pub(crate) length: usize,
    pub(crate) lengths: Vec<usize>,
    pub(crate) reduction: Reduction,
    pub(crate) wire: Wire,
}

/// The results of all collectives on one rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Got {
    pub(crate) reduced: Vec<f32>,
    pub(crate) unchanged: Vec<f32>,
    pub(crate) part: Vec<f32>,
    pub(crate) gathered: Vec<f32>,
    pub(crate) broadcast: Vec<f32>,
    pub(crate) parts: Vec<Vec<f32>>,
    pub(crate) bytes: Option<Vec<Vec<u8>>>,
    pub(crate) world_sum: Vec<f32>,
}

fn part_for(from: usize, to: usize, lengths: &[usize]) -> Vec<f32> {
    brought(from * 5 + to, lengths[from] / (to + 1))
}

/// All collectives, as a rank calls them.
pub(crate) fn collectives(case: &Case, world: &ProcessGroup) -> Result<Got, GroupError> {
    let own = world.rank();
    let group = world.split(case.colours[own])?;
    let mut reduced = brought(own, case.length);
    group.all_reduce_as(&mut reduced, case.reduction, case.wire)?;
    let mut unchanged = brought(own, case.length);
    let part = group.reduce_scatter_as(&mut unchanged, case.reduction, case.wire)?;
    let gathered = group.all_gather_as(&brought(own, case.lengths[own]), case.wire)?;
    let mut broadcast = brought(own, case.lengths[own]);
    group.broadcast(&mut broadcast, group.size() - 1)?;
    let parts = group.world_ranks().iter().map(|to| part_for(own, *to, &case.lengths)).collect();
    let parts = group.all_to_all(parts)?;
    let bytes = group.gather_bytes(vec![own as u8; case.lengths[own]], 0)?;
    group.barrier()?;
    let mut world_sum = vec![own as f32];
    world.all_reduce(&mut world_sum, Reduction::Sum)?;
    Ok(Got { reduced, unchanged, part, gathered, broadcast, parts, bytes, world_sum })
}

fn arrives(value: f32, wire: Wire) -> f32 {
    match wire {
        Wire::F32 => value,
        Wire::F16 => half::f16::from_f32(value).to_f32(),
        Wire::Bf16 => half::bf16::from_f32(value).to_f32(),
    }
}

/// One element of a reduction, in the documented order.
fn element(case: &Case, members: &[usize], i: usize) -> f32 {
    if members.len() == 1 {
        return value(members[0], i);
    }
    let processes: BTreeSet<usize> = members.iter().map(|rank| rank / case.threads).collect();
    let of_process = |process: usize| {
        let ranks = members.iter().filter(|rank| *rank / case.threads == process);
        let sum = ranks.map(|rank| arrives(value(*rank, i), case.wire)).reduce(|a, b| a + b);
        let sum = sum.expect("the process has a rank");
        if processes.len() > 1 { arrives(sum, case.wire) } else { sum }
    };
    let sum = processes.iter().map(|process| of_process(*process)).reduce(|a, b| a + b).expect("a group has ranks");
    match case.reduction {
        Reduction::Sum => sum,
        Reduction::Mean => sum * (1.0 / members.len() as f32),
    }
}

/// Returns the results that the rank should get.
pub(crate) fn expected(case: &Case, rank: usize) -> Got {
    let members: Vec<usize> = (0..case.colours.len()).filter(|r| case.colours[*r] == case.colours[rank]).collect();
    let place = members.iter().position(|member| *member == rank).expect("it is in its group");
    let sum: Vec<f32> = (0..case.length).map(|i| element(case, &members, i)).collect();
    let alone = members.len() == 1;
    let wire = if alone { Wire::F32 } else { case.wire };
    let whole = |rank: &usize| brought(*rank, case.lengths[*rank]);
    // Equal shares: an element belongs to the rank in whose share it lies.
    let (least, extra) = (case.length / members.len(), case.length % members.len());
    let owner = |i: usize| if i < extra * (least + 1) { i / (least + 1) } else { (i - extra) / least.max(1) };
    Got {
        reduced: sum.iter().map(|value| arrives(*value, wire)).collect(),
        unchanged: brought(rank, case.length),
        part: (0..case.length).filter(|i| owner(*i) == place).map(|i| sum[i]).collect(),
        gathered: members.iter().flat_map(whole).map(|value| arrives(value, wire)).collect(),
        broadcast: whole(members.last().expect("a group has ranks")),
        parts: members.iter().map(|from| part_for(*from, rank, &case.lengths)).collect(),
        bytes: (place == 0).then(|| members.iter().map(|rank| vec![*rank as u8; case.lengths[*rank]]).collect()),
        world_sum: vec![(0..case.colours.len()).sum::<usize>() as f32],
    }
}

/// Messages of two tags in two groups, received in another order than sent: whether they are the right ones.
pub(crate) fn messages(world: &ProcessGroup) -> Result<bool, GroupError> {
    let (rank, size) = (world.rank(), world.size());
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let again = world.split(0)?;
    for number in 0..50 {
        world.send(next, Tag(number % 2), vec![(rank * 100 + number as usize) as f32])?;
        again.send(next, Tag(0), vec![-1.0; number as usize])?;
    }
    let of_tag = |tag: u32| {
        let received = (0..25).map(|_| world.recv(previous, Tag(tag)).map(|message| message[0]));
        received.collect::<Result<Vec<f32>, _>>()
    };
    let (odd, even) = (of_tag(1)?, of_tag(0)?);
    let right = |values: Vec<f32>, tag: usize| {
        values.into_iter().eq((0..25).map(|number| (previous * 100 + 2 * number + tag) as f32))
    };
    let mut others = true;
    for number in 0..50 {
        others &= again.recv(previous, Tag(0))?.len() == number;
    }
    Ok(right(odd, 1) && right(even, 0) && others)
}
