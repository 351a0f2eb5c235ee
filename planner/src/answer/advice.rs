//! What to say of how samples are brought in.

use crate::problem::{Data, InputChoice, Problem};
use crate::search::Evaluated;
use trainyard_plan::document::{InputPrediction, Prediction};
use trainyard_plan::{Bottleneck, Cache, DecodePlace, Fixed, InputSpec};
use trainyard_sim::LoaderRates;
use trainyard_units::{Seconds, counted};

/// Waits below this share of a step are not reported.
const NOTICEABLE: f64 = 0.01;

/// The chosen plan with other possible inputs.
pub(crate) struct Advice<'a> {
    input: InputSpec,
    predicted: &'a InputPrediction,
    /// The step without waiting, and the number of steps.
    step: Seconds,
    steps: u64,
    /// All inputs that its machines allow, the simpler first, if only counts are held.
    others: Vec<(InputSpec, LoaderRates)>,
}

impl<'a> Advice<'a> {
    /// Returns the advice; `None` if samples are assumed to be at hand.
    pub(crate) fn new(problem: &Problem, chosen: &Evaluated, prediction: &'a Prediction) -> Option<Self> {
        let (data, input, predicted) = (problem.data?, chosen.plan.input()?, prediction.input.as_ref()?);
        let (plan, machine) = (&chosen.plan, chosen.machine(problem));
        let InputSpec { workers, prefetch, .. } = input;
        let counts = InputChoice { workers: Some(workers), prefetch: Some(prefetch), ..InputChoice::default() };
        let open = Data { held: counts, ..data };
        let fixed = Fixed { placement: Some(plan.mesh().placement()), ..Fixed::default() };
        let others = open.supplies(&fixed, &machine, plan.mesh().parallel(), plan.batch()).unwrap_or_default();
        let step = Seconds(prediction.step_time_s - predicted.input_stall_s);
        Some(Self { input, predicted, step, steps: prediction.steps, others })
    }

    /// Explains why samples are loaded in this way.
    pub(crate) fn reason(&self) -> String {
        let own = described(self.input);
        let waits = |supply: &LoaderRates| 1.0 - supply.feed(self.step, self.steps).utilisation;
        match self.others.first() {
            Some((plainest, supply)) if *plainest != self.input => {
                let (other, waits) = (described(*plainest), 100.0 * waits(supply));
                format!("{own}: with {other} steps would wait for {waits:.0} % of their time")
            }
            _ => format!("{own}: no simpler input option is available"),
        }
    }

    /// Warns of what steps wait for and says what would help; `None` if they hardly wait.
    pub(crate) fn warning(&self) -> Option<String> {
        let predicted = self.predicted;
        let waits = 1.0 - predicted.accelerator_utilisation;
        if waits < NOTICEABLE {
            return None;
        }
        let (what, rate) = match predicted.bottleneck {
            Bottleneck::Decode => ("decoding", predicted.decode_samples_per_s),
            Bottleneck::Copy => ("copying to the devices", predicted.copy_samples_per_s),
            _ => ("reading from storage", predicted.read_samples_per_s),
        };
        let wanted = predicted.step_samples_per_s;
        let cure = self.better(waits).unwrap_or_else(|| self.beyond().into());
        let waits = 100.0 * waits;
        Some(format!(
            "{what} gives {rate:.0} samples/s, steps would take {wanted:.0}: {waits:.0} % of each waits; {cure}"
        ))
    }

    /// Names another input with which steps would wait noticeably less.
    fn better(&self, waits: f64) -> Option<String> {
        let waits_with = |(_, supply): &(InputSpec, LoaderRates)| 1.0 - supply.feed(self.step, self.steps).utilisation;
        let other = self.others.iter().min_by(|a, b| waits_with(a).total_cmp(&waits_with(b)))?;
        let less = waits_with(other).max(0.0);
        let fields = differences(self.input, other.0);
        (less < waits - NOTICEABLE).then(|| format!("with {fields} it would be {:.0} %", 100.0 * less))
    }

    /// Says what would help, outside the fields of a plan.
    fn beyond(&self) -> &'static str {
        match self.predicted.bottleneck {
            Bottleneck::Decode => {
                "machines with more processors for each GPU would help, or samples stored as raw arrays"
            }
            Bottleneck::Copy => "machines with faster PCIe would help, or decoding on the GPU",
            _ if self.input.prefetch == 0 => "loading ahead would help (input.prefetch)",
            _ => "fewer, larger files or more throughput would help",
        }
    }
}

/// Describes an input in words.
fn described(input: InputSpec) -> String {
    let InputSpec { storage, decode, workers, .. } = input;
    let by = match decode {
        DecodePlace::Cpu => format!("decoded by {} a replica", counted(u64::from(workers), "worker")),
        DecodePlace::Gpu => "decoded by the GPUs".into(),
    };
    match input.cache {
        Cache::None => format!("samples from {storage}, {by}"),
        cache => format!("samples from {storage}, kept in {cache} after the first pass, {by}"),
    }
}

/// Lists the fields in which another input differs, as they are held.
fn differences(own: InputSpec, other: InputSpec) -> String {
    let fields = [
        (own.storage != other.storage, format!("input.storage={}", other.storage)),
        (own.decode != other.decode, format!("input.decode={}", other.decode)),
        (own.cache != other.cache, format!("input.cache={}", other.cache)),
    ];
    let differing: Vec<String> = fields.into_iter().filter(|(differs, _)| *differs).map(|(_, field)| field).collect();
    differing.join(" and ")
}
