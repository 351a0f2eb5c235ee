"""Fails when a training is predicted to cost over a tenth more than the plan that was accepted.

    python training_cost.py JOB ACCEPTED [--rise 0.1]

JOB is a job file, and ACCEPTED the plan that `trainyard plan JOB --out ACCEPTED` wrote when its cost was agreed on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import trainyard


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path)
    parser.add_argument("accepted", type=Path)
    parser.add_argument("--rise", type=float, default=0.1, help="share by which the cost may rise")
    arguments = parser.parse_args()
    accepted = trainyard.documents.Plan.load(arguments.accepted)
    plan = trainyard.plan(arguments.job)
    before, now = accepted.prediction.cost_usd, plan.prediction.cost_usd
    if before is None or now is None:
        print("a plan has no cost: its machines have no price", file=sys.stderr)
        return 2
    rise = now / before - 1
    print(f"predicted {now:,.2f} USD, accepted {before:,.2f} USD: {rise:+.1%}")
    if rise <= arguments.rise:
        return 0
    print(trainyard.explain(accepted, against=plan))
    print(f"the cost rises by more than {arguments.rise:.0%}; to accept it, run", file=sys.stderr)
    print(f"  trainyard plan {arguments.job} --out {arguments.accepted}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
