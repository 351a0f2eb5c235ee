//! Files of quotas: what an account may rent at once, by region and kind.

use crate::failure::Failure;
use crate::marks::QUOTAS;
use crate::{diagnose, read};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_interop::aws::QuotaKind;
use trainyard_plan::{ClusterChoice, Pricing};
use trainyard_planner::DEFAULT_REGION;
use trainyard_units::{Invalid, similar};

/// The quotas of an account.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuotasFile {
    /// The day on which they were read.
    #[serde(rename = "date")]
    _date: String,
    /// By region and kind, as `cluster.quotas` of a job has them.
    regions: BTreeMap<String, BTreeMap<String, BTreeMap<String, u64>>>,
}

/// Formats quotas, at least one, as a file.
pub(crate) fn toml(quotas: &BTreeMap<(String, QuotaKind, String), u64>, today: &str) -> String {
    let mut lines = vec![QUOTAS.to_owned(), format!("date = \"{today}\"")];
    let mut last = None;
    for ((region, kind, key), value) in quotas {
        if last != Some((region, kind)) {
            lines.extend([String::new(), format!("[regions.{region}.{}]", kind.name())]);
            last = Some((region, kind));
        }
        lines.push(format!("\"{key}\" = {value}"));
    }
    lines.join("\n") + "\n"
}

/// Reads the quotas of a file that are about the machines of a job: of its region, service and terms. None are about
/// capacity blocks.
pub(crate) fn read(path: &Path, cluster: &ClusterChoice) -> Result<BTreeMap<String, u64>, Failure> {
    let mut file: QuotasFile = diagnose::from_toml("quotas", &read::text("quotas", path)?, path)?;
    let region = cluster.region.as_deref().unwrap_or(DEFAULT_REGION);
    let kind = match (cluster.service.as_deref(), cluster.pricing) {
        (Some("sagemaker"), _) => QuotaKind::Sagemaker,
        (_, Some(Pricing::Spot)) => QuotaKind::Spot,
        _ => QuotaKind::OnDemand,
    };
    refuse_unknown_kinds(&file, path)?;
    if cluster.pricing == Some(Pricing::CapacityBlock) {
        return Ok(BTreeMap::new());
    }
    let kinds = |(region, kinds): (&String, &BTreeMap<String, _>)| {
        format!("{region} ({})", kinds.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
    };
    let known: Vec<String> = file.regions.iter().map(kinds).collect();
    let own = file.regions.remove(region).and_then(|mut kinds| kinds.remove(kind.name()));
    own.ok_or_else(|| {
        Failure::input(format!("`{}` has no {} quotas of {region}", path.display(), kind.name())).hint(format!(
            "it has quotas of {}; `trainyard prices import` adds what is in more files",
            known.join(", ")
        ))
    })
}

/// Refuses a table of quotas that is of nothing that quotas are known of: it would be passed over.
fn refuse_unknown_kinds(file: &QuotasFile, path: &Path) -> Result<(), Failure> {
    let names = [QuotaKind::OnDemand, QuotaKind::Spot, QuotaKind::Sagemaker].map(QuotaKind::name);
    let all = file.regions.iter().flat_map(|(region, kinds)| kinds.keys().map(move |kind| (region, kind)));
    let Some((region, kind)) = all.into_iter().find(|(_, kind)| !names.contains(&kind.as_str())) else { return Ok(()) };
    let wrong =
        Invalid::value(format!("regions.{region}"), format!("`{kind}`"), format!("one of {}", names.join(", ")));
    let hint = similar(kind, names).map(|meant| format!("did you mean `{meant}`?"));
    let hint = hint.unwrap_or_else(|| format!("`[regions.{region}.{}]` is such a table", names[0]));
    Err(Failure::input(format!("cannot read quotas `{}`", path.display())).because_of(&wrong.with_hint(hint)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_as_they_are_written() {
        let key = |kind, key: &str| ("us-east-1".to_owned(), kind, key.to_owned());
        let quotas = BTreeMap::from([
            (key(QuotaKind::OnDemand, "P"), 192),
            (key(QuotaKind::OnDemand, "G and VT"), 64),
            (key(QuotaKind::Spot, "p4*"), 96),
        ]);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("quotas.toml");
        std::fs::write(&path, toml(&quotas, "2026-11-25")).expect("room");
        let of = |pricing| read(&path, &ClusterChoice { pricing, ..ClusterChoice::default() }).expect("quotas");
        assert_eq!(of(None), BTreeMap::from([("P".into(), 192), ("G and VT".into(), 64)]));
        assert_eq!(of(Some(Pricing::Spot)), BTreeMap::from([("p4*".into(), 96)]));
        let elsewhere = ClusterChoice { region: Some("eu-west-1".into()), ..ClusterChoice::default() };
        let failure = read(&path, &elsewhere).expect_err("another region");
        assert!(failure.hint_text().is_some_and(|hint| hint.contains("us-east-1 (on-demand, spot)")), "{failure:?}");
    }

    #[test]
    fn a_table_of_no_known_kind_is_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("quotas.toml");
        let text = "date = \"2026-11-25\"\n[regions.us-east-1.ondemand]\nP = 192\n";
        std::fs::write(&path, text).expect("room");
        let failure = read(&path, &ClusterChoice::default()).expect_err("no such kind");
        let told = "`regions.us-east-1` is `ondemand`, but it must be one of on-demand, spot, sagemaker";
        assert_eq!((failure.causes()[0].as_str(), failure.hint_text()), (told, Some("did you mean `on-demand`?")));
    }
}
