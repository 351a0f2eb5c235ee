//! What is to be done in a step: written down rank by rank, streams in order, each thing with what it waits for.

use std::collections::BTreeMap;
use trainyard_plan::Activity;
use trainyard_sim::Operation;

/// An ordered queue of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    Compute,
    SendForward,
    SendBackward,
    Reduce,
    Gather,
    CopyOut,
    CopyIn,
}

/// What tells the things that are done apart. Everybody who takes part in one knows its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// Activations or gradients of a micro-batch from one run of layers to another.
    Send { from: usize, from_place: u32, to: usize, to_place: u32, micro_batch: u32 },
    /// The n-th thing that some ranks do together on a stream, or a rank alone: as in MPI, what each of them calls n-th
    /// belongs together.
    Call { members: Vec<usize>, stream: Stream, number: u32 },
}

/// What something takes.
pub(crate) enum What {
    Kernels { rank: usize, seconds: f64 },
    Communication { members: Vec<usize>, operation: Operation, is_collective: bool },
}

/// Something that is done.
pub(crate) struct Doing {
    pub(crate) what: What,
    /// What the engine calls it.
    pub(crate) label: Activity,
    /// What must have ended before it starts, by number.
    pub(crate) after: Vec<usize>,
    /// On how many streams it is: everybody's who takes part in it, the receiver of a transfer apart.
    pub(crate) streams: usize,
}

/// Everything that is done.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) doings: Vec<Doing>,
    pub(crate) streams: BTreeMap<(usize, Stream), Vec<usize>>,
}

/// A script of which not everything is written yet.
#[derive(Default)]
pub(crate) struct Draft {
    numbers: BTreeMap<Name, usize>,
    /// By number; nothing for what was only waited for until now.
    doings: Vec<Option<Doing>>,
    streams: BTreeMap<(usize, Stream), Vec<usize>>,
    /// Per rank, members and stream, how often the rank has called.
    called: BTreeMap<(usize, Vec<usize>, Stream), u32>,
}

impl Draft {
    /// The number that goes with a name, whether it is written already or not.
    pub(crate) fn number(&mut self, name: Name) -> usize {
        let next = self.doings.len();
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.doings.push(None);
        }
        number
    }

    /// A rank puts something on one of its streams. What takes part with others waits for what any of them waits for.
    pub(crate) fn put(
        &mut self,
        (rank, stream): (usize, Stream),
        name: Name,
        label: Activity,
        after: &[usize],
        what: What,
    ) -> usize {
        let number = self.number(name);
        let doing = self.doings[number].get_or_insert_with(|| Doing { what, label, after: vec![], streams: 0 });
        doing.after.extend(after);
        doing.streams += 1;
        self.streams.entry((rank, stream)).or_default().push(number);
        number
    }

    /// A rank puts on one of its streams what it does next with these others, or alone.
    pub(crate) fn call(
        &mut self,
        (rank, stream): (usize, Stream),
        members: &[usize],
        label: Activity,
        after: &[usize],
        what: What,
    ) -> usize {
        let called = self.called.entry((rank, members.to_vec(), stream)).or_default();
        let name = Name::Call { members: members.to_vec(), stream, number: *called };
        *called += 1;
        self.put((rank, stream), name, label, after, what)
    }

    /// The script, once every rank has written its part.
    pub(crate) fn finish(self) -> Script {
        let unwritten = self.numbers.iter().filter(|(_, number)| self.doings[**number].is_none());
        let unwritten: Vec<&Name> = unwritten.map(|(name, _)| name).collect();
        assert!(unwritten.is_empty(), "somebody waits for what nobody does: {unwritten:?}");
        Script { doings: self.doings.into_iter().flatten().collect(), streams: self.streams }
    }
}
