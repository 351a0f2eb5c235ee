//! What computes: what a flag says, or what a profile was measured on.

use crate::arguments::Device;
use crate::failure::{Exit, Failure};
use std::path::Path;
use trainyard_executor::{DeviceError, Gpus, check_device};
use trainyard_hardware_profiles::{DeviceKind, MeasuredMachine};

/// Fails, with what is missing, where ranks cannot compute on devices of this kind.
pub(super) fn check(kind: DeviceKind) -> Result<(), Failure> {
    check_device(kind).map_err(|error| failure(&error))
}

/// Returns the GPUs of this machine.
pub(super) fn gpus() -> Result<Gpus, Failure> {
    Gpus::find().map_err(|error| failure(&error))
}

fn failure(error: &DeviceError) -> Failure {
    Failure::of(Exit::Input, error).hint(error.hint())
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
        None => check(kind),
    }
}
