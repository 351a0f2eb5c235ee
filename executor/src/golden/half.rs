//! Trainings in half precision whose gradients are large.

use super::*;

/// Returns the steps of five that are skipped in fp16, and the last loss, where embeddings are larger by a factor.
fn skipped(name: &str, enlarged: f32) -> (usize, f32) {
    let case = Case::read(name);
    let optimizer = Optimizer::AdamW;
    let spec = PlanSpec { precision: Precision::Fp16Mixed, ..WHOLE.plan(&case, optimizer).spec().clone() };
    let plan = Plan::try_from(spec).expect("a valid plan");
    let network = Network::new(&case.model).expect("the family is built");
    let weights = FirstWeights::find(&case.folder, &case.model, &network).expect("they are those of the model");
    let values = |key: ParameterKey| {
        let values = weights.values(key, network.parameter(key)).expect("they are there");
        // The tables of tokens and positions, and the head that is tied to the first.
        let is_table = key.layer == 0 || network.parameter(key).tied_to.is_some();
        if is_table { values.into_iter().map(|value| value * enlarged).collect() } else { values }
    };
    let results = run_ranks(&World::threads(1), |world| -> Result<(usize, f32), GroupError> {
        let (device, clock) = (Device::flex(), Clock::start());
        let groups = Groups::new(world, &plan, DeviceKind::Cpu)?;
        let hyper_parameters = HyperParameters::of(optimizer);
        let options = TrainerOptions { hyper_parameters, clip: None, seed: 3, clock, device, main_memory: None };
        let mut trainer = Trainer::new(&plan, network.clone(), groups, &values, &options);
        let (mut skipped, mut loss) = (0, 0.0);
        for step in 0..5 {
            let result = trainer.step(&[case.batch(step, 0..GLOBAL)], 0, 1e-3)?;
            skipped += usize::from(result.skipped);
            loss = result.loss;
        }
        Ok((skipped, loss))
    });
    results.into_iter().next().expect("there is a rank").expect("it goes on to the end")
}

/// With a scale of 65 536 gradients of normalisations are sums that half precision does not hold. PyTorch's autocast has
/// them in single precision.
#[test]
fn large_gradients_of_normalisations_skip_no_step() {
    for enlarged in [1.0, 8.0, 32.0] {
        let (skipped, loss) = skipped("gpt2", enlarged);
        assert!(skipped == 0 && loss.is_finite(), "{enlarged}: {skipped} steps, {loss}");
    }
}
