"""Reads traces of simulated steps with Holistic Trace Analysis and compares what it finds with the prediction.

    validate.py TRAINYARD PLAN.json...
"""

import json
import logging
import subprocess
import sys
import tempfile
from pathlib import Path

from hta.trace_analysis import TraceAnalysis

logging.disable(logging.WARNING)


def simulated(trainyard, plan, folder):
    """The prediction of a plan, whose traces are written to a folder."""
    command = [trainyard, "simulate", plan, "--trace", f"{folder}/", "--format", "json", "-q"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def check(trainyard, plan):
    with tempfile.TemporaryDirectory() as folder:
        document = simulated(trainyard, plan, folder)
        step_us = document["prediction"]["step_time_s"] * 1e6
        analysis = TraceAnalysis(trace_dir=folder)
        ranks = sorted(analysis.t.traces)
        files = sorted(Path(folder).iterdir())
        assert len(ranks) == len(files), (plan, ranks, files)

        breakdown = analysis.get_temporal_breakdown(visualize=False)
        assert sorted(breakdown["rank"]) == ranks, breakdown
        for _, row in breakdown.iterrows():
            kernels = row["kernel_time(us)"]
            parts = row["compute_time(us)"] + row["non_compute_time(us)"] + row["idle_time(us)"]
            assert abs(parts - kernels) <= 3, row
            assert 0.3 * step_us < kernels <= step_us * 1.001 + 3, (plan, step_us, row)
            assert row["compute_time(us)"] > 0, row
        longest = breakdown["kernel_time(us)"].max()
        assert longest > 0.9 * step_us, (plan, longest, step_us)

        overlap = analysis.get_comm_comp_overlap(visualize=False)
        parallel = document["plan"]["parallel"]
        talks = parallel["data"] * parallel["tensor"] * parallel["pipeline"] > 1
        if talks:
            assert sorted(overlap["rank"]) == ranks, overlap
        assert overlap["comp_comm_overlap_pctg"].between(0, 100).all(), overlap

        types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
        assert "COMPUTATION" in set(types["kernel_type"]), types
        assert ("COMMUNICATION" in set(types["kernel_type"])) == talks, types
        offloads = document["plan"]["offload"] != "none"
        assert ("MEMORY" in set(types["kernel_type"])) == offloads, types

        launches = analysis.get_cuda_kernel_launch_stats(ranks=ranks[:1], visualize=False)
        assert len(launches[ranks[0]]) > 0 and (launches[ranks[0]]["launch_delay"] >= -1).all()
        idle, _ = analysis.get_idle_time_breakdown(ranks=ranks[:1], visualize=False)
        print(f"{plan}: {len(ranks)} ranks, {len(kernels)} kernels told apart")
        print(breakdown.to_string(index=False))
        print(overlap.to_string(index=False))
        print(types.to_string(index=False))


for plan in sys.argv[2:]:
    check(sys.argv[1], plan)
