//! Collectives: their names and sizes. Their algorithms are in `sim/src/cost/collective.rs`.

/// The part of the whole buffer that a rank has before or after the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Buffer {
    Whole,
    Part,
}

/// The names and sizes of a collective.
struct Facts {
    name: &'static str,
    measured_as: &'static str,
    nccl_test: &'static str,
    nccl_kernel: &'static str,
    process_group: &'static str,
    chakra: Option<i64>,
    /// The part of the buffer that a rank has before the operation, and after it.
    buffers: [Buffer; 2],
    /// Passes round a ring of n ranks, each of which carries (n − 1)/n of the buffer over every link; `None` where
    /// links carry the buffer once.
    ring_passes: Option<f64>,
}

/// Makes [`Collective`] of a list of collectives with their facts.
macro_rules! collectives {
    ($($(#[$doc:meta])* $collective:ident = $facts:expr;)+) => {
        /// An operation of a group of ranks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Collective {
            $($(#[$doc])* $collective,)+
        }

        impl Collective {
            /// Every collective.
            pub const ALL: [Self; [$(stringify!($collective)),+].len()] = [$(Self::$collective),+];

            fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$collective => &$facts,)+
                }
            }
        }
    };
}

collectives! {
    /// Each rank gets the sum of all buffers: bytes of one buffer.
    AllReduce = Facts {
        name: "all-reduce",
        measured_as: "all_reduce",
        nccl_test: "all_reduce_perf",
        nccl_kernel: "AllReduce_Sum_{}_RING_LL",
        process_group: "allreduce",
        chakra: Some(0),
        buffers: [Buffer::Whole, Buffer::Whole],
        ring_passes: Some(2.0),
    };
    /// Each rank has a whole buffer and gets an equal part of the sum: bytes of one whole buffer.
    ReduceScatter = Facts {
        name: "reduce-scatter",
        measured_as: "reduce_scatter",
        nccl_test: "reduce_scatter_perf",
        nccl_kernel: "ReduceScatter_Sum_{}_RING_LL",
        process_group: "_reduce_scatter_base",
        chakra: Some(7),
        buffers: [Buffer::Whole, Buffer::Part],
        ring_passes: Some(1.0),
    };
    /// Each rank has an equal part of a buffer and gets the whole: bytes of the whole.
    AllGather = Facts {
        name: "all-gather",
        measured_as: "all_gather",
        nccl_test: "all_gather_perf",
        nccl_kernel: "AllGather_RING_LL",
        process_group: "_allgather_base",
        chakra: Some(2),
        buffers: [Buffer::Part, Buffer::Whole],
        ring_passes: Some(1.0),
    };
    /// All ranks get the buffer of the first: bytes of that buffer.
    Broadcast = Facts {
        name: "broadcast",
        measured_as: "broadcast",
        nccl_test: "broadcast_perf",
        nccl_kernel: "Broadcast_RING_LL",
        process_group: "broadcast",
        chakra: Some(5),
        buffers: [Buffer::Whole, Buffer::Whole],
        ring_passes: None,
    };
    /// Each rank sends an equal part of its buffer to each rank, itself included: bytes of one buffer.
    AllToAll = Facts {
        name: "all-to-all",
        measured_as: "all_to_all",
        nccl_test: "alltoall_perf",
        nccl_kernel: "SendRecv",
        process_group: "all_to_allv",
        chakra: Some(6),
        buffers: [Buffer::Whole, Buffer::Whole],
        ring_passes: Some(1.0),
    };
    /// The first of two ranks sends a buffer to the second: bytes of that buffer.
    Transfer = Facts {
        name: "transfer",
        measured_as: "send_recv",
        nccl_test: "sendrecv_perf",
        nccl_kernel: "SendRecv",
        process_group: "send",
        chakra: None,
        buffers: [Buffer::Whole, Buffer::Whole],
        ring_passes: None,
    };
}

impl Collective {
    /// Returns the name used in sentences.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the name used in tables of measurements.
    pub fn measured_as(self) -> &'static str {
        self.facts().measured_as
    }

    /// Returns the program of nccl-tests that measures the operation.
    pub fn nccl_test(self) -> &'static str {
        self.facts().nccl_test
    }

    /// Returns the name of NCCL's kernel from version 2.19 on, with a ring for every algorithm; `dtype` as NCCL
    /// abbreviates it.
    pub fn nccl_kernel(self, dtype: &str) -> String {
        format!("ncclDevKernel_{}(ncclDevKernelArgsStorage<4096ul>)", self.facts().nccl_kernel.replace("{}", dtype))
    }

    /// Returns the name in PyTorch's process group; of a transfer, that of its sender or its receiver.
    pub fn process_group_name(self, receives: bool) -> &'static str {
        if self == Self::Transfer && receives { "recv" } else { self.facts().process_group }
    }

    /// Returns the `CollectiveCommType` of Chakra's traces; `None` for a transfer, which is two nodes of other types.
    pub fn chakra_type(self) -> Option<i64> {
        self.facts().chakra
    }

    /// Returns the number of elements that each of `members` ranks puts in, and that it gets, of a buffer of `whole`
    /// elements.
    pub fn elements(self, whole: u64, members: u64) -> (u64, u64) {
        let [before, after] = self.facts().buffers.map(|buffer| match buffer {
            Buffer::Whole => whole,
            Buffer::Part => whole.div_ceil(members.max(1)),
        });
        (before, after)
    }

    /// Returns the bytes over each link of a ring of `n` ranks, relative to the buffer: bus bandwidth over algorithm
    /// bandwidth (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
    pub fn bus_factor(self, n: f64) -> f64 {
        self.facts().ring_passes.map_or(1.0, |passes| passes * (n - 1.0) / n)
    }
}
