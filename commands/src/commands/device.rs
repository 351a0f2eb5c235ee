//! What computes: what a flag says, or what a profile was measured on.

use crate::arguments::Device;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use std::path::Path;
use trainyard_executor::{Devices, describe};
use trainyard_hardware_profiles::{DeviceKind, MeasuredMachine};

/// Returns the devices of this kind; fails, with what is missing, where ranks cannot compute on them.
pub(super) fn find(kind: DeviceKind) -> Result<Devices, Failure> {
    Devices::find(kind).map_err(|error| Failure::of(Exit::Input, &error).hint(error.hint.clone()))
}

/// Warns of a profile that was measured on another machine than this one.
pub(super) fn warn_of_another(profile: &MeasuredMachine, output: &Output) {
    let Ok(here) = Devices::find(profile.device) else { return };
    let there = (profile.processor.as_str(), profile.devices as usize);
    if there != (here.name.as_str(), here.count) {
        output.warn(format!(
            "the profile was measured on {}, but this machine has {}: what is predicted is not about this one \
             (`trainyard train --recalibrate` measures it)",
            describe(profile.device, there.0, there.1),
            describe(here.kind, &here.name, here.count),
        ));
    }
}

/// Refuses a profile of another device than the flag's, or of one that is not here.
pub(super) fn check_profile(flag: Option<Device>, profile: &MeasuredMachine, path: &Path) -> Result<(), Failure> {
    let kind = profile.device;
    match flag.map(DeviceKind::from).filter(|wanted| *wanted != kind) {
        Some(wanted) => Err(Failure::input(format!(
            "`--device` is {}, but the profile `{}` was measured on {}",
            wanted.name(),
            path.display(),
            kind.name()
        ))
        .hint("leave --device out, name another profile with --on, or measure again with --recalibrate")),
        None => find(kind).map(drop),
    }
}
