//! JSON Schemas of what people write.

use schemars::Schema;
use serde_json::Value;

/// States in a schema that its numbers, and those of its fields and choices, may be texts too (`"10B"`): what
/// [`written`](crate::written) and its like read. Numbers in lists are not read so.
pub fn numbers_or_texts(schema: &mut Schema) {
    if let Some(keywords) = schema.as_object_mut() {
        or_text(keywords);
    }
}

fn or_text(keywords: &mut serde_json::Map<String, Value>) {
    if let Some(kind) = keywords.get_mut("type") {
        let kinds = kind.as_array().cloned().unwrap_or_else(|| vec![kind.clone()]);
        let number = kinds.iter().position(|kind| kind == "integer" || kind == "number");
        if let Some(at) = number.filter(|_| !kinds.iter().any(|kind| kind == "string")) {
            let with_text = [&kinds[..=at], &["string".into()], &kinds[at + 1..]].concat();
            *kind = Value::Array(with_text);
        }
    }
    let parts = keywords.iter_mut().flat_map(|(keyword, value)| match (keyword.as_str(), value) {
        ("properties", Value::Object(fields)) => fields.values_mut().collect(),
        ("anyOf" | "oneOf", Value::Array(choices)) => choices.iter_mut().collect(),
        ("additionalProperties", value) => vec![value],
        _ => Vec::new(),
    });
    parts.filter_map(Value::as_object_mut).for_each(or_text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_may_be_texts_wherever_they_are_read_as_such() {
        let mut schema: Schema = json!({
            "type": "object",
            "properties": {
                "tokens": { "type": ["number", "null"], "minimum": 1 },
                "quotas": { "type": ["object", "null"], "additionalProperties": { "type": "integer" } },
                "betas": { "type": ["array", "null"], "items": { "type": "number" } },
                "name": { "type": ["string", "null"] },
                "batch": { "anyOf": [{ "type": "integer" }, { "$ref": "#/$defs/Range" }] },
            },
            "additionalProperties": false,
        })
        .try_into()
        .expect("a schema");
        numbers_or_texts(&mut schema);
        let fields = &schema.as_value()["properties"];
        assert_eq!(fields["tokens"], json!({ "type": ["number", "string", "null"], "minimum": 1 }));
        assert_eq!(fields["quotas"]["additionalProperties"]["type"], json!(["integer", "string"]));
        assert_eq!(fields["betas"]["items"]["type"], "number");
        assert_eq!(fields["name"]["type"], json!(["string", "null"]));
        assert_eq!(fields["batch"]["anyOf"][0]["type"], json!(["integer", "string"]));
    }
}
