#!/usr/bin/env bash
# Installs what is missing, builds, and trains a small net on handwritten digits on every device that
# is there. Arguments go to examples/digits/digits.py; pictures and nets to build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/build.sh release _caffe caffe_pb2 tool_caffe
python=.venv/bin/python3
[ -x "$python" ] || python=python3
# The table alone, without the log lines of every net.
export CAFFE_LOG=${CAFFE_LOG:-warning}
exec "$python" examples/digits/digits.py --output build/demo "$@"
