//! Lists of a fixed length, as people write them.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;

/// A list of as many values as its type says. Readers of arrays and tuples stop at the last value that they know, and some
/// formats then drop what is left.
struct Exactly<T, const N: usize>([T; N]);

impl<'de, T: Deserialize<'de> + Display, const N: usize> Deserialize<'de> for Exactly<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let values = Vec::<T>::deserialize(deserializer)?;
        values.try_into().map(Self).map_err(|values: Vec<T>| {
            let written: Vec<String> = values.iter().map(ToString::to_string).collect();
            let (written, has) = (written.join(", "), values.len());
            D::Error::custom(format!("`[{written}]` is a list of {has}, expected a list of {N} numbers"))
        })
    }
}

/// Reads a field that is a list of `N` numbers and may be left out.
///
/// # Errors
///
/// When it is no list of numbers, or one of more or fewer.
pub fn exactly_option<'de, T, const N: usize, D>(deserializer: D) -> Result<Option<[T; N]>, D::Error>
where
    T: Deserialize<'de> + Display,
    D: Deserializer<'de>,
{
    Option::<Exactly<T, N>>::deserialize(deserializer).map(|list| list.map(|Exactly(values)| values))
}

/// Reads a field that is a list of lists of three numbers.
///
/// # Errors
///
/// When it is no such list.
pub fn triples<'de, T, D>(deserializer: D) -> Result<Vec<(T, T, T)>, D::Error>
where
    T: Deserialize<'de> + Display,
    D: Deserializer<'de>,
{
    let lists = Vec::<Exactly<T, 3>>::deserialize(deserializer)?;
    Ok(lists.into_iter().map(|Exactly([first, second, third])| (first, second, third)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error as ValueError, SeqDeserializer};

    #[test]
    fn no_value_of_a_list_is_dropped() {
        let read = |values: &[f64]| {
            let list = SeqDeserializer::<_, ValueError>::new(values.iter().copied());
            Exactly::<f64, 2>::deserialize(list).map(|Exactly(values)| values).map_err(|error| error.to_string())
        };
        assert_eq!(read(&[0.9, 0.95]), Ok([0.9, 0.95]));
        let told = |values| read(values).expect_err("another length");
        assert_eq!(told(&[0.9, 0.95, 0.5]), "`[0.9, 0.95, 0.5]` is a list of 3, expected a list of 2 numbers");
        assert_eq!(told(&[0.9]), "`[0.9]` is a list of 1, expected a list of 2 numbers");
        let four: Vec<Vec<u32>> = vec![vec![0, 1, 4, 9]];
        let list: SeqDeserializer<_, ValueError> = four.into_deserializer();
        assert!(triples::<u32, _>(list).expect_err("four").to_string().contains("`[0, 1, 4, 9]` is a list of 4"));
    }
}
