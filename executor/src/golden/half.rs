//! Trainings in half precision beside those of PyTorch's autocast, with gradients that are large.

use super::*;

/// Losses of half precision that are this near to those of single precision are so for any rounding.
const NEAR: f64 = 1e-3;

/// The document that `tests/golden/half.py` writes.
#[derive(Deserialize)]
struct Halves {
    runs: Vec<Half>,
}

/// A training of a case whose tables are larger by a factor.
#[derive(Clone, Deserialize)]
struct Half {
    case: String,
    format: Precision,
    factor: f32,
    /// Before each step.
    losses: Vec<f64>,
    /// The steps that a scaler of the loss left out.
    skipped: Vec<usize>,
}

fn halves() -> Vec<Half> {
    let text = include_str!("../../../tests/golden/half.json");
    serde_json::from_str::<Halves>(text).expect("the script wrote it").runs
}

/// Trains as `like` does.
fn train_like(like: &Half) -> Half {
    let case = Case::read(&like.case);
    let optimizer = Optimizer::AdamW;
    let spec = PlanSpec { precision: like.format, ..WHOLE.plan(&case, optimizer).spec().clone() };
    let plan = Plan::try_from(spec).expect("a valid plan");
    let network = Network::new(&case.model).expect("the family is built");
    let weights = FirstWeights::find(&case.folder, &case.model, &network).expect("they are those of the model");
    let values = |key: ParameterKey| {
        let values = weights.values(key, network.parameter(key)).expect("they are there");
        // The tables of tokens, segments and positions, and the head that is tied to the first.
        let is_table =
            (key.layer == 0 && network.parameter(key).shape.len() > 1) || network.parameter(key).tied_to.is_some();
        if is_table { values.into_iter().map(|value| value * like.factor).collect() } else { values }
    };
    let results = run_ranks(&World::threads(1), |world| -> Result<Half, GroupError> {
        let (device, clock) = (Device::flex(), Clock::start());
        let groups = Groups::new(world, &plan, DeviceKind::Cpu)?;
        let hyper_parameters = HyperParameters { decays_all: true, ..HyperParameters::of(optimizer) };
        let options = TrainerOptions { hyper_parameters, clip: None, seed: 3, clock, device, main_memory: None };
        let mut trainer = Trainer::new(&plan, network.clone(), groups, &values, &options);
        let mut own = Half { losses: Vec::new(), skipped: Vec::new(), ..like.clone() };
        for step in 0..like.losses.len() {
            let result = trainer.step(&[case.batch(step, 0..GLOBAL)], (step * GLOBAL) as u64, 3e-3)?;
            own.losses.push(f64::from(result.loss));
            if result.skipped {
                own.skipped.push(step);
            }
        }
        Ok(own)
    });
    results.into_iter().next().expect("there is a rank").expect("it goes on to the end")
}

/// Returns the largest difference of losses, relative where they are above one.
fn apart(one: &[f64], other: &[f64]) -> f64 {
    let each = one.iter().zip(other).map(|(a, b)| (a - b).abs() / b.abs().max(1.0));
    each.fold(0.0, f64::max)
}

/// Six families in fp16 and bf16, with tables as they are and 8 and 32 times as large, so that gradients are: the
/// steps are left out that PyTorch's scaler leaves out, and losses are as near to those of single precision as autocast's.
#[test]
fn half_precision_is_as_near_to_single_as_autocast() {
    let all = halves();
    let single = |own: &Half| {
        let is_it =
            |other: &&Half| other.format == Precision::Fp32 && (&other.case, other.factor) == (&own.case, own.factor);
        all.iter().find(is_it).expect("each is there in single precision").losses.clone()
    };
    for expected in &all {
        let own = train_like(expected);
        let name = format!("{} {} {}", own.case, own.format, own.factor);
        assert_eq!(own.skipped, expected.skipped, "{name}");
        let [here, there] = [&own.losses, &expected.losses].map(|losses| apart(losses, &single(expected)));
        assert!(here < 1.2 * there + NEAR, "{name}: {here} from single precision, {there} with autocast");
    }
}
