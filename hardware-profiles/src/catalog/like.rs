//! Stacks that state only what sets them apart from another one, which `like` names.

use super::look_up;
use toml::{Table, Value};
use trainyard_units::Invalid;

/// What is said of one stack alone: its labels and what published steps say of it are never those of another.
const OWN: [&str; 4] = ["name", "description", "seen", "published"];

/// Tables whose keys are taken one by one.
const BY_KEY: [&str; 2] = ["flash_attention", "runs"];

/// Returns the entry of a stack with what it leaves out: that of the stack that it is like, and so on. A number and its
/// source are one value.
///
/// # Errors
///
/// Fails if there is no such stack, or if stacks are like each other in a circle.
pub(super) fn completed(stack: &Table, stacks: &[(String, Table)]) -> Result<Table, Invalid> {
    let mut whole = stack.clone();
    let mut chain = vec![name_of(stack)];
    // What a stack takes from its base includes the name of the base's own one.
    while let Some(like) = whole.remove("like") {
        let Value::String(name) = &like else {
            return Err(Invalid::value("like", like, "the name of another stack")
                .with_hint("like = \"pytorch\" takes the stated defaults"));
        };
        let tables = stacks.iter().map(|(_, table)| table);
        let base = look_up("stack", tables, name, |table| name_of(table)).map_err(|error| error.at("like"))?;
        chain.push(name_of(base));
        if chain[..chain.len() - 1].contains(&name_of(base)) {
            let rule = format!("it must lead to a stack that is like no other: {}", chain.join(" is like "));
            return Err(Invalid::breaks("like", format!("`{}`", chain[1]), rule)
                .with_hint("state one of them in full, without `like`"));
        }
        take(&mut whole, base);
    }
    Ok(whole)
}

fn name_of(stack: &Table) -> &str {
    stack.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Adds what is left out.
fn take(whole: &mut Table, base: &Table) {
    for (key, value) in base.iter().filter(|(key, _)| !OWN.contains(&key.as_str())) {
        match (whole.get_mut(key), value) {
            (None, _) => {
                whole.insert(key.clone(), value.clone());
            }
            (Some(Value::Table(own)), Value::Table(base)) if BY_KEY.contains(&key.as_str()) => {
                for (key, value) in base {
                    own.entry(key.as_str()).or_insert_with(|| value.clone());
                }
            }
            (Some(_), _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    fn of(texts: &[&str]) -> Result<Table, Invalid> {
        let stacks: Vec<(String, Table)> =
            texts.iter().map(|text| (String::new(), toml::from_str(text).expect("well formed"))).collect();
        completed(&stacks[0].1, &stacks)
    }

    #[test]
    fn what_is_left_out_is_that_of_the_base_and_of_the_base_of_that() {
        let own = "name = \"a\"\nlike = \"b\"\ngemm = { value = 2.0, source = \"mine\" }\n[runs]\ndegrees = []\n";
        let base = "name = \"b\"\nlike = \"c\"\ndescription = \"of b\"\ngemm = { value = 1.0, source = \"b\", fitted = 3 }\n\
                    [runs]\ndegrees = [\"tensor\"]\nsource = \"b\"\n[[seen]]\nrows = 4\n[[published]]\nstack = \"b\"\n";
        let last =
            "name = \"c\"\ngemm = 3\ntraffic = { value = 0.5, source = \"c\" }\n[runs]\nsource = \"c\"\ntoday = true\n";
        let expected = "name = \"a\"\ngemm = { value = 2.0, source = \"mine\" }\ntraffic = { value = 0.5, source = \"c\" }\n\
                        [runs]\ndegrees = []\nsource = \"b\"\ntoday = true\n";
        assert_eq!(of(&[own, base, last]), Ok(toml::from_str(expected).expect("well formed")));
    }

    #[test]
    fn a_base_must_be_there_and_lead_to_an_end() {
        let told = |texts: &[&str]| {
            let error = of(texts).expect_err("no such base");
            (error.to_string(), error.hint().expect("what to do"))
        };
        let (text, hint) = told(&["name = \"a\"\nlike = \"pytroch\"", "name = \"pytorch\""]);
        assert_eq!(text, "in `like`: no stack is called `pytroch`");
        assert_eq!(hint, "did you mean `pytorch`?");
        let (text, hint) =
            told(&["name = \"a\"\nlike = \"b\"", "name = \"b\"\nlike = \"c\"", "name = \"c\"\nlike = \"b\""]);
        assert_eq!(
            text,
            "`like` is `b`, but it must lead to a stack that is like no other: a is like b is like c is like b"
        );
        assert!(hint.contains("without `like`"), "{hint}");
        assert!(told(&["name = \"a\"\nlike = \"a\""]).0.ends_with("a is like a"));
        assert_eq!(told(&["name = \"a\"\nlike = 3"]).0, "`like` is 3, but it must be the name of another stack");
    }

    /// Each fact stands in one file: what a stack repeats would stay as it is when the base learns better.
    #[test]
    fn no_stack_of_the_catalog_says_what_its_base_says_and_no_base_is_far() {
        let stacks = tables("stacks/");
        let of = |name: &str| &stacks.iter().find(|(_, table)| name_of(table) == name).expect(name).1;
        let base = |stack: &Table| Some(of(stack.get("like")?.as_str()?));
        for (path, stack) in &stacks {
            assert_eq!(*path, format!("stacks/{}.toml", name_of(stack)));
            let Some(first) = base(stack) else { continue };
            assert_eq!(base(first).and_then(base).map(name_of), None, "{path}: too many files to read");
            let whole = completed(first, &stacks).expect("a stack of the catalog");
            for (key, value) in stack {
                assert_ne!(whole.get(key), Some(value), "{path}: `{key}`");
                let table = whole.get(key).and_then(Value::as_table).filter(|_| BY_KEY.contains(&key.as_str()));
                let same = table
                    .zip(value.as_table())
                    .and_then(|(base, own)| own.iter().find(|(word, value)| base.get(*word) == Some(value)));
                assert_eq!(same, None, "{path}: `{key}`");
            }
        }
    }
}
