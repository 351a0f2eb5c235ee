//! Why execution traces cannot be read or written.

/// Why execution traces cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChakraError {
    /// The bytes are no trace, or are cut short.
    #[error("it is no execution trace, or cut short: {problem} at byte {place}")]
    Broken {
        /// Offset of the byte.
        place: usize,
        /// The problem, in words.
        problem: String,
    },
    /// A node is invalid.
    #[error("node {id} (`{name}`): {problem}")]
    Node {
        /// The number of the node.
        id: u64,
        /// The name of the node.
        name: String,
        /// The problem, in words.
        problem: String,
    },
    /// Nodes wait for each other in a cycle.
    #[error("node {id} (`{name}`) waits for itself, by way of others")]
    Cycle {
        /// The number of a node in the cycle.
        id: u64,
        /// The name of that node.
        name: String,
    },
    /// There are too many nodes.
    #[error("there are more than {maximum} nodes")]
    TooMany {
        /// The largest number accepted.
        maximum: usize,
    },
    /// The text is no list of process groups.
    #[error("the groups are no object of lists of ranks: {problem}")]
    Groups {
        /// The message of the parser.
        problem: String,
    },
}

impl ChakraError {
    /// Returns a suggestion for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Broken { .. } => "a file holds GlobalMetadata, then nodes, each behind its length (et_def.proto)",
            Self::TooMany { .. } => "fewer micro-batches or fewer ranks make fewer nodes",
            Self::Groups { .. } => "write {\"1\": [0, 1], \"2\": [2, 3]}, as ASTRA-sim reads it",
            Self::Node { .. } | Self::Cycle { .. } => return None,
        })
    }
}
