"""The example of a CI job fails when the training that it plans becomes more expensive."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "ci"
JOB = """
[model]
name = "gpt2"
[data]
tokens = {tokens}
[training]
global_batch = 64
[cluster]
instances = ["p3.8xlarge"]
max_instances = 2
"""


def commands() -> list[str]:
    """Returns what the last step of the workflow runs."""
    text = (EXAMPLE / "training-cost.yml").read_text("utf-8")
    block = text.rsplit("run: |\n", 1)[1]
    return [line.strip() for line in block.splitlines() if line.strip()]


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    words = command.split()
    own = {"trainyard": [sys.executable, "-m", "trainyard"], "python": [sys.executable]}
    return subprocess.run([*own[words[0]], *words[1:]], cwd=folder, capture_output=True, text=True, check=False)


def test_the_job_passes_until_the_training_costs_a_tenth_more(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "training_cost.py", tmp_path)
    job = tmp_path / "training.toml"
    plan, compare = commands()
    job.write_text(JOB.format(tokens="1e9"))
    assert run(tmp_path, plan).returncode == 0
    shutil.copy(tmp_path / "plan.json", tmp_path / "accepted-plan.json")
    same = run(tmp_path, compare)
    assert same.returncode == 0 and re.search(r"predicted [\d.,]+ USD, accepted [\d.,]+ USD: \+0\.0%", same.stdout)
    job.write_text(JOB.format(tokens="1.05e9"))
    assert run(tmp_path, compare).returncode == 0
    job.write_text(JOB.format(tokens="1.2e9"))
    dearer = run(tmp_path, compare)
    assert dearer.returncode == 1, dearer.stdout + dearer.stderr
    assert "trainyard plan training.toml --out accepted-plan.json" in dearer.stderr
    assert run(tmp_path, "python training_cost.py training.toml accepted-plan.json --rise 0.3").returncode == 0
