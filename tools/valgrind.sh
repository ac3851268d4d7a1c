#!/usr/bin/env bash
# valgrind.sh [LOG]: runs small nets of every layer type under valgrind: each type alone, recurrent
# layers, mixtures of experts and nets of images, forward and backward, and layers that read files.
# It needs a release build (tools/build.sh release test_fuzz test_layer) and writes its report to
# LOG, which is build/valgrind.log by default. The status is 1 if valgrind reports an error that
# tools/valgrind.supp does not list. It takes about ten minutes on one core.
set -euo pipefail
cd "$(dirname "$0")/.."
log=${1:-build/valgrind.log}
if ! command -v valgrind >/dev/null; then
  echo "valgrind.sh: valgrind is not installed (Debian and Ubuntu: apt-get install valgrind)" >&2
  exit 2
fi
for program in test_fuzz test_layer; do
  if [ ! -x "build/tests/$program" ]; then
    echo "valgrind.sh: build/tests/$program does not exist: tools/build.sh release $program" >&2
    exit 2
  fi
done
# Valgrind 3.19 knows no AVX-512. One thread: OpenMP's barriers would take most of the time.
export CAFFE_CPU_LEVEL=v3 ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell OMP_NUM_THREADS=1
mkdir -p build/no-opencl
export OCL_ICD_VENDORS=$PWD/build/no-opencl CAFFE_LOG=warning
: >"$log"
status=0
run() {
  valgrind --error-exitcode=9 --leak-check=no --num-callers=30 --suppressions=tools/valgrind.supp \
    --log-file="$log.part" "build/tests/$1" "--gtest_filter=$2" || status=1
  cat "$log.part" >>"$log"
  rm -f "$log.part"
}
run test_fuzz '*ReplayTest.SeedsAreTaken/*:*ReplayTest.KnownInputsBreakNoPromise/*:*DamagedSeeds*/net_run'
run test_layer 'LayerFactsTest.AliasesAreTheTopsThatShareMemory'
grep -E "ERROR SUMMARY" "$log"
[ "$status" -eq 0 ] || echo "valgrind.sh: errors, see $log" >&2
exit "$status"
