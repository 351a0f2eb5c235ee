//! Why an ONNX file is no model that can be planned.

use super::graph::Dims;

/// Why an ONNX file is no model that can be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OnnxError {
    /// The bytes are no ONNX file.
    #[error("{problem}")]
    Broken {
        /// What is wrong with it.
        problem: String,
    },
    /// The input is none of the kinds that are known.
    #[error("input `{name}`: {problem}")]
    Input {
        /// The input.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// An operator that is not known.
    #[error("node `{node}`: the operator `{operator}` is not known")]
    UnknownOperator {
        /// The node's name, or that of its output.
        node: String,
        /// The operator, with its domain if it is not ONNX's own.
        operator: String,
    },
    /// An operator that is known, in a use that is not.
    #[error("node `{node}` ({operator}): {problem}")]
    Unfit {
        /// The node's name, or that of its output.
        node: String,
        /// The operator.
        operator: String,
        /// What does not fit.
        problem: String,
    },
    /// The layers do not fit together.
    #[error("as layers the graph does not fit together: {problem}")]
    Layers {
        /// What is wrong.
        problem: String,
    },
}

impl OnnxError {
    /// What the user may do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Broken { .. } => "export it with torch.onnx.export(model, sample, \"model.onnx\")".into(),
            Self::Input { .. } => {
                "export it for fixed sizes: all but the batch, the first dimension, must be numbers; \
                 images, volumes, sequences, vectors and tokens are known"
                    .into()
            }
            Self::UnknownOperator { .. } => {
                "docs/onnx.md lists what is known; a model may also be written out, see docs/models.md".into()
            }
            Self::Unfit { operator, .. } if operator == "MatMul" || operator == "Softmax" => {
                "self-attention is known by the products of one input with its weights, their Softmax between two \
                 MatMuls, and the product behind; see docs/onnx.md"
                    .into()
            }
            Self::Unfit { .. } | Self::Layers { .. } => "docs/onnx.md says which uses are known".into(),
        })
    }
}

/// A shape for messages.
pub(super) fn shown(dims: &Dims) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}
