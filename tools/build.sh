#!/usr/bin/env bash
# build.sh [preset [target...]]: installs what is missing, configures and builds. The default is the
# preset release, which builds everything into build/.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
[ $# -eq 0 ] || shift
tools/install_dependencies.sh
options=()
[ ! -x .venv/bin/python3 ] || options+=("-DPython3_EXECUTABLE=$PWD/.venv/bin/python3")
if [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null; then
  options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  export CCACHE_SLOPPINESS=pch_defines,time_macros  # precompiled headers need this
  # Look for results by the contents of the headers, never by preprocessed text: that has no
  # comments, but `#pragma once` fails where a header differs from the precompiled one in a comment.
  export CCACHE_DEPEND=1
fi
cmake --preset "$preset" "${options[@]}"
case "$preset" in
  release) tree=build ;;
  developer) tree=build-developer ;;
  sanitizers) tree=build-sanitize ;;
  thread-sanitizer) tree=build-threads ;;
  *) echo "build.sh: no preset $preset" >&2; exit 1 ;;
esac
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
cmake --build "$tree" --parallel "${CAFFE_JOBS:-$(nproc)}" "${targets[@]}"
