//! `aws service-quotas list-service-quotas` of `ec2` and of `sagemaker`: what an account may rent at once in a region.

use super::{Account, QuotaKind, is_name, needed};
use serde_json::Value;
use trainyard_units::Invalid;

/// Classes of EC2 by the names of their quotas (Amazon EC2 User Guide, "On-Demand Instance quotas" and "Spot Instance
/// quotas"), with the key that a job uses: a class, or patterns of the types that share the quota.
const CLASSES: [(&str, QuotaKind, &str); 5] = [
    ("Running On-Demand P instances", QuotaKind::OnDemand, "P"),
    ("Running On-Demand G and VT instances", QuotaKind::OnDemand, "G and VT"),
    ("All P4, P3 and P2 Spot Instance Requests", QuotaKind::Spot, "p3*,p4*"),
    ("All P5 Spot Instance Requests", QuotaKind::Spot, "p5*"),
    ("All G and VT Spot Instance Requests", QuotaKind::Spot, "G and VT"),
];

/// The ends of the names of SageMaker's quotas, behind the type.
const TRAINING: &str = " for training job usage";

pub(super) fn read(account: &mut Account, quotas: &[Value]) -> Result<usize, Invalid> {
    let mut found = 0;
    for (index, quota) in quotas.iter().enumerate() {
        let name = needed(quota, "Quotas", index, "QuotaName")?;
        let Some((kind, key)) = about(name) else { continue };
        let at = |field: &str| format!("Quotas[{index}].{field}");
        let given = quota.get("Value").ok_or_else(|| Invalid::missing(at("Value"), "every entry has it"))?;
        let value = given.as_f64().filter(|value| (0.0..1e12).contains(value));
        let value = value.ok_or_else(|| Invalid::value(at("Value"), given, "a number that is at least 0"))?;
        let arn = needed(quota, "Quotas", index, "QuotaArn")?;
        let region = arn.split(':').nth(3).filter(|region| is_name(region));
        let region = region.ok_or_else(|| Invalid::value(at("QuotaArn"), arn, "an ARN with a region"))?;
        account.quotas.insert((region.into(), kind, key.into()), value as u64);
        found += 1;
    }
    Ok(found)
}

/// Returns what a quota limits, if it limits training.
fn about(name: &str) -> Option<(QuotaKind, &str)> {
    if let Some((_, kind, key)) = CLASSES.iter().find(|(class, ..)| *class == name) {
        return Some((*kind, key));
    }
    let instance = name.strip_suffix(TRAINING)?.strip_prefix("ml.").filter(|instance| is_name(instance))?;
    // Of spot instances that train there is another quota: `ml.p4d.24xlarge for spot training job usage`.
    Some((QuotaKind::Sagemaker, instance))
}
