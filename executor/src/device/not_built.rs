//! Devices that this program was built without.

use super::{Device, DeviceError, Devices, Driver};
use trainyard_hardware_profiles::DeviceKind;

pub(super) struct NotBuilt(pub(super) DeviceKind);

impl NotBuilt {
    fn error(&self) -> DeviceError {
        let name = self.0.name();
        let hint = format!("build it with `cargo build --release --workspace --features trainyard-cli/{name}`");
        DeviceError { kind: self.0, problem: format!("this program was built without the feature {name}"), hint }
    }
}

impl Driver for NotBuilt {
    fn find(&self) -> Result<Devices, DeviceError> {
        Err(self.error())
    }

    fn framework(&self) -> &'static str {
        "none"
    }

    fn open(&self, _: usize) -> Result<Device, DeviceError> {
        Err(self.error())
    }
}
