//! What a user got wrong, in one form for every file, flag and field.

use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;

/// A value that a user wrote and that cannot be used: the field, the value, what is allowed, and a hint.
///
/// Every crate reports mistakes of its users with it; enums of errors are for causes that callers tell apart. It reads
/// as one sentence:
///
/// ```
/// use trainyard_units::Invalid;
///
/// let wrong = Invalid::range("parallel.tensor", 0, 1..=1024).with_hint("1 is no tensor parallelism");
/// assert_eq!(wrong.to_string(), "`parallel.tensor` is 0, but it must be from 1 to 1024");
/// assert_eq!(wrong.within("job[2]").to_string(), "`job[2].parallel.tensor` is 0, but it must be from 1 to 1024");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    field: String,
    /// Boxed, so that results with other facts beside it stay small.
    problem: Box<Problem>,
    hint: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Problem {
    /// The value breaks a rule, which is a clause: `it must be …`; perhaps with what is wrong with the value.
    Value { value: String, rule: String, why: Option<String> },
    /// There is no value; the text says why one is needed.
    Missing { why: String },
    /// Another field is set too.
    Conflict { other: String, rule: String },
    /// A sentence about the field says it all; perhaps with the value and what is allowed, which it holds in its own words.
    Other { sentence: String, facts: Option<(String, String)> },
}

impl Invalid {
    fn new(field: impl Into<String>, problem: Problem) -> Self {
        Self { field: field.into(), problem: Box::new(problem), hint: None }
    }

    /// Returns "`field` is value, but it must be allowed".
    pub fn value(field: impl Into<String>, value: impl Display, allowed: impl Display) -> Self {
        Self::breaks(field, value, format!("it must be {allowed}"))
    }

    /// Returns "`field` is value, but it must be from the smallest to the largest".
    pub fn range<T: Display>(field: impl Into<String>, value: impl Display, range: RangeInclusive<T>) -> Self {
        Self::value(field, value, format!("from {} to {}", range.start(), range.end()))
    }

    /// Returns "`field` is value, but rule": for a value that contradicts another.
    pub fn breaks(field: impl Into<String>, value: impl Display, rule: impl Into<String>) -> Self {
        Self::new(field, Problem::Value { value: value.to_string(), rule: rule.into(), why: None })
    }

    /// Returns "`field` is missing: why".
    pub fn missing(field: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(field, Problem::Missing { why: why.into() })
    }

    /// Returns "`first` and `second` exclude each other: rule", with the hint to leave one of them out.
    pub fn conflict(first: impl Into<String>, second: impl Into<String>, rule: impl Into<String>) -> Self {
        let (first, second) = (first.into(), second.into());
        let hint = format!("leave `{first}` or `{second}` out, or change one of them");
        Self::new(first, Problem::Conflict { other: second, rule: rule.into() }).with_hint(hint)
    }

    /// Returns "in `field`: sentence": for what is wrong inside a field, such as a name that is not in the catalog.
    pub fn inside(field: impl Into<String>, sentence: impl Display) -> Self {
        Self::new(field, Problem::Other { sentence: sentence.to_string(), facts: None })
    }

    /// Returns the sentence alone: for what is wrong with the whole.
    pub fn whole(sentence: impl Display) -> Self {
        Self::inside("", sentence)
    }

    /// Adds what is wrong with the value, behind the rule that it breaks.
    #[must_use]
    pub fn because(mut self, cause: impl Display) -> Self {
        if let Problem::Value { why, .. } = &mut *self.problem {
            *why = Some(cause.to_string());
        }
        self
    }

    /// Adds the value that a sentence about the field is about, and what is allowed in its place.
    #[must_use]
    pub fn with_facts(mut self, value: impl Into<String>, allowed: impl Into<String>) -> Self {
        if let Problem::Other { facts, .. } = &mut *self.problem {
            *facts = Some((value.into(), allowed.into()));
        }
        self
    }

    /// Calls the field as the user wrote it: by the flag that sets it.
    #[must_use]
    pub fn called(mut self, name: &str) -> Self {
        self.field = name.into();
        self
    }

    /// Adds what the user may do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds what the user may do about it, if there is more to say than the sentence does.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// Places the fields in a table of a larger file: `count` within `job[0]` is `job[0].count`.
    #[must_use]
    pub fn within(mut self, table: &str) -> Self {
        let placed = |field: &str| if field.is_empty() { table.into() } else { format!("{table}.{field}") };
        self.field = placed(&self.field);
        if let Problem::Conflict { other, .. } = &mut *self.problem {
            *other = placed(other);
        }
        self
    }

    /// Path of the field.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The value that was given, if one was, without the quotes that it has in the sentence.
    pub fn given(&self) -> Option<&str> {
        match &*self.problem {
            Problem::Value { value, .. } => Some(unquoted(value).unwrap_or(value)),
            Problem::Other { facts, .. } => facts.as_ref().map(|(value, _)| value.as_str()),
            Problem::Missing { .. } | Problem::Conflict { .. } => None,
        }
    }

    /// What the field may be, where a rule says that, without its words "it must be".
    pub fn allowed(&self) -> Option<&str> {
        match &*self.problem {
            Problem::Value { rule, .. } => rule.strip_prefix("it must be "),
            Problem::Missing { .. } | Problem::Conflict { .. } => None,
            Problem::Other { facts, .. } => facts.as_ref().map(|(_, allowed)| allowed.as_str()),
        }
    }

    /// Returns what the user may do about it.
    pub fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// Returns a value without the quotes around it; nothing if they are not around the whole.
fn unquoted(value: &str) -> Option<&str> {
    value.strip_prefix('`')?.strip_suffix('`').filter(|bare| !bare.contains('`'))
}

impl Display for Invalid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let field = &self.field;
        match &*self.problem {
            Problem::Value { value, rule, why: None } => write!(f, "`{field}` is {value}, but {rule}"),
            Problem::Value { value, rule, why: Some(why) } => write!(f, "`{field}` is {value}, but {rule}: {why}"),
            Problem::Missing { why } => write!(f, "`{field}` is missing: {why}"),
            Problem::Conflict { other, rule } => write!(f, "`{field}` and `{other}` exclude each other: {rule}"),
            Problem::Other { sentence, .. } if field.is_empty() => f.write_str(sentence),
            Problem::Other { sentence, .. } => write!(f, "in `{field}`: {sentence}"),
        }
    }
}

impl std::error::Error for Invalid {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_mistake_is_one_sentence_about_its_field() {
        let cases = [
            (Invalid::value("data.tokens", -5, "a count"), "`job.data.tokens` is -5, but it must be a count"),
            (Invalid::range("layers", 0, 1..=9), "`job.layers` is 0, but it must be from 1 to 9"),
            (Invalid::breaks("schedule", "zb-v", "it needs 2 stages"), "`job.schedule` is zb-v, but it needs 2 stages"),
            (Invalid::missing("model", "name one"), "`job.model` is missing: name one"),
            (
                Invalid::conflict("steps", "epochs", "write one"),
                "`job.steps` and `job.epochs` exclude each other: write one",
            ),
            (Invalid::inside("model", "no model is called `x`"), "in `job.model`: no model is called `x`"),
            (Invalid::whole("it is empty"), "in `job`: it is empty"),
        ];
        for (invalid, sentence) in cases {
            assert_eq!(invalid.within("job").to_string(), sentence);
        }
        assert_eq!(Invalid::whole("it is empty").to_string(), "it is empty");
    }

    #[test]
    fn the_value_and_what_is_allowed_can_be_asked_for() {
        let told = |invalid: &Invalid| (invalid.given().map(str::to_owned), invalid.allowed().map(str::to_owned));
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(told(&Invalid::range("layers", 0, 1..=9)), (some("0"), some("from 1 to 9")));
        assert_eq!(told(&Invalid::breaks("a", "b", "it needs 2")), (some("b"), None));
        assert_eq!(told(&Invalid::missing("model", "name one")), (None, None));
        assert_eq!(told(&Invalid::whole("it is empty")), (None, None));
        let unread = Invalid::value("goal.deadline", "`1`", "a duration such as 3d").because("it has no unit");
        assert_eq!(told(&unread), (some("1"), some("a duration such as 3d")));
        assert_eq!(unread.to_string(), "`goal.deadline` is `1`, but it must be a duration such as 3d: it has no unit");
        assert_eq!(unread.called("--deadline").field(), "--deadline");
        let unknown = Invalid::inside("model", "no model is called `x`").with_facts("x", "a model of the catalog");
        assert_eq!(told(&unknown), (some("x"), some("a model of the catalog")));
    }

    #[test]
    fn a_conflict_has_advice_that_others_replace() {
        let conflict = Invalid::conflict("steps", "epochs", "write one");
        assert_eq!(conflict.hint().as_deref(), Some("leave `steps` or `epochs` out, or change one of them"));
        assert_eq!(conflict.clone().maybe_hint(None), conflict);
        assert_eq!(conflict.with_hint("choose").hint().as_deref(), Some("choose"));
        assert_eq!(Invalid::missing("model", "name one").hint(), None);
    }
}
