//! What a number can be divided by evenly: the degrees that a plan may have.

/// Returns every divisor of a number, in ascending order; none for zero.
pub fn divisors(number: u64) -> Vec<u64> {
    let mut small: Vec<u64> = (1..=number.isqrt()).filter(|divisor| number.is_multiple_of(*divisor)).collect();
    let large: Vec<u64> =
        small.iter().rev().map(|small| number / small).filter(|large| *large > number / large).collect();
    small.extend(large);
    small
}

/// Returns the largest number that divides both evenly; the other number if one is zero.
pub fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_are_complete_and_ascending() {
        assert!(divisors(0).is_empty());
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
        assert_eq!(divisors(50), [1, 2, 5, 10, 25, 50]);
    }

    #[test]
    fn common_divisors_are_the_largest() {
        for (a, b, common) in [(12, 18, 6), (18, 12, 6), (7, 5, 1), (0, 4, 4), (4, 0, 4)] {
            assert_eq!(greatest_common_divisor(a, b), common);
        }
    }
}
