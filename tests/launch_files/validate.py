"""Checks launch files with the parsers of the programs that read them.

    python validate.py KIT TRAINYARD PLAN.json...

exports each plan to the targets that KIT (torch, sagemaker or skypilot: what is installed, see requirements-KIT.txt)
can check, and hands the files to the target's own parser. Ends with 1 if anything is refused.
"""

import argparse
import contextlib
import dataclasses
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

RATE = ["--learning-rate", "0.0003"]
ROLE = ["--role", "arn:aws:iam::111122223333:role/training"]
BUCKETS = ["--data", "s3://bucket/data", "--results", "s3://bucket/results"]


def exported(trainyard, plan, target, flags, folder):
    """The files by name; nothing if the target cannot express the plan."""
    out = folder / f"{plan.stem}-{target}"
    command = [trainyard, "export", str(plan), "--to", target, "--out", str(out), *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2 and ", but " in done.stderr:
        print(f"  refused: {done.stderr.strip().splitlines()[1].strip()}")
        return None
    assert done.returncode == 0, done.stderr
    files = {path.name: path.read_text() for path in out.iterdir()}
    for name, text in files.items():
        if name.endswith(".sh"):
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    return files


def words(script, start):
    """The words of the command that begins with `start` in a shell script."""
    lines = script.replace("\\\n", " ").splitlines()
    line = next(line for line in lines if line.startswith(start))
    return shlex.split(line)


def after(command, name):
    """The words behind a program's script."""
    return command[next(i for i, word in enumerate(command) if word.endswith(name)) + 1 :]


# torch: torchrun, transformers, accelerate, deepspeed, megatron-core, kubeflow


def check_torchrun(files, name="torchrun.sh"):
    check_program(words(files[name], "torchrun"), files)


def check_program(command, files):
    """A command that starts with torchrun: its own arguments, then those of the script."""
    from torch.distributed.run import get_args_parser

    known = get_args_parser().parse_args(command[1:])
    assert known.training_script.endswith(".py"), known
    if "--num-layers" in known.training_script_args:
        check_megatron_arguments(known.training_script_args)
    else:
        check_training_arguments(known.training_script_args)
        if "deepspeed.json" in known.training_script_args:
            check_deepspeed_config(json.loads(files["deepspeed.json"]))


def check_training_arguments(arguments):
    """Names and types; making the object itself would ask for the GPUs of the plan."""
    from transformers import HfArgumentParser, TrainingArguments

    parser = HfArgumentParser(TrainingArguments, allow_abbrev=False)
    values = argparse.ArgumentParser.parse_args(parser, arguments)
    assert values.max_steps > 0 and values.per_device_train_batch_size > 0
    from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION
    from transformers.trainer_utils import FSDPOption, SchedulerType
    from transformers.training_args import OptimizerNames

    OptimizerNames(values.optim)
    assert SchedulerType(values.lr_scheduler_type) in TYPE_TO_SCHEDULER_FUNCTION
    if isinstance(values.fsdp, str):
        for option in values.fsdp.split():
            FSDPOption(option)
    for keywords in (values.lr_scheduler_kwargs, values.accelerator_config):
        if isinstance(keywords, str):
            json.loads(keywords)
    if isinstance(values.accelerator_config, str):
        from transformers.trainer_pt_utils import AcceleratorConfig

        AcceleratorConfig(**json.loads(values.accelerator_config))


def check_deepspeed(files):
    command = words(files["deepspeed.sh"], "deepspeed")
    from deepspeed.launcher.runner import fetch_hostfile, parse_args

    known = parse_args(command[1:])
    assert known.user_script.endswith(".py") and known.num_gpus > 0
    if known.num_nodes > 1:
        with tempfile.NamedTemporaryFile("w", delete=False) as file:
            file.write(files["hostfile"])
        assert len(fetch_hostfile(file.name)) == known.num_nodes
    check_deepspeed_config(json.loads(files["deepspeed.json"]))


def check_deepspeed_config(config):
    from deepspeed.runtime.config import DeepSpeedConfig
    from deepspeed.runtime.lr_schedules import VALID_LR_SCHEDULES

    micro, accumulation = config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"]
    replicas = config["train_batch_size"] // (micro * accumulation)

    class Replicas:
        """What the configuration asks of a mesh."""

        def get_data_parallel_world_size(self):
            return replicas

    read = DeepSpeedConfig(config, mpu=Replicas())
    assert read.train_batch_size == config["train_batch_size"]
    assert read.zero_optimization_stage == config.get("zero_optimization", {}).get("stage", 0)
    if "scheduler" in config:
        assert read.scheduler_name in VALID_LR_SCHEDULES, read.scheduler_name
        import inspect

        from deepspeed.runtime import lr_schedules

        signature = inspect.signature(getattr(lr_schedules, read.scheduler_name).__init__)
        unknown = set(config["scheduler"]["params"]) - set(signature.parameters)
        assert not unknown, unknown


def check_accelerate(files):
    import yaml
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "accelerate.yaml"
        path.write_text(files["accelerate.yaml"])
        config = load_config_from_file(str(path))
        command = words(files["accelerate.sh"], "accelerate")
        command[command.index("accelerate.yaml")] = str(path)
        parser = launch_command_parser()
        shadow = [word.replace("$NODE_RANK", "0") for word in command[2:]]
        known = parser.parse_args(shadow)
    fields = {action.dest for action in parser._actions}
    for plugin in ("fsdp_config", "deepspeed_config", "megatron_lm_config"):
        for key in yaml.safe_load(files["accelerate.yaml"]).get(plugin, {}):
            assert key in fields, f"{plugin}.{key}"
    assert config.num_processes >= config.num_machines
    check_training_arguments(known.training_script_args)
    if "deepspeed.json" in files:
        check_deepspeed_config(json.loads(files["deepspeed.json"]))


def check_megatron(files):
    check_program(words(files["megatron.sh"], "torchrun"), files)


# Arguments of megatron/training/arguments.py, core 0.15 and 0.16, that are no fields of the configurations of the core.
MEGATRON_OWN = {
    "micro-batch-size": int, "global-batch-size": int, "train-iters": int, "lr-warmup-iters": int,
    "lr-decay-style": str, "lr-decay-iters": int, "data-path": str, "tokenizer-type": str, "vocab-size": int,
    "save": str, "load": str, "save-interval": int, "eval-interval": int, "eval-iters": int, "num-workers": int,
    "seq-length": int, "max-position-embeddings": int, "position-embedding-type": str, "rotary-base": int,
    "ckpt-format": str,
}  # fmt: skip
MEGATRON_OWN_FLAGS = {
    "use-distributed-optimizer", "use-megatron-fsdp", "no-gradient-accumulation-fusion", "use-tp-pp-dp-mapping",
    "untie-embeddings-and-output-weights", "bert-no-binary-head", "group-query-attention", "swiglu",
    "disable-bias-linear",
}  # fmt: skip
# Arguments whose field of the configurations has another name.
MEGATRON_RENAMED = {"norm-epsilon": "layernorm_epsilon", "num-experts": "num_moe_experts"}


def check_megatron_arguments(arguments):
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
    assert job["apiVersion"] == "kubeflow.org/v1"
    strict(job, "KubeflowOrgV1PyTorchJob", [models, core], "job")
    for name, replica in job["spec"]["pytorchReplicaSpecs"].items():
        assert name in ("Master", "Worker")
        container = replica["template"]["spec"]["containers"][0]
        assert container["name"] == "pytorch"
        script = container["command"][2]
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    check_program(words(script, "torchrun"), files)


def strict(value, kind, modules, path):
    """A value against a model of a Kubernetes client: no key that the model does not have, no scalar of another type."""
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

    request = json.loads(files["create-training-job.json"])
    service = botocore.session.get_session().get_service_model("sagemaker")
    shape = service.operation_model("CreateTrainingJob").input_shape
    report = ParamValidator().validate(request, shape)
    assert not report.has_errors(), report.generate_report()
    closed(request, shape, "request")
    estimator = made(files["estimator.py"])
    assert request["AlgorithmSpecification"]["TrainingImage"] == estimator.training_image_uri(), (
        request["AlgorithmSpecification"]["TrainingImage"], estimator.training_image_uri())  # fmt: skip
    ours, theirs = request["HyperParameters"], estimator.hyperparameters()
    for name in sorted({*ours, *theirs} - {"sagemaker_program", "sagemaker_submit_directory", "sagemaker_region",
            "sagemaker_container_log_level", "sagemaker_job_name"}):  # fmt: skip
        assert name in ours and name in theirs and json.loads(ours[name]) == json.loads(theirs[name]), (
            name, ours.get(name), theirs.get(name))  # fmt: skip
    assert request["ResourceConfig"]["InstanceType"] == estimator.instance_type
    assert request["ResourceConfig"]["InstanceCount"] == estimator.instance_count
    assert request["StoppingCondition"]["MaxRuntimeInSeconds"] == estimator.max_run
    assert request["StoppingCondition"].get("MaxWaitTimeInSeconds") == estimator.max_wait
    assert request["EnableManagedSpotTraining"] == bool(estimator.use_spot_instances)
    assert request["CheckpointConfig"]["S3Uri"] == estimator.checkpoint_s3_uri
    assert request.get("Environment", {}) == (estimator.environment or {})
    assert request["ResourceConfig"].get("KeepAlivePeriodInSeconds") == estimator.keep_alive_period_in_seconds


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


def made(text):
    """The estimator of a script, in a session that speaks to nobody."""
    from unittest import mock

    from sagemaker.session import Session
    from sagemaker.session_settings import SessionSettings

    session = mock.Mock(spec=Session)
    session.boto_region_name = session._region_name = "us-east-1"
    session.sagemaker_config = {}
    session.local_mode = False
    session.settings = SessionSettings()
    session.default_bucket_prefix = None
    session.boto_session = mock.Mock(region_name="us-east-1")
    with tempfile.TemporaryDirectory() as folder, mock.patch("sagemaker.estimator.Session", return_value=session):
        before = os.getcwd()
        os.chdir(folder)
        pathlib.Path("train.py").write_text("")
        try:
            names = {"__name__": "estimator"}
            exec(compile(text, "estimator.py", "exec"), names)
        finally:
            os.chdir(before)
    return names["estimator"]


# skypilot


def check_skypilot(files):
    import sky
    import yaml

    config = yaml.safe_load(files["skypilot.yaml"])
    from sky.utils import common_utils, schemas, validator

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "task.yaml"
        path.write_text(files["skypilot.yaml"])
        before = os.getcwd()
        os.chdir(folder)
        try:
            validator.get_schema_validator()(schemas.get_task_schema()).validate(config)
            # Buckets are looked for when a task is made; the schema above has read their keys.
            bare = {key: value for key, value in config.items() if key != "file_mounts"}
            task = sky.Task.from_yaml_config(bare)
        finally:
            os.chdir(before)
    for mount in config["file_mounts"].values():
        validator.get_schema_validator()(schemas.get_storage_schema()).validate(mount)
    assert task.num_nodes == config["num_nodes"]
    (resources,) = task.resources
    assert resources.instance_type == config["resources"]["instance_type"]
    assert resources.use_spot == config["resources"].get("use_spot", False)
    subprocess.run(["bash", "-n"], input=config["run"], text=True, check=True)


KITS = {
    "torch": {
        "torchrun": (check_torchrun, RATE),
        "deepspeed": (check_deepspeed, RATE),
        "accelerate": (check_accelerate, RATE),
        "megatron": (check_megatron, [*RATE, "--data", "/data/text"]),
        "kubernetes": (check_kubernetes, [*RATE, "--image", "repository/image:1"]),
        "slurm": (lambda files: None, ["--data", "/data", "--results", "/results"]),
    },
    "sagemaker": {"sagemaker": (check_sagemaker, [*RATE, *ROLE, *BUCKETS])},
    "skypilot": {"skypilot": (check_skypilot, [*RATE, *BUCKETS])},
}


def main():
    kit, trainyard, *plans = sys.argv[1:]
    failed = checked = 0
    with tempfile.TemporaryDirectory() as folder:
        for plan in map(pathlib.Path, plans):
            for target, (check, flags) in KITS[kit].items():
                print(f"{plan.stem} → {target}", flush=True)
                files = exported(trainyard, plan, target, flags, pathlib.Path(folder))
                if files is None:
                    continue
                checked += 1
                noise = io.StringIO()
                try:
                    with contextlib.redirect_stdout(noise):
                        check(files)
                except Exception as error:
                    failed += 1
                    print(f"  WRONG: {type(error).__name__}: {error}")
    print(f"{checked - failed} passed, {failed} failed")
    sys.exit(1 if failed or not checked else 0)


if __name__ == "__main__":
    main()
