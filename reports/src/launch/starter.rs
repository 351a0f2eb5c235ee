//! The Python file that starts a training script with what its arguments cannot say: where to go on, and how all ranks
//! stop together.
//!
//! transformers has a flag for a checkpoint on SIGTERM, `enable_jit_checkpoint`, with which each rank looks at itself alone:
//! ranks that were told begin to save together while the others compute their next step, and all wait for each other.
//!
//! # Source
//!
//! Hugging Face transformers 5.24, `DEFAULT_CALLBACKS` in `src/transformers/trainer.py`, `DefaultFlowCallback` in
//! `trainer_callback.py` and `trainer_jit_checkpoint.py`; accelerate 1.15, `save_fsdp_model` in
//! `src/accelerate/utils/fsdp_utils.py`.

use super::python::literal;
use serde_json::json;
use trainyard_plan::LaunchFile;

/// The name of the file, which lies beside the script.
pub(super) const FILE: &str = "start.py";

/// Where a pod's shell writes it: a volume in memory, which containers may write whatever their image forbids.
pub(super) const IN_POD: &str = "/dev/shm/start.py";

/// Ends the text of the file in a shell script; no line of it is this.
const END: &str = "END-OF-START";

/// A training script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// A file.
    File(String),
    /// A module of a package that is installed.
    Module(&'static str),
}

/// The search for a checkpoint to go on from, where no shell does it.
#[derive(Clone, Debug)]
pub(super) struct Search {
    /// The folder of checkpoints.
    pub(super) results: &'static str,
    /// The files without which a checkpoint is not whole.
    pub(super) required: Vec<&'static str>,
}

/// The file that is started instead of a script.
#[derive(Clone, Debug)]
pub(super) struct Starter {
    pub(super) script: Script,
    /// The steps after which ranks ask each other whether one was told to stop; `None` where nobody tells them.
    pub(super) stop_steps: Option<u64>,
    /// `true` if maps of the network are to lie channels last, which transformers' Trainer leaves as they are.
    pub(super) channels_last: bool,
    /// The communication hook of DistributedDataParallel that sums gradients in another format, as PyTorch names it.
    pub(super) gradient_hook: Option<&'static str>,
    /// Where a checkpoint to go on from is looked for; then the script is named here and not among the arguments.
    pub(super) search: Option<Search>,
}

impl Starter {
    /// Returns the file.
    pub(super) fn file(&self) -> LaunchFile {
        LaunchFile { name: FILE.into(), text: self.text() }
    }

    /// Returns lines of a shell that write the file at a place.
    pub(super) fn written_at(&self, place: &str) -> String {
        format!("cat > {place} <<'{END}'\n{}{END}\n", self.text())
    }

    fn text(&self) -> String {
        let imports: String = self.imports().iter().map(|name| format!("import {name}\n")).collect();
        let libraries = match (self.stop_steps.is_some() || self.channels_last, self.gradient_hook) {
            (true, _) => "\nimport torch\nimport transformers.trainer\nfrom transformers import TrainerCallback\n",
            (false, Some(_)) => "\nimport torch\n",
            (false, None) => "",
        };
        let hook = self.gradient_hook.map(gradient_hook).unwrap_or_default();
        let stop = self.stop_steps.map(stop).unwrap_or_default();
        let search = self.search.as_ref().map(search).unwrap_or_default();
        let layout = if self.channels_last { CHANNELS_LAST } else { "" };
        format!("# {}\n{imports}{libraries}{hook}{layout}{stop}\n{search}{}", self.what(), self.start())
    }

    fn what(&self) -> String {
        let script = match &self.script {
            Script::File(_) => "the training script".to_owned(),
            Script::Module(name) => format!("the training script {name}"),
        };
        let goes_on = if self.search.is_some() { ", from its newest whole checkpoint if there is one" } else { "" };
        let stops = if self.stop_steps.is_some() {
            "; all ranks write a checkpoint and stop after the same step once one of them gets SIGTERM"
        } else {
            ""
        };
        let layout = if self.channels_last { "; the network's maps lie channels last" } else { "" };
        let hook = self.gradient_hook.map_or_else(String::new, |hook| format!("; replicas sum gradients by {hook}"));
        format!("Starts {script}{goes_on}{stops}{layout}{hook}.")
    }

    fn imports(&self) -> Vec<&'static str> {
        let is_file = matches!(self.script, Script::File(_));
        [
            (self.search.is_some(), "glob"),
            (self.search.is_some() || is_file, "os"),
            (true, "runpy"),
            (self.stop_steps.is_some(), "signal"),
            (self.search.is_some() || is_file, "sys"),
        ]
        .into_iter()
        .filter_map(|(is_used, name)| is_used.then_some(name))
        .collect()
    }

    /// Returns the lines that hand over to the script as if it had been started itself.
    fn start(&self) -> String {
        match &self.script {
            Script::Module(name) => {
                format!("runpy.run_module({}, run_name=\"__main__\", alter_sys=True)\n", literal(&json!(name), 0))
            }
            Script::File(name) => {
                let named = if self.search.is_some() {
                    format!("sys.argv[0] = {}\n", literal(&json!(name), 0))
                } else {
                    "sys.argv = sys.argv[1:]\n".to_owned()
                };
                format!(
                    "{named}sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))\nrunpy.run_path(sys.argv[0], run_name=\"__main__\")\n"
                )
            }
        }
    }
}

/// The callback that lays weights of convolutions channels last before the model is wrapped: cuDNN keeps the maps of a
/// convolution as its weights lie.
///
/// # Source
///
/// PyTorch, tutorial "Channels Last Memory Format in PyTorch" and `cudnn_conv_suggest_memory_format` in
/// `aten/src/ATen/native/ConvUtils.h`; Hugging Face transformers 5.24, `on_init_end` in `src/transformers/trainer.py`.
const CHANNELS_LAST: &str = "

class ChannelsLast(TrainerCallback):
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}

    def on_init_end(self, args, state, control, model=None, **kwargs):
        for weights in model.parameters():
            if weights.dim() in self.layouts:
                weights.data = weights.data.to(memory_format=self.layouts[weights.dim()])


transformers.trainer.DEFAULT_CALLBACKS.append(ChannelsLast)
";

/// Returns the class that registers a communication hook where a script, or accelerate for it, wraps its model.
///
/// # Source
///
/// PyTorch 2.15, `register_comm_hook` in `torch/nn/parallel/distributed.py` and `default_hooks.py` in
/// `torch/distributed/algorithms/ddp_comm_hooks`; accelerate 1.15, `prepare_model` in `src/accelerate/accelerator.py`.
fn gradient_hook(name: &str) -> String {
    format!(
        "from torch.distributed.algorithms.ddp_comm_hooks import default_hooks


class SummedByHook(torch.nn.parallel.DistributedDataParallel):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_comm_hook(None, default_hooks.{name})


torch.nn.parallel.DistributedDataParallel = SummedByHook
"
    )
}

/// Returns the callback by which ranks agree on the step after which they stop.
fn stop(steps: u64) -> String {
    let seldom = match steps {
        1 => String::new(),
        steps => format!("        if state.global_step % {steps}:\n            return\n"),
    };
    format!(
        "

class Stop(TrainerCallback):
    def __init__(self):
        self.told = False

    def on_train_begin(self, args, state, control, **kwargs):
        signal.signal(signal.SIGTERM, self.on_signal)

    def on_signal(self, number, frame):
        self.told = True

    def on_step_end(self, args, state, control, **kwargs):
{seldom}        told = self.told
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            # Saving takes all ranks: they stop together, or those that were told would wait for the others.
            flag = torch.tensor(int(told), device=args.device)
            torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
            told = bool(flag.item())
        if told:
            control.should_save = control.should_training_stop = True


transformers.trainer.DEFAULT_CALLBACKS.append(Stop)
"
    )
}

/// Returns the search for the newest whole checkpoint.
fn search(search: &Search) -> String {
    let pattern = literal(&json!(format!("{}/checkpoint-*", search.results)), 0);
    let required = json!(search.required).to_string();
    format!(
        "# Without these a checkpoint is not whole.
required = {required}
is_whole = lambda folder: all(os.path.exists(os.path.join(folder, name)) for name in required)
checkpoints = list(filter(is_whole, glob.glob({pattern})))
if checkpoints:
    newest = max(checkpoints, key=lambda folder: int(folder.rsplit(\"-\", 1)[1]))
    sys.argv += [\"--resume_from_checkpoint\", newest]
# SageMaker hands over a flag with an empty value.
sys.argv[1:] = [word for word in sys.argv[1:] if word]
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn starter(script: Script, stop_steps: Option<u64>) -> Starter {
        Starter { script, stop_steps, channels_last: false, gradient_hook: None, search: None }
    }

    #[test]
    fn a_file_is_started_as_if_by_itself_and_a_module_by_its_name() {
        let file = starter(Script::File("train.py".into()), Some(3)).text();
        for words in ["sys.argv = sys.argv[1:]\n", "global_step % 3:", "ReduceOp.MAX", "DEFAULT_CALLBACKS.append(Stop)"]
        {
            assert!(file.contains(words), "{file}");
        }
        assert!(file.ends_with("runpy.run_path(sys.argv[0], run_name=\"__main__\")\n"), "{file}");
        let module = starter(Script::Module("trl.scripts.sft"), None).text();
        let start = "import runpy\n\nrunpy.run_module(\"trl.scripts.sft\", run_name=\"__main__\", alter_sys=True)\n";
        assert!(module.ends_with(start) && !module.contains("torch"), "{module}");
    }

    #[test]
    fn maps_are_laid_channels_last_before_the_model_is_wrapped() {
        for steps in [None, Some(1)] {
            let own = starter(Script::File("train.py".into()), steps);
            assert!(!own.text().contains("channels_last"));
            let text = Starter { channels_last: true, ..own }.text();
            let [imported, used] =
                ["import torch\n", "on_init_end"].map(|words| text.find(words).expect("it is there"));
            assert!(imported < used && text.contains("DEFAULT_CALLBACKS.append(ChannelsLast)\n"), "{text}");
            assert_eq!(text.contains("append(Stop)"), steps.is_some(), "{text}");
        }
    }

    #[test]
    fn the_hook_is_registered_before_the_script_wraps_its_model() {
        for steps in [None, Some(1)] {
            let own = starter(Script::File("train.py".into()), steps);
            assert!(!own.text().contains("hook"));
            let text = Starter { gradient_hook: Some("bf16_compress_hook"), ..own }.text();
            let at = |words| text.find(words).expect("it is there");
            assert!(at("import torch\n") < at("register_comm_hook(None, default_hooks.bf16_compress_hook)"), "{text}");
            assert!(at("DistributedDataParallel = SummedByHook\n") < at("runpy.run_path"), "{text}");
        }
    }

    #[test]
    fn a_checkpoint_is_whole_with_all_its_files() {
        let search = Search { results: "/c", required: vec!["trainer_state.json", "optimizer_0/.metadata"] };
        let text = Starter { search: Some(search), ..starter(Script::File("a \"b\".py".into()), None) }.text();
        assert!(text.contains("required = [\"trainer_state.json\",\"optimizer_0/.metadata\"]\n"), "{text}");
        assert!(text.contains("sys.argv[0] = \"a \\\"b\\\".py\"\n") && !text.contains("signal"), "{text}");
    }
}
