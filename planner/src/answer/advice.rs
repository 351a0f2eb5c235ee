//! What to say of how samples are brought in.

use crate::problem::{Data, InputChoice, Problem};
use crate::search::Evaluated;
use trainyard_plan::document::{InputPrediction, Prediction};
use trainyard_plan::{Bottleneck, Cache, DecodePlace, Fixed, InputSpec, SampleFormat};
use trainyard_sim::LoaderRates;
use trainyard_units::{Seconds, counted, human_count};

/// Waits below this share of a step are not reported.
const NOTICEABLE: f64 = 0.01;

/// The chosen plan with other possible inputs.
pub(crate) struct Advice<'a> {
    input: InputSpec,
    predicted: &'a InputPrediction,
    /// The step without waiting, and the number of steps.
    step: Seconds,
    steps: u64,
    /// `true` if samples are images that could be stored smaller.
    shrinks: bool,
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
        let fixed = Fixed { placement: Some(plan.mesh().placement()), ..Fixed::default() };
        let supplies = |held| {
            let open = Data { held, ..data };
            open.supplies(&fixed, &machine, plan.mesh().parallel(), plan.batch()).unwrap_or_default()
        };
        let mut others = supplies(counts);
        // Storage that is not chosen unless the job says so.
        if others.iter().all(|(other, _)| other.storage != input.storage) {
            others.splice(..0, supplies(InputChoice { storage: Some(input.storage), ..counts }));
        }
        let step = Seconds(prediction.step_time_s - predicted.input_stall_s);
        let shrinks = data.set.format == SampleFormat::Jpeg;
        Some(Self { input, predicted, step, steps: prediction.steps, shrinks, others })
    }

    /// Explains why samples are loaded in this way: how much longer steps would wait with the simpler inputs that differ
    /// in one field. `None` if they would not.
    pub(crate) fn reason(&self) -> Option<String> {
        let own = described(self.input);
        let simpler: Vec<_> = self.others.iter().take_while(|(other, _)| *other != self.input).collect();
        if simpler.is_empty() {
            return Some(format!("{own}: no simpler input option is available"));
        }
        let waits = |supply: &LoaderRates| 1.0 - supply.feed(self.step, self.steps).utilisation;
        let own_waits = 1.0 - self.predicted.accelerator_utilisation;
        let slower = simpler.into_iter().filter_map(|(other, supply)| {
            let change = only_change(self.input, *other)?;
            let waits = waits(supply);
            (waits > own_waits + NOTICEABLE).then_some((change, waits))
        });
        let told: Vec<String> = slower
            .enumerate()
            .map(|(index, (change, waits))| {
                let (steps, of) = if index == 0 { (" steps would wait", " of their time") } else { ("", "") };
                format!("{change},{steps} for {:.0} %{of}", 100.0 * waits)
            })
            .collect();
        (!told.is_empty()).then(|| format!("{own}: {}", told.join("; ")))
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
        let [rate, wanted] = [rate, predicted.step_samples_per_s].map(|rate| human_count(rate.round() as u64));
        let cure = self.better(waits).unwrap_or_else(|| self.beyond().into());
        let waits = 100.0 * waits;
        Some(format!("{what} gives {rate} samples/s, steps would take {wanted}: {waits:.0} % of each waits; {cure}"))
    }

    /// Names another input with which steps would wait noticeably less.
    fn better(&self, waits: f64) -> Option<String> {
        let waits_with = |(_, supply): &(InputSpec, LoaderRates)| 1.0 - supply.feed(self.step, self.steps).utilisation;
        let other = self.others.iter().min_by(|a, b| waits_with(a).total_cmp(&waits_with(b)))?;
        let less = waits_with(other).max(0.0);
        let fields = differences(self.input, other.0).join(" and ");
        (less < waits - NOTICEABLE).then(|| format!("with {fields} it would be {:.0} %", 100.0 * less))
    }

    /// Says what would help, outside the fields of a plan.
    fn beyond(&self) -> &'static str {
        match self.predicted.bottleneck {
            Bottleneck::Decode if self.shrinks => {
                "images that are shrunk once to about what the network sees would help (data.bytes_per_sample), or machines with \
                 more processors for each GPU"
            }
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
        Cache::None => format!("samples from {}, {by}", storage.in_words()),
        cache => format!("samples from {}, kept in {cache} after the first pass, {by}", storage.in_words()),
    }
}

/// Describes the one field in which another input differs; `None` if there are several.
fn only_change(own: InputSpec, other: InputSpec) -> Option<String> {
    if differences(own, other).len() != 1 {
        return None;
    }
    let workers = counted(u64::from(other.workers), "worker");
    Some(match (own.storage == other.storage, own.decode == other.decode) {
        (false, _) => format!("from {}", other.storage.in_words()),
        (_, false) if other.decode == DecodePlace::Cpu => format!("decoded by {workers} a replica"),
        (_, false) => "decoded by the GPUs".into(),
        _ if other.cache == Cache::None => format!("read from {} in every pass", own.storage.in_words()),
        _ => format!("kept in {}", other.cache),
    })
}

/// Lists the fields in which another input differs, as they are held.
fn differences(own: InputSpec, other: InputSpec) -> Vec<String> {
    let fields = [
        (own.storage != other.storage, format!("input.storage={}", other.storage)),
        (own.decode != other.decode, format!("input.decode={}", other.decode)),
        (own.cache != other.cache, format!("input.cache={}", other.cache)),
    ];
    fields.into_iter().filter(|(differs, _)| *differs).map(|(_, field)| field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_plan::StorageMode;

    #[test]
    fn inputs_are_compared_that_differ_in_one_field() {
        let (storage, cache) = (StorageMode::Ebs, Cache::Memory);
        let own = InputSpec { storage, decode: DecodePlace::Gpu, workers: 12, prefetch: 2, cache };
        let change = |other| only_change(own, other);
        let cpu = InputSpec { decode: DecodePlace::Cpu, ..own };
        assert_eq!(change(cpu).as_deref(), Some("decoded by 12 workers a replica"));
        let uncached = InputSpec { cache: Cache::None, ..own };
        assert_eq!(change(uncached).as_deref(), Some("read from ebs in every pass"));
        assert_eq!((change(InputSpec { cache: Cache::None, ..cpu }), change(own)), (None, None));
    }
}
