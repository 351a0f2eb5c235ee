//! A measured step as the fit sees it: one plan on one machine, and to which groups it belongs.

use crate::configuration::{Unsupported, configure_in};
use crate::table::Row;
use rayon::prelude::*;
use trainyard_hardware_profiles::Catalog;
use trainyard_plan::Plan;
use trainyard_sim::{CLOCK, Machine, MachineError, Outcome, simulate, step_time};
use trainyard_units::Seconds;

/// The property that a group of rows shares. Rows of one group lack the same in the model of them, so a group is left
/// out whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grouping {
    /// The model and its size.
    Model,
    /// The machines and how many GPUs.
    Scale,
    /// The release or method of the software.
    Release,
}

impl Grouping {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Model, Self::Scale, Self::Release];
}

/// A measured step with the plan that stands for it.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    /// Where the row belongs in its table.
    pub suite: String,
    /// What the row calls the software.
    pub label: String,
    /// The plan: of those that the row leaves open, the one that is predicted fastest.
    pub plan: Plan,
    /// Where it ran.
    pub machine: Machine,
    /// The time in which the processors decode a step's images: no step is shorter.
    pub decoding: Seconds,
    /// Logarithm of the measured seconds.
    pub measured: f64,
    /// Its group in each grouping, in the order of [`Grouping::ALL`].
    pub groups: [String; 3],
}

impl Observation {
    /// The observation of a row.
    ///
    /// # Errors
    ///
    /// When the simulator cannot express the row.
    pub(crate) fn of(row: &Row, catalog: &Catalog) -> Result<Self, Unsupported> {
        let configuration = configure_in(row, catalog)?;
        let plan = configuration.predict()?.0.clone();
        Ok(Self {
            suite: row.suite.clone(),
            label: row.stack.clone(),
            plan,
            decoding: configuration.decoding,
            machine: configuration.machine,
            measured: row.step_time_s.ln(),
            groups: groups(row),
        })
    }

    /// The name of the stack.
    pub(crate) fn stack(&self) -> &str {
        &self.machine.stack.name
    }

    /// The name of the GPU, or of the measured machine.
    pub(crate) fn gpu(&self) -> &str {
        self.machine.cluster.first().device.name()
    }

    pub(crate) fn group(&self, grouping: Grouping) -> &str {
        &self.groups[grouping as usize]
    }

    /// Logarithm of predicted over measured on a machine whose constants may differ from its own. A step that outlasts
    /// simulated time counts as the longest that it can tell, so that a fit may come back from there.
    ///
    /// # Errors
    ///
    /// When the machine does not admit the plan.
    pub(crate) fn residual(&self, machine: &Machine) -> Result<f64, MachineError> {
        let time = match step_time(&self.plan, machine) {
            Err(MachineError::Endless { .. }) => CLOCK,
            time => time?,
        };
        let time = time.max(self.decoding);
        Ok(time.0.ln() - self.measured)
    }

    /// The simulated step on a machine whose constants may differ from its own; nothing if it outlasts simulated time.
    pub(crate) fn outcome(&self, machine: &Machine) -> Option<Outcome> {
        match simulate(&self.plan, machine) {
            Err(MachineError::Endless { .. }) => None,
            outcome => Some(outcome.expect("constants do not decide whether a plan goes onto a machine")),
        }
    }
}

fn groups(row: &Row) -> [String; 3] {
    let size = (row.layers, row.hidden, row.experts, row.base_channels, row.width_factor);
    [
        format!("{} {size:?}", row.model),
        format!("{} {}", row.system, row.gpus()),
        format!("{} {:?}", row.stack_version, row.xla),
    ]
}

/// The observations of rows, in their order, and the reasons of those that cannot be expressed.
pub(crate) fn observations(rows: &[Row], catalog: &Catalog) -> (Vec<Observation>, Vec<(String, Unsupported)>) {
    let seen: Vec<Result<Observation, Unsupported>> =
        rows.par_iter().map(|row| Observation::of(row, catalog)).collect();
    let (mut good, mut refused) = (Vec::new(), Vec::new());
    for (row, result) in rows.iter().zip(seen) {
        match result {
            Ok(observation) => good.push(observation),
            Err(reason) => refused.push((row.id.clone(), reason)),
        }
    }
    (good, refused)
}
