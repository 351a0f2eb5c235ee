#!/bin/sh
# Tokens/s of `trainyard run` and of PyTorch's DistributedDataParallel on the same plan, text, threads and machine,
# in turns, so that whatever else the machine does meets both.
#
#     benchmarks/ddp/compare.sh [TURNS]
#
# TRAINYARD   the program             [target/release/trainyard]
# PYTHON      a Python with torch     [python3]
# PLAN        a data-parallel plan    [plan.json beside this script]
# DATA        text to train on        [docs/]
# STEPS       steps that count        [8]; two more warm up
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
turns=${1:-5}
steps=${STEPS:-8}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
turn=1
while [ "$turn" -le "$turns" ]; do
    "${TRAINYARD:-$root/target/release/trainyard}" run "${PLAN:-$here/plan.json}" --data "${DATA:-$root/docs}" \
        --steps $((steps + 2)) --out "$work/ours-$turn" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    OMP_NUM_THREADS=1 "${PYTHON:-python3}" "$here/pytorch_ddp.py" --plan "${PLAN:-$here/plan.json}" \
        --data "${DATA:-$root/docs}" --steps "$steps" >"$work/theirs-$turn.json"
    "${PYTHON:-python3}" "$here/table.py" "$work" "$turn"
    turn=$((turn + 1))
done
"${PYTHON:-python3}" "$here/table.py" "$work"
