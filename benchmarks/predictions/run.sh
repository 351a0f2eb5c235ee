#!/usr/bin/env bash
# Predicts six plans of three models on this machine, runs them, and prints how far off each prediction was.
#
#     benchmarks/predictions/run.sh FOLDER [STEPS]
#
# FOLDER must be new: it gets the profile, which is measured first, and a folder for each run. The machine should have
# nothing else to do; TRAINYARD names the binary.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
trainyard=${TRAINYARD:-trainyard}
folder=${1:?a new folder}
steps=${2:-40}
mkdir -p "$folder"
export TRAINYARD_PROFILE=$folder/profile.toml
[ -e "$TRAINYARD_PROFILE" ] || "$trainyard" calibrate -q > "$folder/profile.txt"

# Any text will do: its length is what counts. These are this project's own pages.
cat "$here"/../../docs/*.md > "$folder/text.txt"

run() {
    local name=$1 job=$2
    shift 2
    [ -e "$folder/$name" ] ||
        "$trainyard" train "$here/$job.toml" --on "$TRAINYARD_PROFILE" --data "$folder/text.txt" --steps "$steps" \
            --out "$folder/$name" --format json -q "$@" > /dev/null
}

run gpt-data-2 gpt --fix parallel.data=2
run gpt-pipeline-2 gpt --fix parallel.pipeline=2 --fix batch.micro=4 --fix schedule=1f1b
run llama-tensor-2 llama --fix parallel.tensor=2 --fix batch.micro=8
run llama-zero-2 llama --fix parallel.data=2 --fix state_sharding=gradients --fix batch.micro=4
run bert-data-2 bert --fix parallel.data=2 --fix batch.micro=8
run bert-recompute bert --fix parallel.data=1 --fix parallel.pipeline=1 --fix parallel.tensor=1 --fix recompute=full

python3 - "$folder"/*/comparison.json <<'PYTHON'
import json, os, statistics, sys
errors, memory = [], []
print(f"{'plan':18} {'predicted ms':>12} {'measured ms':>12} {'error':>8} {'memory':>8}")
for path in sys.argv[1:]:
    d = json.load(open(path))
    p, m, e = d["predicted"], d["measured"], d["error"]
    errors.append(abs(e["step_time"]))
    if e.get("memory") is not None:
        memory.append(abs(e["memory"]))
    name = os.path.basename(os.path.dirname(path))
    held = f"{e['memory']:+8.1%}" if e.get("memory") is not None else ""
    print(f"{name:18} {p['step_time_s']*1e3:12.1f} {m['step_time_s']*1e3:12.1f} {e['step_time']:+8.1%} {held}")
print(f"median error of step time {statistics.median(errors):.1%}, of memory {statistics.median(memory):.1%}")
PYTHON
