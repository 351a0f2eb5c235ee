#!/bin/sh
# Tokens/s of `trainyard run` and of PyTorch's DistributedDataParallel on the same plan, text, threads and machine,
# in turns, so that whatever else the machine does meets both.
#
#     benchmarks/ddp/compare.sh [TURNS]
#
# TRAINYARD   the program             [target/release/trainyard]
# PYTHON      a Python with torch     [python3]
# PLAN        a data-parallel plan    [gpt-512.toml beside this script with two replicas, planned for PROFILE]
# PROFILE     this machine's profile  [runs/local-profile.toml, as `trainyard calibrate` or `train` leave it]
# DATA        text to train on        [docs/]
# STEPS       steps that count        [8]; two more warm up
set -eu
export TRAINYARD_HISTORY=off
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
trainyard=${TRAINYARD:-$root/target/release/trainyard}
data=${DATA:-$root/docs}
turns=${1:-5}
steps=${STEPS:-8}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plan=${PLAN:-$work/plan.json}
if [ -z "${PLAN:-}" ]; then
    sed "s|\"local\"|\"${PROFILE:-$root/runs/local-profile.toml}\"|" "$here/gpt-512.toml" >"$work/job.toml"
    "$trainyard" plan "$work/job.toml" --fix parallel.data=2 --fix batch.micro=4 --fix precision=fp32 \
        --fix recompute=none --fix state_sharding=none --out "$plan" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
fi
turn=1
while [ "$turn" -le "$turns" ]; do
    "$trainyard" run "$plan" --data "$data" --steps $((steps + 2)) --out "$work/ours-$turn" >"$work/log" 2>&1 \
        || { cat "$work/log"; exit 1; }
    OMP_NUM_THREADS=1 "${PYTHON:-python3}" "$here/pytorch_ddp.py" --plan "$plan" --data "$data" --steps "$steps" \
        >"$work/theirs-$turn.json"
    "${PYTHON:-python3}" "$here/table.py" "$work" "$turn"
    turn=$((turn + 1))
done
"${PYTHON:-python3}" "$here/table.py" "$work"
