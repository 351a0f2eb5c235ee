//! Which tokens of a text are hidden from a masked language model, and by what.

use rand::RngExt;
use rand::seq::index;
use trainyard_models::predicted_tokens;

/// Of the tokens that are predicted, the share that is replaced by the mask.
/// Source: Devlin et al., arXiv:1810.04805, appendix A.1.
const MASKED_SHARE: f64 = 0.8;
/// Of those, the share that is replaced by any token; the others stay unchanged.
/// Source: as above.
const REPLACED_SHARE: f64 = 0.1;

/// The parameters of masking texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Masking {
    /// Tokens that are predicted in every text: always as many, so that the mean over replicas and micro-batches of
    /// their means is the mean over the global batch.
    pub predictions: usize,
    /// The mask token.
    pub mask: i32,
    /// Tokens that may replace one: those below this.
    pub entries: i32,
}

impl Masking {
    /// Returns the number of tokens predicted out of `tokens`.
    pub(crate) fn predictions(said: Option<usize>, tokens: usize) -> usize {
        predicted_tokens(said.map(|said| said as u64), tokens as u64) as usize
    }

    /// Hides tokens and returns where, ascending, and what they were.
    pub(crate) fn hide(&self, tokens: &mut [i32], random: &mut impl rand::Rng) -> (Vec<usize>, Vec<i32>) {
        let mut positions = index::sample(random, tokens.len(), self.predictions).into_vec();
        positions.sort_unstable();
        let hidden = positions.iter().map(|position| tokens[*position]).collect();
        for position in &positions {
            let draw: f64 = random.random();
            if draw < MASKED_SHARE {
                tokens[*position] = self.mask;
            } else if draw < MASKED_SHARE + REPLACED_SHARE {
                tokens[*position] = random.random_range(0..self.entries);
            }
        }
        (positions, hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, generator};

    #[test]
    fn eight_in_ten_are_masked_one_replaced_one_kept() {
        let masking = Masking { predictions: Masking::predictions(None, 10_000), mask: -1, entries: 1000 };
        assert_eq!(masking.predictions, 1500);
        let whole: Vec<i32> = (2000..12_000).collect();
        let mut tokens = whole.clone();
        let (positions, hidden) = masking.hide(&mut tokens, &mut generator(1, Purpose::Mask { position: 7 }));
        assert!(positions.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(positions.iter().zip(&hidden).all(|(position, token)| whole[*position] == *token));
        let count = |is: &dyn Fn(usize) -> bool| positions.iter().filter(|position| is(**position)).count();
        let (masked, kept) = (count(&|p| tokens[p] == -1), count(&|p| tokens[p] == whole[p]));
        assert!((1130..1270).contains(&masked) && (110..190).contains(&kept), "{masked} {kept}");
        assert_eq!(count(&|p| (0..1000).contains(&tokens[p])), 1500 - masked - kept);
        assert_eq!(tokens.iter().zip(&whole).filter(|(a, b)| a != b).count(), 1500 - kept);
    }

    #[test]
    fn at_least_one_and_at_most_all_are_predicted() {
        assert_eq!(Masking::predictions(None, 2), 1);
        assert_eq!(Masking::predictions(Some(76), 512), 76);
        assert_eq!(Masking::predictions(Some(8), 6), 6);
    }
}
