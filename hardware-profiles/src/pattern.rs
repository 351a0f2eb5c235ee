//! Patterns of names, as a shell has them.

/// Returns `true` if a name matches a pattern in which `*` stands for any text.
///
/// Each part between stars is matched at its first occurrence: if the rest of the pattern matches after a later
/// occurrence, it matches after the first as well. The time therefore does not grow with the number of ways to split
/// the name, of which a pattern with many stars has more than can be tried.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let head = parts.next().unwrap_or_default();
    let Some(tail) = parts.next_back() else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail)) else { return false };
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match_as_a_shell_does() {
        assert!(matches("p3.*", "p3.16xlarge") && !matches("p3.*", "p3dn.24xlarge"));
        assert!(matches("*xlarge", "p3.16xlarge") && matches("*", "anything") && !matches("p3", "p3.2xlarge"));
        assert!(matches("*.*x*e", "p3.16xlarge") && !matches("p3*3", "p3") && matches("p3**", "p3"));
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_longer_than_one_of_few() {
        for stars in [30, 100_000] {
            let stars = "*".repeat(stars);
            assert!(matches(&stars, "p4d.24xlarge") && !matches(&format!("{stars}z"), "p4d.24xlarge"));
            assert!(!matches(&format!("{stars}z{stars}"), "p4d.24xlarge"));
        }
    }

    /// By the definition: the text for a star is tried out.
    fn tried_out(pattern: &str, name: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == name,
            Some((head, tail)) => {
                name.strip_prefix(head).is_some_and(|rest| (0..=rest.len()).any(|from| tried_out(tail, &rest[from..])))
            }
        }
    }

    proptest! {
        #[test]
        fn a_star_stands_for_any_text(pattern in "[ab*]{0,8}", name in "[ab]{0,8}") {
            prop_assert_eq!(matches(&pattern, &name), tried_out(&pattern, &name));
        }
    }
}
