#!/usr/bin/env bash
# gpu_test.sh FOLDER [stage...]: builds, tests and measures everything on a machine with an NVIDIA
# GPU, through CUDA and through NVIDIA's OpenCL, and leaves logs and results in FOLDER. Stages
# (default: all): build test time digits train. CAFFE_TEST_DATA names the data for `train` (mnist/).
# CAFFE_INSTALL=off uses the machine as it is.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then
  echo "usage: tools/gpu_test.sh FOLDER [build|test|time|digits|train]..." >&2
  exit 1
fi
mkdir -p "$1"
results=$(cd "$1" && pwd)
shift
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(build test time digits train)
# Names NVIDIA's OpenCL library: containers often lack the file in /etc/OpenCL/vendors.
export OCL_ICD_FILENAMES=${OCL_ICD_FILENAMES:-libnvidia-opencl.so.1}
export CAFFE_CACHE_DIR=$PWD/build/gpu-cache
python=.venv/bin/python3
if [ -x "$python" ]; then
  export VIRTUAL_ENV=$PWD/.venv  # where the library searches for CUDA's libraries
else
  python=python3
fi
caffe=build/tools/caffe
devices=(cuda:0 opencl:0)
status=0

# step NAME COMMAND...: runs the command; its output goes to the screen and to FOLDER/NAME.log.
step() {
  local name=$1 begin=$SECONDS result=ok
  shift
  echo "== $name: $*"
  "$@" 2>&1 | tee "$results/$name.log" || { result=FAILED; status=1; }
  printf '%-24s %-6s %5d s\n' "$name" "$result" $((SECONDS - begin)) | tee -a "$results/summary.txt"
}

# time_net FILE FLAGS...: writes the result as JSON to FILE; the log goes to the screen.
time_net() {
  local file=$1
  shift
  "$caffe" time "$@" --json >"$file"
}

has_stage() { [[ " ${stages[*]} " == *" $1 "* ]]; }

if has_stage build; then
  step build tools/build.sh release
  [ $status -eq 0 ] || exit 1
fi
mkdir -p "$CAFFE_CACHE_DIR"
step device_query "$caffe" device_query
nvidia-smi >"$results/nvidia-smi.txt" 2>&1 || true

if has_stage test; then
  step self_test "$caffe" device_query --self-test
  # Tests run on every device: CUDA and OpenCL.
  step ctest ctest --test-dir build --output-on-failure
  step pytest "$python" -m pytest -q -rs tests/python
fi
if has_stage time; then
  for device in "${devices[@]}"; do
    step "time_lenet_${device/:/}" time_net "$results/time_lenet_${device/:/}.json" \
      -model models/lenet/lenet.prototxt -gpu "$device" -iterations 200
  done
  for benchmark in build/tools/benchmark/*; do
    if [ -f "$benchmark" ] && [ -x "$benchmark" ]; then
      step "$(basename "$benchmark")" "$benchmark"
    fi
  done
fi
if has_stage digits; then
  step digits "$python" examples/digits/digits.py --devices cpu "${devices[@]}" \
    --output "$results/digits"
fi
if has_stage train; then
  if [ -z "${CAFFE_TEST_DATA:-}" ]; then
    echo "train: CAFFE_TEST_DATA is not set" >&2
    status=1
  else
    for device in "${devices[@]}"; do
      for type in float half; do
        step "mnist_${type}_${device/:/}" "$python" examples/mnist/train_lenet.py \
          --data "$CAFFE_TEST_DATA/mnist" --device "$device" --type "$type" \
          --output "build/mnist/${type}_${device/:/}"
      done
    done
  fi
fi
cat "$results/summary.txt"
exit $status
