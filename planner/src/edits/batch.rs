//! The batch sizes of a plan.

use trainyard_plan::{Fixed, PlanSpec};
use trainyard_units::counted;

/// Sets the batch sizes, with what follows from them and from the number of replicas.
pub(crate) fn set_batch(spec: &mut PlanSpec, old: &PlanSpec, fixed: &Fixed) -> Result<(), String> {
    let data = u64::from(spec.parallel.data);
    if let (Some(micro), Some(accumulation)) = (fixed.micro, fixed.accumulation) {
        let product = micro.checked_mul(accumulation).and_then(|replica| replica.checked_mul(data));
        (spec.batch.micro, spec.batch.accumulation) = (micro, accumulation);
        spec.batch.global = fixed.global.or(product).ok_or("so many samples are beyond counting")?;
        return Ok(());
    }
    let global = fixed.global.unwrap_or(old.batch.global);
    if !global.is_multiple_of(data) {
        return Err(format!(
            "the global batch of {} does not divide evenly among {}",
            counted(global, "sample"),
            counted(data, "replica")
        ));
    }
    let replica = global / data;
    let divides = |part: u64, what: &str| {
        let evenly = replica.is_multiple_of(part);
        let wrong = || format!("{what} {part} does not divide the {} of a replica", counted(replica, "sample"));
        if evenly { Ok(part) } else { Err(wrong()) }
    };
    let micro = match (fixed.micro, fixed.accumulation) {
        (Some(micro), _) => divides(micro, "micro-batch")?,
        (None, Some(accumulation)) => replica / divides(accumulation, "accumulation")?,
        (None, None) => {
            let most = old.batch.micro.min(replica);
            (1..=most).rev().find(|micro| replica.is_multiple_of(*micro)).unwrap_or(1)
        }
    };
    (spec.batch.global, spec.batch.micro, spec.batch.accumulation) = (global, micro, replica / micro);
    Ok(())
}
