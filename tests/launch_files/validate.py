"""Checks launch files with the parsers of the programs that read them.

    python validate.py KIT TRAINYARD PLAN.json...

exports each plan, and each of varied.py, to the targets that KIT (torch, sagemaker, skypilot or slurm: what is
installed, see requirements-KIT.txt) can check, and hands the files to the target's own parser. Then files are broken on
purpose (broken.py), and each break must be refused. Ends with 1 if a file is refused or a break is not, or if the
replicated or the fully sharded plan is not exported to all.
"""

import argparse
import contextlib
import dataclasses
import functools
import getpass
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import types

from broken import BROKEN
from varied import VARIED

RATE = ["--learning-rate", "0.0003"]
WEIGHTS = ["--weights", "organisation/model"]
ROLE = ["--role", "arn:aws:iam::111122223333:role/training"]
BUCKETS = ["--data", "s3://bucket/data", "--results", "s3://bucket/results"]


def exported(trainyard, plan, target, flags, folder):
    """The files by name; nothing if the target cannot express the plan."""
    out = folder / f"{plan.stem}-{target}"
    command = [trainyard, "export", str(plan.resolve()), "--to", target, "--out", str(out), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2 and ", but " in done.stderr:
        print(f"  refused: {done.stderr.strip().splitlines()[1].strip()}")
        return None
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_text() for path in out.iterdir()}


def variations(plans, folder):
    """The plans, and those that differ from one of them in some fields."""
    yield from plans
    for name, (base, changes) in VARIED.items():
        document = json.loads(next(plan for plan in plans if plan.stem == base).read_text())
        for path, value in changes.items():
            *parents, last = path.split(".")
            inner = document
            for parent in parents:
                inner = inner.setdefault(parent, {})
            inner[last] = value
        path = folder / f"{base}-{name}.json"
        path.write_text(json.dumps(document))
        yield path


@contextlib.contextmanager
def unpacked(files):
    """The files in a folder of their own, which is the working directory for as long."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            pathlib.Path(folder, name).write_text(text)
        os.chdir(folder)
        try:
            yield pathlib.Path(folder)
        finally:
            os.chdir(before)


# What machines and services set for a script; the second of two machines.
VARIABLES = {
    "NODE_RANK": "1", "RANK": "1", "MASTER_ADDR": "machine-0", "MASTER_PORT": "29500", "SLURM_JOB_ID": "7",
    "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2", "SLURM_JOB_NODELIST": "machine-[0-1]",
}  # fmt: skip


# What Slurm says of the machines of a job, and what it does when it is asked anything else.
HOSTNAMES = """[ "$*" = "show hostnames machine-[0-1]" ] && printf 'machine-0\\nmachine-1\\n'"""


def command(folder, name, body):
    """A program of this name in a folder."""
    path = pathlib.Path(folder, name)
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def checkpoints(results):
    """Checkpoints of transformers' Trainer, of which the newest is not whole."""
    for steps, whole in ((9, True), (100, True), (1000, False)):
        folder = pathlib.Path(results, f"checkpoint-{steps}")
        folder.mkdir(parents=True)
        for part in ("pytorch_model_fsdp_0", "optimizer_0"):
            (folder / part).mkdir()
            if whole:
                (folder / part / ".metadata").touch()
        if whole:
            (folder / "trainer_state.json").write_text("{}")


def check_resume(script, name, results):
    """A script for transformers' Trainer goes on from the newest whole checkpoint, and starts where there is none."""
    with unpacked({}):
        assert "--resume_from_checkpoint" not in started(script, name)
        checkpoints(results)
        words = started(script, name)
        assert words[-2:] == ["--resume_from_checkpoint", f"{results}/checkpoint-100"], words


def started(script, name):
    """The words with which a bash script starts the program `name`, after the shell has had its way with them."""
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder, "words")
        command(folder, name, f"printf '%s\\0' {name} \"$@\" >> {record}")
        command(folder, "scontrol", HOSTNAMES)
        environment = {**VARIABLES, "PATH": f"{folder}:/usr/bin:/bin"}
        code = subprocess.run(["bash", "-c", script], env=environment).returncode
        # Where the checkpoint of the last step is looked for, a launcher that ends without it has stopped early.
        assert code in (0, 143), code
        words = record.read_text().split("\0")[:-1]
    assert words.count(name) == 1, words
    return words


# torch: torchrun, transformers, accelerate, deepspeed, megatron-core, kubeflow


def check_torchrun(files):
    check_program(started(files["torchrun.sh"], "torchrun"), files)
    if "--output_dir" in files["torchrun.sh"]:
        check_resume(files["torchrun.sh"], "torchrun", "RESULTS")


def check_slurm_program(files):
    """What a step of a Slurm job starts, unless that is Trainyard's own executor."""
    # The executor takes its learning rate from the plan, so that no flag says it for all plans.
    script = files["slurm.sh"].replace("LEARNING_RATE", RATE[1])
    if "srun" not in script:
        return
    words = started(script, "srun")
    check_program(words[words.index("torchrun") :], files)
    if "--output_dir" in script:
        check_resume(script, "srun", "RESULTS")


def check_megatron(files):
    check_program(started(files["megatron.sh"], "torchrun"), files)


def check_skypilot_program(files):
    import yaml

    run = yaml.safe_load(files["skypilot.yaml"])["run"]
    check_program(started(run, "torchrun"), files)
    if "--output_dir" in run:
        results = re.search(r"--output_dir (\S+)", run)[1]
        check_resume(run.replace(results, "results"), "torchrun", "results")


def check_sagemaker_program(files):
    """The hyperparameters as the container hands them to the script; libraries for model parallelism take them too."""
    request = json.loads(files["create-training-job.json"])
    given = {name: json.loads(value) for name, value in request["HyperParameters"].items()}
    given = {name: value for name, value in given.items() if not name.startswith(("sagemaker_", "mp_parameters"))}
    # start.py leaves out empty words.
    check_training_arguments([word for name, value in given.items() for word in (f"--{name}", str(value)) if word])
    if given.get("deepspeed"):
        resources = request["ResourceConfig"]
        assert given["deepspeed"] == "deepspeed.json" and resources["InstanceCount"] > 0
        check_deepspeed_config(json.loads(files["deepspeed.json"]))
    check_sagemaker_resume(files)


def check_sagemaker_resume(files):
    """The script is started with the newest whole checkpoint, or without one where there is none."""
    starter = re.sub(r'run_module\("[\w.]+"', 'run_module("train"', files["start.py"])
    script = re.search(r'sys\.argv\[0\] = "(.+)"|$', starter)[1] or "train.py"
    with unpacked({}) as folder:
        pathlib.Path(script).write_text("import sys\nprint(*sys.argv)\n")
        pathlib.Path("start.py").write_text(starter.replace("/opt/ml/checkpoints", str(folder)))
        words = lambda: subprocess.run(  # noqa: E731
            [sys.executable, "start.py", "--max_steps", "9", ""], capture_output=True, text=True, check=True
        ).stdout.split()[1:]
        assert words() == ["--max_steps", "9"]
        checkpoints(folder)
        assert words()[2:] == ["--resume_from_checkpoint", f"{folder}/checkpoint-100"], words()


def check_program(command, files):
    """A command that starts with torchrun: its own arguments, then those of the script."""
    from torch.distributed.run import get_args_parser

    known = get_args_parser().parse_args(command[1:])
    assert known.training_script.endswith(".py"), known
    machines, processes = int(known.nnodes.split(":")[0]), int(known.nproc_per_node)
    static = known.node_rank == 1 and known.master_addr in ("machine-0", "10.0.0.1")
    found = (known.rdzv_backend, known.rdzv_endpoint, known.rdzv_id) == ("c10d", "machine-0:29500", "7-0")
    assert known.standalone or static or found, known
    if "--num-layers" in known.training_script_args:
        check_megatron_arguments(known.training_script_args, machines * processes)
    else:
        check_training_arguments(of_script(known, files))
        if "deepspeed.json" in known.training_script_args:
            check_deepspeed_config(json.loads(files["deepspeed.json"]), machines * processes)


def of_script(known, files):
    """The words for the script of a launcher's command: start.py takes its name from them, unless it starts a module."""
    words = known.training_script_args
    if pathlib.Path(known.training_script).name != "start.py":
        return words
    # Pods write it.
    text = files["start.py"] if "start.py" in files else pathlib.Path(known.training_script).read_text()
    if "class Stop" in text:
        check_stop(re.sub(r"global_step % \d+", "global_step % 2", text))
    if "run_module" in text:
        return words
    assert words[0].endswith(".py"), words
    return words[1:]


# A training on two ranks of a CPU, of which the second is told to stop at its third step.
TRAINING = """
import os, signal, torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

class Told(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if args.process_index == 1 and state.global_step == 3 and not resumed:
            os.kill(os.getpid(), signal.SIGTERM)

resumed = os.path.exists("results/checkpoint-4/trainer_state.json")
sample = {"input_ids": torch.arange(8), "labels": torch.arange(8)}
args = TrainingArguments("results", max_steps=6, per_device_train_batch_size=1, save_strategy="steps", save_steps=100,
                         use_cpu=True, report_to="none", disable_tqdm=True)
model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=8, n_positions=8))
trainer = Trainer(model, args, train_dataset=[sample] * 64, callbacks=[Told])
trainer.train(resume_from_checkpoint="results/checkpoint-4" if resumed else None)
open(f"ended-{args.process_index}", "a").write(f"{trainer.state.global_step} ")
"""


@functools.cache
def check_stop(starter):
    """All ranks stop after the same step, with a checkpoint, where one is told, and go on from that."""
    files = {"start.py": re.sub(r"runpy\.run_module\(.*", "runpy.run_path('train.py', run_name='__main__')", starter)}
    with unpacked({**files, "train.py": TRAINING}):
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "start.py", "train.py"]
        for _ in range(2):
            subprocess.run(launch, check=True, timeout=300, capture_output=True)
        ended = [pathlib.Path(f"ended-{rank}").read_text() for rank in range(2)]
        assert ended == ["4 6 ", "4 6 "], ended


def check_training_arguments(arguments, keeps_copies=False):
    """Names and types; making the object itself would ask for the GPUs of the plan. `keeps_copies`: what shards states
    keeps copies of weights in single precision, which a launcher says elsewhere."""
    from transformers import HfArgumentParser, TrainingArguments
    from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION
    from transformers.trainer_pt_utils import AcceleratorConfig
    from transformers.trainer_utils import SchedulerType
    from transformers.training_args import OptimizerNames

    arguments = list(arguments)
    if "OPTIMIZER" in arguments:
        # The Trainer ends on the word; whoever hands it an optimizer takes the argument out.
        start = arguments.index("OPTIMIZER")
        assert arguments[start - 1] == "--optim" and "OPTIMIZER" not in [name.value for name in OptimizerNames]
        del arguments[start - 1 : start + 1]
    if "--dataset_name" in arguments:
        arguments = check_trl(arguments, keeps_copies)
    if "--model_name_or_path" in arguments:
        # An argument of the script's own.
        start = arguments.index("--model_name_or_path")
        del arguments[start : start + 2]
    parser = HfArgumentParser(TrainingArguments, allow_abbrev=False)
    values = argparse.ArgumentParser.parse_args(parser, arguments)
    assert values.max_steps > 0 and values.per_device_train_batch_size > 0
    assert values.save_strategy == "steps" and 0 < values.save_steps <= values.max_steps and values.save_total_limit
    OptimizerNames(values.optim)
    assert SchedulerType(values.lr_scheduler_type) in TYPE_TO_SCHEDULER_FUNCTION
    if isinstance(values.lr_scheduler_kwargs, str):
        check_scheduler(values)
    if isinstance(values.accelerator_config, str):
        AcceleratorConfig(**json.loads(values.accelerator_config))
    if values.fsdp:
        check_fsdp(values)


def check_trl(arguments, keeps_copies):
    """What TRL's scripts read of the words, and the adapters that PEFT makes of them; returns those of transformers."""
    from transformers import HfArgumentParser, TrainingArguments
    from trl import DPOConfig, ModelConfig, ScriptArguments, SFTConfig

    kinds = (ScriptArguments, DPOConfig if "--precompute_ref_log_probs" in arguments else SFTConfig, ModelConfig)
    parser = HfArgumentParser(kinds, allow_abbrev=False)
    values = argparse.ArgumentParser.parse_args(parser, arguments)
    named = {field.name: getattr(values, field.name) for field in dataclasses.fields(ModelConfig)}
    model_config = ModelConfig(**named)
    assert values.dataset_name and values.model_name_or_path and values.max_length > 0
    computes_in = "bfloat16" if values.bf16 else "float16" if values.fp16 else "float32"
    if not values.use_peft:
        # AdamW would lose small updates of weights in half precision of which nothing keeps copies.
        keeps_copies = keeps_copies or values.deepspeed or values.fsdp
        assert values.dtype in ("float32", computes_in if keeps_copies else "float32"), values.dtype
    elif not (values.load_in_4bit or values.load_in_8bit):
        # Beside quantised weights TRL keeps adapters in bfloat16, whatever the model computes in.
        assert values.dtype == computes_in, values.dtype
    if getattr(values, "packing", False):
        # sdpa would take a mask over all samples of a micro-batch.
        assert values.attn_implementation == "flash_attention_2" or values.dtype == "float32", values
    if values.use_peft:
        check_adapters(model_config)
    own = {field.name for field in dataclasses.fields(TrainingArguments)}
    starts = [place for place, word in enumerate(arguments) if word[2:] in own and word.startswith("--")]
    ends = [place for place, word in enumerate(arguments) if word.startswith("--")] + [len(arguments)]
    return [word for start in starts for word in arguments[start : min(end for end in ends if end > start)]]


def check_adapters(model_config):
    """The adapters that PEFT makes of the words, and the weights beside them."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig
    from trl import get_peft_config, get_quantization_config

    adapters = get_peft_config(model_config)
    small = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=32)
    all_linear = adapters.target_modules == "all-linear"
    config = GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=32) if all_linear else LlamaConfig(**small)
    with torch.device("meta"):
        tuned = peft.get_peft_model(AutoModelForCausalLM.from_config(config), adapters)
    trained, _ = tuned.get_nb_trainable_parameters()
    assert trained > 0
    if model_config.load_in_4bit or model_config.load_in_8bit:
        try:
            quantised = get_quantization_config(model_config)
        except ImportError:
            # bitsandbytes is for machines with a GPU.
            quantised = None
        if quantised is not None and model_config.load_in_4bit:
            assert quantised.bnb_4bit_quant_type == "nf4" and quantised.bnb_4bit_use_double_quant


def check_scheduler(values):
    import torch
    from transformers import get_scheduler

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=values.learning_rate)
    keywords = json.loads(values.lr_scheduler_kwargs)
    get_scheduler(values.lr_scheduler_type, optimizer, values.warmup_steps, values.max_steps, keywords)


def check_fsdp(values):
    """What TrainingArguments make of the words for FSDP, and whether Accelerate takes that."""
    from accelerate import FullyShardedDataParallelPlugin
    from transformers import TrainingArguments

    config = json.loads(values.fsdp_config) if isinstance(values.fsdp_config, str) else values.fsdp_config
    half_made = types.SimpleNamespace(
        fsdp=values.fsdp, fsdp_config=config, activation_checkpointing=False,
        _apply_legacy_fsdp_to_config=TrainingArguments._apply_legacy_fsdp_to_config,
    )  # fmt: skip
    assert values.fsdp is True, "another value is a form that transformers gives up"
    with on_a_gpu():
        FullyShardedDataParallelPlugin(**TrainingArguments._process_fsdp_args(half_made))


@contextlib.contextmanager
def on_a_gpu():
    """Plugins of Accelerate ask on which GPU they are."""
    from unittest import mock

    there = mock.patch("accelerate.utils.dataclasses.is_cuda_available", return_value=True)
    with there, mock.patch("torch.cuda.current_device", return_value=0):
        yield


def check_deepspeed(files):
    from deepspeed.launcher.runner import fetch_hostfile, parse_args

    with unpacked(files):
        known = parse_args(started(files["deepspeed.sh"], "deepspeed")[1:])
        assert known.user_script.endswith(".py") and known.num_gpus > 0
        assert known.user_args == ["--deepspeed", "--deepspeed_config", "deepspeed.json"], known.user_args
        if known.num_nodes > 1:
            hosts = fetch_hostfile(known.hostfile)
            assert list(hosts.values()) == [known.num_gpus] * known.num_nodes, hosts
    check_deepspeed_config(json.loads(files["deepspeed.json"]), max(known.num_nodes, 1) * known.num_gpus)


def check_deepspeed_config(config, ranks=None):
    """The configuration for as many ranks; for as many as it says itself if nobody else says how many."""
    import inspect
    from unittest import mock

    from deepspeed.runtime import lr_schedules
    from deepspeed.runtime.config import ADAM_OPTIMIZER, ADAMW_OPTIMIZER, DEEPSPEED_OPTIMIZERS, DeepSpeedConfig

    micro, accumulation = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    replicas = config["train_batch_size"] // (micro * accumulation)
    if ranks is not None:
        replicas = ranks // config.get("pipeline", {}).get("stages", 1)

    class Replicas:
        """What the configuration asks of a mesh."""

        def get_data_parallel_world_size(self):
            return replicas

    # transformers fills in what is auto before DeepSpeed reads it.
    rate = config.get("optimizer", {}).get("params", {}).get("lr")
    if rate == "auto":
        config["optimizer"]["params"]["lr"] = 1e-4
    # It asks for the mesh only where ranks have found each other.
    with mock.patch("deepspeed.runtime.config.dist.get_rank", return_value=0):
        read = DeepSpeedConfig(config, mpu=Replicas())
    assert read.train_batch_size == config["train_batch_size"]
    assert read.zero_optimization_stage == config.get("zero_optimization", {}).get("stage", 0)
    assert read.float16_config.enabled == config.get("fp16", {}).get("enabled", False)
    if "optimizer" in config:
        # The rest are classes of torch.optim.
        import torch

        name = read.optimizer_name
        assert name in DEEPSPEED_OPTIMIZERS or hasattr(torch.optim, config["optimizer"]["type"]), name
        if name in (ADAM_OPTIMIZER, ADAMW_OPTIMIZER):
            known = inspect.signature(torch.optim.AdamW.__init__).parameters
            unknown = set(config["optimizer"]["params"]) - {*known, "adam_w_mode", "torch_adam"}
            assert not unknown, unknown
    if "scheduler" in config:
        assert read.scheduler_name in lr_schedules.VALID_LR_SCHEDULES, read.scheduler_name
        signature = inspect.signature(getattr(lr_schedules, read.scheduler_name).__init__)
        unknown = set(config["scheduler"]["params"]) - set(signature.parameters)
        assert not unknown, unknown


def check_accelerate(files):
    import yaml
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    parser = launch_command_parser()
    fields = {action.dest for action in parser._actions}
    for plugin in ("fsdp_config", "deepspeed_config", "megatron_lm_config"):
        for key in yaml.safe_load(files["accelerate.yaml"]).get(plugin, {}):
            assert key in fields, f"{plugin}.{key}"
    with unpacked(files):
        command = started(files["accelerate.sh"], "accelerate")
        assert command[1] == "launch"
        # As `accelerate launch` does until it starts processes.
        known, config, has_precision = _validate_launch_command(parser.parse_args(command[2:]))
        assert known.num_processes >= known.num_machines > known.machine_rank >= 0, known
        check_training_arguments(of_script(known, files), known.use_deepspeed or known.use_fsdp)
        check_precision(known)
        check_plugin(known, config, has_precision)
        wanted = yaml.safe_load(files["accelerate.yaml"]).get("dynamo_config", {}).get("dynamo_backend", "no")
        assert known.dynamo_backend == wanted, known.dynamo_backend
        check_resume(files["accelerate.sh"], "accelerate", "RESULTS")
    if "deepspeed.json" in files:
        check_deepspeed_config(json.loads(files["deepspeed.json"]), known.num_processes)


def check_precision(known):
    """What the launcher says of the number format is what the script is told: the Trainer takes both."""
    words = known.training_script_args
    told = [name for name in ("fp16", "bf16") if (f"--{name}", "true") in zip(words, words[1:])]
    wanted = "no" if known.use_deepspeed else (told or ["no"])[0]
    assert known.mixed_precision == wanted, (known.mixed_precision, wanted)


def check_plugin(known, config, has_precision):
    """What the launcher hands to processes, read as a process reads it. `has_precision`: its configuration has a number
    format of its own."""
    from unittest import mock

    from accelerate import DeepSpeedPlugin, FullyShardedDataParallelPlugin
    from accelerate.utils import MegatronLMPlugin
    from accelerate.utils.launch import prepare_deepspeed_cmd_env, prepare_multi_gpu_env

    if known.use_deepspeed:
        # As launch_command does it.
        fields = [*config.deepspeed_config, *(["mixed_precision"] if has_precision else [])]
        known.deepspeed_fields_from_accelerate_config = ",".join(fields)
        command, environment = prepare_deepspeed_cmd_env(known)
        # Any command is of a launcher that starts the other machines itself; torchrun's needs none.
        assert not command, command
        place = (getattr(known, "node_rank", None), getattr(known, "rdzv_endpoint", None))
        assert known.num_machines == 1 or place == (1, "machine-0:29500"), place
        plugin = DeepSpeedPlugin
    elif known.use_fsdp or known.use_megatron_lm:
        environment = prepare_multi_gpu_env(known)
        plugin = FullyShardedDataParallelPlugin if known.use_fsdp else MegatronLMPlugin
    else:
        prepare_multi_gpu_env(known)
        return
    with mock.patch.dict(os.environ, environment), on_a_gpu():
        plugin()


def split(text):
    """The shares of training, validation and test, as megatron-core reads them."""
    from megatron.core.datasets.blended_megatron_dataset_config import parse_and_normalize_split

    assert sum(parse_and_normalize_split(text)) == 1.0, text


# Arguments of megatron/training/arguments.py, core 0.15 and 0.16, that are no fields of the configurations of the core.
MEGATRON_OWN = {
    "micro-batch-size": int, "global-batch-size": int, "train-iters": int, "lr-warmup-iters": int,
    "lr-decay-style": str, "lr-decay-iters": int, "data-path": str, "tokenizer-type": str, "vocab-size": int,
    "split": split, "save": str, "load": str, "save-interval": int, "eval-interval": int, "eval-iters": int, "num-workers": int,
    "seq-length": int, "max-position-embeddings": int, "position-embedding-type": str, "rotary-base": int,
    "ckpt-format": str, "vocab-file": str, "save-retain-interval": int, "pretrained-checkpoint": str, "spec": str,
    "data-cache-path": str, "log-interval": int,
    "tokenizer-model": str, "rope-scaling-factor": float, "rotary-seq-len-interpolation-factor": int,
}  # fmt: skip
MEGATRON_OWN_FLAGS = {
    "use-distributed-optimizer", "use-megatron-fsdp", "no-gradient-accumulation-fusion", "use-tp-pp-dp-mapping",
    "untie-embeddings-and-output-weights", "bert-no-binary-head", "group-query-attention", "swiglu",
    "disable-bias-linear", "auto-detect-ckpt-format", "no-persist-layer-norm", "grad-reduce-in-bf16",
    "accumulate-allreduce-grads-in-fp32", "use-rope-scaling", "exit-signal-handler",
    "no-create-attention-mask-in-dataloader", "log-throughput", "no-rope-fusion", "no-masked-softmax-fusion",
}  # fmt: skip
# Arguments whose field of the configurations has another name.
MEGATRON_RENAMED = {"norm-epsilon": "layernorm_epsilon", "num-experts": "num_moe_experts"}


def check_megatron_arguments(arguments, ranks):
    """megatron-core on PyPI has the configurations, but not the parser that fills them in: every argument is a field of
    one of them, or one of a list; then the model's configuration and the layout of the pipeline check themselves."""
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.transformer import TransformerConfig

    fields = {}
    for config in (OptimizerConfig, DistributedDataParallelConfig, TransformerConfig):
        fields.update({field.name: config for field in dataclasses.fields(config)})
    values, model = {}, {}
    rest = list(arguments)
    while rest:
        name = rest.pop(0).removeprefix("--")
        value = True if not rest or rest[0].startswith("--") else rest.pop(0)
        values[name] = value
        field = MEGATRON_RENAMED.get(name, name.replace("-", "_"))
        if name in MEGATRON_OWN:
            MEGATRON_OWN[name](value)
        elif name == "num-virtual-stages-per-pipeline-rank":
            model["virtual_pipeline_model_parallel_size"] = int(value)
        elif name == "pipeline-model-parallel-layout":
            model["pipeline_model_parallel_layout"] = value
        elif name not in MEGATRON_OWN_FLAGS:
            assert field in fields, f"--{name} is not in any configuration"
            if fields[field] is TransformerConfig:
                model[field] = value if value is True else literal(value)
    if model.get("pipeline_model_parallel_size", 1) > 1:
        import torch

        model["pipeline_dtype"] = torch.float32
    if "swiglu" in values:
        model["gated_linear_unit"] = True
    if "disable-bias-linear" in values:
        model["add_bias_linear"] = False
    from megatron.core.transformer.enums import AttnBackend

    if "attention_backend" in model:
        model["attention_backend"] = AttnBackend[model["attention_backend"]]
    if isinstance(model.get("window_size"), str):
        model["window_size"] = tuple(int(part) for part in model["window_size"].split(","))
    if str(model.get("moe_layer_freq", "")).startswith("["):
        model["moe_layer_freq"] = json.loads(model["moe_layer_freq"])
    config = TransformerConfig(**model)
    layout = config.pipeline_model_parallel_layout
    if layout is not None:
        stages = [chunk for rank in layout.layout for chunk in rank]
        blocks = sum(str(layer).lower().endswith("decoder") for stage in stages for layer in stage)
        assert blocks == config.num_layers, (blocks, config.num_layers)
    check_batch(values, config, ranks)
    every, kept, steps = (int(values[name]) for name in ("save-interval", "save-retain-interval", "train-iters"))
    assert 0 < every <= steps and kept % every == 0, (every, kept, steps)


def check_batch(values, config, ranks):
    """Megatron-LM counts replicas from the ranks, and micro-batches from them."""
    from megatron.core.num_microbatches_calculator import ConstantNumMicroBatchesCalculator

    width = config.tensor_model_parallel_size * config.pipeline_model_parallel_size * config.context_parallel_size
    assert ranks % width == 0, (ranks, width)
    sizes = int(values["global-batch-size"]), int(values["micro-batch-size"])
    ConstantNumMicroBatchesCalculator(*sizes, ranks // width, False, 0)


def literal(text):
    """A number if it is one."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def check_kubernetes(files):
    import yaml
    from kubeflow.training import models
    from kubernetes.client import models as core

    job = yaml.safe_load(files["kubernetes.yaml"])
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    strict(job, "KubeflowOrgV1PyTorchJob", [models, core], "job")
    for name, replica in job["spec"]["pytorchReplicaSpecs"].items():
        assert name in ("Master", "Worker")
        container = replica["template"]["spec"]["containers"][0]
        assert container["name"] == "pytorch"
        assert container["command"][:2] == ["bash", "-c"]
        check_program(started(container["command"][2], "torchrun"), files)


def strict(value, kind, modules, path):
    """A value against a model of a Kubernetes client: no other keys, no scalar of another type."""
    if match := re.fullmatch(r"list\[(.+)\]", kind):
        assert isinstance(value, list), path
        for index, item in enumerate(value):
            strict(item, match[1], modules, f"{path}[{index}]")
        return
    if match := re.fullmatch(r"dict\((.+), (.+)\)", kind):
        assert isinstance(value, dict), path
        for key, item in value.items():
            strict(item, match[2], modules, f"{path}.{key}")
        return
    plain = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object, "datetime": str}
    if kind in plain:
        # Quantities are written as numbers or text; the client calls them text.
        assert isinstance(value, plain[kind]) or (kind == "str" and isinstance(value, int)), (path, value)
        return
    model = next(getattr(module, kind) for module in modules if hasattr(module, kind))
    types = {model.attribute_map[name]: kind for name, kind in model.openapi_types.items()}
    for key, item in value.items():
        assert key in types, f"{path}.{key} is not in {kind}"
        strict(item, types[key], modules, f"{path}.{key}")


# sagemaker


def check_sagemaker(files):
    import botocore.session
    from botocore.validate import ParamValidator

    if '"optim": "OPTIMIZER"' in files["estimator.py"]:
        files = with_optimizer(files)
    request = json.loads(files["create-training-job.json"])
    # The command says it, anew each time.
    assert "TrainingJobName" not in request and "--training-job-name" in files["estimator.py"]
    request["TrainingJobName"] = "name"
    service = botocore.session.get_session().get_service_model("sagemaker")
    shape = service.operation_model("CreateTrainingJob").input_shape
    report = ParamValidator().validate(request, shape)
    assert not report.has_errors(), report.generate_report()
    closed(request, shape, "request")
    theirs = requested(files)
    for name in ("TrainingJobName", "ProfilerConfig", "DebugHookConfig"):
        # A name with the time in it, and services of the SDK's own.
        theirs.pop(name, None)
    theirs["AlgorithmSpecification"].pop("EnableSageMakerMetricsTimeSeries", None)
    request.pop("TrainingJobName")
    for side in (request, theirs):
        side["HyperParameters"] = {
            name: json.loads(value) for name, value in side["HyperParameters"].items()
            if name not in ("sagemaker_submit_directory", "sagemaker_container_log_level", "sagemaker_job_name")
        }  # fmt: skip
        # What is off is left out, or said to be.
        for name in ("EnableManagedSpotTraining", "EnableInterContainerTrafficEncryption"):
            side.setdefault(name, False)
    assert request == theirs, "\n" + "\n".join(differences(request, theirs))


def with_optimizer(files):
    """The files once the script brings an optimizer, before which the estimator must not ask for machines."""
    try:
        requested(files)
    except SystemExit:
        pass
    else:
        raise AssertionError("the estimator starts a job without an optimizer")
    said = {"estimator.py": '        "optim": "OPTIMIZER",\n', "create-training-job.json": '    "optim": "\\"OPTIMIZER\\"",\n'}
    assert all(line in files[name] for name, line in said.items())
    return {**files, **{name: files[name].replace(line, "") for name, line in said.items()}}


def differences(ours, theirs, path="request"):
    """Where two documents differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted({*ours, *theirs}):
            yield from differences(ours.get(name), theirs.get(name), f"{path}.{name}")
    elif ours != theirs:
        yield f"{path}: {ours!r} in create-training-job.json, {theirs!r} of estimator.py"


def closed(value, shape, path):
    """What botocore leaves to the service: closed lists of words, and patterns."""
    if shape.type_name == "structure":
        for key, item in value.items():
            closed(item, shape.members[key], f"{path}.{key}")
    elif shape.type_name == "list":
        for item in value:
            closed(item, shape.member, path)
    elif shape.type_name == "map":
        for item in value.values():
            closed(item, shape.value, path)
    elif shape.type_name == "string":
        assert not shape.enum or value in shape.enum, (path, value)
        pattern = shape.metadata.get("pattern")
        assert pattern is None or re.fullmatch(pattern, value, re.ASCII), (path, value, pattern)


def requested(files):
    """The request that the script sends, in a session that speaks to nobody."""
    from unittest import mock

    from sagemaker.session import Session

    boto, client = mock.MagicMock(region_name="us-east-1"), mock.MagicMock()
    session = Session(
        boto_session=boto, sagemaker_client=client, sagemaker_runtime_client=mock.MagicMock(),
        sagemaker_metrics_client=mock.MagicMock(), sagemaker_config={}, default_bucket="bucket",
    )  # fmt: skip
    session.logs_for_job = lambda *arguments, **keywords: None
    with unpacked(files), mock.patch("sagemaker.estimator.Session", return_value=session):
        pathlib.Path("train.py").write_text("")
        exec(compile(files["estimator.py"], "estimator.py", "exec"), {"__name__": "__main__"})
    client.create_training_job.assert_called_once()
    return client.create_training_job.call_args.kwargs


# skypilot


def check_skypilot(files):
    from unittest import mock

    import sky
    import yaml

    config = yaml.safe_load(files["skypilot.yaml"])
    buckets = mock.patch("sky.data.data_utils.verify_s3_bucket", return_value=True)
    with unpacked(files) as folder, buckets:
        task = sky.Task.from_yaml(str(folder / "skypilot.yaml"))
    assert task.num_nodes == config["num_nodes"]
    assert set(task.storage_mounts) == {"/data", "/results"}, task.storage_mounts
    (resources,) = task.resources
    assert resources.instance_type == config["resources"]["instance_type"]
    assert resources.use_spot == config["resources"].get("use_spot", False)
    subprocess.run(["bash", "-n"], input=config["run"], text=True, check=True)


# slurm


def check_slurm(files, trainyard):
    """sbatch reads the directives and a controller places them on machines that do not exist; so it does for srun's own,
    or mpirun places the ranks and Trainyard reads its own arguments."""
    script = files["slurm.sh"]
    if "srun" in script:
        check_slurm_step(files)
        return
    with unpacked(files), controller() as environment:
        command = started(script, "mpirun")
        check_warning(script)
        done = subprocess.run(["sbatch", "--test-only", "slurm.sh"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    machines = int(re.search("#SBATCH --nodes=(.+)", script)[1])
    start = command.index("trainyard")
    with unpacked({"hosts": "".join(f"machine-{index} slots=8\n" for index in range(machines))}):
        environment = {**os.environ, "OMPI_MCA_orte_default_hostfile": "hosts", "OMPI_MCA_orte_do_not_launch": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # fmt: skip
        mapped = [*command[:start], "--display-map", "true"]
        done = subprocess.run(mapped, env=environment, capture_output=True, text=True)
        assert done.stdout.count("Process rank:") == int(command[command.index("-np") + 1]), done.stdout + done.stderr
        done = subprocess.run([trainyard, *command[start + 1 :]], capture_output=True, text=True, timeout=60)
    # It cannot run where there is no data; a wrong argument is found before that.
    assert done.returncode == 2 and "--help`" not in done.stderr, done.stderr


def check_slurm_step(files):
    """A job whose machines each start torchrun, which the torch kit reads; the shell queues the job again."""
    script = files["slurm.sh"]
    with unpacked(files), controller() as environment:
        command = started(script, "srun")
        done = subprocess.run(["sbatch", "--test-only", "slurm.sh"], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        machines = re.search("#SBATCH --nodes=(.+)", script)[1]
        step = [*command[: command.index("torchrun")], "--test-only", f"--nodes={machines}", "true"]
        done = subprocess.run(step, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    check_requeue(script)


def check_requeue(script):
    """The signal that Slurm sends the shell before the job's time is over has the ranks told and the job queued again once
    their step has ended, and the script does not end as if it had finished."""
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder, "told")
        tell = f"[ \"$1\" = --overlap ] && {{ [[ \"$*\" == *pkill\\ -TERM\\ -P* ]] && echo tell >> {record}; exit; }}"
        command(folder, "srun", f"{tell}\necho start >> {record}\nsleep 2\necho end >> {record}\nexit 7")
        command(folder, "scontrol", f"{HOSTNAMES} && exit\necho \"$@\" >> {record}")
        expect_told(folder, script, signal.SIGUSR1, "start\ntell\nend\nrequeue 7\n", 143)


def check_warning(script):
    """A signal that the shell gets reaches mpirun, and the script ends when and as mpirun does; after that of Slurm before
    the job's time is over the job is queued again."""
    for told, requeued in [(signal.SIGTERM, ""), (signal.SIGUSR1, "requeue 7\n")]:
        with tempfile.TemporaryDirectory() as folder:
            record = pathlib.Path(folder, "told")
            trap = f"trap 'sleep 0.5; echo checkpoint >> {record}; exit 7' TERM"
            command(folder, "mpirun", f"{trap}\necho start > {record}\nwhile :; do sleep 0.1; done")
            command(folder, "scontrol", f"echo \"$@\" >> {record}")
            expect_told(folder, script, told, f"start\ncheckpoint\n{requeued}", 7)


def expect_told(folder, script, told, expected, ends):
    """Signals a script once its step, which ends with 7, has begun: it must end with this code, and what stands in for
    programs must have written this to `told` in the folder."""
    record = pathlib.Path(folder, "told")
    environment = {**VARIABLES, "PATH": f"{folder}:/usr/bin:/bin"}
    # In a group of its own, so that a stub that was not told can be ended with its script.
    shell = subprocess.Popen(["bash", "-c", script], env=environment, start_new_session=True)
    try:
        for _ in range(100):
            if record.exists() and record.read_text():
                break
            time.sleep(0.1)
        shell.send_signal(told)
        code = shell.wait(timeout=20)
        assert (code, record.read_text()) == (ends, expected), (code, record.read_text())
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


@contextlib.contextmanager
def controller():
    """Slurm's controller over sixteen machines of eight GPUs that would be started on demand, and the environment in
    which its clients find it."""
    import socket

    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
        free.close()
        config = pathlib.Path(folder, "slurm.conf")
        config.write_text(SLURM_CONF.format(folder=folder, port=port, user=getpass.getuser()))
        environment = {**os.environ, "SLURM_CONF": str(config)}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        daemon = subprocess.Popen(["slurmctld", "-D"], env=environment, **quiet)
        try:
            for _ in range(100):
                if subprocess.run(["scontrol", "ping"], env=environment, capture_output=True).returncode == 0:
                    break
                time.sleep(0.1)
            yield environment
        finally:
            daemon.terminate()
            daemon.wait()


SLURM_CONF = """
ClusterName=check
SlurmctldHost=localhost
SlurmctldPort={port}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmctldPidFile={folder}/pid
StateSaveLocation={folder}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=60
TreeWidth=65533
NodeName=machine-[0-15] CPUs=96 Gres=gpu:8 State=CLOUD
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

# Plans that no target may refuse.
EVERYWHERE = ("replicated", "fully-sharded")
IMAGE = ["--image", "repository/image:1"]
KITS = {
    "torch": {
        "torchrun": (check_torchrun, [*RATE, *WEIGHTS]),
        "deepspeed": (check_deepspeed, RATE),
        "accelerate": (check_accelerate, RATE),
        "megatron": (check_megatron, [*RATE, *WEIGHTS, "--data", "/data/text"]),
        "kubernetes": (check_kubernetes, [*RATE, *IMAGE]),
        "skypilot": (check_skypilot_program, [*RATE, *BUCKETS]),
        "sagemaker": (check_sagemaker_program, [*RATE, *ROLE, *BUCKETS]),
        "slurm": (check_slurm_program, []),
    },
    "sagemaker": {"sagemaker": (check_sagemaker, [*RATE, *ROLE, *BUCKETS])},
    "skypilot": {"skypilot": (check_skypilot, [*RATE, *BUCKETS])},
    "slurm": {"slurm": (check_slurm, ["--data", "data", "--results", "results"])},
}


def refusal(check, files):
    """Why a check refuses files; nothing if it takes them."""
    noise = io.StringIO()
    try:
        with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
            check(files)
    # Parsers of arguments exit.
    except (Exception, SystemExit) as error:
        last = (noise.getvalue().strip().splitlines() or [""])[-1] if isinstance(error, SystemExit) else ""
        return f"{type(error).__name__}: {error} {last}".strip()
    return None


class Breaks:
    """The breaks of a kit, and which of them were refused."""

    def __init__(self, kit):
        self.left = list(BROKEN[kit])
        self.refused = self.taken = 0

    def of(self, target, check, files):
        """Tries the breaks that go with these files, each once."""
        for broken in [broken for broken in self.left if broken[0] == target]:
            _, name, right, wrong = broken
            if right not in files.get(name, ""):
                continue
            self.left.remove(broken)
            if refusal(check, {**files, name: files[name].replace(right, wrong)}):
                self.refused += 1
            else:
                self.taken += 1
                print(f"  WRONG: {name} is taken with {wrong!r} for {right!r}")


def main():
    kit, trainyard, *plans = sys.argv[1:]
    trainyard = str(pathlib.Path(trainyard).resolve())
    failed = passed = 0
    breaks = Breaks(kit)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for plan in variations([pathlib.Path(plan) for plan in plans], folder):
            for target, (check, flags) in KITS[kit].items():
                print(f"{plan.stem} → {target}", flush=True)
                files = exported(trainyard, plan, target, flags, folder)
                if files is None:
                    if plan.stem in EVERYWHERE:
                        failed += 1
                        print("  WRONG: that must be exported everywhere")
                    continue
                if kit == "slurm":
                    check = lambda files: check_slurm(files, trainyard)  # noqa: E731
                if why := refusal(check, files):
                    failed += 1
                    print(f"  WRONG: {why}")
                else:
                    passed += 1
                    breaks.of(target, check, files)
    for broken in breaks.left:
        print(f"WRONG: no plan has what this would break: {broken}")
    print(f"{kit}: {passed} exports passed, {failed} failed; {breaks.refused} breaks refused, {breaks.taken} taken")
    sys.exit(1 if failed or breaks.taken or breaks.left or not passed else 0)


if __name__ == "__main__":
    main()
