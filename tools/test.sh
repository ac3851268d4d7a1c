#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests: ctest, then pytest. The exit status is 0
# only if everything passed. CAFFE_TEST_DATA names the folder with mnist/ and the other data sets.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022  # a cache that others can write is not used
trap 'status=$?; echo "tools/test.sh: exit status $status after $SECONDS s"' EXIT

if [ -z "${CAFFE_TEST_DATA:-}" ]; then
  if [ -d ../shared/data ]; then
    CAFFE_TEST_DATA=$(cd ../shared/data && pwd)
  else
    unset CAFFE_TEST_DATA
    echo "CAFFE_TEST_DATA is not set: tests that read MNIST files are skipped and listed below"
  fi
fi
[ -z "${CAFFE_TEST_DATA:-}" ] || export CAFFE_TEST_DATA

tools/build.sh release
echo "built after $SECONDS s"
# Caches of this tree, so that no test uses programs of another version.
export CAFFE_CACHE_DIR=$PWD/build/test-cache/programs POCL_CACHE_DIR=$PWD/build/test-cache/pocl
mkdir -p "$CAFFE_CACHE_DIR" "$POCL_CACHE_DIR"
python=.venv/bin/python3
if [ -x "$python" ]; then
  export VIRTUAL_ENV=$PWD/.venv  # where the library searches for NVRTC
else
  python=python3
fi

status=0
ctest --test-dir build --output-on-failure --parallel "$(nproc)" || status=1
log=build/Testing/Temporary/LastTest.log
if grep -q '^\[  SKIPPED \] [^0-9]' "$log" 2>/dev/null; then
  echo "skipped:"
  grep '^\[  SKIPPED \] [^0-9]' "$log" | sed 's/ (.*//' | sort -u
fi
# Tests that measure time, fork or use every core run alone, after the others.
results=build/Testing/python
"$python" -m pytest -q -rs -m "not serial" -n "$(nproc)" --dist loadfile \
  --junitxml="$results.xml" tests/python || status=1
"$python" -m pytest -q -rs -m serial --junitxml="$results-serial.xml" tests/python || status=1
"$python" tools/slowest_tests.py "$log" "$results.xml" "$results-serial.xml" || status=1
exit $status
