//! Python literals from JSON values.

use serde_json::Value;

/// Formats a value as a Python expression, its lines after the first indented by `indent` spaces. JSON's strings and
/// finite numbers are Python's too.
pub(super) fn literal(value: &Value, indent: usize) -> String {
    let inner = " ".repeat(indent + 4);
    let close = " ".repeat(indent);
    match value {
        Value::Null => "None".into(),
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Array(items) if items.is_empty() => "[]".into(),
        Value::Object(fields) if fields.is_empty() => "{}".into(),
        Value::Array(items) => {
            let items: String = items.iter().map(|item| format!("{inner}{},\n", literal(item, indent + 4))).collect();
            format!("[\n{items}{close}]")
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| {
                format!("{inner}{}: {},\n", Value::from(key.as_str()), literal(value, indent + 4))
            };
            let fields: String = fields.iter().map(field).collect();
            format!("{{\n{fields}{close}}}")
        }
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn truth_and_nothing_have_pythons_names() {
        let value = json!({ "a": true, "b": [null, "x\"y"], "c": {} });
        let expected =
            "{\n    \"a\": True,\n    \"b\": [\n        None,\n        \"x\\\"y\",\n    ],\n    \"c\": {},\n}";
        assert_eq!(literal(&value, 0), expected);
    }
}
