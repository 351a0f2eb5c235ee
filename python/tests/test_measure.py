"""Trainings in PyTorch are measured: on processors, in two processes, with small models."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trainyard
from trainyard.measure import COLUMNS, Measurement, accelerated, gpu_named, lightning_callback, trainer_callback

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
GPT = {"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 64, "n_positions": 16}

WORKER = """
import sys, torch
from torch.nn.parallel import DistributedDataParallel
from trainyard.measure import Measurement

torch.distributed.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(32, 32))
optimizer = torch.optim.AdamW(model.parameters())
config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2, "vocab_size": 64, "n_positions": 16}
with Measurement(sys.argv[1], model=config, global_batch=16, micro_batch=8, warm_up=2, tell=None) as measurement:
    for step in range(6):
        model(torch.randn(8, 32)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        measurement.step(tokens=8 * 16)
assert len(measurement.times) == 4
# Gloo ends a process that leaves while another one is still at work.
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


def rows(table: Path) -> list[dict[str, str]]:
    with table.open(newline="") as file:
        reader = csv.DictReader(file)
        found = list(reader)
    assert reader.fieldnames == COLUMNS
    return found


def test_two_processes_write_one_row(tmp_path: Path) -> None:
    worker, table = tmp_path / "worker.py", tmp_path / "steps.csv"
    worker.write_text(WORKER)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0"]
    subprocess.run([*launch, "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", str(worker), str(table)], check=True, cwd=tmp_path)
    (row,) = rows(table)
    expected = {"id": "steps-1", "dp": "2", "nodes": "1", "gpus_per_node": "2", "layers": "2", "hidden": "32"}
    expected |= {"global_batch": "16", "micro_batch": "8", "precision": "fp32", "model": "gpt", "seq_len": "16"}
    assert {name: row[name] for name in expected} == expected
    assert float(row["step_time_s"]) > 0
    tokens = 2 * 4 * 8 * 16
    assert row["reported_metric"] == "tokens_per_s" and float(row["reported_value"]) < tokens / float(row["step_time_s"])


def test_a_plan_fills_the_row_and_the_prediction_is_told(tmp_path: Path) -> None:
    plan = trainyard.plan(model="gpt2", tokens=1e8, global_batch=64, instances="p3.16xlarge", max_instances=1)
    table, told = tmp_path / "steps.csv", []
    for _ in range(2):
        with Measurement(table, plan=plan, warm_up=0, tell=told.append) as measurement:
            measurement.step()
    first, second = rows(table)
    assert (first["id"], second["id"], first["system"]) == ("steps-1", "steps-2", "p3.16xlarge")
    assert first["global_batch"] == "64" and plan.plan.stack == "pytorch-ddp-compiled"
    assert len(told) == 2 and told[0].startswith("predicted ") and "calibrate --from" in told[0]
    predicted = measurement.predicted()
    assert predicted is not None and predicted.predicted_step_time_s is not None
    # The row of a plan is predicted as the plan was, but for what rows do not say.
    assert predicted.predicted_step_time_s == pytest.approx(plan.prediction.step_time_s, rel=0.01)


def test_calibrate_refits_on_measured_rows(tmp_path: Path) -> None:
    table = tmp_path / "steps.csv"
    for batch in (32, 64, 128, 256):
        plan = trainyard.plan(model="gpt2", tokens=1e8, global_batch=batch, instances="p3.16xlarge", max_instances=1)
        seconds = plan.prediction.step_time_s * 1.3
        with Measurement(table, plan=plan, warm_up=0, tell=None, step_time_s=seconds) as measurement:
            measurement.step()
    refit = trainyard.calibrate(table, out=tmp_path / "constants.toml")
    assert refit.rows == 4


def test_what_is_given_stands_before_what_is_found(tmp_path: Path) -> None:
    with Measurement(tmp_path / "a.csv", warm_up=0, tell=None, system="my-rack", notes="cold") as measurement:
        measurement.step()
    (row,) = rows(tmp_path / "a.csv")
    assert (row["system"], row["notes"]) == ("my-rack", "cold")
    with pytest.raises(ValueError, match="`sytem` is no column"):
        Measurement(tmp_path / "b.csv", sytem="x")


def test_nothing_is_written_of_a_training_that_failed_or_did_no_step(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Measurement(tmp_path / "a.csv") as measurement:
        measurement.step()
        raise RuntimeError
    with pytest.warns(UserWarning, match="no step was measured"), Measurement(tmp_path / "a.csv", warm_up=3) as measurement:
        measurement.step()
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize("warm_up", [0, 1])
def test_a_trace_is_of_steps_that_do_not_count(tmp_path: Path, warm_up: int) -> None:
    trace = tmp_path / "trace.json"
    with Measurement(tmp_path / "a.csv", warm_up=warm_up, trace=trace, trace_steps=2, tell=None) as measurement:
        for _ in range(4 + warm_up):
            torch.randn(8, 8) @ torch.randn(8, 8)
            measurement.step()
    assert len(measurement.times) == 2
    assert json.loads(trace.read_text())["traceEvents"]


def test_gpus_are_named_as_the_catalog_does() -> None:
    known = [entry["name"] for entry in trainyard.show("gpus")]
    assert gpu_named("NVIDIA A100-SXM4-40GB", known) == "a100-sxm4-40gb"
    assert gpu_named("Tesla V100-SXM2-16GB", known) == "v100-sxm2-16gb"
    assert gpu_named("Tesla T4", known) == "t4"


class Tokens(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        tokens = torch.arange(16) % 64
        return {"input_ids": tokens, "labels": tokens}


def test_the_trainer_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    config = transformers.GPT2Config(**{key: value for key, value in GPT.items() if key != "model_type"})
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=6, per_device_train_batch_size=4, gradient_accumulation_steps=2,
        report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    table = tmp_path / "steps.csv"
    callback = trainer_callback(table, warm_up=2, tell=None)
    model = transformers.GPT2LMHeadModel(config)
    transformers.Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[callback]).train()
    (row,) = rows(table)
    assert (row["micro_batch"], row["global_batch"], row["layers"], row["model"]) == ("4", "8", "2", "gpt")
    assert len(callback.measurement.times) == 4


def test_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning.pytorch")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(16, 1)

        def training_step(self, batch: Any, index: int) -> Any:
            return self.layer(batch["input_ids"].float()).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    table = tmp_path / "steps.csv"
    callback = lightning_callback(table, micro_batch=4, warm_up=1, tell=None, model=GPT)
    trainer = lightning.Trainer(
        max_steps=4, accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accumulate_grad_batches=2, default_root_dir=str(tmp_path),
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(Tokens(), batch_size=4))
    (row,) = rows(table)
    assert (row["micro_batch"], row["global_batch"], row["precision"]) == ("4", "8", "fp32")
    assert len(callback.measurement.times) == 3


def test_accelerate(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    layer = torch.nn.Linear(16, 1)
    model, optimizer, loader = accelerator.prepare(
        layer, torch.optim.SGD(layer.parameters()), torch.utils.data.DataLoader(Tokens(), batch_size=4)
    )
    table = tmp_path / "steps.csv"
    with accelerated(accelerator, table, micro_batch=4, warm_up=1, tell=None, model=GPT) as measurement:
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(batch["input_ids"].float()).square().mean())
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                measurement.step(tokens=batch["input_ids"].numel())
    (row,) = rows(table)
    assert row["global_batch"] == "8" and len(measurement.times) == 7
