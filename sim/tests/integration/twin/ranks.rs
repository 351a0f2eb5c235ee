//! Which rank stands where, and who talks to whom: the definition of the groups, looked up by going through all ranks.

use trainyard_plan::{ParallelSpec, Placement};

/// Where a rank stands in each kind of parallelism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) data: u32,
    pub(crate) tensor: u32,
    pub(crate) stage: u32,
    pub(crate) context: u32,
}

/// All ranks of a plan.
pub(crate) struct Ranks {
    /// By rank.
    pub(crate) seats: Vec<Seat>,
    parallel: ParallelSpec,
    /// Holders of the same parameters that share out a state.
    shard: u32,
}

impl Ranks {
    /// Ranks are counted along the nearest axis first. The parts of a sample stand right beside the parts of a layer.
    pub(crate) fn new(parallel: ParallelSpec, placement: Placement, sharding_ranks: Option<u32>) -> Self {
        let axes = match placement.to_string().as_str() {
            "cluster" | "spread" => "TDP".to_owned(),
            order => order.to_owned(),
        };
        let length = |axis| match axis {
            'D' => parallel.data,
            'P' => parallel.pipeline,
            _ => parallel.tensor * parallel.context,
        };
        let axes: Vec<char> = axes.chars().collect();
        let mut seats = Vec::new();
        for far in 0..length(axes[2]) {
            for middle in 0..length(axes[1]) {
                for near in 0..length(axes[0]) {
                    let at = |wanted| match axes.iter().position(|axis| *axis == wanted) {
                        Some(0) => near,
                        Some(1) => middle,
                        _ => far,
                    };
                    let (tensor, context) = (at('T') % parallel.tensor, at('T') / parallel.tensor);
                    seats.push(Seat { data: at('D'), tensor, stage: at('P'), context });
                }
            }
        }
        Self { seats, parallel, shard: sharding_ranks.unwrap_or(parallel.data * parallel.context) }
    }

    fn those(&self, wanted: impl Fn(&Seat) -> bool) -> Vec<usize> {
        (0..self.seats.len()).filter(|rank| wanted(&self.seats[*rank])).collect()
    }

    /// The rank of another stage that works on the same part of the same samples.
    pub(crate) fn partner(&self, rank: usize, stage: u32) -> usize {
        let own = Seat { stage, ..self.seats[rank] };
        self.those(|seat| *seat == own)[0]
    }

    /// Which of the holders of its parameters a rank is: replicas one after another, in each the parts of its samples.
    fn copy(&self, seat: &Seat) -> u32 {
        seat.data * self.parallel.context + seat.context
    }

    /// All that hold the same parameters.
    pub(crate) fn holders(&self, rank: usize) -> Vec<usize> {
        let own = self.seats[rank];
        self.those(|seat| (seat.tensor, seat.stage) == (own.tensor, own.stage))
    }

    /// Those of them that hold the same experts: experts are dealt out to neighbouring replicas or, folded, to neighbouring
    /// parts of them.
    pub(crate) fn holders_of_experts(&self, rank: usize) -> Vec<usize> {
        let dealt = |seat: &Seat| if self.parallel.folded_experts { self.copy(seat) } else { seat.data };
        let own = dealt(&self.seats[rank]) % self.parallel.expert;
        self.holders(rank)
            .into_iter()
            .filter(|other| dealt(&self.seats[*other]) % self.parallel.expert == own)
            .collect()
    }

    /// Those that each have a part of the same layers.
    pub(crate) fn sharers_of_layers(&self, rank: usize) -> Vec<usize> {
        let own = self.seats[rank];
        self.those(|seat| Seat { tensor: own.tensor, ..*seat } == own)
    }

    /// Those of them that share out a state: neighbours.
    pub(crate) fn sharers(&self, rank: usize) -> Vec<usize> {
        let own = self.copy(&self.seats[rank]) / self.shard;
        self.holders(rank).into_iter().filter(|other| self.copy(&self.seats[*other]) / self.shard == own).collect()
    }

    /// Those of them that hold the same part of a state, each among other sharers.
    pub(crate) fn holders_of_part(&self, rank: usize) -> Vec<usize> {
        let own = self.copy(&self.seats[rank]) % self.shard;
        self.holders(rank).into_iter().filter(|other| self.copy(&self.seats[*other]) % self.shard == own).collect()
    }

    /// How many ranks hold the same parameters.
    pub(crate) fn copies(&self) -> u32 {
        self.parallel.data * self.parallel.context
    }

    /// Among how many a state is shared out, where one is.
    pub(crate) fn shard(&self) -> u32 {
        self.shard
    }
}
