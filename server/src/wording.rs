//! Messages of the libraries, which name commands and flags, in the words of the API.

/// What messages name, and what the API has in its place.
const IN_PLACE: [(&str, &str); 9] = [
    // The server opens no file of a model.
    (
        "file = \"my-model.toml\", config = \"config.json\", or",
        "config = \"config.json\" with its content beside the job, or",
    ),
    ("`trainyard show models`", "GET /api/v1/catalogs"),
    ("`trainyard show instances`", "GET /api/v1/catalogs"),
    ("`trainyard show gpus`", "GET /api/v1/catalogs"),
    ("`trainyard show stacks`", "GET /api/v1/catalogs"),
    ("`trainyard what-if --help` lists all keys", "GET /api/v1/catalogs lists all keys, as `varied`"),
    ("`trainyard schemas` writes job.json, which describes", "GET /api/v1/openapi.json describes"),
    ("--vary", "vary"),
    ("--fix", "fix"),
];

/// Returns a message as clients of the API understand it.
pub(crate) fn of_api(text: &str) -> String {
    as_json(&IN_PLACE.iter().fold(text.to_owned(), |text, (command, path)| text.replace(command, path)))
}

/// Writes keys of files as those of objects: `name = "gpt2"` is `"name": "gpt2"`.
fn as_json(text: &str) -> String {
    let mut parts = text.split(" = ");
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let of_key = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        let key = told.trim_end_matches(of_key).len();
        let is_value = part.starts_with(|first: char| first.is_ascii_digit() || "\"[{".contains(first))
            || part.starts_with("true")
            || part.starts_with("false");
        if is_value && told[key..].starts_with(|first: char| first.is_ascii_lowercase()) {
            told = format!("{}\"{}\": {part}", &told[..key], &told[key..]);
        } else {
            told = format!("{told} = {part}");
        }
    }
    told
}

/// Returns the field of a question that a message is about, where it names the flag that the command line has for it.
pub(crate) fn field_of_api(field: &str) -> &str {
    match field.strip_prefix("--") {
        Some(flag) => flag.split(' ').next().unwrap_or(flag),
        None => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_flags_become_paths_and_fields() {
        let told = "`trainyard show instances` lists the catalog";
        assert_eq!(of_api(told), "GET /api/v1/catalogs lists the catalog");
        assert_eq!(of_api("in `--vary instances=…`: it is given twice"), "in `vary instances=…`: it is given twice");
        assert_eq!(of_api("global_batch = { min = 256, max = 9 }"), r#""global_batch": { "min": 256, "max": 9 }"#);
        let sum = "batch.micro 4 × parallel.data 4 = 16, a = b";
        assert_eq!(of_api(sum), sum);
        assert!(
            !of_api("write name = \"gpt2\", file = \"my-model.toml\", config = \"config.json\", or family = \"gpt\"")
                .contains("file")
        );
        assert_eq!(field_of_api("--vary instances=…"), "vary");
        assert_eq!(field_of_api("job[0].data.tokens"), "job[0].data.tokens");
    }
}
