//! Kinds of files of measurements, told by their content.

/// Kinds of measurements that profiles are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasurementKind {
    /// A table of step times, as `validate` reads it.
    StepTimes,
    /// A table of collectives and transfers, as `validate` reads it.
    Collectives,
    /// The output of a program of NVIDIA's nccl-tests.
    NcclTests,
    /// A trace of a profiler in the format of Chrome's trace viewer.
    Trace,
    /// Measurements of a run of this program.
    Run,
}

impl MeasurementKind {
    /// The kind of a text, or nothing if it is none of them.
    pub fn of(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        let first = text.lines().next().unwrap_or_default();
        let has = |column: &str| first.split(',').any(|name| name.trim().trim_matches('"') == column);
        if text.starts_with(['{', '[']) {
            if text.contains("\"trainyard.measurement/") {
                return Some(Self::Run);
            }
            return text.contains("\"ph\"").then_some(Self::Trace);
        }
        if has("operation") && has("message_bytes") {
            return Some(Self::Collectives);
        }
        if crate::fabric::is_output(text) {
            return Some(Self::NcclTests);
        }
        // Whatever else has columns is taken for what most tables are, and told what it lacks.
        first.contains(',').then_some(Self::StepTimes)
    }

    /// Its name in a message.
    pub fn name(self) -> &'static str {
        match self {
            Self::StepTimes => "step times",
            Self::Collectives => "collectives",
            Self::NcclTests => "output of nccl-tests",
            Self::Trace => "a profiler's trace",
            Self::Run => "a run",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_tells_the_kind_whatever_the_name_of_the_file() {
        for (text, kind) in [
            ("id,suite,step_time_s\n1,a,0.1\n", Some(MeasurementKind::StepTimes)),
            ("system,gpus,nodes,operation,message_bytes\n", Some(MeasurementKind::Collectives)),
            ("# nThread 1 nGpus 8 minBytes 8\n#\n", Some(MeasurementKind::NcclTests)),
            ("\u{feff}{\"traceEvents\": [{\"ph\": \"X\"}]}", Some(MeasurementKind::Trace)),
            ("{\"schema\": \"trainyard.measurement/1\", \"steps\": []}", Some(MeasurementKind::Run)),
            ("{\"plan\": 1}", None),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(MeasurementKind::of(text), kind, "{text}");
        }
    }
}
