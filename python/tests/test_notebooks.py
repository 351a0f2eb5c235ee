"""What notebooks show, and the frames of pandas and polars."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import trainyard
from trainyard import documents
from trainyard._progress import Progress

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plan() -> documents.Plan:
    return trainyard.plan(model="gpt2", tokens=1e8, global_batch=64, instances=["g4dn.*", "p3.*"], max_instances=4)


@pytest.fixture(scope="module")
def sweep(plan: documents.Plan) -> documents.WhatIf:
    return trainyard.what_if(plan, vary={"instances": [1, 2, 4]})


def html(shown: Any) -> str:
    found = shown._repr_html_()
    assert isinstance(found, str)
    return found


def test_each_thing_shows_itself(plan: documents.Plan, sweep: documents.WhatIf) -> None:
    assert "time of the training" in html(plan) and "<svg " in html(plan)
    assert html(plan.front()).count("<tr>") == 1 + len(plan.front()) == 1 + len(plan.pareto)
    assert html(sweep).count("<tr>") == 1 + 3
    assert "<svg " in html(plan.step())
    assert "<svg " in html(trainyard.simulate(plan, campaign=True, runs=20))
    assert "<svg " in html(trainyard.explain(plan))


def test_pictures_are_svg(plan: documents.Plan, sweep: documents.WhatIf) -> None:
    for shown in (plan, plan.front(), plan.step(), sweep):
        assert ElementTree.fromstring(shown.to_svg()).tag.endswith("svg")
    with pytest.raises(ValueError, match="nothing to draw"):
        trainyard.export(plan, to="torchrun").to_svg()


def test_a_plan_prints_the_page_of_the_command(plan: documents.Plan) -> None:
    assert re.search(r"^gpt2 on \d+ × ", str(plan)) and "  memory " in str(plan)


def test_sweeps_and_fronts_are_frames(plan: documents.Plan, sweep: documents.WhatIf) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    times = [case.figures.time_s for case in sweep.cases if case.figures is not None]
    for frame in (sweep.to_pandas(), sweep.to_polars()):
        assert isinstance(frame, (pandas.DataFrame, polars.DataFrame))
        assert list(frame["instances"]) == [1, 2, 4] and list(frame["time_s"]) == times
    assert list(plan.front().to_pandas()["cost_usd"]) == [point.cost_usd for point in plan.pareto]
    assert plan.front().to_polars().height == len(plan.pareto)


def test_progress_is_drawn_where_somebody_looks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress() as progress:
        progress.hear("progress", "varying 1 of 3")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with Progress() as progress:
        progress.hear("progress", "varying 2 of 3")
    assert capsys.readouterr().err == "\r\x1b[Kvarying 2 of 3\r\x1b[K"


def cells(notebook: Any) -> Iterator[tuple[str, str]]:
    """Yields the type of each output of a notebook, and its text."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            for kind, text in output.get("data", {"text/plain": output.get("text", "")}).items():
                yield kind, text


def test_the_notebook_of_the_examples_runs(tmp_path: Path) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "examples/plans.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [text for kind, text in cells(notebook) if kind == "text/html"]
    assert sum("<svg " in text for text in shown) == 5 and sum("dataframe" in text for text in shown) == 2
    progress = [text for kind, text in cells(notebook) if kind == "text/plain" and "of 8" in text]
    assert not progress, "the line is cleared at the end"
    assert any("training.global_batch is 0" in text for _, text in cells(notebook))
    assert not list(tmp_path.iterdir())
