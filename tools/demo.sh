#!/usr/bin/env bash
# Installs what is missing, builds, and trains a small net on handwritten digits on every device of
# the machine. Arguments go to examples/digits/digits.py; pictures and nets to build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
# The targets of the examples; tools/build.sh without targets builds the tests, too.
tools/build.sh release _caffe caffe_pb2 tool_caffe tool_convert_mnist_data tool_convert_cifar_data \
  tool_convert_imageset tool_compute_image_mean
python=.venv/bin/python3
[ -x "$python" ] || python=python3
# Only the table, without the log lines of every net.
CAFFE_LOG=${CAFFE_LOG:-warning} "$python" examples/digits/digits.py --output build/demo "$@"

echo
echo "Next, for example, LeNet on MNIST (README.md and examples/README.md have more):"
[ ! -e .venv/bin/activate ] ||
  echo "    . .venv/bin/activate    # activates the Python packages: once in every new shell"
cat <<'TEXT'
    python3 examples/mnist/create_mnist.py    # downloads 12 MB and writes two LMDBs
    build/tools/caffe train -solver models/lenet/lenet_solver.prototxt    # Ctrl-C: a snapshot
TEXT
