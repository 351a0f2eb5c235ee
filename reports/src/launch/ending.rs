//! How the shell ends that starts a launcher: as finished, to be started again, or as the launcher failed.
//!
//! Ranks that were told to stop write a checkpoint and end with 0, and so does their launcher. Whoever starts jobs again
//! would take that for the end of the training.

use crate::shell::quoted;

/// A shell test of whether a training has reached its last step.
#[derive(Clone, Debug)]
pub(super) struct Completion {
    test: String,
    /// `false` for scripts of which nobody knows what they write: the test is of how they ended.
    is_of_results: bool,
    /// The command that tells the newest checkpoint, where it is known what the script writes.
    newest: Option<String>,
}

/// Returns the command that tells the newest checkpoint of transformers' Trainer, which writes this file of a checkpoint last.
pub(super) fn newest_of_trainer(results: &str) -> String {
    format!("ls -d {}/checkpoint-*/trainer_state.json 2>/dev/null | sort -V | tail -n 1 || true", quoted(results))
}

impl Completion {
    /// Creates the test for transformers' Trainer, which writes this file of a checkpoint last, and the checkpoint of the
    /// last step always.
    pub(super) fn of_trainer(results: &str, steps: u64) -> Self {
        let file = quoted(&format!("{results}/checkpoint-{steps}/trainer_state.json"));
        Self { test: format!("[ -e {file} ]"), is_of_results: true, newest: Some(newest_of_trainer(results)) }
    }

    /// Creates the test for Megatron-LM, which writes the number of its newest checkpoint once that is whole.
    pub(super) fn of_megatron(results: &str, steps: u64) -> Self {
        let file = quoted(&format!("{results}/latest_checkpointed_iteration.txt"));
        let newest = Some(format!("cat {file} 2>/dev/null || true"));
        Self { test: format!("[ \"$(cat {file} 2>/dev/null)\" = {steps} ]"), is_of_results: true, newest }
    }

    /// Creates the test for a script that ends with 0 when it has finished, unless it was told to stop.
    pub(super) fn of_status() -> Self {
        Self { test: "[ \"${status:-1}${told:-}\" = 0 ]".into(), is_of_results: false, newest: None }
    }

    /// Returns the command that tells the newest checkpoint, where it is known.
    pub(super) fn newest(&self) -> Option<&str> {
        self.newest.as_deref()
    }

    /// Returns lines that define `finished`, and end the shell if there is nothing to do.
    pub(super) fn begin(&self) -> String {
        let (told, skip) = if self.is_of_results {
            (
                "# The last step: who trains fewer, or more, changes it here and below.\n",
                "if finished; then exit 0; fi\n",
            )
        } else {
            ("", "")
        };
        format!("{told}finished() {{\n  {}\n}}\n{skip}", self.test)
    }

    /// Returns lines that run a command unless there is nothing to do, and end as it does if it has not finished.
    pub(super) fn run(&self, command: &str) -> String {
        if !self.is_of_results {
            return command.to_owned();
        }
        format!("{}told=\nstatus=0\n{} || status=$?\n{END}", self.begin(), command.trim_end())
    }
}

/// Returns lines that run the command of a launcher in the background, to whose ranks the shell hands on SIGTERM. The
/// launcher itself is left alone: torchrun kills its ranks 30 seconds after a SIGTERM of its own.
pub(super) fn run_and_tell(command: &str) -> String {
    format!("trap 'exit 143' TERM INT\n{TELL}{} &\nlauncher=$!\ntrap tell TERM INT\n{WAIT}{END}", command.trim_end())
}

/// Ranks are the children of the launcher.
const TELL: &str = "told=
tell() {
  told=1
  kill -TERM $(cat \"/proc/$launcher/task/\"*/children) || echo \"there are no ranks to stop\" >&2
}
";

/// Waits for the launcher, although signals end a wait.
pub(super) const WAIT: &str = "while kill -0 \"$launcher\" 2>/dev/null; do wait \"$launcher\" || true; done
status=0
wait \"$launcher\" || status=$?
";

/// Ends the shell: with 0 only if the training has finished, and as after a SIGTERM if it has stopped before.
pub(super) const END: &str = "if finished; then exit 0; fi
if [ \"$status\" = 0 ] || [ -n \"$told\" ]; then
  echo \"stopped before the last step: start this again to go on\" >&2
  status=143
fi
exit \"$status\"
";

#[cfg(test)]
mod tests {
    use crate::launch::Target;
    use crate::launch::stack_tests::{first, megatron, pytorch, stack};
    use serde_json::json;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::time::Duration;
    use trainyard_hardware_profiles::Abilities;

    /// A launcher with one rank, which begins, and saves and ends when it is told; the launcher must not be told itself.
    const LAUNCHER: &str = r#"trap 'echo killed >> log' TERM
bash -c 'trap "echo saved >> log; exit 0" TERM; echo begun >> log; while :; do sleep 0.02; done' &
wait; wait
exit"#;

    /// As Slurm's: it starts the launcher, whose rank it tells when it starts a second step beside it.
    const SRUN: &str = r#"if [ "$1" = --overlap ]; then kill -TERM $(cat /proc/$(cat step)/task/*/children); exit; fi
echo $$ > step
"#;

    /// A folder in which a script runs with programs of its own.
    struct Bench(PathBuf);

    impl Bench {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("trainyard-ending-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(folder.join("RESULTS")).expect("room");
            Self(folder)
        }

        fn program(self, name: &str, body: &str) -> Self {
            use std::os::unix::fs::PermissionsExt;
            let path = self.0.join(name);
            std::fs::write(&path, format!("#!/bin/bash\n{body}\n")).expect("room");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("its own file");
            self
        }

        fn log(&self) -> String {
            std::fs::read_to_string(self.0.join("log")).unwrap_or_default()
        }

        /// Runs a script, to which a signal is sent once its rank has begun; returns its status and what was logged.
        fn run(&self, script: &str, signal: Option<&str>) -> (Option<i32>, String) {
            let path = format!("{}:/usr/bin:/bin", self.0.display());
            let mut shell = Command::new("bash")
                .args(["-c", script])
                .current_dir(&self.0)
                .env("PATH", path)
                .env("SLURM_JOB_ID", "7")
                .env("SLURM_JOB_NODELIST", "machine-[0-1]")
                .envs([("NODE_RANK", "0"), ("RANK", "0"), ("MASTER_ADDR", "machine-0"), ("MASTER_PORT", "29500")])
                .stderr(Stdio::null())
                .spawn()
                .expect("bash is there");
            if let Some(signal) = signal {
                self.wait_for("begun");
                let told = Command::new("kill").args([signal, &shell.id().to_string()]).status();
                assert!(told.is_ok_and(|status| status.success()));
            }
            (shell.wait().expect("it was started").code(), self.log())
        }

        fn wait_for(&self, word: &str) {
            // A minute at most.
            for _ in 0..12_000 {
                if self.log().contains(word) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            panic!("{}", self.log());
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).expect("room");
            std::fs::write(path, text).expect("room");
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    const LAST: &str = "RESULTS/checkpoint-7629/trainer_state.json";

    fn spot() -> Vec<(&'static str, serde_json::Value)> {
        vec![("plan.pricing", json!("spot"))]
    }

    fn trainer(target: Target) -> String {
        first(&spot(), &pytorch("pytorch-ddp", false), target)
    }

    /// The script that a container of a pod runs, in a folder instead of on a volume.
    fn of_pod() -> String {
        let text = trainer(Target::Kubernetes);
        let lines = text.lines().skip_while(|line| !line.ends_with("- |")).skip(1);
        let first = lines.clone().next().unwrap_or_default();
        let indent = first.len() - first.trim_start().len();
        let script: String = lines
            .take_while(|line| line.is_empty() || line.starts_with(&" ".repeat(indent)))
            .map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n")
            .collect();
        let after = script.split("/results/").nth(1).expect("a folder of the plan");
        let folder = format!("/results/{}", after.split('/').next().unwrap_or_default());
        script.replace(&folder, "RESULTS").replace("/dev/shm/", "")
    }

    /// Whatever starts it again would take 0 for the end of the training, and torchrun kills ranks that it is told to end.
    #[test]
    fn ranks_are_told_and_what_stopped_early_has_not_finished() {
        for (name, script) in [("torchrun", trainer(Target::Torchrun)), ("pod", of_pod())] {
            let bench = Bench::new(&format!("told-{name}")).program("torchrun", LAUNCHER);
            let (code, log) = bench.run(&script, Some("-TERM"));
            assert_eq!((code, log.as_str()), (Some(143), "begun\nsaved\n"), "{script}");
            let starter = std::fs::read_to_string(bench.0.join("start.py")).unwrap_or_default();
            assert_eq!(starter.ends_with("run_name=\"__main__\")\n"), name == "pod", "{starter}");
            // The checkpoint that it wrote was that of the last step.
            let last = LAUNCHER.replace("echo saved", &format!("mkdir -p RESULTS/checkpoint-7629; touch {LAST}"));
            let bench = Bench::new(&format!("last-{name}")).program("torchrun", &last);
            assert_eq!(bench.run(&script, Some("-TERM")).0, Some(0), "{script}");
            let bench = Bench::new(&format!("done-{name}")).program("torchrun", "echo started >> log");
            bench.write(LAST, "{}");
            assert_eq!(bench.run(&script, None), (Some(0), String::new()), "{script}");
        }
    }

    #[test]
    fn a_script_ends_as_its_launcher_failed_or_as_stopped_early() {
        let plain = [
            first(&[], &pytorch("pytorch-ddp", false), Target::Torchrun),
            trainer(Target::Torchrun),
            first(&[], &megatron(), Target::Megatron),
            first(&[], &pytorch("pytorch-ddp", false), Target::Accelerate),
        ];
        for script in plain {
            for (last, code) in [("exit 7", 7), ("exit 0", 143)] {
                let bench = Bench::new("ends").program("torchrun", last).program("accelerate", last);
                assert_eq!(bench.run(&script, None).0, Some(code), "{script}");
            }
        }
    }

    #[test]
    fn megatron_has_finished_with_the_checkpoint_of_its_last_step() {
        let script = first(&[], &megatron(), Target::Megatron);
        for (iteration, code) in [("7628", 143), ("7629", 0)] {
            let write = format!("echo started >> log; printf {iteration} > RESULTS/latest_checkpointed_iteration.txt");
            let bench = Bench::new("iterations").program("torchrun", &write);
            assert_eq!(bench.run(&script, None), (Some(code), "started\n".into()), "{iteration}");
            // The second time there may be nothing to do.
            let again = bench.run(&script, None);
            assert_eq!(again.1.matches("started").count(), if code == 0 { 1 } else { 2 }, "{iteration}");
        }
    }

    /// mpirun ends as the first of its ranks that fails.
    #[test]
    fn a_slurm_job_of_the_executor_that_failed_is_queued_again_if_it_came_further() {
        let own = stack("trainyard-executor", &["slurm"], Abilities::default());
        let script = first(&[], &own, Target::Slurm);
        let bench = |name: &str, body: &str| {
            Bench::new(name).program("mpirun", body).program("scontrol", r#"echo "$*" >> log"#)
        };
        let further = bench("mpi-further", "mkdir -p RESULTS/checkpoint/checkpoint-2; exit 7");
        assert_eq!(further.run(&script, None), (Some(7), "requeue 7\n".into()), "{script}");
        assert_eq!(further.run(&script, None), (Some(7), "requeue 7\n".into()), "{script}");
        assert_eq!(bench("mpi-fails", "exit 7").run(&script, None), (Some(7), String::new()));
        assert_eq!(bench("mpi-done", "mkdir -p RESULTS/checkpoint/checkpoint-2").run(&script, None).1, "");
        // Who cancels the job wants no other.
        let told = "trap 'mkdir -p RESULTS/checkpoint/checkpoint-2; exit 7' TERM; echo begun >> log; while :; do sleep 0.02; done";
        assert_eq!(bench("mpi-told", told).run(&script, Some("-TERM")), (Some(7), "begun\n".into()));
    }

    #[test]
    fn a_slurm_job_is_queued_again_unless_it_has_finished() {
        let script = first(&[], &pytorch("pytorch-ddp", false), Target::Slurm);
        let scontrol = r#"[ "$1" = show ] && exec echo machine-0
echo "$*" >> log"#;
        let bench = |name: &str, step: &str| {
            let srun = format!("{SRUN}{step}");
            Bench::new(name).program("srun", &srun).program("scontrol", scontrol)
        };
        let told = bench("slurm-told", LAUNCHER);
        assert_eq!(told.run(&script, Some("-USR1")), (Some(143), "begun\nsaved\nrequeue 7\n".into()));
        let last =
            LAUNCHER.replace("echo saved", &format!("mkdir -p RESULTS/checkpoint-7629; touch {LAST}; echo saved"));
        assert_eq!(bench("slurm-last", &last).run(&script, Some("-USR1")), (Some(0), "begun\nsaved\n".into()));
        // Ranks that somebody else told have ended with 0.
        assert_eq!(bench("slurm-others", "exit 0").run(&script, None), (Some(143), "requeue 7\n".into()));
        assert_eq!(bench("slurm-fails", "exit 7").run(&script, None), (Some(7), String::new()));
        let saves = "mkdir -p RESULTS/checkpoint-100; touch RESULTS/checkpoint-100/trainer_state.json; exit 7";
        let further = bench("slurm-further", saves);
        assert_eq!(further.run(&script, None), (Some(7), "requeue 7\n".into()));
        // It failed again, and came no further.
        assert_eq!(further.run(&script, None), (Some(7), "requeue 7\n".into()));
        let last = format!("mkdir -p RESULTS/checkpoint-7629; touch {LAST}; exit 7");
        assert_eq!(bench("slurm-fails-late", &last).run(&script, None), (Some(0), String::new()));
        let megatron = first(&[], &megatron(), Target::Slurm);
        let saves = "printf 100 > RESULTS/latest_checkpointed_iteration.txt; exit 7";
        let further = bench("slurm-further-megatron", saves);
        assert_eq!(further.run(&megatron, None), (Some(7), "requeue 7\n".into()));
        assert_eq!(further.run(&megatron, None), (Some(7), "requeue 7\n".into()));
        let often = script.replace("${SLURM_RESTART_COUNT:-0}\" -lt", "50\" -lt");
        assert_eq!(bench("slurm-often", "exit 0").run(&often, None), (Some(143), String::new()));
    }
}
