#!/usr/bin/env bash
# Installs the package into a fresh virtual environment with pip, as a user does, and tests the
# module, away from the source tree, and the command.
set -euo pipefail
cd "$(dirname "$0")/.."
trap 'status=$?; echo "tools/package_test.sh: exit status $status after $SECONDS s"' EXIT
tools/install_dependencies.sh
root=$PWD
folder=$root/build-package
rm -rf "$folder"
mkdir -p "$folder"
/usr/bin/python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --disable-pip-version-check ".[test]"
export CAFFE_CACHE_DIR=$folder/cache POCL_CACHE_DIR=$folder/pocl
mkdir -p "$CAFFE_CACHE_DIR" "$POCL_CACHE_DIR"
cd "$folder"
venv/bin/python -c '
import caffe
assert caffe.__file__.startswith("'"$folder"'"), caffe.__file__
print("caffe", caffe.__version__, "in", caffe.__file__)
print(len(caffe.layer_type_list()), "layer types")'
venv/bin/caffe device_query
test -x venv/lib/python3*/site-packages/caffe/bin/convert_mnist_data
tests=()
for name in net solver net_spec views number_views messages_of_forward reprs module io draw coord_map; do
  tests+=("$root/tests/python/${name}_test.py")
done
CAFFE_TEST_INSTALLED=1 venv/bin/python -m pytest -q -p no:cacheprovider "${tests[@]}"
