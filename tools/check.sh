#!/usr/bin/env bash
# The checks that a commit must pass: format, include direction, no layer asked for by its name,
# plain words, public headers that compile alone, and the tests that need no device. With
# --sanitize: the tests of the CPU, and those of the Python package that call the library in this
# process, under clang's address and undefined-behaviour sanitizers instead, in build-sanitize. With
# --threads: the tests of threads and processes (data, program cache, solvers) under clang's thread
# sanitizer, in build-threads. tools/nightly.sh runs both.
set -euo pipefail
cd "$(dirname "$0")/.."
trap 'status=$?; echo "tools/check.sh: exit status $status after $SECONDS s"' EXIT
jobs=${CAFFE_JOBS:-$(nproc)}
tests=(ctest --output-on-failure --parallel "$jobs" --label-regex '^(null|cpu)$')
thread_tests=(data device net solver)
# It measures how GCC's OpenMP waits.
python_tests=(--deselect tests/python/threads_test.py::test_threads_that_wait_sleep_soon)
for name in arguments bfloat16 fork hdf5 io late_reads memory messages net number_views own_passes own_types \
  packed_weights python_layer quantize scalar_view snapshot solver threads training transform views \
  weights; do
  python_tests+=("tests/python/${name}_test.py")
done
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
  # These need a limit of the address space, of which the address
  # sanitizer takes 20 TiB, and count pages of freed memory, which the sanitizer keeps for some
  # time.
  export GTEST_FILTER=-OddNetsTest.MissingMemoryNamesTheNet:FreedMemoryTest.ReleaseMemoryReturnsThePagesOfAllDevices
  # Without it the OpenMP runtime of clang 14 ends the children of a fork.
  export OMP_PROC_BIND=false
  status=0
  "${tests[@]}" --test-dir build-sanitize || status=1
  # The interpreter is not instrumented: it needs the sanitizer's runtime before all libraries.
  package=build-sanitize/package
  tar -C python/caffe --exclude='_caffe*.so' -c . | tar -C "$package/caffe" -x
  # A shell ignores Ctrl-C in what it runs in the background; the tests send it.
  CAFFE_PYTHON_PATH=$PWD/$package PYTHONMALLOC=malloc \
    LD_PRELOAD=$(clang++ -print-file-name=libclang_rt.asan-x86_64.so) \
    env --default-signal=INT .venv/bin/python3 -m pytest -q -p no:cacheprovider "${python_tests[@]}" || status=1
  exit $status
fi
if [ "${1:-}" = --threads ]; then
  tools/build.sh thread-sanitizer "${thread_tests[@]/#/test_}"
  no_opencl
  # Archer reports to the sanitizer how OpenMP's threads wait for each other. Libraries that are not
  # instrumented (OpenBLAS, oneDNN) synchronize by ways that it cannot see.
  # Threads that wait sleep: a loop of the runtime would take most of a core that others use, too.
  export OMP_TOOL_LIBRARIES=libarcher.so OMP_NUM_THREADS=2 OMP_PROC_BIND=false OMP_WAIT_POLICY=passive
  # These limit the address space.
  export GTEST_FILTER=-AvailableMemoryTest.*:OddNetsTest.MissingMemoryNamesTheNet
  supp=$PWD/tests/thread_sanitizer.txt
  export TSAN_OPTIONS=die_after_fork=0:halt_on_error=1:second_deadlock_stack=1:ignore_noninstrumented_modules=1:suppressions=$supp:${TSAN_OPTIONS:-}
  names=$(IFS='|'; echo "${thread_tests[*]}")
  exec ctest --output-on-failure --tests-regex "^($names)(_[0-9]+)?\$" --test-dir build-threads
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
