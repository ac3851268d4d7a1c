#!/usr/bin/env bash
# driver_test.sh DRIVER [FOLDER]: everything that a driver of OpenCL has to pass, on its first
# device: `device_query`, the self-test in every type with a report, nets, training, mixtures and
# recurrent layers beside the CPU, a second start that compiles nothing, and the C++ tests of
# products, which run on the first device of all drivers. The build must be there (tools/build.sh).
# Logs and report.json lie in FOLDER (default: build/drivers/DRIVER).
# DRIVER:
#   pocl         the first device of the installed PoCL
#   intel        Intel's runtime for processors, from PyPI, in build/drivers/intel-runtime
#   oclgrind     the installed Oclgrind, with checks of races, bounds and calls: each report is an
#                error. It is slow: the default is the self-test in float and quant8
#   NAME         any other name that `caffe device_query` prints, such as rusticl, or opencl:1
#   FILE.icd     the device of the driver that this file names
# DRIVER_TYPES are the types of the self-test, DRIVER_FAMILIES its families (-families), and
# DRIVER_STEPS some of "device_query self_test library nets second_start". CAFFE_SHIM and LD_PRELOAD
# show a device as another one, see tests/shim. The exit status is 77 if the driver is not there.
set -uo pipefail
cd "$(dirname "$0")/.."
umask 022
if [ $# -lt 1 ]; then
  sed -n '2,/^set/p' "$0" | sed '$d; s/^# \{0,1\}//' >&2
  exit 1
fi
driver=$1
folder=${2:-build/drivers/$(basename "$driver" .icd)}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
python=.venv/bin/python3
[ -x "$python" ] || python=python3
device=$driver
types=(${DRIVER_TYPES:-})
steps=${DRIVER_STEPS:-device_query self_test library nets second_start}
families=()
[ -z "${DRIVER_FAMILIES:-}" ] || families=(-families "$DRIVER_FAMILIES")
case "$driver" in
  intel)
    runtime=$PWD/build/drivers/intel-runtime
    if [ ! -e "$runtime/lib/libintelocl.so" ]; then
      { "$python" -m venv "$runtime" &&
        "$runtime/bin/pip" install -q --retries 1 intel-opencl-rt intel-cmplr-lib-rt; } \
        >"$folder/install.log" 2>&1 || {
        echo "driver_test.sh: intel-opencl-rt cannot be installed, see $folder/install.log" >&2
        exit 77
      }
    fi
    mkdir -p "$runtime/vendors"
    echo "$runtime/lib/libintelocl.so" >"$runtime/vendors/intel.icd"
    export OCL_ICD_VENDORS=$runtime/vendors
    export LD_LIBRARY_PATH=$runtime/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    ;;
  oclgrind)
    simulator=$(command -v oclgrind) || {
      echo "driver_test.sh: oclgrind is not installed" >&2
      exit 77
    }
    mkdir -p "$folder/vendors"
    echo "$(dirname "$(dirname "$simulator")")/lib/oclgrind/liboclgrind-rt-icd.so" \
      >"$folder/vendors/oclgrind.icd"
    export OCL_ICD_VENDORS=$folder/vendors OCLGRIND_LOG=$folder/oclgrind.log OCLGRIND_CHECK_API=1
    export OCLGRIND_DATA_RACES=1 OCLGRIND_GLOBAL_MEM_SIZE=4294967296
    : >"$OCLGRIND_LOG"
    device=opencl:0
    [ ${#types[@]} -gt 0 ] || types=(float quant8)
    steps=${DRIVER_STEPS:-device_query self_test}
    steps+=" reports"
    ;;
  *.icd)
    export OCL_ICD_VENDORS=$folder/vendors
    mkdir -p "$OCL_ICD_VENDORS"
    cp "$driver" "$OCL_ICD_VENDORS/"
    device=opencl:0
    ;;
esac
export CAFFE_CACHE_DIR=$folder/cache
rm -rf "$CAFFE_CACHE_DIR"
mkdir -p -m 700 "$CAFFE_CACHE_DIR"
caffe=build/tools/caffe
status=0
: >"$folder/summary.txt"
# step NAME COMMAND…: its output goes to FOLDER/NAME.log, its result to FOLDER/summary.txt.
step() {
  local name=$1 begin=$SECONDS result=pass
  case " $steps " in *" $name "*) ;; *) return ;; esac
  shift
  "$@" >"$folder/$name.log" 2>&1 || { result=FAIL; status=1; }
  printf '%-14s %-5s %5d s  %s\n' "$name" "$result" $((SECONDS - begin)) \
    "$(tail -n 1 "$folder/$name.log")" | tee -a "$folder/summary.txt"
}
nothing_compiled() {
  CAFFE_LOG=debug "$caffe" time -model models/lenet/lenet.prototxt -phase TEST -iterations 1 \
    -gpu "$device"
  CAFFE_LOG=debug "$caffe" time -model models/lenet/lenet.prototxt -phase TEST -iterations 1 \
    -gpu "$device" >"$folder/second.log" 2>&1 || return 1
  if grep -c 'compiled in' "$folder/second.log"; then
    echo "programs were compiled again"
    return 1
  fi
  echo "loaded $(grep -c 'loaded from the program cache' "$folder/second.log") programs"
}
no_reports() {
  if [ -s "$OCLGRIND_LOG" ]; then
    tail -n 40 "$OCLGRIND_LOG"
    return 1
  fi
  echo "no reports"
}
step device_query "$caffe" device_query -gpu "$device"
grep -sE '^  (name|platform|driver|work group size|capabilities|not promised)' \
  "$folder/device_query.log"
step self_test "$caffe" device_query --self-test "${types[@]}" "${families[@]}" -gpu "$device" \
  -report "$folder/report.json"
# The products have forms that only some devices can compute, such as sums in half.
step library build/tests/test_library --gtest_brief=1 \
  --gtest_filter='GemmTest.*:MultiplexerTest.*:*QuantizedGemm*'
step nets env CAFFE_LOG="${CAFFE_LOG:-warning}" "$python" tools/driver_nets.py "$device"
step second_start nothing_compiled
step reports no_reports
exit $status
