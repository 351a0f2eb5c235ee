//! The catalog of data sets, as a list and entry by entry with the source of every number.

use crate::format::{Width, facts, table};
use trainyard_models::{Fact, StoredDataSet, catalog};
use trainyard_units::human_count;

/// Formats a table of all data sets.
pub fn data_sets(sets: &[StoredDataSet], width: Width) -> String {
    let rows = sets.iter().map(|set| {
        let bytes = match (&set.bytes_per_sample, &set.bytes_per_token) {
            (Some(bytes), _) => human_count(bytes.value),
            (None, Some(bytes)) => format!("{} or {} a token", bytes.value[0], bytes.value[1]),
            (None, None) => "–".into(),
        };
        let samples = set.samples.as_ref().map_or_else(|| "–".into(), |samples| human_count(samples.value));
        [set.name.clone(), set.format.name().into(), bytes, samples, set.description.clone()]
    });
    table(width, ["data set", "format", ">bytes a sample", ">samples", "what it holds"], rows)
}

/// Formats one data set.
pub fn data_set(set: &StoredDataSet) -> String {
    let number = |fact: &Fact<u64>| format!("{}  [{}]", human_count(fact.value), fact.source);
    let mut rows = vec![("format", set.format.name().to_owned())];
    rows.extend(set.bytes_per_sample.as_ref().map(|fact| ("bytes a sample", number(fact))));
    rows.extend(set.bytes_deviation.as_ref().map(|fact| ("standard deviation", number(fact))));
    rows.extend(set.bytes_per_token.as_ref().map(|fact| {
        let [narrow, wide] = fact.value;
        ("bytes a token", format!("{narrow} or, of a large vocabulary, {wide}  [{}]", fact.source))
    }));
    rows.extend(set.samples.as_ref().map(|fact| ("samples", number(fact))));
    let models = catalog().filter(|entry| entry.dataset == set.name);
    let names: Vec<&str> = models.map(|entry| entry.model.name()).collect();
    rows.push(("usual for", names.join(", ")));
    format!("{} ({})\n\n{}", set.name, set.description, facts(&rows))
}
