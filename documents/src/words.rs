//! What parsers say, in words that are not of a programming language.

/// The types of whole numbers that may be below 0, and those that may not.
const SIGNED: [&str; 5] = ["i8", "i16", "i32", "i64", "isize"];
const UNSIGNED: [&str; 5] = ["u8", "u16", "u32", "u64", "usize"];

/// Rewrites a message of serde. `table` is what a group of keys with values is called: an object in JSON.
///
/// ```
/// let message = "invalid type: floating point `1.5`, expected i32";
/// let plain = trainyard_documents::plain_words(message, "a table");
/// assert_eq!(plain, "invalid type: floating point `1.5`, expected a whole number");
/// ```
pub fn plain_words(message: &str, table: &str) -> String {
    let text = message
        .replace("unknown field", "unknown key")
        .replace("unknown variant", "unknown value")
        .replace(" as i128", "")
        .replace("EOF while parsing", "the text ends inside");
    let Some((head, expected)) = text.rsplit_once("expected ") else { return text };
    let shown = match expected {
        number if UNSIGNED.contains(&number) => "a whole number, at least 0",
        number if SIGNED.contains(&number) => "a whole number",
        "f32" | "f64" => "a number",
        "a string" => "text in quotes",
        "a sequence" => "a list in brackets",
        "a boolean" => "true or false",
        "a map" => table,
        form if form.starts_with("struct ") => table,
        _ => return text,
    };
    // A list is taken for the fields of a struct, one by one.
    let head = if head.starts_with("invalid length ") { "invalid type: sequence, " } else { head };
    format!("{head}expected {shown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_of_a_programming_language_is_named() {
        let plain = |message: &str| plain_words(message, "an object");
        for (message, words) in [
            (
                "invalid value: integer `-3`, expected u32",
                "invalid value: integer `-3`, expected a whole number, at least 0",
            ),
            (
                "invalid type: string \"gpt2\", expected struct ModelChoice",
                "invalid type: string \"gpt2\", expected an object",
            ),
            (
                "invalid length 0, expected struct PlanQuestion with 4 elements",
                "invalid type: sequence, expected an object",
            ),
            ("invalid type: map, expected a sequence", "invalid type: map, expected a list in brackets"),
            ("unknown field `a`, expected `b` or `c`", "unknown key `a`, expected `b` or `c`"),
            ("missing field `a`", "missing field `a`"),
        ] {
            assert_eq!(plain(message), words);
        }
        for number in SIGNED.iter().chain(&UNSIGNED) {
            assert!(plain(&format!("invalid type: map, expected {number}")).contains("expected a whole number"));
        }
    }
}
