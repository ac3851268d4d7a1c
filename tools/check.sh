#!/usr/bin/env bash
# The checks that a commit must pass: format, include direction, no layer asked for by its name,
# plain words, public headers that compile alone, and the tests that need no device. With
# --sanitize: those tests under the address and undefined-behaviour sanitizers instead, in
# build-sanitize. With --threads: the tests of threads and processes (data, program cache) under the
# thread sanitizer, in build-threads.
set -euo pipefail
cd "$(dirname "$0")/.."
trap 'status=$?; echo "tools/check.sh: exit status $status after $SECONDS s"' EXIT
jobs=${CAFFE_JOBS:-$(nproc)}
tests=(ctest --output-on-failure --parallel "$jobs" --label-regex '^(null|cpu)$')
# An empty folder of OpenCL drivers: only the CPU is used, even by tests that use every device.
no_opencl() {
  mkdir -p build/no-opencl
  export OCL_ICD_VENDORS=$PWD/build/no-opencl
}

if [ "${1:-}" = --sanitize ]; then
  tools/build.sh sanitizers
  no_opencl
  # Drivers and BLAS libraries do not free all of their memory.
  export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}
  export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}
  exec "${tests[@]}" --test-dir build-sanitize
fi
if [ "${1:-}" = --threads ]; then
  tools/build.sh thread-sanitizer test_data test_device
  no_opencl
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:${TSAN_OPTIONS:-}
  # The OpenMP runtime is not instrumented: its barriers would be reported as races.
  export OMP_NUM_THREADS=1
  exec ctest --output-on-failure --tests-regex '^(data|device_[0-9]+)$' --test-dir build-threads
fi
if [ $# -gt 0 ]; then
  echo "usage: tools/check.sh [--sanitize | --threads]" >&2
  exit 1
fi

status=0
fail() { echo "FAILED: $1"; status=1; }

if command -v clang-format >/dev/null; then
  git ls-files -z -- '*.cpp' '*.hpp' |
    xargs -0 -r -n 16 -P "$jobs" clang-format --dry-run -Werror || fail format
else
  echo "clang-format is not installed: the format was not checked"
fi
python3 tools/check_includes.py || fail "include direction"
python3 tools/check_layer_names.py || fail "names of layers"
python3 tools/check_words.py || fail "words of comments and messages"

alone() {
  printf '#include "%s"\n' "${1#include/}" |
    "${CXX:-g++}" -std=c++20 -fsyntax-only -Wall -Werror -Iinclude -x c++ - ||
    { echo "$1 does not compile alone"; return 1; }
}
export -f alone
find include -name '*.hpp' -print0 | xargs -0 -r -n 1 -P "$jobs" bash -c 'alone "$0"' ||
  fail "public headers"

tools/build.sh release
no_opencl
"${tests[@]}" --test-dir build || fail tests
exit $status
