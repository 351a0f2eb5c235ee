//! Documents against their JSON Schemas, as far as schemas of this program go.

use serde_json::{Map, Value};

/// Why a document is none of those that a schema describes. Fails where the schema itself is none.
pub(crate) fn problem(document: &Value, schema: &Value) -> Option<String> {
    Check { root: schema }.value(document, schema, "").err()
}

struct Check<'a> {
    root: &'a Value,
}

impl Check<'_> {
    fn value(&self, value: &Value, schema: &Value, at: &str) -> Result<(), String> {
        let Value::Object(keywords) = schema else {
            let all = schema.as_bool().expect("a schema is an object or a boolean");
            return if all { Ok(()) } else { Err(format!("`{at}` is not allowed")) };
        };
        for (keyword, wanted) in keywords {
            let holds = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" | "default" | "format" => true,
                "$ref" => {
                    let place = wanted.as_str().and_then(|text| text.strip_prefix('#')).expect("a place in this file");
                    let named = self.root.pointer(place).unwrap_or_else(|| panic!("{place} is not in the schema"));
                    self.value(value, named, at)?;
                    true
                }
                "type" => is_one(wanted, |name| is_of_type(value, name)),
                "const" => value == wanted,
                "enum" => list(wanted).contains(value),
                "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().expect("a number")),
                "maximum" => value.as_f64().is_none_or(|number| number <= wanted.as_f64().expect("a number")),
                "exclusiveMinimum" => value.as_f64().is_none_or(|number| number > wanted.as_f64().expect("a number")),
                "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= count(wanted)),
                "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= count(wanted)),
                "anyOf" => list(wanted).iter().any(|one| self.value(value, one, at).is_ok()),
                "oneOf" => list(wanted).iter().filter(|one| self.value(value, one, at).is_ok()).count() == 1,
                "required" => {
                    is_one(wanted, |_| true);
                    let names = list(wanted).iter().filter_map(Value::as_str);
                    value.as_object().is_none_or(|fields| names.into_iter().all(|name| fields.contains_key(name)))
                }
                "properties" | "additionalProperties" => {
                    self.fields(value, keywords, keyword, at)?;
                    true
                }
                "items" | "prefixItems" => {
                    self.items(value, wanted, at)?;
                    true
                }
                other => panic!("`{other}` is not a keyword that is understood here"),
            };
            if !holds {
                return Err(format!("`{at}` is {value}, but {keyword} is {wanted}"));
            }
        }
        Ok(())
    }

    fn fields(&self, value: &Value, keywords: &Map<String, Value>, keyword: &str, at: &str) -> Result<(), String> {
        let Some(fields) = value.as_object() else { return Ok(()) };
        let named = keywords.get("properties").map(|named| named.as_object().expect("schemas by name"));
        for (name, field) in fields {
            let own = named.and_then(|named| named.get(name));
            let schema = if keyword == "properties" { own } else { keywords.get(keyword).filter(|_| own.is_none()) };
            schema.map_or(Ok(()), |schema| self.value(field, schema, &format!("{at}/{name}")))?;
        }
        Ok(())
    }

    fn items(&self, value: &Value, schema: &Value, at: &str) -> Result<(), String> {
        let items = value.as_array().into_iter().flatten().enumerate();
        let schema_of = |index: usize| schema.as_array().map_or(Some(schema), |each| each.get(index));
        for (index, item) in items {
            schema_of(index).map_or(Ok(()), |schema| self.value(item, schema, &format!("{at}/{index}")))?;
        }
        Ok(())
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a count")
}

/// Whether a test holds of a text, or of one of some texts.
fn is_one(value: &Value, test: impl Fn(&str) -> bool) -> bool {
    let texts = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    texts.iter().any(|text| test(text.as_str().expect("a text")))
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("`{other}` is not a type"),
    }
}
