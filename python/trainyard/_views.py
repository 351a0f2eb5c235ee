"""What documents can do besides: pictures, and frames of pandas and polars."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainyard import _native
from trainyard._document import Document, drawn

if TYPE_CHECKING:
    # Typed where they are installed; neither is needed.
    import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import polars  # type: ignore[import-not-found, unused-ignore]


class Rows:
    """Records that can be had as a frame of pandas or polars."""

    def records(self) -> list[dict[str, Any]]:
        """Returns a dictionary for each row, with the same keys in each."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """Returns the rows as a frame of pandas, which must be installed."""
        import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return pd.DataFrame(self.records())

    def to_polars(self) -> polars.DataFrame:
        """Returns the rows as a frame of polars, which must be installed."""
        import polars as pl  # type: ignore[import-not-found, unused-ignore]

        return pl.DataFrame(self.records(), infer_schema_length=None)


class Front(Rows):
    """The front of time against cost of a plan: the plans that no other beats in both."""

    def __init__(self, text: str) -> None:
        self._text = text

    def records(self) -> list[dict[str, Any]]:
        from trainyard.documents import Plan

        rows = [(number, point) for number, point in enumerate(Plan(self._text).pareto, start=1)]
        return [
            {
                "point": number,
                "instance": point.plan.cluster.instance,
                "instances": point.plan.cluster.instances,
                "pricing": point.plan.pricing,
                "stack": point.plan.stack,
                "time_s": point.time_s,
                "cost_usd": point.cost_usd,
                "step_time_s": point.step_time_s,
            }
            for number, point in rows
        ]

    def to_svg(self) -> str:
        """Returns the picture of the front."""
        return drawn(self._text, "svg", "front")

    def _repr_html_(self) -> str | None:
        return _native.shown(self._text, "front-html")

    def __len__(self) -> int:
        return len(self.records())


class Step:
    """A simulated step of a plan, stage by stage."""

    def __init__(self, svg: str) -> None:
        self._svg = svg

    def to_svg(self) -> str:
        """Returns the step as a Gantt chart."""
        return self._svg

    def _repr_html_(self) -> str:
        return f'<div style="max-width:944px;background:#fff;border-radius:8px;padding:8px">{self._svg}</div>'


class PlanViews(Document):
    """What a plan can do besides."""

    def front(self) -> Front:
        """Returns the front of time against cost."""
        return Front(self._text)

    def step(self) -> Step:
        """Simulates one step, and returns its picture. Files that the plan names are seen from the working folder."""
        from trainyard._call import Given, printed

        with tempfile.TemporaryDirectory() as folder:
            plot = Path(folder) / "step.svg"
            given = Given("simulate").positional(self, "plan.json").flags(plot=plot, plot_theme="light")
            printed(given, None)
            return Step(plot.read_text("utf-8"))


class SweepViews(Document, Rows):
    """What a sweep can do besides."""

    def records(self) -> list[dict[str, Any]]:
        """Returns a dictionary for each case, or for each assumption of a tornado: the columns of `what-if --csv`."""
        header, *rows = csv.reader(io.StringIO(drawn(self._text, "csv", "sweep")))
        return [{name: _value(cell) for name, cell in zip(header, row, strict=True)} for row in rows]


class RowsViews(Document, Rows):
    """What a validation can do besides."""

    def records(self) -> list[dict[str, Any]]:
        """Returns a dictionary for each row of the table."""
        rows: list[dict[str, Any]] = self.to_dict()["rows"]
        keys = list(dict.fromkeys(key for row in rows for key in row))
        return [{key: row.get(key) for key in keys} for row in rows]


def _value(text: str) -> Any:
    """Returns what a cell holds: nothing, a number, or a text."""
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
