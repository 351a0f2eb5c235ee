//! The unknowns of a fit: logarithms of constants of stacks and GPUs, and the response of steps to them.

use super::observation::Observation;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trainyard_hardware_profiles::{Catalog, GPU_PARAMETERS, Gpu, Parameter, STACK_PARAMETERS, Stack};
use trainyard_sim::Machine;

/// By how much the logarithm of a constant is changed to see how steps respond: large against the kinks of the better
/// of two tiles or algorithms, small against what a fit changes.
const DIFFERENCE: f64 = 0.03;

/// Of which entry a constant is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    Stack(&'static Parameter<Stack>),
    Gpu(&'static Parameter<Gpu>),
}

/// A constant that may be fitted. All that follows is in logarithms.
#[derive(Clone, Debug)]
pub(crate) struct Unknown {
    /// The entries that have it: a stack, or GPUs of the same chip that share its value.
    pub entries: Vec<String>,
    pub of: Of,
    /// Its value now.
    pub start: f64,
    pub bounds: (f64, f64),
    /// Standard deviation of what was known before: how much entries differ.
    pub spread: f64,
}

impl Unknown {
    pub(crate) fn name(&self) -> &'static str {
        match self.of {
            Of::Stack(parameter) => parameter.name,
            Of::Gpu(parameter) => parameter.name,
        }
    }

    pub(crate) fn is_of_gpu(&self) -> bool {
        matches!(self.of, Of::Gpu(_))
    }

    /// What is wrong with a value, not its logarithm, that is not plausible.
    pub(crate) fn implausible(&self, value: f64) -> Option<String> {
        match self.of {
            Of::Stack(parameter) => parameter.implausible(value),
            Of::Gpu(parameter) => parameter.implausible(value),
        }
    }

    /// Tells whether the machine has the entry.
    fn touches(&self, observation: &Observation) -> bool {
        let name = if self.is_of_gpu() { observation.gpu() } else { observation.stack() };
        self.entries.iter().any(|entry| entry == name)
    }

    /// Puts a value into a machine that has the entry.
    fn apply(&self, machine: &mut Machine, logarithm: f64) {
        let value = logarithm.exp();
        match self.of {
            Of::Stack(parameter) => parameter.try_value(Arc::make_mut(&mut machine.stack), value),
            Of::Gpu(parameter) => {
                for pool in &mut machine.cluster.pools {
                    if let Some(gpu) = pool.device.gpu_mut() {
                        parameter.try_value(gpu, value);
                    }
                }
            }
        }
    }
}

/// The constants that the stacks and GPUs of some observations have. One that is zero stays so: there is no such cost.
/// Those of a GPU are asked for only where two stacks ran on it that are not `made` for these rows: one alone cannot
/// tell a slow GPU from slow software.
pub(crate) fn unknowns(observations: &[Observation], catalog: &Catalog, made: &BTreeSet<String>) -> Vec<Unknown> {
    let mut found = Vec::new();
    for stack in catalog.stacks().iter().filter(|own| observations.iter().any(|seen| seen.stack() == own.name)) {
        for parameter in &STACK_PARAMETERS {
            let of = Of::Stack(parameter);
            let own = |value| unknown(vec![stack.name.clone()], of, value, parameter.bounds, parameter.spread);
            found.extend(parameter.number(stack).map(own));
        }
    }
    let stacks = |gpu: &Gpu| -> BTreeSet<&str> {
        let of_chip = catalog.gpus().iter().filter(|other| chip(other) == chip(gpu));
        let names: Vec<&str> = of_chip.map(|other| other.name.as_str()).collect();
        let rows = observations.iter().filter(|seen| names.contains(&seen.gpu()) && !made.contains(seen.stack()));
        rows.map(Observation::stack).collect()
    };
    let told = |gpu: &&Gpu| observations.iter().any(|seen| seen.gpu() == gpu.name) && stacks(gpu).len() > 1;
    for parameter in &GPU_PARAMETERS {
        let mut shared: BTreeMap<String, (f64, Vec<String>)> = BTreeMap::new();
        for gpu in catalog.gpus().iter().filter(told) {
            let Some(value) = parameter.number(gpu) else { continue };
            let key = format!("{} {value:?}", chip(gpu));
            shared.entry(key).or_insert((value, Vec::new())).1.push(gpu.name.clone());
        }
        for (value, entries) in shared.into_values() {
            found.push(unknown(entries, Of::Gpu(parameter), value, parameter.bounds, parameter.spread));
        }
    }
    found
}

/// The part of a name that boards with the same chip at the same clocks share.
pub(crate) fn chip(gpu: &Gpu) -> String {
    format!("{} {} {:?} {:?}", gpu.generation, gpu.multiprocessors.value, gpu.peak_fp32.value, gpu.peak_fp16.value)
}

fn unknown(entries: Vec<String>, of: Of, value: f64, (low, high): (f64, f64), spread: f64) -> Unknown {
    let start = value.ln();
    let bounds = (low.ln().min(start), high.ln().max(start));
    Unknown { entries, of, start, bounds, spread }
}

/// The response of steps to constants near some values of them.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    /// Where.
    pub at: Vec<f64>,
    /// Logarithm of predicted over measured, of each observation.
    pub residuals: Vec<f64>,
    /// Of each observation, the constants that it responds to and its derivative by each.
    pub slopes: Vec<Vec<(usize, f64)>>,
}

/// The observations with what touches them.
pub(crate) struct Problem<'a> {
    pub observations: &'a [Observation],
    pub unknowns: &'a [Unknown],
    touching: Vec<Vec<usize>>,
}

impl<'a> Problem<'a> {
    pub(crate) fn new(observations: &'a [Observation], unknowns: &'a [Unknown]) -> Self {
        let touching = |seen: &Observation| {
            unknowns.iter().enumerate().filter(|(_, unknown)| unknown.touches(seen)).map(|(index, _)| index).collect()
        };
        Self { observations, unknowns, touching: observations.iter().map(touching).collect() }
    }

    /// The machine of an observation with these constants.
    pub(crate) fn machine(&self, index: usize, values: &[f64]) -> Machine {
        let mut machine = self.observations[index].machine.clone();
        for unknown in &self.touching[index] {
            self.unknowns[*unknown].apply(&mut machine, values[*unknown]);
        }
        machine
    }

    fn residual_on(&self, index: usize, machine: &Machine) -> f64 {
        let residual = self.observations[index].residual(machine);
        residual.expect("constants do not decide whether a plan goes onto a machine")
    }

    /// Logarithm of predicted over measured of one observation with these constants.
    pub(crate) fn residual(&self, index: usize, values: &[f64]) -> f64 {
        self.residual_on(index, &self.machine(index, values))
    }

    /// Logarithms of predicted over measured with these constants.
    pub(crate) fn residuals(&self, values: &[f64]) -> Vec<f64> {
        let all = 0..self.observations.len();
        all.into_par_iter().map(|index| self.residual(index, values)).collect()
    }

    /// The response of the observations near these constants. Those that did not respond `before`, and constants that
    /// are not free, are not asked again.
    pub(crate) fn linear(&self, values: &[f64], before: Option<(&Linear, &[bool])>) -> Linear {
        let all = 0..self.observations.len();
        let each: Vec<(f64, Vec<(usize, f64)>)> = all
            .into_par_iter()
            .map(|index| {
                let machine = self.machine(index, values);
                let here = self.residual_on(index, &machine);
                let asked: Vec<usize> = match before {
                    None => self.touching[index].clone(),
                    Some((before, free)) => {
                        before.slopes[index].iter().map(|(unknown, _)| *unknown).filter(|own| free[*own]).collect()
                    }
                };
                let slopes = asked.into_iter().filter_map(|unknown| {
                    let mut other = machine.clone();
                    self.unknowns[unknown].apply(&mut other, values[unknown] + DIFFERENCE);
                    let slope = (self.residual_on(index, &other) - here) / DIFFERENCE;
                    (slope.abs() > 1e-6).then_some((unknown, slope))
                });
                (here, slopes.collect())
            })
            .collect();
        let (residuals, slopes) = each.into_iter().unzip();
        Linear { at: values.to_vec(), residuals, slopes }
    }
}

impl Linear {
    /// The residual of an observation with other constants, as far as it is linear in their logarithms.
    pub(crate) fn residual(&self, index: usize, values: &[f64]) -> f64 {
        let change = self.slopes[index].iter().map(|(unknown, slope)| slope * (values[*unknown] - self.at[*unknown]));
        self.residuals[index] + change.sum::<f64>()
    }
}
