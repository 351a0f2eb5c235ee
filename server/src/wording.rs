//! Messages of the libraries, which name commands and flags, in the words of the API.

/// What messages name, and what the API has in its place.
const IN_PLACE: [(&str, &str); 8] = [
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
    IN_PLACE.iter().fold(text.to_owned(), |text, (command, path)| text.replace(command, path))
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
        assert_eq!(field_of_api("--vary instances=…"), "vary");
        assert_eq!(field_of_api("job[0].data.tokens"), "job[0].data.tokens");
    }
}
