//! A micro-batch: the samples that a replica computes at once.

/// The values that the first layer of a network reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Inputs {
    /// Token ids, (samples, sequence), flat.
    Tokens {
        ids: Vec<i32>,
        /// Tokens of a sample.
        sequence: usize,
    },
    /// Normalised images, (samples, channels, height, width), flat.
    Images {
        pixels: Vec<f32>,
        /// Channels of an image.
        channels: usize,
        height: usize,
        width: usize,
    },
    /// Vectors, (samples, width), flat.
    Vectors {
        values: Vec<f32>,
        /// Values of a sample.
        width: usize,
    },
}

/// Samples with their targets.
#[derive(Clone, Debug, PartialEq)]
pub struct MicroBatch {
    pub samples: usize,
    /// The values that the network reads.
    pub inputs: Inputs,
    /// The classes or tokens to predict: one for each scored position, in the order of rows.
    pub targets: Vec<i32>,
    /// The rows, sample · sequence + position, that are scored, the same number in each sample; without it every
    /// position of a text, or the one class of a sample.
    pub scored: Option<Vec<i32>>,
}

impl MicroBatch {
    /// Returns a batch without samples, of the kind that `inputs` is.
    pub fn empty(inputs: Inputs) -> Self {
        Self { samples: 0, inputs, targets: Vec::new(), scored: None }
    }

    /// Returns the batch of a rank that reads no data: it knows only the number of samples.
    pub fn unread(samples: usize) -> Self {
        Self { samples, ..Self::empty(Inputs::Tokens { ids: Vec::new(), sequence: 0 }) }
    }

    /// Adds a text of which each token predicts the next: one token more than a sample has.
    pub(crate) fn push_text(&mut self, tokens: &[i32]) {
        let Inputs::Tokens { ids, .. } = &mut self.inputs else { unreachable!("texts go into batches of tokens") };
        ids.extend(&tokens[..tokens.len() - 1]);
        self.targets.extend(&tokens[1..]);
        self.samples += 1;
    }

    /// Adds a text with some of its `positions` hidden, where `hidden` were before.
    pub(crate) fn push_masked(&mut self, tokens: &[i32], positions: &[usize], hidden: &[i32]) {
        let Inputs::Tokens { ids, .. } = &mut self.inputs else { unreachable!("texts go into batches of tokens") };
        let first = ids.len();
        ids.extend(tokens);
        let row = |position: &usize| i32::try_from(first + position).expect("a micro-batch has less than 2^31 tokens");
        self.scored.get_or_insert_default().extend(positions.iter().map(row));
        self.targets.extend(hidden);
        self.samples += 1;
    }

    /// Adds the values of an image or a vector, and its class.
    pub(crate) fn push_values(&mut self, values: impl IntoIterator<Item = f32>, label: i32) {
        match &mut self.inputs {
            Inputs::Images { pixels: all, .. } | Inputs::Vectors { values: all, .. } => all.extend(values),
            Inputs::Tokens { .. } => unreachable!("values go into batches of values"),
        }
        self.targets.push(label);
        self.samples += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_inputs_one_token_later() {
        let mut batch = MicroBatch::empty(Inputs::Tokens { ids: Vec::new(), sequence: 2 });
        batch.push_text(&[97, 98, 99]);
        batch.push_text(&[120, 121, 122]);
        assert_eq!(batch.inputs, Inputs::Tokens { ids: vec![97, 98, 120, 121], sequence: 2 });
        assert_eq!((batch.samples, batch.targets, batch.scored), (2, vec![98, 99, 121, 122], None));
    }

    #[test]
    fn scored_rows_count_over_samples() {
        let mut batch = MicroBatch::empty(Inputs::Tokens { ids: Vec::new(), sequence: 3 });
        batch.push_masked(&[1, 9, 3], &[1], &[2]);
        batch.push_masked(&[9, 5, 6], &[0], &[4]);
        assert_eq!((batch.scored, batch.targets), (Some(vec![1, 3]), vec![2, 4]));
    }
}
