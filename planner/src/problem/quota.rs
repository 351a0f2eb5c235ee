//! What an account may rent at once.
//!
//! Amazon EC2 counts the virtual processors of the instances of a class that run together, whether they are paid on
//! demand or reserved, and apart from those the ones of spot instances (Amazon EC2 User Guide, "Spot Instance quotas",
//! "On-Demand Instance quotas" and "Reserved Instance quotas"). Those of capacity blocks are not counted ("Capacity Blocks
//! for ML"). Amazon SageMaker counts instances of each type.

use std::collections::BTreeMap;
use trainyard_hardware_profiles::{Catalog, Instance, Service, matches};
use trainyard_plan::Pricing;
use trainyard_units::{Invalid, similar};

/// AWS's classes of instances with GPUs of NVIDIA, with the letters that their families begin with.
const CLASSES: [(&str, &[&str]); 2] = [("P", &["p"]), ("G and VT", &["g", "vt"])];

/// The quotas of an account, each of which applies to some instances. The names in a key, with commas between them, share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    allowed: BTreeMap<String, u64>,
    instances: bool,
}

/// Returns the class in which EC2 counts an instance; `None` if it is none of those with NVIDIA GPUs.
pub(crate) fn class(instance: &Instance) -> Option<&'static str> {
    let family = instance.family();
    let letters = family.split(|letter: char| letter.is_ascii_digit()).next().unwrap_or(family);
    CLASSES.iter().find(|(_, families)| families.contains(&letters)).map(|(class, _)| *class)
}

/// Lists the names in a key: of classes, families and patterns.
fn names(key: &str) -> impl Iterator<Item = &str> {
    key.split(',').map(str::trim)
}

/// Returns `true` if a quota applies to an instance.
fn is_about(key: &str, instance: &Instance) -> bool {
    names(key).any(|name| is_of(name, instance))
}

/// Returns `true` if an instance is of a class, of a family, or fits a pattern.
fn is_of(name: &str, instance: &Instance) -> bool {
    let of_class = class(instance).is_some_and(|class| {
        class.eq_ignore_ascii_case(name) || class.split(" and ").any(|part| part.eq_ignore_ascii_case(name))
    });
    of_class || instance.family() == name || matches(name, &instance.name)
}

impl Quotas {
    /// Reads the quotas that a field of a job or of a pool states, as far as they hold on its terms.
    ///
    /// # Errors
    ///
    /// When one is about no instance of the catalog.
    pub fn new(
        allowed: Option<&BTreeMap<String, u64>>,
        (service, pricing): (Service, Pricing),
        catalog: &Catalog,
        field: &str,
    ) -> Result<Self, Invalid> {
        let mut allowed = allowed.cloned().unwrap_or_default();
        let is_known = |name: &str| catalog.instances().iter().any(|own| is_of(name, own));
        if let Some(unknown) = allowed.keys().flat_map(|key| names(key)).find(|name| !is_known(name)) {
            let families = catalog.instances().iter().map(Instance::family);
            let meant = similar(unknown, families.chain(CLASSES.iter().map(|(class, _)| *class)));
            let meant = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
            let allowed = "about a class (`P`, `G and VT`), a family (`p4d`) or a pattern of instance types (`g4dn.*`), or \
                           several that share it (`p3*,p4*`)";
            return Err(Invalid::value(field, format!("about `{unknown}`"), format!("{allowed}{meant}")));
        }
        if pricing == Pricing::CapacityBlock {
            allowed.clear();
        }
        Ok(Self { allowed, instances: service == Service::Sagemaker })
    }

    /// Returns the most instances of a type that may be rented at once; `None` if no quota applies to it.
    pub(crate) fn most(&self, instance: &Instance) -> Option<u64> {
        self.tightest(instance).map(|(_, allowed)| allowed / self.each(instance))
    }

    /// Returns the most instances of a type that may be rented at once, of `most` without quotas.
    pub fn cap(&self, instance: &Instance, most: u32) -> u32 {
        self.most(instance).map_or(most, |allowed| u32::try_from(allowed).map_or(most, |allowed| allowed.min(most)))
    }

    /// Explains why this many instances of a type may not be rented; `None` if they may.
    pub fn refusal(&self, instance: &Instance, instances: u32) -> Option<String> {
        let (key, allowed) = self.tightest(instance)?;
        let needed = self.each(instance) * u64::from(instances);
        let what = match (self.instances, needed) {
            (false, _) => "vCPUs",
            (true, 1) => "instance",
            (true, _) => "instances",
        };
        (allowed < needed).then(|| {
            format!("needs {needed} {what}, but the quota of `{key}` is {allowed}: {} too few", needed - allowed)
        })
    }

    /// Explains which quotas are too small for instances of several types, each with its quota: `at_once` gives the most that they
    /// take together at any time, by what one of each type takes: nothing where the quota does not apply to it.
    pub fn refusals(&self, at_once: impl Fn(&dyn Fn(&Instance) -> u64) -> u64) -> Vec<(&str, String)> {
        let what = if self.instances { "instances" } else { "vCPUs" };
        let refusal = |(key, allowed): (&String, &u64)| {
            let needed = at_once(&|instance| self.taken(key, instance));
            (*allowed < needed).then(|| {
                format!(
                    "need {needed} {what} at once, but the quota of `{key}` is {allowed}: {} too few",
                    needed - allowed
                )
            })
        };
        self.allowed.iter().filter_map(|own| Some((own.0.as_str(), refusal(own)?))).collect()
    }

    /// Returns how much of a quota an instance takes; nothing where that does not apply to it.
    pub fn taken(&self, key: &str, instance: &Instance) -> u64 {
        if is_about(key, instance) { self.each(instance) } else { 0 }
    }

    /// Returns how much a quota allows; nothing if it is not stated.
    pub fn allowed(&self, key: &str) -> u64 {
        self.allowed.get(key).copied().unwrap_or(0)
    }

    /// Returns `true` if one of them applies to an instance.
    pub fn apply_to(&self, instance: &Instance) -> bool {
        self.most(instance).is_some()
    }

    fn tightest(&self, instance: &Instance) -> Option<(&str, u64)> {
        let about = self.allowed.iter().filter(|(key, _)| is_about(key, instance));
        about.map(|(key, allowed)| (key.as_str(), *allowed)).min_by_key(|(_, allowed)| *allowed)
    }

    /// Returns how much of a quota an instance takes: vCPUs on EC2, one on SageMaker.
    fn each(&self, instance: &Instance) -> u64 {
        if self.instances { 1 } else { u64::from(instance.vcpus.max(1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_hardware_profiles::catalog;

    fn quotas(allowed: &[(&str, u64)], service: Service) -> Result<Quotas, Invalid> {
        let allowed = allowed.iter().map(|(key, count)| ((*key).to_owned(), *count)).collect();
        Quotas::new(Some(&allowed), (service, Pricing::OnDemand), catalog(), "cluster.quotas")
    }

    fn instance(name: &str) -> &'static Instance {
        catalog().instance(name).expect("in the catalog")
    }

    #[test]
    fn every_instance_is_of_a_class() {
        assert_eq!(class(instance("p4d.24xlarge")), Some("P"));
        assert_eq!(class(instance("g4dn.xlarge")), Some("G and VT"));
        assert!(catalog().instances().iter().all(|instance| class(instance).is_some()));
    }

    #[test]
    fn virtual_processors_are_counted_and_the_tightest_quota_holds() {
        let quotas = quotas(&[("P", 200), ("p4d", 100), ("g4dn.*", 3)], Service::Ec2).expect("quotas");
        // p3.2xlarge has 8, p4d.24xlarge 96.
        assert_eq!(quotas.most(instance("p3.2xlarge")), Some(25));
        assert_eq!(quotas.most(instance("p4d.24xlarge")), Some(1));
        assert_eq!(quotas.most(instance("g5.xlarge")), None);
        let refusal = quotas.refusal(instance("g4dn.xlarge"), 1).expect("4 are more than 3");
        assert_eq!(refusal, "needs 4 vCPUs, but the quota of `g4dn.*` is 3: 1 too few");
        assert_eq!(quotas.refusal(instance("p3.2xlarge"), 25), None);
        let refusal = quotas.refusal(instance("p3.2xlarge"), 26).expect("208 are more than 200");
        assert_eq!(refusal, "needs 208 vCPUs, but the quota of `P` is 200: 8 too few");
    }

    #[test]
    fn sagemaker_counts_instances() {
        let quotas = quotas(&[("p4d.24xlarge", 2), ("g", 0)], Service::Sagemaker).expect("quotas");
        assert_eq!(quotas.most(instance("p4d.24xlarge")), Some(2));
        assert!(quotas.refusal(instance("g5.xlarge"), 1).is_some_and(|why| why.contains("1 instance,")));
        assert!(quotas.refusal(instance("p4d.24xlarge"), 3).is_some_and(|why| why.contains("3 instances,")));
    }

    #[test]
    fn capacity_blocks_are_not_counted() {
        let none = BTreeMap::from([("P".to_owned(), 0)]);
        let quotas = Quotas::new(Some(&none), (Service::Ec2, Pricing::CapacityBlock), catalog(), "cluster.quotas")
            .expect("quotas");
        assert_eq!(quotas.most(instance("p5.48xlarge")), None);
    }

    #[test]
    fn instances_of_several_types_take_a_quota_together() {
        let quotas = quotas(&[("P", 200), ("g4dn", 10)], Service::Ec2).expect("quotas");
        // Two with 96 vCPUs and one with 8 of a class, one with 4 of a family.
        let held = [("p4d.24xlarge", 2), ("p3.2xlarge", 1), ("g4dn.xlarge", 1)];
        let at_once = |held: &[(&str, u64)], each: &dyn Fn(&Instance) -> u64| {
            held.iter().map(|(name, count)| count * each(instance(name))).sum::<u64>()
        };
        assert_eq!(quotas.refusals(|each| at_once(&held, each)), []);
        let more = quotas.refusals(|each| 2 * at_once(&held, each));
        let told = "need 400 vCPUs at once, but the quota of `P` is 200: 200 too few";
        assert_eq!(more, [("P", told.to_owned())]);
    }

    #[test]
    fn families_in_one_key_share_its_quota() {
        let quotas = quotas(&[("p3*, p4*", 192)], Service::Ec2).expect("quotas");
        assert_eq!(quotas.most(instance("p3dn.24xlarge")), Some(2));
        assert_eq!(quotas.most(instance("p5.48xlarge")), None);
        // Two with 96 vCPUs each of either family: alone they fit.
        let both = quotas.refusals(|each| 2 * (each(instance("p3dn.24xlarge")) + each(instance("p4d.24xlarge"))));
        let told = "need 384 vCPUs at once, but the quota of `p3*, p4*` is 192: 192 too few";
        assert_eq!(both, [("p3*, p4*", told.to_owned())]);
    }

    #[test]
    fn a_quota_of_nothing_is_refused() {
        assert!(quotas(&[("p3*,p44d", 1)], Service::Ec2).is_err(), "a part of a key is about nothing");
        let message = quotas(&[("p4dd", 1)], Service::Ec2).expect_err("no such family").to_string();
        assert!(
            message.contains("`cluster.quotas` is about `p4dd`") && message.contains("did you mean `p4d`"),
            "{message}"
        );
    }
}
