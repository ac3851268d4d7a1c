#!/usr/bin/env bash
# fuzz.sh TARGET SECONDS [libFuzzer option...]: builds a fuzz target of tests/fuzz with clang,
# libFuzzer and the address and undefined-behaviour sanitizers in build-sanitize/, and runs it on
# one core for this long, or until it finds a fault. Its corpus begins with the seeds that the
# target makes and with tests/fuzz/corpus/TARGET, and is kept in build-sanitize/corpus/TARGET. An
# input that breaks a promise is written to build-sanitize/found/TARGET-*: commit it to
# tests/fuzz/found/TARGET with the cure. fuzz.sh --list prints the targets.
set -euo pipefail
cd "$(dirname "$0")/.."
list() { (cd tests/fuzz && ls -- *.cpp) | sed 's/\.cpp$//' | grep -v '_test$'; }
if [ "${1:-}" = --list ]; then
  list
  exit
fi
if [ $# -lt 2 ] || [ ! -e "tests/fuzz/$1.cpp" ]; then
  echo "usage: tools/fuzz.sh TARGET SECONDS [libFuzzer option...], with one of these targets:" >&2
  list >&2
  exit 1
fi
target=$1
seconds=$2
shift 2
if ! command -v clang++ >/dev/null; then
  echo "fuzz.sh: clang++ is not installed (Debian and Ubuntu: apt-get install clang libomp-dev)" >&2
  exit 1
fi
# One build at a time, for all that run targets side by side.
mkdir -p build-sanitize
flock build-sanitize tools/build.sh sanitizers "fuzz_$target" >&2
corpus=build-sanitize/corpus/$target
mkdir -p "$corpus" build-sanitize/found
words=build-sanitize/corpus/$target.dict
"build-sanitize/fuzz/fuzz_$target" --write-seeds "$corpus" "$words" >&2
options=()
[ ! -s "$words" ] || options+=("-dict=$words")
# Limits of a target: one option of libFuzzer in each line.
[ ! -e "tests/fuzz/$target.options" ] || mapfile -t -O ${#options[@]} options <"tests/fuzz/$target.options"
folders=("$corpus")
[ ! -d "tests/fuzz/corpus/$target" ] || folders+=("tests/fuzz/corpus/$target")
[ ! -d "tests/fuzz/found/$target" ] || folders+=("tests/fuzz/found/$target")
mkdir -p build/no-opencl build-sanitize/cache
export OCL_ICD_VENDORS=$PWD/build/no-opencl CAFFE_CACHE_DIR=$PWD/build-sanitize/cache
export CAFFE_LOG=${CAFFE_LOG:-off} OMP_NUM_THREADS=1
# Libraries do not free all of their memory.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=0:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:${UBSAN_OPTIONS:-}
exec "build-sanitize/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
  -malloc_limit_mb=512 -print_final_stats=1 -artifact_prefix="build-sanitize/found/$target-" \
  "${options[@]}" "$@" "${folders[@]}"
