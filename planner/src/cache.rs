//! What searches keep for later searches.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory beyond which what was used longest ago is forgotten. A stated default.
const BYTES_MAX: usize = 192 << 20;

/// What searches have found out that does not depend on what they look for. Clones share it.
#[derive(Clone, Default)]
pub struct SearchCache(Arc<Mutex<VecDeque<Arc<dyn Kept>>>>);

/// A value that is kept, of whatever type.
pub(crate) trait Kept: Any + Send + Sync {
    /// Estimates the memory that it takes now.
    fn bytes(&self) -> usize;
}

impl std::fmt::Debug for SearchCache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SearchCache").finish_non_exhaustive()
    }
}

impl SearchCache {
    /// Returns the value that `is` the wanted one, if it is kept.
    pub(crate) fn find<T: Kept>(&self, is: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut all = self.all();
        let wanted = |kept: &Arc<dyn Kept>| {
            let kept: Arc<dyn Any + Send + Sync> = kept.clone();
            kept.downcast::<T>().ok().filter(|kept| is(kept))
        };
        let (place, found) = all.iter().enumerate().find_map(|(place, kept)| Some((place, wanted(kept)?)))?;
        let used = all.remove(place)?;
        all.push_back(used);
        Some(found)
    }

    /// Keeps a value. What was used longest ago makes room for it.
    pub(crate) fn keep<T: Kept>(&self, value: T) -> Arc<T> {
        let value = Arc::new(value);
        let mut all = self.all();
        while all.iter().map(|kept| kept.bytes()).sum::<usize>() > BYTES_MAX {
            all.pop_front();
        }
        all.push_back(value.clone());
        value
    }

    fn all(&self) -> MutexGuard<'_, VecDeque<Arc<dyn Kept>>> {
        // Nothing panics between two changes.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Large(u32);

    impl Kept for Large {
        fn bytes(&self) -> usize {
            BYTES_MAX / 3
        }
    }

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let cache = SearchCache::default();
        let find = |number: u32| cache.clone().find(|large: &Large| large.0 == number).map(|large| large.0);
        for number in 0..4 {
            cache.keep(Large(number));
        }
        assert_eq!(find(0), Some(0));
        cache.keep(Large(4));
        assert_eq!([0, 1, 2, 3, 4].map(find), [Some(0), None, Some(2), Some(3), Some(4)]);
    }
}
