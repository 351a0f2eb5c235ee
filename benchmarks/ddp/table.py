"""Prints what `compare.sh` has measured: `table.py FOLDER TURN` one turn, `table.py FOLDER` the medians of all."""

import json
import pathlib
import statistics
import sys

WARM_UP = 2


def ours(path):
    measured = json.loads((path / "measurement.json").read_text())
    plan = measured["plan"]["plan"]
    step = statistics.median(step["seconds"] for step in measured["steps"][WARM_UP:])
    return plan["batch"]["global"] * plan["model"]["seq_len"] / step


def main():
    folder = pathlib.Path(sys.argv[1])
    turns = sys.argv[2:] or sorted(path.stem.removeprefix("theirs-") for path in folder.glob("theirs-*.json"))
    rows = []
    for turn in turns:
        theirs = json.loads((folder / f"theirs-{turn}.json").read_text())
        rows.append((ours(folder / f"ours-{turn}"), theirs["tokens_per_s"]))
    if len(sys.argv) == 2:
        a, b, ratio = (statistics.median(column) for column in zip(*((a, b, a / b) for a, b in rows)))
        framework = theirs["framework"]
        print(f"median of {len(rows)}: trainyard {a:.0f} tokens/s, {framework} {b:.0f} tokens/s, ratio {ratio:.2f}")
    else:
        (a, b), turn = rows[0], turns[0]
        print(f"turn {turn}: trainyard {a:.0f} tokens/s, PyTorch {b:.0f} tokens/s, ratio {a / b:.2f}", flush=True)


main()
