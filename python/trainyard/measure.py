"""Measures a training in PyTorch, and writes what it took as a row of the table that `calibrate` and `validate` read.

    with trainyard.measure.Measurement("steps.csv", plan=plan, global_batch=512, micro_batch=8) as measurement:
        for batch in loader:
            ...                      # forward, backward, update
            measurement.step(tokens=batch.numel())

The first steps are left out. In a job of many processes each calls the same; the first writes. Callbacks for the Trainer of
transformers, for Lightning and for Accelerate do the same: `trainer_callback`, `lightning_callback`, `accelerated`.
"""

from __future__ import annotations

import csv
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainyard.documents import Plan, RowResult

# The columns of the table, as tests/published/measurements.csv has them.
COLUMNS = (
    "id,suite,source,system,nodes,gpus_per_node,gpu,intra_node_link,inter_node_gbps,model,params,layers,hidden,heads,ffn,"
    "vocab,seq_len,image_size,experts,attention,stack,stack_version,precision,global_batch,micro_batch,dp,tp,pp,schedule,"
    "virtual_stages,sequence_parallel,zero_stage,recompute,offload,optimizer,xla,step_time_s,peak_memory_gb,"
    "reported_metric,reported_value,notes"
).split(",")

# What ZeRO's stages share out, as a plan has it.
_STAGES = {"none": 0, "optimizer": 1, "gradients": 2, "parameters": 3}

# The labels under which tables of measurements know stacks of the catalog; others go by their names.
_LABELS = {"pytorch-ddp": ("pytorch", "2.0 eager"), "pytorch-ddp-compiled": ("pytorch-ddp", "2.0 compile")}

# Where Linux tells the type of an EC2 instance.
_PRODUCT = Path("/sys/devices/virtual/dmi/id/product_name")


class Measurement:
    """Times steps from the end of one to the end of the next, and writes a row when it is closed."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        plan: Plan | None = None,
        model: Mapping[str, Any] | str | None = None,
        global_batch: int | None = None,
        micro_batch: int | None = None,
        warm_up: int = 3,
        trace: str | os.PathLike[str] | None = None,
        trace_steps: int = 2,
        tell: Callable[[str], object] | None = print,
        **row: object,
    ) -> None:
        """Begins a measurement whose row is added to the table `path`.

        `plan` is the plan that runs, or `model` a name of the catalog or the dictionary of a `config.json`. `warm_up` steps
        are not counted. `trace` names a file for a profiler trace of `trace_steps` steps after those, which
        `calibrate(trace)` reads; these steps are not counted either. `tell` prints predicted against measured at the end,
        or None. Other keyword arguments are columns of the table, in place of what is found: `system="p4d.24xlarge"`.
        """
        unknown = sorted(set(row) - set(COLUMNS))
        if unknown:
            raise ValueError(f"`{unknown[0]}` is no column of the table; columns are {', '.join(COLUMNS)}")
        self.path = Path(path)
        self.times: list[float] = []
        """Seconds of each step that counts."""
        self.tokens = 0
        """Tokens of those steps, on this rank."""
        self.row: dict[str, object] | None = None
        """What was written, once it is."""
        self._plan, self._model, self._given = plan, model, row
        self._batch = (global_batch, micro_batch)
        self._warm_up, self._seen, self._last = warm_up, 0, time.perf_counter()
        self._trace, self._traced, self._profiler = trace, trace_steps if trace is not None else 0, None
        self._tell = tell
        if self._traced and not warm_up:
            self._profiler = _started_profiler()
        self._reset_memory()

    def step(self, tokens: int = 0) -> None:
        """Says that a step has ended, in which this rank has read so many tokens."""
        _synchronize()
        now = time.perf_counter()
        first_that_counts = self._warm_up + self._traced
        if self._seen >= first_that_counts:
            self.times.append(now - self._last)
            self.tokens += tokens
        self._seen += 1
        if self._traced and self._seen == self._warm_up:
            self._profiler = _started_profiler()
        elif self._profiler is not None and self._seen == first_that_counts:
            _stopped_profiler(self._profiler, self._trace)
            self._profiler = None
        if self._seen == first_that_counts:
            self._reset_memory()
        self._last = time.perf_counter()

    def close(self) -> None:
        """Writes the row, and tells what was predicted of it. On ranks but the first, does nothing."""
        if self._profiler is not None:
            _stopped_profiler(self._profiler, self._trace)
            self._profiler = None
        times, memory = _slowest(statistics.median(self.times) if self.times else 0.0, _peak_memory())
        if _rank() != 0 or self.row is not None:
            return
        if not self.times:
            warnings.warn(f"no step was measured: {self._seen} were done, and {self._warm_up + self._traced} do not count")
            return
        self.row = {**dict.fromkeys(COLUMNS, ""), **self._found(), "step_time_s": f"{times:.6g}"}
        if memory:
            self.row["peak_memory_gb"] = f"{memory / 1e9:.4g}"
        self.row.update(self._given)
        self._write(self.row)
        if self._tell is not None:
            self._tell(self._told(times))

    def __enter__(self) -> Measurement:
        self._last = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Of a training that failed nothing is known; other ranks may never come to close theirs.
        if error is None:
            self.close()

    def predicted(self) -> RowResult | None:
        """Returns what Trainyard predicts for the row; None before it is written."""
        from trainyard import validate

        if self.row is None:
            return None
        own = [result for result in validate(self.path).rows if result.id == self.row["id"]]
        return own[-1] if own else None

    def _told(self, measured: float) -> str:
        if self._plan is not None:
            return self._compared(self._plan.prediction.step_time_s, measured)
        try:
            found = self.predicted()
        except ValueError as error:
            return f"measured {measured * 1000:.1f} ms a step; not predicted: {error}"
        if found is None or found.predicted_step_time_s is None:
            why = "it is in no table" if found is None else found.reason
            return f"measured {measured * 1000:.1f} ms a step; not predicted: {why}"
        return self._compared(found.predicted_step_time_s, measured)

    def _compared(self, predicted: float, measured: float) -> str:
        return (
            f"predicted {predicted * 1000:.1f} ms a step, measured {measured * 1000:.1f} ms: "
            f"{predicted / measured - 1:+.1%}; `trainyard calibrate --from {self.path}` refits on it"
        )

    def _found(self) -> dict[str, object]:
        """Returns the columns that follow from the plan, the model, the process group and the machine."""
        world = _world()
        global_batch, micro_batch = self._batch
        row: dict[str, object] = {
            "id": f"{self.path.stem}-{_rows_of(self.path) + 1}",
            "suite": self.path.stem,
            "source": "trainyard.measure",
            "dp": world,
            "tp": 1,
            "pp": 1,
            "global_batch": global_batch,
            "micro_batch": micro_batch,
            "precision": _precision(),
            "stack": "pytorch",
            "stack_version": "2.0 eager",
            "notes": _version(),
            "reported_metric": "tokens_per_s" if self.tokens else "",
            "reported_value": f"{self.tokens * world / sum(self.times):.6g}" if self.tokens else "",
            **_machine(world),
        }
        if self._plan is not None:
            row.update(_of_plan(self._plan))
        elif self._model is not None:
            row.update(_of_model(self._model))
        return {key: "" if value is None else value for key, value in row.items()}

    def _write(self, row: Mapping[str, object]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists() or self.path.stat().st_size == 0
        with self.path.open("a", encoding="utf-8", newline="") as file:
            names: list[str] = list(COLUMNS)
            writer = csv.DictWriter(file, names, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(row)

    def _reset_memory(self) -> None:
        torch = _torch()
        if torch is not None and torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()


def _torch() -> Any:
    """Returns PyTorch, if the training has imported it."""
    return sys.modules.get("torch")


def _group() -> Any:
    """Returns torch.distributed if it has a process group."""
    torch = _torch()
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    return torch.distributed


def _rank() -> int:
    group = _group()
    return int(group.get_rank()) if group is not None else 0


def _world() -> int:
    group = _group()
    return int(group.get_world_size()) if group is not None else 1


def _synchronize() -> None:
    torch = _torch()
    if torch is not None and torch.cuda.is_available():
        torch.cuda.synchronize()


def _peak_memory() -> float:
    """Returns the most bytes of GPU memory that were reserved on this rank."""
    torch = _torch()
    return float(torch.cuda.max_memory_reserved()) if torch is not None and torch.cuda.is_available() else 0.0


def _slowest(seconds: float, memory: float) -> tuple[float, float]:
    """Returns the step time of the slowest rank and the memory of the fullest; every rank calls it."""
    group, torch = _group(), _torch()
    if group is None or torch is None:
        return seconds, memory
    device = "cuda" if group.get_backend() == "nccl" else "cpu"
    both = torch.tensor([seconds, memory], dtype=torch.float64, device=device)
    group.all_reduce(both, op=group.ReduceOp.MAX)
    return float(both[0]), float(both[1])


def _precision() -> str:
    """Returns the format of matrix products, as a plan names it."""
    torch = _torch()
    if torch is None:
        return "fp32"
    if torch.is_autocast_enabled("cuda" if torch.cuda.is_available() else "cpu"):
        kind = torch.get_autocast_dtype("cuda" if torch.cuda.is_available() else "cpu")
        return "fp16-mixed" if kind == torch.float16 else "bf16-mixed"
    return "tf32" if torch.cuda.is_available() and torch.backends.cuda.matmul.allow_tf32 else "fp32"


def _version() -> str:
    torch = _torch()
    return f"torch {torch.__version__}" if torch is not None else ""


def _machine(world: int) -> dict[str, object]:
    """Returns the columns of the machine: its type where EC2 tells it, and its GPUs."""
    from trainyard import show

    torch = _torch()
    here = torch.cuda.device_count() if torch is not None and torch.cuda.is_available() else 0
    each = int(os.environ.get("LOCAL_WORLD_SIZE", 0)) or here or world
    row: dict[str, object] = {"nodes": max(world // max(each, 1), 1), "gpus_per_node": min(each, world)}
    product = _PRODUCT.read_text("utf-8").strip() if _PRODUCT.exists() else ""
    if any(entry["name"] == product for entry in show("instances")):
        row["system"] = product
    if torch is not None and here:
        row["gpu"] = gpu_named(str(torch.cuda.get_device_name()), [entry["name"] for entry in show("gpus")])
    return row


def gpu_named(name: str, known: list[str]) -> str:
    """Returns the catalog's name of a GPU: `a100-sxm4-40gb` of `NVIDIA A100-SXM4-40GB`; as it is if there is none."""
    words = name.lower().replace("nvidia", "").replace("tesla", "").replace("geforce", "").split()
    plain = "-".join(words)
    return next((own for own in known if own == plain), plain)


def _of_model(model: Mapping[str, Any] | str) -> dict[str, object]:
    """Returns the columns of a model, as the program reads it."""
    from trainyard._call import Given, printed

    given = Given("show").positional("models", "")
    source = model if isinstance(model, str) else given.file(model, "config.json")
    import json

    found = json.loads(printed(given.positional(source, ""), None))
    return _columns_of(found["model"], found["parameters"])


def _columns_of(spec: Mapping[str, Any], parameters: int | None) -> dict[str, object]:
    names = ("layers", "hidden", "heads", "ffn", "vocab", "seq_len", "image_size", "experts", "attention")
    row: dict[str, object] = {name: spec.get(name) for name in names}
    return {**row, "model": spec.get("family"), "params": parameters}


def _of_plan(plan: Plan) -> dict[str, object]:
    """Returns the columns of a plan."""
    document = plan.to_dict()
    spec = document["plan"]
    parallel, batch = spec["parallel"], spec["batch"]
    schedule = spec.get("schedule", "none")
    own = spec.get("stack") or "pytorch-ddp"
    stack, version = _LABELS.get(own, (own, ""))
    return {
        **_columns_of(spec["model"], None),
        "system": spec["cluster"]["instance"],
        "nodes": spec["cluster"]["instances"],
        "gpus_per_node": _ranks(parallel) // spec["cluster"]["instances"],
        "stack": stack,
        "stack_version": version,
        "precision": spec["precision"],
        "global_batch": batch["global"],
        "micro_batch": batch["micro"],
        "dp": parallel["data"],
        "tp": parallel["tensor"],
        "pp": parallel["pipeline"],
        "schedule": "" if schedule == "none" else schedule,
        "zero_stage": _STAGES.get(spec.get("state_sharding", "none"), ""),
        "recompute": spec.get("recompute", "none"),
        "optimizer": spec.get("optimizer"),
    }


def _ranks(parallel: Mapping[str, int]) -> int:
    return parallel["data"] * parallel["tensor"] * parallel["pipeline"] * parallel.get("context", 1)


def _rows_of(path: Path) -> int:
    """Counts the rows of a table that may not be there yet."""
    if not path.exists():
        return 0
    with path.open(encoding="utf-8", newline="") as file:
        return max(sum(1 for _ in csv.reader(file)) - 1, 0)


def _started_profiler() -> Any:
    torch = _torch()
    if torch is None:
        return None
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    profiler = torch.profiler.profile(activities=kinds, record_shapes=True)
    profiler.__enter__()
    return profiler


def _stopped_profiler(profiler: Any, trace: str | os.PathLike[str] | None) -> None:
    profiler.__exit__(None, None, None)
    if _rank() == 0 and trace is not None:
        Path(trace).parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(os.fspath(trace))


def trainer_callback(path: str | os.PathLike[str], **options: Any) -> Any:
    """Returns a callback for the Trainer of transformers: `Trainer(..., callbacks=[trainer_callback("steps.csv")])`.

    Batches, precision and the model's dimensions are those of the Trainer. Options are those of `Measurement`.
    """
    from transformers import TrainerCallback  # type: ignore[import-not-found, import-untyped, unused-ignore]

    base: Any = TrainerCallback

    class Callback(base):  # type: ignore[misc]
        measurement: Measurement | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            micro, accumulation = args.per_device_train_batch_size, args.gradient_accumulation_steps
            found: dict[str, Any] = {"micro_batch": micro, "global_batch": micro * accumulation * args.world_size}
            precision = "bf16-mixed" if args.bf16 else "fp16-mixed" if args.fp16 else None
            found |= {"precision": precision} if precision else {}
            config = getattr(model, "config", None)
            if config is not None and "plan" not in options:
                found["model"] = config.to_dict()
            self.measurement = Measurement(path, **{**found, **options}).__enter__()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.measurement is not None:
                self.measurement.step()

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if self.measurement is not None:
                self.measurement.close()

    return Callback()


def lightning_callback(path: str | os.PathLike[str], **options: Any) -> Any:
    """Returns a callback for Lightning: `Trainer(callbacks=[lightning_callback("steps.csv", micro_batch=8)])`."""
    from lightning.pytorch.callbacks import Callback  # type: ignore[import-not-found, import-untyped, unused-ignore]

    base: Any = Callback

    class Measured(base):  # type: ignore[misc]
        measurement: Measurement | None = None
        _steps = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            micro = options.get("micro_batch")
            found: dict[str, Any] = {}
            if micro is not None:
                found["global_batch"] = micro * trainer.accumulate_grad_batches * trainer.world_size
            named = {"bf16-mixed": "bf16-mixed", "16-mixed": "fp16-mixed", "32-true": "fp32"}
            if trainer.precision in named:
                found["precision"] = named[trainer.precision]
            self.measurement = Measurement(path, **{**found, **options}).__enter__()
            self._steps = trainer.global_step

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            # Batches that only add to the gradient are no steps.
            if self.measurement is not None and trainer.global_step > self._steps:
                self._steps = trainer.global_step
                self.measurement.step()

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if self.measurement is not None:
                self.measurement.close()

    return Measured()


def accelerated(accelerator: Any, path: str | os.PathLike[str], **options: Any) -> Measurement:
    """Returns a measurement for a loop of Accelerate: call its `step` where `accelerator.sync_gradients` is true."""
    found: dict[str, Any] = {}
    micro = options.get("micro_batch")
    if micro is not None:
        found["global_batch"] = micro * accelerator.gradient_accumulation_steps * accelerator.num_processes
    named = {"bf16": "bf16-mixed", "fp16": "fp16-mixed", "no": "fp32"}
    if accelerator.mixed_precision in named:
        found["precision"] = named[accelerator.mixed_precision]
    return Measurement(path, **{**found, **options})
