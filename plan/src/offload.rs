//! What a plan keeps off the devices, and where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use trainyard_units::UnknownName;

/// A place off the device where something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Store {
    /// Main memory of the machine.
    Host,
    /// The machine's local disk.
    Nvme,
}

/// What is kept off the devices (Ren et al., ZeRO-Offload, arXiv:2101.06840; Rajbhandari et al., ZeRO-Infinity,
/// arXiv:2104.07857).
///
/// Written as parts joined by `+`, each in main memory unless it says `@nvme`: `optimizer`, `activations+optimizer`,
/// `parameters@nvme+optimizer@nvme`; or `none`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Offload {
    /// What is kept from forward to backward.
    pub activations: Option<Store>,
    /// Moments and master weights, which the processor then updates.
    pub optimizer: Option<Store>,
    /// Weights, which are fetched layer by layer when they are needed.
    pub parameters: Option<Store>,
}

impl Store {
    /// Every store.
    pub const ALL: [Self; 2] = [Self::Host, Self::Nvme];
}

impl Offload {
    /// No offload: everything stays on the device.
    pub const NONE: Self = Self { activations: None, optimizer: None, parameters: None };

    fn parts(self) -> [(&'static str, Option<Store>); 3] {
        [("activations", self.activations), ("optimizer", self.optimizer), ("parameters", self.parameters)]
    }

    /// Returns `true` if anything is kept in this store or passes through it, as what the processor updates does.
    pub fn touches(self, store: Store) -> bool {
        self.uses(store) || (store == Store::Host && self.optimizer.is_some())
    }

    /// Returns `true` if anything is kept in this store.
    pub fn uses(self, store: Store) -> bool {
        self.parts().iter().any(|(_, used)| *used == Some(store))
    }
}

impl fmt::Display for Offload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written: Vec<String> = self
            .parts()
            .into_iter()
            .filter_map(|(part, store)| match store? {
                Store::Host => Some(part.to_owned()),
                Store::Nvme => Some(format!("{part}@nvme")),
            })
            .collect();
        formatter.pad(if written.is_empty() { "none".into() } else { written.join("+") }.as_str())
    }
}

impl FromStr for Offload {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let mut offload = Self::NONE;
        if text == "none" {
            return Ok(offload);
        }
        for part in text.split('+') {
            let unknown = || UnknownName {
                text: part.into(),
                allowed: vec![
                    "none",
                    "activations",
                    "optimizer",
                    "parameters",
                    "each with @host or @nvme, several joined by +",
                ],
            };
            let (what, store) = match part.split_once('@') {
                None | Some((_, "host")) => (part.split('@').next().unwrap_or(part), Store::Host),
                Some((what, "nvme")) => (what, Store::Nvme),
                Some(_) => return Err(unknown()),
            };
            let slot = match what {
                "activations" => &mut offload.activations,
                "optimizer" => &mut offload.optimizer,
                "parameters" => &mut offload.parameters,
                _ => return Err(unknown()),
            };
            *slot = Some(store);
        }
        Ok(offload)
    }
}

impl TryFrom<String> for Offload {
    type Error = UnknownName;

    fn try_from(text: String) -> Result<Self, UnknownName> {
        text.parse()
    }
}

impl From<Offload> for String {
    fn from(offload: Offload) -> Self {
        offload.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for text in ["none", "optimizer", "activations+optimizer@nvme+parameters@nvme", "parameters"] {
            let offload: Offload = text.parse().expect("a valid offload");
            assert_eq!(offload.to_string(), text);
        }
        assert_eq!("optimizer@host".parse(), Ok(Offload { optimizer: Some(Store::Host), ..Offload::NONE }));
    }

    #[test]
    fn unknown_parts_and_stores_are_named() {
        let error = "optimizer+weights".parse::<Offload>().expect_err("not a part");
        assert!(error.to_string().contains("`weights`"), "{error}");
        assert!("optimizer@tape".parse::<Offload>().is_err() && "".parse::<Offload>().is_err());
    }
}
