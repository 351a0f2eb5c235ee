"""The commands of the program as functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union, cast, overload

from trainyard._call import Given, Path, Value, document, expected, printed
from trainyard._document import Document
from trainyard.documents import (
    Campaign,
    Explanation,
    Fleet,
    FleetSchedule,
    Job,
    Launch,
    Plan,
    Queue,
    QueueSchedule,
    Refit,
    Replay,
    Validation,
    WhatIf,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

# A number as people write it: 10e9, or "10B".
Number = Union[int, float, str]
# A duration: "3d", seconds with their unit, or a timedelta.
Time = Union[str, timedelta]
# A plan: what `plan` returned, the dictionary of one, or the path of its document.
PlanSource = Union[Plan, Mapping[str, Any], Path]
# A job: a dictionary, or the path of its file.
JobSource = Union[Job, Mapping[str, Any], Path]


class _Job(TypedDict, total=False):
    """A job as keyword arguments; they override the job that is given besides."""

    model: str | Mapping[str, Any] | Path
    tokens: Number
    samples: Number
    lengths: Path
    seq_len: Number
    decoder_seq_len: Number
    dataset: str
    bytes_per_sample: Number
    storage: str
    global_batch: Number
    epochs: Number
    steps: Number
    fine_tune: Literal["full", "lora", "qlora", "frozen"]
    dpo: Literal["model", "precomputed"] | bool
    lora_rank: Number
    optimizer: str
    constants: Path
    prices: Path


class _Goal(TypedDict, total=False):
    """Machines and goal as keyword arguments."""

    objective: Literal["time", "cost"]
    deadline: Time
    budget: Number
    cluster: Path
    instances: str | Sequence[str]
    max_instances: int
    region: str
    pricing: Literal["on-demand", "spot", "reserved", "reserved-3y", "capacity-block"]
    service: Literal["ec2", "sagemaker"]
    transport: str
    stack: str
    memory_margin: str
    quotas: Path


class _Search(TypedDict, total=False):
    """Limits of a search as keyword arguments."""

    max_simulations: Number
    fix: Mapping[str, object] | Sequence[str]
    threads: int


class _Planned(_Job, _Goal, _Search, total=False):
    """What `plan` and `what_if` have in common."""

    plot: Path
    plot_theme: Literal["auto", "light", "dark"]


def _flags(given: Given, flags: Mapping[str, Any]) -> Given:
    """Adds keyword arguments that are those of the command line."""
    model = flags.get("model")
    if isinstance(model, Mapping):
        flags = {**flags, "model": given.model(cast("Mapping[str, Any]", model))}
    instances = flags.get("instances")
    if instances is not None and not isinstance(instances, (str, int)):
        flags = {**flags, "instances": ",".join(instances)}
    return given.flags(**flags)


def plan(
    job: JobSource | None = None,
    *,
    top: int | None = None,
    point: int | None = None,
    out: Path | None = None,
    history: Path | None = None,
    **flags: Unpack[_Planned],
) -> Plan:
    """Recommends instances and a way to split the work.

    Raises NoPlan if nothing is possible, and MissedGoal if nothing is within the deadline and the budget; `document` of
    that exception is the plan that comes nearest. The result is kept in `history` if it is named.
    """
    given = _flags(Given("plan").positional(job, "job.toml"), flags).flags(top=top, point=point, out=out)
    return expected(document(given, history), Plan, "`plan_fleet` plans a fleet")


def plan_fleet(
    fleet: Fleet | Mapping[str, Any] | Path,
    *,
    plans: Path | None = None,
    out: Path | None = None,
    history: Path | None = None,
    **flags: Unpack[_Planned],
) -> FleetSchedule:
    """Plans many jobs together that share a pool, a deadline and a budget."""
    given = _flags(Given("plan").positional(fleet, "fleet.toml"), flags).flags(plans=plans, out=out)
    return expected(document(given, history), FleetSchedule, "`plan` plans a job")


def what_if(
    subject: Plan | JobSource | None = None,
    *,
    vary: Mapping[str, object] | str | Sequence[str] | None = None,
    hold: bool = False,
    tornado: bool = False,
    csv: Path | None = None,
    out: Path | None = None,
    history: Path | None = None,
    **flags: Unpack[_Planned],
) -> WhatIf:
    """Varies anything of a job or a plan: `vary={"instances": range(1, 9)}` or `vary="instances=1..8"`.

    A plan is held, and of a job the best plan is sought for each value, unless `hold` is true. `tornado` varies each
    assumption behind the plan by its own uncertainty.
    """
    name = "plan.json" if _is_plan(subject) else "job.toml"
    given = _flags(Given("what-if").positional(subject, name), flags)
    given.flags(vary=vary, hold=hold, tornado=tornado, csv=csv, out=out)
    return expected(document(given, history), WhatIf, "this is a bug, please report it")


def _is_plan(subject: object) -> bool:
    return isinstance(subject, Document) or (isinstance(subject, Mapping) and "schema" in subject)


@overload
def simulate(
    plan: PlanSource,
    *,
    campaign: Literal[False] = False,
    trace: Path | None = None,
    chakra: Path | None = None,
    unfold: bool = False,
    spread: float | None = None,
    seed: int | None = None,
    constants: Path | None = None,
    plot: Path | None = None,
    plot_theme: Literal["auto", "light", "dark"] | None = None,
    history: Path | None = None,
) -> Plan: ...


@overload
def simulate(
    plan: PlanSource,
    *,
    campaign: Literal[True],
    runs: int | None = None,
    seed: int | None = None,
    constants: Path | None = None,
    plot: Path | None = None,
    plot_theme: Literal["auto", "light", "dark"] | None = None,
    history: Path | None = None,
) -> Campaign: ...


def simulate(
    plan: PlanSource, *, campaign: bool = False, history: Path | None = None, **flags: Value
) -> Plan | Campaign:
    """Simulates one step of a plan, and returns the plan with that prediction; or its whole training (`campaign`)."""
    given = Given("simulate").positional(plan, "plan.json").flags(campaign=campaign, **flags)
    found = document(given, history)
    if campaign:
        return expected(found, Campaign, "`simulate_queue` simulates a queue")
    return expected(found, Plan, "`simulate_queue` simulates a queue, and `replay` traces")


def simulate_queue(
    queue: Queue | Mapping[str, Any] | Path,
    *,
    seed: int | None = None,
    plot: Path | None = None,
    plot_theme: Literal["auto", "light", "dark"] | None = None,
    history: Path | None = None,
) -> QueueSchedule:
    """Simulates a queue of jobs on a pool of instances."""
    given = Given("simulate").positional(queue, "queue.toml")
    found = document(given.flags(seed=seed, plot=plot, plot_theme=plot_theme), history)
    return expected(found, QueueSchedule, "`simulate` simulates a plan")


def replay(traces: Path, *, on: str, instances: int | None = None, history: Path | None = None) -> Replay:
    """Simulates a folder of Chakra execution traces on machines of a type."""
    given = Given("simulate").positional(traces, "traces").flags(on=on, instances=instances)
    return expected(document(given, history), Replay, "`simulate` simulates a plan")


def explain(
    plan: PlanSource,
    *,
    against: PlanSource | None = None,
    plot: Path | None = None,
    plot_theme: Literal["auto", "light", "dark"] | None = None,
) -> Explanation:
    """Explains where the step of a plan goes, or sets two plans side by side."""
    given = Given("explain").positional(plan, "plan.json")
    if against is not None:
        given.flags(against=given.file(against, "plan.json"))
    given.flags(plot=plot, plot_theme=plot_theme)
    return expected(document(given), Explanation, "this is a bug, please report it")


def report(
    plan: PlanSource,
    *,
    out: Path | None = None,
    plots: Path | None = None,
    plot_format: Literal["svg", "png"] | None = None,
    plot_theme: Literal["auto", "light", "dark"] | None = None,
    runs: int | None = None,
    seed: int | None = None,
) -> str:
    """Returns a plan as one page in HTML; with `out`, writes it there and returns nothing but an empty text."""
    given = Given("report").positional(plan, "plan.json")
    given.flags(out=out, plots=plots, plot_format=plot_format, plot_theme=plot_theme, runs=runs, seed=seed)
    return printed(given, None, form=None)


def export(
    plan: PlanSource,
    to: Literal[
        "torchrun", "megatron", "deepspeed", "accelerate", "sagemaker", "slurm", "skypilot", "kubernetes"
    ],
    *,
    out: Path | None = None,
    script: str | None = None,
    image: str | None = None,
    role: str | None = None,
    data: str | None = None,
    results: str | None = None,
    learning_rate: Number | None = None,
    weights: str | None = None,
) -> Launch:
    """Returns a plan as launch files for another engine or service, and writes them into the folder `out` if it is named."""
    given = Given("export").positional(plan, "plan.json").flags(to=to, out=out, script=script, image=image, role=role)
    given.flags(data=data, results=results, learning_rate=learning_rate, weights=weights)
    return expected(document(given), Launch, "this is a bug, please report it")


def validate(
    table: Path,
    *,
    plot: Path | None = None,
    plot_theme: Literal["auto", "light", "dark"] | None = None,
    constants: Path | None = None,
) -> Validation:
    """Predicts measurements and shows how far off that is.

    Raises InvalidInput if rows are malformed; `document` of that exception has the others.
    """
    given = Given("validate").positional(table, "table.csv")
    given.flags(plot=plot, plot_theme=plot_theme, constants=constants)
    return expected(document(given), Validation, "this is a bug, please report it")


def calibrate(
    from_: Path,
    *,
    out: Path | None = None,
    constants: Path | None = None,
    instance: str | None = None,
    stack: str | None = None,
    profile: Path | None = None,
) -> Refit:
    """Refits constants from measurements, and writes those that predict better into `out` [default: runs/constants.toml].

    Measuring this machine takes the program that also runs plans.
    """
    given = Given("calibrate").flags(from_=from_, out=out, constants=constants, instance=instance, stack=stack)
    return expected(document(given.flags(profile=profile)), Refit, "this is a bug, please report it")


def show(
    catalog: Literal["models", "datasets", "gpus", "instances", "stacks", "schedules", "prices"] | None = None,
    name: str | Path | None = None,
    *,
    constants: Path | None = None,
) -> Any:
    """Returns what a catalog holds, or one entry of it, as dictionaries and lists; without arguments, the catalogs."""
    given = Given("show").positional(catalog, "").positional(name, "").flags(constants=constants)
    return json.loads(printed(given, None))


# Looked at by the tests: what each function gives to the program besides its own arguments.
FLAGS: dict[str, Iterable[str]] = {
    "plan": [*_Planned.__annotations__],
    "what-if": [*_Planned.__annotations__],
}
