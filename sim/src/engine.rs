//! The engine: kernels and operations put in time.
//!
//! Kernels run for a known time on the actor that launches them. Operations wait for their latency, then move bytes
//! over links that they share with whatever else is under way. While a collective is under way, the kernels of its
//! actors run slower. At each instant all ends are applied before anything starts, and what starts is started in the
//! order of its id, so that the result depends on the program alone.

use crate::des::EventQueue;
use crate::network::{Demand, SharedLinks};
use trainyard_units::{Instant, Span};

/// Nanoseconds of a second.
const NANOSECONDS: f64 = 1e9;

/// Something that takes time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Kernel {
        actor: u32,
        span: Span,
    },
    /// A communication: the index of what is to be done.
    Operation(u32),
}

/// A stretch of an operation: latency, then bytes through each of its flows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretch {
    pub(crate) latency: Span,
    pub(crate) volume: f64,
    pub(crate) demand: Demand,
}

/// The phases of an operation, and the actors that it slows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CommProgram {
    pub(crate) stretches: Vec<Stretch>,
    /// Actors whose kernels it slows: none for transfers and copies, which the copy engines or few blocks do.
    pub(crate) slows: Vec<u32>,
}

/// Nodes with their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) nodes: Vec<Node>,
    pub(crate) operations: Vec<CommProgram>,
    /// Who waits for whom: (before, after).
    pub(crate) edges: Vec<(u32, u32)>,
    pub(crate) actors: u32,
    /// Capacities of the links in bytes a second.
    pub(crate) links: Vec<f64>,
    /// The part by which a kernel takes longer while a collective of its actor is under way: 0.3 is 30 %.
    pub(crate) slowdown: f64,
}

/// When a node started and ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
}

/// What has not happened yet.
const NOT_YET: Timing = Timing { start: Instant::NEVER, end: Instant::NEVER };

/// When each node of `program` runs.
pub(crate) fn run(program: &Program) -> Vec<Timing> {
    Engine::new(program).run()
}

impl Program {
    /// The same program if communication took no time.
    pub(crate) fn in_silence(&self) -> Self {
        Self {
            operations: vec![CommProgram { stretches: Vec::new(), slows: Vec::new() }; self.operations.len()],
            nodes: self.nodes.clone(),
            edges: self.edges.clone(),
            links: Vec::new(),
            ..*self
        }
    }
}

/// The progress of a running node.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Nanoseconds of a kernel or bytes of a flow that are left.
    left: f64,
    /// Units of work done in a nanosecond.
    rate: f64,
    since: Instant,
    /// When it ends if nothing changes; an event for another instant is stale.
    due: Instant,
    /// Twice the index of an operation's stretch, plus one if bytes move.
    stretch: u32,
}

pub(crate) struct Engine<'a> {
    program: &'a Program,
    waiting: Waiting,
    progress: Vec<Progress>,
    ran: Vec<Timing>,
    queue: EventQueue,
    links: SharedLinks,
    now: Instant,
    /// Per actor: collectives under way, and its running kernel.
    collectives: Vec<u32>,
    kernels: Vec<Option<u32>>,
    /// Actors whose number of collectives changed at this instant.
    touched: Vec<u32>,
    ready: Vec<u32>,
    changed: Vec<(u32, f64)>,
    /// Kept for their memory: what starts, and what is due, at an instant.
    starting: Vec<u32>,
    due: Vec<u32>,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(program: &'a Program) -> Self {
        let count = program.nodes.len();
        let idle = Progress { left: 0.0, rate: 0.0, since: Instant::START, due: Instant::START, stretch: 0 };
        let waiting = Waiting::new(count, &program.edges);
        let ready = waiting.ready_at_start();
        Self {
            program,
            waiting,
            progress: vec![idle; count],
            ran: vec![NOT_YET; count],
            queue: EventQueue::with_capacity(count.min(1 << 16)),
            links: SharedLinks::new(program.links.clone()),
            now: Instant::START,
            collectives: vec![0; program.actors as usize],
            kernels: vec![None; program.actors as usize],
            touched: Vec::new(),
            ready,
            changed: Vec::new(),
            starting: Vec::new(),
            due: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<Timing> {
        loop {
            self.settle();
            if !self.go_on() {
                return self.ran;
            }
        }
    }

    /// Starts what is ready, and finds the rates of what is under way.
    pub(crate) fn settle(&mut self) {
        let mut starting = std::mem::take(&mut self.starting);
        while !self.ready.is_empty() {
            std::mem::swap(&mut self.ready, &mut starting);
            starting.sort_unstable();
            for node in starting.drain(..) {
                self.start(node);
            }
        }
        self.starting = starting;
        self.share_links();
        self.slow_kernels();
    }

    /// Goes on to the next instant and applies what is due there. Whether there is one.
    pub(crate) fn go_on(&mut self) -> bool {
        let mut due = std::mem::take(&mut self.due);
        let next = self.queue.next_instant(&mut due);
        if let Some(next) = next {
            self.now = next;
            for node in due.drain(..) {
                if self.progress[node as usize].due == next {
                    self.advance(node);
                }
            }
        }
        self.due = due;
        next.is_some()
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// When each node ran; [`Instant::NEVER`] for what has not happened yet.
    pub(crate) fn ran(&self) -> &[Timing] {
        &self.ran
    }

    pub(crate) fn into_ran(self) -> Vec<Timing> {
        self.ran
    }

    /// All that decides how a running node goes on, besides the rates of what will start and end, and when it started:
    /// relative to the present instant, bit by bit. `None` for a node that has not started.
    pub(crate) fn state(&self, node: u32) -> Option<[u64; 6]> {
        let Timing { start, .. } = self.ran[node as usize];
        if start == Instant::NEVER {
            return None;
        }
        let ago = |instant: Instant| self.now.nanoseconds().wrapping_sub(instant.nanoseconds());
        let Progress { left, rate, since, due, stretch } = self.progress[node as usize];
        let due = if due == Instant::NEVER { u64::MAX } else { ago(due) };
        Some([ago(start), left.to_bits(), rate.to_bits(), ago(since), due, stretch.into()])
    }

    fn start(&mut self, node: u32) {
        self.ran[node as usize].start = self.now;
        match &self.program.nodes[node as usize] {
            Node::Kernel { actor, span } => {
                self.kernels[*actor as usize] = Some(node);
                let rate = self.kernel_rate(*actor);
                let left = span.nanoseconds() as f64;
                let progress = &mut self.progress[node as usize];
                *progress = Progress { left, rate, since: self.now, ..*progress };
                self.expect(node);
            }
            Node::Operation(operation) => {
                for actor in &self.program.operations[*operation as usize].slows {
                    self.collectives[*actor as usize] += 1;
                    self.touched.push(*actor);
                }
                self.next_stretch(node, *operation, 0);
            }
        }
    }

    fn kernel_rate(&self, actor: u32) -> f64 {
        if self.collectives[actor as usize] > 0 { 1.0 / (1.0 + self.program.slowdown) } else { 1.0 }
    }

    /// Schedules the end of what is left at the present rate.
    fn expect(&mut self, node: u32) {
        let progress = &mut self.progress[node as usize];
        let nanoseconds = if progress.left > 0.0 { (progress.left / progress.rate).ceil() } else { 0.0 };
        progress.due = self.now.after_span(Span::from_nanoseconds(nanoseconds as u64));
        self.queue.schedule(progress.due, node);
    }

    /// Something is due: a kernel or a latency has passed, or all bytes have moved.
    fn advance(&mut self, node: u32) {
        // An event that was scheduled twice for one instant is applied once.
        self.progress[node as usize].due = Instant::NEVER;
        match &self.program.nodes[node as usize] {
            Node::Kernel { actor, .. } => {
                self.kernels[*actor as usize] = None;
                self.finish(node);
            }
            Node::Operation(operation) => {
                let stretch = self.progress[node as usize].stretch;
                if !stretch.is_multiple_of(2) {
                    self.links.end(node);
                }
                self.next_stretch(node, *operation, stretch + 1);
            }
        }
    }

    /// Enters the first of an operation's halves of stretches, from `half` on, that takes time.
    fn next_stretch(&mut self, node: u32, operation: u32, mut half: u32) {
        let operating = &self.program.operations[operation as usize];
        while let Some(stretch) = operating.stretches.get(half as usize / 2) {
            let progress = &mut self.progress[node as usize];
            progress.stretch = half;
            progress.since = self.now;
            if half.is_multiple_of(2) && stretch.latency > Span::ZERO {
                progress.due = self.now.after_span(stretch.latency);
                self.queue.schedule(progress.due, node);
                return;
            }
            if !half.is_multiple_of(2) && stretch.volume > 0.0 {
                (progress.left, progress.rate, progress.due) = (stretch.volume, 0.0, Instant::NEVER);
                self.links.start(node, &stretch.demand);
                return;
            }
            half += 1;
        }
        for actor in &operating.slows {
            self.collectives[*actor as usize] -= 1;
            self.touched.push(*actor);
        }
        self.finish(node);
    }

    fn finish(&mut self, node: u32) {
        self.ran[node as usize].end = self.now;
        self.waiting.complete(node, &mut self.ready);
    }

    /// New rates for the flows whose links were joined or left.
    fn share_links(&mut self) {
        let mut changed = std::mem::take(&mut self.changed);
        self.links.settle(&mut changed);
        for (node, bytes_per_second) in changed.drain(..) {
            self.change_rate(node, bytes_per_second / NANOSECONDS);
        }
        self.changed = changed;
    }

    /// New rates for the kernels of actors that a collective has joined or left.
    fn slow_kernels(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        for actor in touched.drain(..) {
            let rate = self.kernel_rate(actor);
            let running = self.kernels[actor as usize];
            if let Some(node) = running.filter(|node| self.progress[*node as usize].rate.to_bits() != rate.to_bits()) {
                self.change_rate(node, rate);
            }
        }
        self.touched = touched;
    }

    fn change_rate(&mut self, node: u32, rate: f64) {
        let progress = &mut self.progress[node as usize];
        let passed = self.now.since(progress.since).nanoseconds() as f64;
        progress.left = (progress.left - passed * progress.rate).max(0.0);
        (progress.rate, progress.since) = (rate, self.now);
        self.expect(node);
    }
}

/// For each node, how many others it still waits for and who waits for it, in compressed rows.
struct Waiting {
    missing: Vec<u32>,
    successors: Vec<u32>,
    offsets: Vec<u32>,
}

impl Waiting {
    fn new(count: usize, edges: &[(u32, u32)]) -> Self {
        let mut missing = vec![0; count];
        let mut offsets = vec![0; count + 1];
        for (before, after) in edges {
            missing[*after as usize] += 1;
            offsets[*before as usize + 1] += 1;
        }
        for index in 0..count {
            offsets[index + 1] += offsets[index];
        }
        let mut fill = offsets.clone();
        let mut successors = vec![0; edges.len()];
        for (before, after) in edges {
            let slot = &mut fill[*before as usize];
            successors[*slot as usize] = *after;
            *slot += 1;
        }
        Self { missing, successors, offsets }
    }

    fn ready_at_start(&self) -> Vec<u32> {
        (0..self.missing.len() as u32).filter(|node| self.missing[*node as usize] == 0).collect()
    }

    fn complete(&mut self, node: u32, ready: &mut Vec<u32>) {
        let range = self.offsets[node as usize] as usize..self.offsets[node as usize + 1] as usize;
        for successor in &self.successors[range] {
            let missing = &mut self.missing[*successor as usize];
            *missing -= 1;
            if *missing == 0 {
                ready.push(*successor);
            }
        }
    }
}
