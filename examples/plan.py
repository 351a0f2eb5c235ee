"""Plans GPT-2 XL on AWS, asks what more machines would bring, and writes launch files.

python examples/plan.py
"""

from __future__ import annotations

import trainyard
from trainyard.documents import Job

# The same as examples/gpt2-xl-aws.toml would say, as a dictionary; keyword arguments override it.
JOB: Job = {
    "model": {"name": "gpt2-xl"},
    "data": {"tokens": 10e9},
    "training": {"global_batch": 512},
    "goal": {"deadline": "7d"},
}


def main() -> None:
    plan = trainyard.plan(JOB, instances=["p4d.*", "p3.*", "g5.*"])
    cluster, prediction = plan.plan.cluster, plan.prediction
    assert prediction.in_all_s is not None  # Only documents of older versions lack it.
    print(f"{cluster.instances} × {cluster.instance}: {prediction.in_all_s / 3600:.1f} h, {prediction.cost_usd:.0f} USD")
    for reason in plan.reasons:
        print(f"  · {reason}")

    sweep = trainyard.what_if(plan, vary={"instances": range(1, 5)})
    for case in sweep.cases:
        if case.figures is not None:
            print(f"{case.values[0]} instances: {case.figures.in_all_s / 3600:.1f} h")

    launch = trainyard.export(plan, to="torchrun", script="train.py")
    print("launch files:", ", ".join(file.name for file in launch.files))

    try:
        trainyard.plan(JOB, deadline="1h", max_instances=1)
    except trainyard.MissedGoal as missed:
        print(missed)
    try:
        trainyard.plan(JOB, global_batch=0)
    except trainyard.InvalidInput as invalid:
        print(f"{invalid.field} is {invalid.value}, but it must be {invalid.allowed}")


if __name__ == "__main__":
    main()
