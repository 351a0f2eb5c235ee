"""Trainyard in Python: plans and simulates distributed neural-network training.

>>> import trainyard
>>> plan = trainyard.plan(model="gpt2-xl", tokens=10e9, global_batch=512, deadline="7d")
>>> plan.plan.cluster.instance, plan.prediction.cost_usd
('p4d.24xlarge', 472.64...)

Each command of the program is a function here, with its flags as keyword arguments, and returns the document that
`--format json` prints, to the byte in `.to_json()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainyard._native import __version__

if TYPE_CHECKING:
    from trainyard import documents, errors
    from trainyard._commands import (
        calibrate,
        explain,
        export,
        plan,
        plan_fleet,
        replay,
        report,
        show,
        simulate,
        simulate_queue,
        validate,
        what_if,
    )
    from trainyard._model import ModelDescription, from_lightning, from_torch, from_transformers
    from trainyard.errors import Interrupted, InvalidInput, MissedGoal, NoPlan, TrainyardError, TrainyardWarning

__all__ = [
    "Interrupted",
    "InvalidInput",
    "MissedGoal",
    "ModelDescription",
    "NoPlan",
    "TrainyardError",
    "TrainyardWarning",
    "__version__",
    "calibrate",
    "documents",
    "errors",
    "explain",
    "export",
    "from_lightning",
    "from_torch",
    "from_transformers",
    "plan",
    "plan_fleet",
    "replay",
    "report",
    "show",
    "simulate",
    "simulate_queue",
    "validate",
    "what_if",
]

_HOMES = dict.fromkeys(("ModelDescription", "from_lightning", "from_torch", "from_transformers"), "_model")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imports what is asked for: the command `trainyard` needs none of it, and starts sooner."""
        import importlib

        if name not in __all__:
            raise AttributeError(f"module 'trainyard' has no attribute {name!r}")
        if name in ("documents", "errors"):
            return importlib.import_module(f"trainyard.{name}")
        home = importlib.import_module(f"trainyard.{_HOMES.get(name) or ('errors' if name[0].isupper() else '_commands')}")
        value = globals()[name] = getattr(home, name)
        return value

    def __dir__() -> list[str]:
        return __all__
