//! The numbers of learning, checked before anything is planned.

use trainyard_plan::{Decay, Optimizer, TrainingSpec};
use trainyard_units::Invalid;

/// Checks that the hyper-parameters suit the optimizer.
///
/// # Errors
///
/// The field, with its value and what is allowed.
pub fn check_hyper_parameters(spec: &TrainingSpec, optimizer: Optimizer) -> Result<(), Invalid> {
    let rates = [
        ("training.learning_rate", spec.learning_rate, 100.0),
        ("training.decay_power", spec.decay_power, 100.0),
        ("training.epsilon", spec.epsilon, 1.0),
    ];
    for (field, value, most) in rates {
        if let Some(value) = value.filter(|value| !(*value > 0.0 && *value <= most)) {
            return Err(Invalid::value(field, value, format!("above 0 and at most {most}")));
        }
    }
    if let Some(norm) = spec.clip_norm.filter(|norm| !(0.0..=1e9).contains(norm)) {
        return Err(Invalid::value("training.clip_norm", norm, "from 0, which is no clipping, to 1000000000"));
    }
    let [first, second] = spec.betas.map_or([None; 2], |betas| betas.map(Some));
    let shares = [
        ("training.momentum", spec.momentum),
        ("training.betas[0]", first),
        ("training.betas[1]", second),
        ("training.weight_decay", spec.weight_decay),
    ];
    for (field, value) in shares {
        if let Some(value) = value.filter(|value| !(0.0..1.0).contains(value)) {
            return Err(Invalid::value(field, value, "at least 0 and below 1"));
        }
    }
    if let (Some(warm_up), Some(steps)) = (spec.warm_up_steps, spec.steps)
        && warm_up > steps
    {
        return Err(Invalid::value("training.warm_up_steps", warm_up, format!("at most training.steps, {steps}")));
    }
    let peak = spec.learning_rate;
    match spec.final_learning_rate {
        Some(last) if !(last >= 0.0 && peak.is_none_or(|peak| last <= peak)) => {
            Err(Invalid::value("training.final_learning_rate", last, "from 0 to training.learning_rate"))
        }
        _ => contradiction(spec, optimizer),
    }
}

/// Checks that no hyper-parameter is written that would change nothing.
fn contradiction(spec: &TrainingSpec, optimizer: Optimizer) -> Result<(), Invalid> {
    let decay = spec.decay.unwrap_or(Decay::Constant);
    if spec.decay_power.is_some() && decay != Decay::Polynomial {
        let rule = "only a polynomial has a power";
        return Err(Invalid::conflict("training.decay_power", "training.decay", rule));
    }
    if spec.final_learning_rate.is_some() && decay == Decay::Constant {
        let rule = "a rate that stays has no other value at the end; write decay = \"cosine\", linear or polynomial";
        return Err(Invalid::conflict("training.final_learning_rate", "training.decay", rule));
    }
    let has_velocity = matches!(optimizer, Optimizer::Momentum | Optimizer::Lars);
    let has_means = optimizer.has_means();
    let has_root = has_means || optimizer == Optimizer::RmsProp;
    let means = "adamw, adamw-8bit, adam and lamb";
    let numbers = [
        (
            "training.momentum",
            spec.momentum.map(|momentum| momentum.to_string()),
            has_velocity,
            "sgd-momentum and lars",
        ),
        ("training.betas", spec.betas.map(|[first, second]| format!("[{first}, {second}]")), has_means, means),
        (
            "training.epsilon",
            spec.epsilon.map(|epsilon| epsilon.to_string()),
            has_root,
            "adamw, adamw-8bit, adam, lamb and rmsprop",
        ),
    ];
    for (field, value, is_used, users) in numbers {
        if let Some(value) = value.filter(|_| !is_used) {
            let allowed = format!("left out with the optimizer {optimizer}: it is for {users}");
            return Err(Invalid::value(field, value, allowed));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(spec: &TrainingSpec) -> String {
        check_hyper_parameters(spec, Optimizer::AdamW).expect_err("refused").to_string()
    }

    #[test]
    fn numbers_out_of_range_are_named() {
        let empty = TrainingSpec::default;
        assert!(check_hyper_parameters(&empty(), Optimizer::AdamW).is_ok());
        let cases = [
            (TrainingSpec { learning_rate: Some(0.0), ..empty() }, "training.learning_rate"),
            (TrainingSpec { clip_norm: Some(-1.0), ..empty() }, "training.clip_norm"),
            (TrainingSpec { betas: Some([0.9, 1.0]), ..empty() }, "training.betas"),
            (TrainingSpec { momentum: Some(f64::NAN), ..empty() }, "training.momentum"),
            (TrainingSpec { decay_power: Some(2.0), ..empty() }, "training.decay_power"),
            (TrainingSpec { warm_up_steps: Some(20), steps: Some(10), ..empty() }, "training.warm_up_steps"),
            (TrainingSpec { final_learning_rate: Some(1e-5), ..empty() }, "training.final_learning_rate"),
        ];
        for (spec, field) in cases {
            assert!(error(&spec).contains(field), "{field}");
        }
        let good = TrainingSpec { decay: Some(Decay::Cosine), final_learning_rate: Some(1e-5), ..empty() };
        assert!(check_hyper_parameters(&good, Optimizer::AdamW).is_ok());
        let unclipped = TrainingSpec { clip_norm: Some(0.0), ..empty() };
        assert!(check_hyper_parameters(&unclipped, Optimizer::AdamW).is_ok() && unclipped.clips_at().is_none());
    }

    #[test]
    fn numbers_that_the_optimizer_does_not_have_are_refused() {
        let velocity = TrainingSpec { momentum: Some(0.8), ..TrainingSpec::default() };
        let betas = TrainingSpec { betas: Some([0.9, 0.95]), ..TrainingSpec::default() };
        let epsilon = TrainingSpec { epsilon: Some(1e-6), ..TrainingSpec::default() };
        let decay = TrainingSpec { weight_decay: Some(0.1), ..TrainingSpec::default() };
        let accepted = |spec: &TrainingSpec| {
            let all = Optimizer::ALL.iter().copied();
            all.filter(|kind| check_hyper_parameters(spec, *kind).is_ok()).collect::<Vec<_>>()
        };
        assert_eq!(accepted(&velocity), [Optimizer::Momentum, Optimizer::Lars]);
        assert_eq!(accepted(&betas), [Optimizer::AdamW, Optimizer::AdamW8bit, Optimizer::Adam, Optimizer::Lamb]);
        // Tieleman and Hinton's rule divides by a root too.
        let with_root = accepted(&epsilon);
        assert_eq!(with_root.len(), 5, "{with_root:?}");
        assert!(with_root.contains(&Optimizer::RmsProp), "{with_root:?}");
        assert_eq!(accepted(&decay), Optimizer::ALL);
        let error = check_hyper_parameters(&velocity, Optimizer::Sgd).expect_err("it has no velocity");
        let message = error.to_string();
        assert!(message.contains("`training.momentum` is 0.8") && message.contains("sgd-momentum"), "{message}");
    }
}
