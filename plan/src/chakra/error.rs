//! Why execution traces cannot be read or written.

/// Why execution traces cannot be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChakraError {
    /// The bytes are no trace, or cut short.
    #[error("it is no execution trace, or cut short: {problem} at byte {place}")]
    Broken {
        /// Where.
        place: usize,
        /// What is wrong.
        problem: String,
    },
    /// A node is not as it must be.
    #[error("node {id} (`{name}`): {problem}")]
    Node {
        /// Its number.
        id: u64,
        /// Its name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Nodes wait for each other.
    #[error("node {id} (`{name}`) waits for itself, by way of others")]
    Cycle {
        /// One of them.
        id: u64,
        /// Its name.
        name: String,
    },
    /// There is too much.
    #[error("there are more than {maximum} nodes")]
    TooMany {
        /// The most.
        maximum: usize,
    },
    /// A list of groups is none.
    #[error("the groups are no object of lists of ranks: {problem}")]
    Groups {
        /// What the parser says.
        problem: String,
    },
}

impl ChakraError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Broken { .. } => "a file holds GlobalMetadata, then nodes, each behind its length (et_def.proto)",
            Self::TooMany { .. } => "fewer micro-batches or fewer ranks make fewer nodes",
            Self::Groups { .. } => "write {\"1\": [0, 1], \"2\": [2, 3]}, as ASTRA-sim reads it",
            Self::Node { .. } | Self::Cycle { .. } => return None,
        })
    }
}
