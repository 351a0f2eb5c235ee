#!/usr/bin/env bash
# Traces of simulated steps against Holistic Trace Analysis, which is installed from PyPI (some 300 MB).
#
#     tests/traces/check.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
TRAINYARD=${TRAINYARD:-target/release/trainyard}
export PYTHONDONTWRITEBYTECODE=1 TRAINYARD_HISTORY=off
venv=${HTA_VENV:-target/traces/hta}
if [ ! -x "$venv/bin/python" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --no-compile -r tests/traces/requirements.txt
fi
"$venv/bin/python" -W ignore tests/traces/validate.py "$TRAINYARD" cli/tests/cmd/export.in/tensor-pipeline-data.json \
  cli/tests/cmd/export.in/data-parallel.json cli/tests/cmd/export.in/offload.json cli/tests/cmd/simulate.in/plan.json
