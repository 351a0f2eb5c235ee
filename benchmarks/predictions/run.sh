#!/usr/bin/env bash
# Predicts plans of six models on this machine that divide the work in every way it can be divided there: data, tensor,
# pipeline, experts, one rank with all threads, and several micro-batches of each. Runs them, and prints how far off each
# prediction was, and how much slower than the fastest of them the recommended plan is.
#
#     benchmarks/predictions/run.sh FOLDER [STEPS]
#
# FOLDER must be new: it gets the profile, which is measured first, and a folder for each run. The machine should have
# two processors and nothing else to do for a quarter of an hour; TRAINYARD names the binary. runs.json in FOLDER holds
# the plans and what was measured, in the form of calibration/tests/runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
trainyard=${TRAINYARD:-trainyard}
folder=${1:?a new folder}
steps=${2:-40}
mkdir -p "$folder"
export TRAINYARD_PROFILE=$folder/profile.toml TRAINYARD_HISTORY=off
[ -e "$TRAINYARD_PROFILE" ] || "$trainyard" calibrate -q > "$folder/profile.txt"

# Any text will do: its length is what counts. These are this project's own pages.
cat "$here"/../../docs/*.md > "$folder/text.txt"

# run JOB PLAN FIELD=VALUE...: one run, in a folder of its own.
run() {
    local job=$1 plan=$2 data=$folder/text.txt
    shift 2
    case $job in vit | resnet) data=synthetic ;; esac
    local fix=()
    for field in "$@"; do fix+=(--fix "$field"); done
    [ -e "$folder/$job-$plan/comparison.json" ] ||
        "$trainyard" train "$here/$job.toml" --data "$data" --steps "$steps" \
            --out "$folder/$job-$plan" --format json -q "${fix[@]}" > /dev/null
}

alone=(parallel.data=1 parallel.tensor=1 parallel.pipeline=1)
pipeline=(parallel.pipeline=2 schedule=1f1b)
run gpt data parallel.data=2
run gpt data-2 parallel.data=2 batch.micro=2
run gpt tensor parallel.tensor=2
run gpt pipeline "${pipeline[@]}" batch.micro=4
run gpt alone "${alone[@]}" batch.micro=4
run gpt alone-16 "${alone[@]}" batch.micro=16
run llama data parallel.data=2
run llama zero parallel.data=2 state_sharding=gradients batch.micro=4
run llama tensor parallel.tensor=2 batch.micro=8
run llama pipeline "${pipeline[@]}" batch.micro=2
run llama alone "${alone[@]}" batch.micro=16
run llama alone-4 "${alone[@]}" batch.micro=4
run bert data parallel.data=2 batch.micro=8
run bert data-2 parallel.data=2 batch.micro=2
run bert tensor parallel.tensor=2
run bert pipeline "${pipeline[@]}" batch.micro=4
run bert alone "${alone[@]}" batch.micro=16 recompute=none
run bert recompute "${alone[@]}" recompute=full
run vit data parallel.data=2 batch.micro=2
run vit data-8 parallel.data=2 batch.micro=8
run vit tensor parallel.tensor=2 batch.micro=8
run vit pipeline "${pipeline[@]}" batch.micro=4
run vit alone "${alone[@]}" batch.micro=16
run vit alone-4 "${alone[@]}" batch.micro=4
run resnet data parallel.data=2
run resnet data-2 parallel.data=2 batch.micro=2
run resnet pipeline "${pipeline[@]}" batch.micro=4
run resnet alone "${alone[@]}" batch.micro=16
run resnet alone-4 "${alone[@]}" batch.micro=4
run experts data parallel.data=2 parallel.expert=1
run experts data-2 parallel.data=2 parallel.expert=1 batch.micro=2
run experts expert parallel.data=2 parallel.expert=2
run experts pipeline "${pipeline[@]}" batch.micro=4
run experts alone "${alone[@]}" batch.micro=8
run experts alone-16 "${alone[@]}" batch.micro=16
for job in gpt llama bert vit resnet experts; do run "$job" recommended; done

python3 - "$folder" <<'PYTHON'
import json, pathlib, statistics, sys
folder = pathlib.Path(sys.argv[1])
errors, memory, steps, kept = [], [], {}, []
print(f"{'plan':20} {'predicted ms':>12} {'measured ms':>12} {'error':>8} {'memory':>8}")
for path in sorted(folder.glob("*/comparison.json")):
    d = json.load(open(path))
    p, m, e = d["predicted"], d["measured"], d["error"]
    job, plan = path.parent.name.split("-", 1)
    steps.setdefault(job, {})[plan] = m["step_time_s"]
    if plan != "recommended":
        errors.append(abs(e["step_time"]))
        if e.get("memory") is not None:
            memory.append(abs(e["memory"]))
    run = {"name": path.parent.name, "plan": d["plan"]} | {key: m[key] for key in ("step_time_s", "memory_bytes", "phases")}
    kept.append(run)
    held = f"{e['memory']:+8.1%}" if e.get("memory") is not None else ""
    print(f"{path.parent.name:20} {p['step_time_s']*1e3:12.1f} {m['step_time_s']*1e3:12.1f} {e['step_time']:+8.1%} {held}")
print(f"step time: median error {statistics.median(errors):.1%}, largest {max(errors):.1%}; memory: {statistics.median(memory):.1%}")
(folder / "runs.json").write_text("[\n" + ",\n".join(json.dumps(run) for run in kept) + "\n]\n")
for job, plans in steps.items():
    best = min(plans, key=plans.get)
    print(f"{job}: the recommended plan takes {plans['recommended'] / plans[best] - 1:+.1%} of the fastest, {best}")
PYTHON
