//! Fields by their dotted paths.

use serde_json::{Value, json};

/// Returns the place of a field, `training.lora.rank`, in the JSON of a job. Tables on the way that are not there are
/// made; a field that is not there is null.
///
/// # Errors
///
/// When the path leads through something that has no fields: the name that is below it.
pub fn place_at<'a>(job: &'a mut Value, path: &str) -> Result<&'a mut Value, String> {
    let (way, field) = path.rsplit_once('.').map_or((None, path), |(way, field)| (Some(way), field));
    let step = |place: &'a mut Value, name: &str, new: Value| match place.as_object_mut() {
        Some(fields) => Ok(fields.entry(name).or_insert(new)),
        None => Err(format!("`{name}` is below a value")),
    };
    let table =
        way.into_iter().flat_map(|way| way.split('.')).try_fold(job, |place, name| step(place, name, json!({})))?;
    step(table, field, Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_on_the_way_are_made_and_values_are_none() {
        let mut job = json!({ "training": { "steps": 3 } });
        *place_at(&mut job, "training.steps").expect("a field") = json!(4);
        *place_at(&mut job, "training.lora.rank").expect("a field") = json!(8);
        *place_at(&mut job, "name").expect("a field") = json!("own");
        assert_eq!(job, json!({ "training": { "steps": 4, "lora": { "rank": 8 } }, "name": "own" }));
        assert_eq!(place_at(&mut job, "data.samples"), Ok(&mut Value::Null));
        assert_eq!(place_at(&mut job, "training.steps.odd"), Err("`odd` is below a value".into()));
    }
}
