//! A part of a measured machine, as a job has it that trains beside others.

use crate::measured::{CollectiveSample, MeasuredMachine, OperatorSample};
use std::collections::BTreeSet;
use trainyard_units::Bytes;

impl MeasuredMachine {
    /// Returns the machine as one of several jobs sees it that train side by side on `devices` of its devices. It
    /// assumes as many other jobs as there is room for: n ranks of a job work beside as many times n ranks of all jobs,
    /// so that an operator takes the time that was measured with that many ranks at work. If that number was not
    /// measured, the next larger one that was counts, else the largest. Memory is shared evenly.
    #[must_use]
    pub fn share(&self, devices: u32) -> Self {
        let devices = devices.clamp(1, self.devices);
        let jobs = self.devices / devices;
        let measured: BTreeSet<u32> = self.operators.iter().map(|sample| sample.ranks).collect();
        let grouped = |ranks: u32| ranks == 1 || self.collectives.iter().any(|sample| sample.ranks == ranks);
        let own: BTreeSet<u32> = measured
            .iter()
            .map(|all| all / jobs)
            .chain([1])
            .filter(|ranks| (1..=devices).contains(ranks) && grouped(*ranks))
            .collect();
        let of_own = |ranks: u32| -> Vec<OperatorSample> {
            let all = measured.range(ranks * jobs..).next().or(measured.last()).copied().unwrap_or(ranks);
            let samples = self.operators.iter().filter(|sample| sample.ranks == all);
            samples
                .map(|sample| OperatorSample { ranks, threads: (devices / ranks).max(1), ..sample.clone() })
                .collect()
        };
        let collectives: Vec<CollectiveSample> =
            self.collectives.iter().filter(|sample| own.contains(&sample.ranks)).cloned().collect();
        Self {
            devices,
            memory: Bytes(self.memory.0 / u64::from(jobs)),
            operators: own.iter().flat_map(|ranks| of_own(*ranks)).collect(),
            collectives,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{CollectiveOperation, DeviceKind, NumberFormat, OperatorClass, PROFILE_SCHEMA};
    use trainyard_units::BytesPerSecond;

    fn machine() -> MeasuredMachine {
        let operator = |ranks: u32| OperatorSample {
            operator: OperatorClass::Linear,
            format: NumberFormat::default(),
            ranks,
            threads: 4 / ranks,
            shape: vec![1, 2, 3],
            forward_s: f64::from(ranks),
            backward_s: 0.0,
            spread: 0.0,
        };
        let collective = |ranks: u32| CollectiveSample {
            operation: CollectiveOperation::AllReduce,
            ranks,
            bytes: 8,
            seconds: f64::from(ranks),
        };
        MeasuredMachine {
            schema: PROFILE_SCHEMA.into(),
            name: "local".into(),
            processor: "some".into(),
            device: DeviceKind::Cpu,
            devices: 4,
            memory: Bytes(400),
            measured: "2026-11-21".into(),
            framework: "some".into(),
            copy_bandwidth: BytesPerSecond(1.0),
            overlap_slowdown: None,
            corrections: Vec::new(),
            operators: [1, 2, 4].map(operator).into(),
            collectives: [2, 4].map(collective).into(),
        }
    }

    #[test]
    fn a_share_is_as_fast_as_all_ranks_at_once_leave_it() {
        let half = machine().share(2);
        assert_eq!((half.devices, half.memory), (2, Bytes(200)));
        let operators: Vec<_> = half.operators.iter().map(|s| (s.ranks, s.threads, s.forward_s)).collect();
        assert_eq!(operators, [(1, 2, 2.0), (2, 1, 4.0)]);
        assert_eq!(half.collectives.iter().map(|sample| sample.ranks).collect::<Vec<_>>(), [2]);
        let quarter = machine().share(1);
        let operators: Vec<_> = quarter.operators.iter().map(|s| (s.ranks, s.threads, s.forward_s)).collect();
        assert_eq!((operators, quarter.memory), (vec![(1, 1, 4.0)], Bytes(100)));
        // Three of four devices leave no room for another job.
        let most = machine().share(3);
        assert_eq!(most.operators.iter().map(|s| (s.ranks, s.threads)).collect::<Vec<_>>(), [(1, 3), (2, 1)]);
    }

    #[test]
    fn the_whole_is_its_own_share() {
        assert_eq!(machine().share(4), machine());
        assert_eq!(machine().share(9), machine());
    }
}
