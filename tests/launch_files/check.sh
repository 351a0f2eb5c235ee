#!/usr/bin/env bash
# Launch files against the parsers of the programs that read them, which are installed from PyPI (some 6 GB, nearly all
# of it PyTorch). KIT may be torch, sagemaker, skypilot or slurm; all of them if none is named. For slurm, which Python
# has no part in, slurmctld, sbatch and mpirun must be there: apt-get install slurmctld slurm-client openmpi-bin.
#
#     tests/launch_files/check.sh [KIT...]
set -euo pipefail
cd "$(dirname "$0")/../.."
TRAINYARD=${TRAINYARD:-target/release/trainyard}
# The validator's modules lie among the sources.
export PYTHONDONTWRITEBYTECODE=1 TRAINYARD_HISTORY=off
PLANS=(cli/tests/cmd/export.in/*.json)

for kit in "${@:-torch sagemaker skypilot slurm}"; do
  for name in $kit; do
    if [ "$name" = slurm ]; then
      python3 tests/launch_files/validate.py "$name" "$TRAINYARD" "${PLANS[@]}"
      continue
    fi
    venv=target/launch-files/$name
    python3 -m venv "$venv"
    # DeepSpeed's setup imports PyTorch, so it comes last and sees what is installed.
    grep -v '^deepspeed' "tests/launch_files/requirements-$name.txt" > "$venv/requirements.txt"
    "$venv/bin/pip" install -q --no-compile setuptools wheel -r "$venv/requirements.txt"
    if grep -q '^deepspeed' "tests/launch_files/requirements-$name.txt"; then
      DS_BUILD_OPS=0 "$venv/bin/pip" install -q --no-compile --no-build-isolation \
        "$(grep '^deepspeed' "tests/launch_files/requirements-$name.txt")"
    fi
    "$venv/bin/python" -W ignore tests/launch_files/validate.py "$name" "$TRAINYARD" "${PLANS[@]}"
  done
done
