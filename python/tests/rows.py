"""Rows that trainyard.measure writes are rows that the program predicts. Needs no torch and no wheel.

    python3 rows.py target/release/trainyard
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def measure() -> Any:
    spec = importlib.util.spec_from_file_location("measure", ROOT / "python/trainyard/measure.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Document:
    def __init__(self, text: str) -> None:
        self.text = text

    def to_dict(self) -> Any:
        return json.loads(self.text)


def main() -> None:
    program, found = str(Path(sys.argv[1]).resolve()), measure()
    header = (ROOT / "tests/published/measurements.csv").read_text("utf-8").splitlines()[0]
    assert header.split(",") == found.COLUMNS, "the table of measurements has other columns"
    for name in ("data-parallel", "tensor-pipeline-data", "zero-3"):
        plan = Document((ROOT / f"cli/tests/cmd/export.in/{name}.json").read_text("utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "steps.csv"
            measurement = found.Measurement(table, plan=plan, tell=None)
            row = {**dict.fromkeys(found.COLUMNS, ""), "id": "steps-1", "suite": "steps", "step_time_s": "0.5"}
            measurement._write({**row, **{k: v for k, v in found._of_plan(plan).items() if v is not None}})
            command = [program, "validate", str(table), "--format", "json"]
            rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"]
            assert [own["status"] for own in rows] == ["ok"], (name, rows)


if __name__ == "__main__":
    main()
