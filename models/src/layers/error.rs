//! What can be wrong with layers that are written out.

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {problem}")]
pub struct LayersError {
    /// `layer "stem", operator 3 (conv)`, or a field of the model.
    pub at: String,
    /// What is wrong there.
    pub problem: Problem,
}

/// What can be wrong with layers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The input is none of the kinds that there are.
    #[error("the fields {fields} do not describe a sample")]
    Input {
        /// The fields that are set.
        fields: String,
    },
    /// The model cannot be cut at all.
    #[error("there are {count} layers, but a model needs at least an input and an output layer")]
    TooFewLayers {
        /// Layers, repeated ones as often as they are.
        count: u64,
    },
    /// There are too many layers.
    #[error("there are more than {maximum} layers")]
    TooManyLayers {
        /// The most there may be.
        maximum: u64,
    },
    /// There are too many operators.
    #[error("up to here there are more than {maximum} operators")]
    TooManyOperators {
        /// The most there may be.
        maximum: usize,
    },
    /// There is nothing to compute.
    #[error("there are no operators")]
    Empty,
    /// A number is zero or absurdly large.
    #[error("`{field}` is {value}, but it must be from {minimum} to {maximum}")]
    OutOfRange {
        /// The option.
        field: &'static str,
        /// What was written.
        value: u64,
        /// The smallest value accepted.
        minimum: u64,
        /// The largest value accepted.
        maximum: u64,
    },
    /// A list of sizes is not as long as the map has dimensions.
    #[error("`{field}` has {given} numbers, but {shape} has {dimensions} dimensions")]
    Dimensions {
        /// The option.
        field: &'static str,
        /// Numbers of the list.
        given: usize,
        /// The map's shape.
        shape: String,
        /// Dimensions of the map.
        dimensions: usize,
    },
    /// An operator over pixels was given a vector.
    #[error("it needs an image, a volume or a sequence, but gets {shape}")]
    NoExtent {
        /// What it gets.
        shape: String,
    },
    /// An operator over steps was given an image or a vector.
    #[error("it needs a sequence, but gets {shape}")]
    NotSequence {
        /// What it gets.
        shape: String,
    },
    /// Rows of tables stand beside one vector.
    #[error("it puts rows of tables beside one vector, but gets {shape}")]
    NotVector {
        /// What it gets.
        shape: String,
    },
    /// A layer exchanges rows once.
    #[error("the layer has tables already")]
    TablesTwice,
    /// No window fits.
    #[error("a window of {window} pixels does not fit into {size} and {padding} of padding on each side")]
    Window {
        /// Pixels that a window spans.
        window: u64,
        /// Pixels of the map.
        size: u64,
        /// Pixels of padding on each side.
        padding: u64,
    },
    /// Channels are not shared evenly.
    #[error("{channels} channels are not divisible by `{field}` {divisor}")]
    Indivisible {
        /// The option.
        field: &'static str,
        /// Channels that there are.
        channels: u64,
        /// What should divide them.
        divisor: u64,
    },
    /// Shapes do not join.
    #[error("{first} and {second} cannot be joined: {rule}")]
    Unequal {
        /// What one of them is.
        first: String,
        /// What the other is.
        second: String,
        /// What they need to have in common.
        rule: &'static str,
    },
    /// A map is too large to be counted.
    #[error("it makes {shape}, more than {maximum} elements")]
    TooLarge {
        /// The map's shape.
        shape: String,
        /// The most elements accepted.
        maximum: u64,
    },
    /// A weight is too large to be counted.
    #[error("it has more than {maximum} weights")]
    TooManyWeights {
        /// The most accepted.
        maximum: u64,
    },
    /// Nothing has this name.
    #[error("nothing before is saved as `{name}`")]
    NotSaved {
        /// The name.
        name: String,
        /// The names that there are.
        saved: Vec<String>,
    },
    /// A name that nothing refers to.
    #[error("`{name}` is saved, but never used")]
    Unused {
        /// The name.
        name: String,
    },
    /// Tokens were not looked up.
    #[error("its input is tokens, which need to be looked up first")]
    Tokens,
    /// What is not tokens is looked up.
    #[error("it looks up tokens, but gets {shape}")]
    NotTokens {
        /// What it gets.
        shape: String,
    },
    /// Something follows a loss.
    #[error("nothing can follow a loss")]
    AfterLoss,
    /// A loss is missing.
    #[error("it does not end in a loss")]
    NoLoss,
    /// A frozen layer stands behind one that is trained, whose gradients would have to go through it.
    #[error("it is frozen, but the layer before it is trained")]
    FrozenBehindTrained,
    /// A list of branches is too short.
    #[error("there are {count} branches, but at least two are joined")]
    TooFewBranches {
        /// Branches.
        count: usize,
    },
    /// An override of the job does not concern any operator.
    #[error("`{field}` is set, but {why}")]
    WithoutEffect {
        /// The field.
        field: &'static str,
        /// Why it changes nothing.
        why: &'static str,
    },
}

impl LayersError {
    /// What the user may do about it, if there is more to say than the message does.
    pub fn hint(&self) -> Option<String> {
        Some(match &self.problem {
            Problem::Input { .. } => "write input = { channels = 3, height = 224, width = 224 }, { tokens = 512 }, \
                 { tokens = 1500, features = 80 } or { features = 13 }"
                .into(),
            Problem::Window { .. } => "make the kernel smaller, or write padding = \"same\"".into(),
            Problem::NotSaved { saved, .. } if saved.is_empty() => {
                "write { save = \"a-name\" } where it is made".into()
            }
            Problem::NotSaved { saved, .. } => format!("saved are {}", saved.join(", ")),
            Problem::Unused { name } => format!("leave it out, or use it with {{ concat = \"{name}\" }}"),
            Problem::TablesTwice => "write the rows of all tables in one list, or put them into another layer".into(),
            Problem::Tokens => "write { embedding = 30522, width = 768 } first".into(),
            Problem::FrozenBehindTrained => "freeze all layers before it too".into(),
            Problem::NoLoss => "end with \"cross_entropy\"".into(),
            Problem::Indivisible { field, channels, divisor } => {
                let below = (1..=*divisor.min(channels)).rev().find(|count| channels % count == 0).unwrap_or(1);
                format!("{field} {below} divides them")
            }
            Problem::TooFewBranches { .. } => "an empty branch, [], hands the input on".into(),
            Problem::TooManyOperators { .. } => {
                "those of a repeated layer count each time, those of a side for each of its maps".into()
            }
            Problem::TooFewLayers { .. } => "put the loss into a layer of its own".into(),
            _ => return None,
        })
    }
}
