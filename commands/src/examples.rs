//! What stands below the options in `--help`: commands to begin with, and what exit codes mean.
//!
//! Paragraphs are one line, which clap wraps; commands, keys and what stands below them are lines that it never has to.

/// Examples and exit codes of the program.
pub(crate) const PROGRAM: &str = "\
Examples:
  trainyard train examples/quickstart.toml
      calibrate this machine, plan, simulate, run, and compare predicted with measured
  trainyard train examples/trials.toml
      trials of hyper-parameters side by side on this machine, with one table of results
  trainyard plan --model gpt2-xl --tokens 10e9 --global-batch 512 --deadline 7d
      which instances to rent for that, how many, and how to split the work
  trainyard plan examples/gpt2-xl-aws.toml --out plan.json
  trainyard plan examples/fleet.toml --plot fleet.svg
      plans for jobs that share a pool, a deadline and a budget, and a schedule for all of them
  trainyard simulate plan.json --trace step.json
      one step of that plan; open the trace at ui.perfetto.dev
  trainyard simulate plan.json --trace traces/
      the same as a file for each rank, as the PyTorch profiler writes them
  trainyard report plan.json --out report.html
      the plan as a page to be read, printed and sent
  trainyard explain plan.json --against other.json
      where the steps of two plans go, what differs, and why one is faster
  trainyard export plan.json --to sagemaker --out launch
      the plan as files for another engine or service
  trainyard serve
      the what-if page on this machine: sliders, plans, pictures
  trainyard simulate examples/queue.toml --plot queue.svg
      many jobs that share a pool of instances: who waits, how long it takes, what it costs
  trainyard history list
      what was planned, simulated and run here

Exit codes:
  0  done
  1  something failed
  2  wrong usage or input
  3  there is no feasible plan
  4  there is a plan, but none within the deadline or budget
  5  the run ended early; its checkpoint is complete
  130  interrupted: there is no checkpoint, or by a second Ctrl-C";

/// Examples of `trainyard train`.
pub(crate) const TRAIN: &str = "\
Examples:
  trainyard train examples/quickstart.toml
      calibrate this machine if needed, plan, simulate, run on real data, and compare
  trainyard train examples/trials.toml
      trials of hyper-parameters side by side

Exit codes: 0 done, 1 the run failed, 2 wrong input, 3 no plan fits, 4 none within the deadline: nothing ran, 5 stopped \
early; its checkpoint is complete, 130 stopped before there was one";

/// Examples of `trainyard plan`.
pub(crate) const PLAN: &str = "\
Examples:
  trainyard plan --model gpt2-xl --tokens 10e9 --global-batch 512 --deadline 7d
  trainyard plan examples/gpt2-xl-aws.toml --out plan.json
  trainyard plan --model gpt2-xl --tokens 10e9 --global-batch 512 --fix instance=p3.16xlarge
      the best plan on one type of machine
  trainyard plan examples/fleet.toml --plot fleet.svg

Exit codes: 0 done, 2 wrong input, 3 no plan fits, 4 none within the deadline or budget: the nearest is shown";

/// Examples of `trainyard simulate`.
pub(crate) const SIMULATE: &str = "\
Examples:
  trainyard simulate plan.json --plot step.svg
  trainyard simulate plan.json --trace step.json.gz
      a trace for ui.perfetto.dev
  trainyard simulate plan.json --trace traces/
      a file for each rank, for Holistic Trace Analysis
  trainyard simulate plan.json --campaign --runs 1000
      the whole training with start-up, checkpoints and interruptions
  trainyard simulate plan.json --chakra et
  trainyard simulate et --on p4d.24xlarge --instances 2
      execution traces out, and in on other machines
  trainyard simulate examples/queue.toml

Exit codes: 0 done, 2 wrong input";

/// Examples of `trainyard explain`.
pub(crate) const EXPLAIN: &str = "\
Examples:
  trainyard explain plan.json
  trainyard explain plan.json --against other.json --plot paths.svg";

/// Examples of `trainyard report`.
pub(crate) const REPORT: &str = "\
Examples:
  trainyard report plan.json --out report.html
  trainyard report plan.json --out report.html --plots figures --plot-format png";

/// Returns the keys and examples of `trainyard what-if`.
pub(crate) fn what_if() -> String {
    let mut text = String::from(
        "\
JOB may be a plan document (PLAN.json): it is then held and simulated with each value.

Values: lists 1,2,4; ranges 1..64 (doubling; layers, heads and images in equal steps; 1..64/4 in steps of 4); \
quantities with their unit, 25Gbps, 80 GiB, 5us; factors on the present value, ×0.5 or x0.5.

Cases that miss the deadline or the budget say so and are answers: the exit code is 0, also if all do. It is 3 if no case \
has a plan.

Keys:
",
    );
    text.extend(trainyard_planner::what_if::keys().map(|(key, about)| format!("  {key:<29} {about}\n")));
    text += "
Examples:
  trainyard what-if examples/gpt2-xl-aws.toml --vary instances=1..16 --plot scaling.svg
  trainyard what-if plan.json --vary cluster.network=25Gbps,100Gbps,400Gbps
  trainyard what-if plan.json --vary batch.micro=1..8 --vary gpu.memory_bandwidth=×0.5,×1,×2 \\
      --csv cases.csv
  trainyard what-if plan.json --tornado --plot tornado.svg";
    text
}

/// Examples of `trainyard export`.
pub(crate) const EXPORT: &str = "\
Examples:
  trainyard export plan.json --to torchrun
      print a script that starts the training
  trainyard export plan.json --to sagemaker --out launch \\
      --role arn:aws:iam::111122223333:role/training \\
      --data s3://bucket/data --results s3://bucket/results
      write a CreateTrainingJob request and an estimator into the folder `launch`
  trainyard export plan.json --to slurm --results /shared/results > slurm.sh
      print a job for sbatch, which goes on from its newest checkpoint when it is queued again

What a target cannot express is refused (exit code 2) or noted in the files. Values that the plan does not \
contain (image, paths) appear as CAPITALISED placeholders, and the script as train.py, until a flag sets them.";

/// Examples of `trainyard run`.
pub(crate) const RUN: &str = "\
Examples:
  trainyard run plan.json --data text/ --steps 100
  trainyard run plan.json --data text/ --checkpoint runs/mine --resume

Exit codes: 0 done, 1 the run failed, 2 wrong input, 5 stopped early; its checkpoint is complete, \
130 stopped at once";

/// Examples of `trainyard compare`.
pub(crate) const COMPARE: &str = "\
Examples:
  trainyard compare runs/gpt-1/plan.json runs/gpt-1 --plot phases.svg";

/// Examples of `trainyard calibrate`.
pub(crate) const CALIBRATE: &str = "\
Examples:
  trainyard calibrate
      measure this machine: a minute or so, on a quiet machine
  trainyard calibrate --from runs
      correct the profile by what runs measured
  trainyard calibrate --from all_reduce_perf.txt --instance p4d.24xlarge
      constants of links from the output of nccl-tests";

/// Examples of `trainyard validate`.
pub(crate) const VALIDATE: &str = "\
Examples:
  trainyard validate measurements.csv --plot predicted.svg";

/// Examples of `trainyard serve`.
pub(crate) const SERVE: &str = "\
Examples:
  trainyard serve
      the page, at http://127.0.0.1:8080
  TRAINYARD_TOKEN=$(openssl rand -hex 16) trainyard serve --listen 0.0.0.0
      for others on the network, who need the token";

/// Examples of `trainyard history`.
pub(crate) const HISTORY: &str = "\
Examples:
  trainyard history list --kind run --since 7d
  trainyard history show 4f2k9c
  trainyard history compare 4f2k9c 7b
      two plans of one model as `trainyard explain --against` has them, anything else by its figures
  trainyard history tag 4f2k9c baseline
  trainyard history export 4f2k9c --out plan.json
  trainyard history prune --keep 100 --dry-run

ID is any start of an id that no other entry has. DATE is 2026-11-22 or 2026-11-22T10:30:00Z, both UTC, or how long ago: \
12h, 30d.";

/// Examples of `trainyard show`.
pub(crate) const SHOW: &str = "\
Examples:
  trainyard show instances
  trainyard show models llama-2-7b
  trainyard show prices 'p4d.*' > prices.csv
      a table to be changed and given back with --prices";

/// Examples of `trainyard prices`.
pub(crate) const PRICES: &str = "\
Examples:
  trainyard prices import products.json spot.json offerings.json quotas.json \\
      --out prices.csv --quotas quotas.toml
      what the AWS command line printed with --output json; docs/guide/account.md has the commands
  trainyard plan --model gpt2-xl --tokens 10e9 --global-batch 512 \\
      --prices prices.csv --quotas quotas.toml";

/// Examples of `trainyard schemas`.
pub(crate) const SCHEMAS: &str = "\
Examples:
  trainyard schemas --out schemas
      job.json describes every field of a job file, plan.json what `plan --format json` prints …";

/// Examples of `trainyard completions`.
pub(crate) const COMPLETIONS: &str = "\
Examples:
  trainyard completions bash > ~/.local/share/bash-completion/completions/trainyard
  trainyard completions zsh > ~/.zfunc/_trainyard";

/// Examples of `trainyard man`.
pub(crate) const MAN: &str = "\
Examples:
  trainyard man > ~/.local/share/man/man1/trainyard.1
  trainyard man --out ~/.local/share/man/man1
      trainyard.1, trainyard-plan.1, and a page for each other command";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsing::parse;
    use std::ffi::OsString;

    /// The widest that help becomes.
    const WIDTH: usize = 100;

    /// Returns the commands in a text, joined with their continuation lines and without shell syntax.
    fn commands(text: &str) -> Vec<Vec<String>> {
        let text = text.replace("\\\n", " ");
        // Descriptions of a command are indented further; environment variables may stand before it.
        let typed = text.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let lines = typed.filter_map(|line| line.find("trainyard ").map(|at| &line[at..]));
        let words = |line: &str| -> Vec<String> {
            let words = line.split_whitespace().take_while(|word| *word != ">");
            words.map(|word| word.trim_matches('\'').to_owned()).collect()
        };
        lines.map(words).collect()
    }

    #[test]
    fn every_example_can_be_typed() {
        let what_if = what_if();
        let texts = [
            PROGRAM,
            TRAIN,
            PLAN,
            SIMULATE,
            EXPLAIN,
            REPORT,
            &what_if,
            EXPORT,
            RUN,
            COMPARE,
            CALIBRATE,
            VALIDATE,
            SERVE,
            HISTORY,
            PRICES,
            SHOW,
            SCHEMAS,
            COMPLETIONS,
            MAN,
        ];
        for text in texts {
            let wrapped = |line: &&str| line.starts_with(' ') && line.chars().count() > WIDTH;
            assert_eq!(text.lines().find(wrapped), None, "clap would break it");
            let all = commands(text);
            assert!(!all.is_empty(), "{text}");
            for command in all {
                let words: Vec<OsString> = command.iter().map(Into::into).collect();
                let parsed = parse(&words);
                assert!(parsed.is_ok(), "{command:?}: {}", parsed.expect_err("refused"));
            }
        }
    }
}
