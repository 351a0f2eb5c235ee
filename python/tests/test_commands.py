"""Functions answer what the program prints, to the byte, and raise what it refuses."""

from __future__ import annotations

import copy
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import trainyard
from trainyard import _commands, _native, documents
from trainyard._call import Given

ROOT = Path(__file__).parents[2]
JOB: documents.Job = {
    "model": {"name": "gpt2"},
    "data": {"tokens": 1e8},
    "training": {"global_batch": 64},
    "cluster": {"instances": ["g4dn.*"], "max_instances": 4},
}
TOML = """
[model]
name = "gpt2"
[data]
tokens = 1e8
[training]
global_batch = 64
[cluster]
instances = ["g4dn.*"]
max_instances = 4
"""


def program(*words: str, folder: Path | None = None, code: int = 0) -> str:
    """Runs the command, and returns what it prints on standard output."""
    command = [sys.executable, "-m", "trainyard", *words, "--history", "off"]
    done = subprocess.run(command, capture_output=True, cwd=folder, check=False)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def plan() -> documents.Plan:
    return trainyard.plan(JOB)


@pytest.fixture(scope="module")
def path(plan: documents.Plan, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    plan.save(path)
    return path


def test_a_plan_has_the_bytes_of_the_program(plan: documents.Plan, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(TOML)
    assert program("plan", "job.toml", "--format", "json", folder=tmp_path) == plan.to_json()
    assert trainyard.plan(tmp_path / "job.toml") == plan
    flags = trainyard.plan(model="gpt2", tokens=1e8, global_batch=64, instances="g4dn.*", max_instances=4)
    assert flags.to_json() == program(
        *"plan --model gpt2 --tokens 1e8 --global-batch 64 --instances g4dn.* --max-instances 4 --format json".split()
    )


def test_the_other_commands_have_the_bytes_of_the_program(plan: documents.Plan, path: Path, tmp_path: Path) -> None:
    def same(document: documents.Document, *words: str) -> None:
        assert document.to_json() == program(*words, "--format", "json", folder=tmp_path)

    same(trainyard.simulate(path), "simulate", str(path))
    same(trainyard.simulate(path, campaign=True, runs=50, seed=3), "simulate", str(path), *"--campaign --runs 50 --seed 3".split())
    same(trainyard.what_if(path, vary={"instances": range(1, 4)}), "what-if", str(path), "--vary", "instances=1,2,3")
    same(trainyard.what_if(path, tornado=True), "what-if", str(path), "--tornado")
    same(trainyard.explain(path), "explain", str(path))
    same(trainyard.export(path, to="torchrun"), "export", str(path), "--to", "torchrun")
    same(trainyard.plan_fleet(ROOT / "examples/fleet.toml"), "plan", str(ROOT / "examples/fleet.toml"))
    same(trainyard.simulate_queue(ROOT / "examples/queue.toml"), "simulate", str(ROOT / "examples/queue.toml"))
    assert trainyard.simulate(plan) == trainyard.simulate(path) == trainyard.simulate(plan.to_dict())
    assert trainyard.report(path, runs=20) == program("report", str(path), "--runs", "20")


def test_measurements_are_validated_and_refitted(tmp_path: Path) -> None:
    own = ROOT / "cli/tests/cmd/validate.in/small.csv"
    validation = trainyard.validate(own)
    assert validation.to_json() == program("validate", str(own), "--format", "json")
    assert len(validation.rows) == len(validation.records()) > 0
    mine = ROOT / "cli/tests/cmd/calibrate.in/mine.csv"
    refit = trainyard.calibrate(mine, out=tmp_path / "constants.toml")
    assert refit.rows > 0 and refit.suites


def test_catalogs_are_shown() -> None:
    assert trainyard.show("gpus", "t4")["name"] == "t4"
    assert {entry["catalog"] for entry in trainyard.show()} >= {"gpus", "models"}
    assert len(trainyard.show("instances", "p4*")) >= 2


def test_documents_are_typed_and_cannot_be_changed(plan: documents.Plan) -> None:
    assert plan.plan.cluster.instance.startswith("g4dn.")
    low, high = plan.prediction.interval_s
    assert low < plan.prediction.step_time_s < high
    assert plan.job.get("model") == {"name": "gpt2"}
    assert plan.to_dict()["prediction"]["step_time_s"] == plan.prediction.step_time_s
    assert isinstance(plan.pareto[0].plan, documents.PlanSpec)
    assert pickle.loads(pickle.dumps(plan)) == copy.deepcopy(plan) == plan
    with pytest.raises(AttributeError):
        plan.reasons = ()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        plan.predictions  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="trainyard.plan/1"):
        documents.WhatIf.from_json(plan.to_json())


def test_every_document_reads_every_field_it_has(plan: documents.Plan, path: Path) -> None:
    found = [plan, trainyard.explain(path), trainyard.export(path, to="slurm"), trainyard.what_if(path, tornado=True)]
    found.append(trainyard.simulate(path, campaign=True, runs=10))
    for document in found:
        for name in document.to_dict():
            getattr(document, name)


def test_a_refusal_names_field_value_and_what_is_allowed() -> None:
    job: dict[str, Any] = {**JOB, "training": {"global_batch": 0}}
    with pytest.raises(trainyard.InvalidInput) as caught:
        trainyard.plan(job)
    error = caught.value
    assert (error.field, error.value, error.exit_code) == ("training.global_batch", "0", 2)
    assert error.allowed is not None and isinstance(error, ValueError)
    with pytest.raises(trainyard.InvalidInput) as caught:
        trainyard.plan({**JOB, "training": {"global_bach": 64}})
    assert caught.value.field == "training.global_bach"
    assert caught.value.hint == "did you mean `global_batch`?"
    with pytest.raises(trainyard.InvalidInput) as caught:
        trainyard.plan(JOB, pricing="cheap")  # type: ignore[arg-type]
    assert caught.value.field == "pricing" and "spot" in (caught.value.allowed or "")
    assert "spot" in str(pickle.loads(pickle.dumps(caught.value)).allowed)
    with pytest.raises(trainyard.InvalidInput, match="no-such-file"):
        trainyard.simulate("no-such-file.json")


def test_a_missed_goal_has_the_plan_that_comes_nearest() -> None:
    with pytest.raises(trainyard.MissedGoal) as caught:
        trainyard.plan(JOB, tokens="10B", deadline=timedelta(hours=1))
    assert isinstance(caught.value.document, documents.Plan)
    assert caught.value.document.prediction.time_s > 3600
    with pytest.raises(trainyard.NoPlan):
        trainyard.plan(JOB, model="gpt3-175b", max_instances=1, fix={"parallel.data": 1})


def test_arguments_are_written_as_the_command_line_takes_them() -> None:
    given = Given("plan").flags(fix={"parallel.tensor": 8}, vary={"instances": range(1, 4), "x": "a..b"}, hold=True)
    assert given.words == ["plan", "--fix=parallel.tensor=8", "--vary=instances=1,2,3", "--vary=x=a..b", "--hold"]
    given = Given("plan").flags(tokens=10e9, deadline=timedelta(days=3), out=None, unfold=False, from_=Path("a.csv"))
    assert given.words == ["plan", "--tokens=10000000000.0", "--deadline=259200.0s", "--from=a.csv"]


class Scalar(float):
    """A number as numpy has it: a float whose `repr` is none."""

    shape = ()

    def item(self) -> float:
        return float(self)

    def __repr__(self) -> str:
        return f"np.float64({float(self)!r})"


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    given = Given("plan").flags(tokens=Scalar(1e9), vary={"data.tokens": [Scalar(1e9), Scalar(2e9)]})
    assert given.words == ["plan", "--tokens=1000000000.0", "--vary=data.tokens=1000000000.0,2000000000.0"]


def test_a_model_of_transformers_is_a_dictionary() -> None:
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 100, "n_positions": 32}
    found = trainyard.plan(model=config, samples=10_000, global_batch=8, instances=["g4dn.xlarge"], max_instances=1)
    assert found.plan.model.layers == 2


def test_results_are_kept_only_where_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trainyard.plan(JOB)
    assert not list(tmp_path.iterdir())
    trainyard.plan(JOB, history="kept.db")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.db"]


HELP = {
    "plan": (_commands.plan, {"job", "out", "top", "point", "history", "plans"}),
    "what-if": (_commands.what_if, set[str]()),
    "simulate": (_commands.simulate, set[str]()),
    "explain": (_commands.explain, set[str]()),
    "report": (_commands.report, set[str]()),
    "export": (_commands.export, set[str]()),
    "validate": (_commands.validate, set[str]()),
    "calibrate": (_commands.calibrate, set[str]()),
    "show": (_commands.show, set[str]()),
}
# What is for terminals, measures this machine, or has a function of its own.
ELSEWHERE = {"format", "history", "color", "quiet", "verbose", "help", "version", "device", "launcher", "on", "instances", "plans"}


@pytest.mark.parametrize("command", HELP)
def test_every_flag_of_the_command_line_is_an_argument(command: str) -> None:
    flags = {name.replace("-", "_") for name in re.findall(r"^ +(?:-\w, )?--([a-z-]+)", program(command, "--help"), re.M)}
    assert len(flags) > 5
    function = HELP[command][0]
    text = Path(str(_commands.__file__)).read_text("utf-8")
    taken = {name.strip("_") for name in function.__annotations__} | set(_commands.FLAGS.get(command, ()))
    if command == "simulate":
        overloads = re.findall(r"@overload\ndef simulate\((.*?)\) ->", text, re.S)
        taken |= {name for one in overloads for name in re.findall(r"^    (\w+):", one, re.M)}
    assert flags - taken - ELSEWHERE == set()


def test_another_thread_goes_on_and_ctrl_c_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of Python works while a command does, and sends the signal once the command has begun."""
    begun = threading.Event()

    def interrupt() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    words = ["what-if", "--model=gpt2-xl", "--tokens=1e10", "--global-batch=512", "--instances=p3.16xlarge"]
    words += ["--vary=cluster.network=" + ",".join(f"{speed}Gbps" for speed in range(10, 160)), "--history=off"]
    with pytest.raises(KeyboardInterrupt):
        _native.call(words, {}, lambda kind, text: begun.set())
    thread.join()


def test_the_command_is_the_program() -> None:
    assert program("--version") == f"trainyard {trainyard.__version__}\n"
    program("no-such-command", code=2)
    assert "only plans" in subprocess.run(
        [sys.executable, "-m", "trainyard", "run", "plan.json", "--data", "x"], capture_output=True, text=True, check=False
    ).stderr


def test_types_are_those_of_the_schemas() -> None:
    generate = ROOT / "python/generate.py"
    subprocess.run([sys.executable, str(generate), "--check"], check=True)


def test_what_the_example_says(capsys: pytest.CaptureFixture[str]) -> None:
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec((ROOT / "examples/plan.py").read_text("utf-8"), scope)  # noqa: S102
    printed = capsys.readouterr().out
    assert "p4d.24xlarge" in printed and "4 instances: " in printed and "training.global_batch is 0" in printed
    assert isinstance(scope["JOB"], Mapping)
