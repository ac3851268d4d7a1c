#!/usr/bin/env bash
# nightly.sh [SECONDS]: what takes too long for every commit. The tests of the CPU under the
# address, undefined-behaviour and thread sanitizers (tools/check.sh), one net of every layer type
# under Valgrind (tools/valgrind.sh), the vendors' newest headers, three layers that are added as
# docs/adding_a_layer.md says, and every fuzz target for this long, one on each core (default: 600).
# Logs and a table of the results lie in build-nightly/. The exit status is 0 if nothing was found.
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
logs=build-nightly
mkdir -p "$logs"
status=0
part() {
  local name=$1 begin=$SECONDS result=passed
  shift
  "$@" >"$logs/$name.log" 2>&1 || { result=FAILED; status=1; }
  printf '%-12s %s after %d s\n' "$name" "$result" $((SECONDS - begin)) | tee -a "$logs/results.txt"
}
: >"$logs/results.txt"
part sanitize tools/check.sh --sanitize
part threads tools/check.sh --threads
part valgrind tools/valgrind.sh
# The numbers of cuDNN's and CUDA's enumerators, compared with the headers of PyPI's newest
# packages.
vendor() {
  local headers=build-nightly/vendor
  tools/build.sh release test_library
  trap 'cmake -B build -UCAFFE_CUDNN_INCLUDE -UCAFFE_CUDA_INCLUDE' EXIT
  .venv/bin/python3 -m pip install -q --upgrade --no-deps --target "$headers" \
    nvidia-cudnn-cu13 nvidia-cublas nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-crt
  find "$headers" -name '*.so*' -delete
  cmake -B build -DCAFFE_CUDNN_INCLUDE="$PWD/$headers/nvidia/cudnn/include" \
    -DCAFFE_CUDA_INCLUDE="$PWD/$headers/nvidia/cu13/include"
  cmake --build build --target test_library
  build/tests/test_library --gtest_filter='VendorConstantsTest.*'
}
export -f vendor
part vendor bash -ec vendor
part guide env CAFFE_NIGHTLY=1 .venv/bin/python3 -m pytest -q tests/python/guide_test.py

fuzz() {
  if tools/fuzz.sh "$1" "$2" >"build-nightly/fuzz-$1.log" 2>&1; then
    echo "fuzz $1: nothing found"
  else
    echo "fuzz $1: FAILED, see build-nightly/fuzz-$1.log"
    return 1
  fi
}
export -f fuzz
part fuzz bash -c 'tools/fuzz.sh --list | xargs -P "$(nproc)" -I {} bash -c "fuzz {} $0 || exit 1"' "$seconds"
cat "$logs/fuzz.log"
exit $status
