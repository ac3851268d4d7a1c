#!/usr/bin/env bash
# Installs what the build and the tests need: packages of Debian 12 or Ubuntu 24.04, and a virtual
# environment .venv with the Python packages. It installs missing packages only: a second run
# takes a second and needs no root rights. CAFFE_INSTALL=off skips everything.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${CAFFE_INSTALL:-on}" != off ] || exit 0

packages=(g++ cmake ninja-build pkg-config git protobuf-compiler libprotobuf-dev libsqlite3-dev
  libopenblas-openmp-dev libcli11-dev libspdlog-dev opencl-headers ocl-icd-opencl-dev
  pocl-opencl-icd libclblast-dev liblmdb-dev zlib1g-dev libjpeg-dev libpng-dev libhdf5-dev
  libgtest-dev python3-dev python3-venv)
optional=(ccache clang-format)
# The protobuf that reads what Debian's protoc 3.21 generates.
python_packages=(protobuf==4.21.12 numpy ml_dtypes pybind11 scikit-build-core pytest pillow matplotlib
  scikit-learn)

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v dpkg-query >/dev/null; then
  echo "install_dependencies: this is not Debian or Ubuntu; install what README.md lists," \
    "then set CAFFE_INSTALL=off" >&2
  exit 1
fi
missing=()
for package in "${packages[@]}"; do installed "$package" || missing+=("$package"); done
if [ ${#missing[@]} -gt 0 ]; then
  for package in "${optional[@]}"; do installed "$package" || missing+=("$package"); done
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "install_dependencies: neither root nor sudo; as root: apt-get install ${missing[*]}" >&2
      exit 1
    fi
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}"
  apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@"
  }
  apt update
  apt install -y --no-install-recommends "${missing[@]}"
fi

# The tests compile CUDA texts even without a GPU: with NVRTC of a toolkit, otherwise of PyPI.
has_nvrtc() {
  compgen -G '/usr/local/cuda*/lib*/libnvrtc.so*' >/dev/null ||
    compgen -G '/usr/local/cuda*/targets/*/lib/libnvrtc.so*' >/dev/null ||
    /sbin/ldconfig -p 2>/dev/null | grep -q 'libnvrtc\.so'
}
case "$(uname -m)" in
  x86_64 | aarch64) has_nvrtc || python_packages+=(nvidia-cuda-nvrtc-cu12==12.9.86) ;;
esac

python=.venv/bin/python3
if ! "$python" -m pip --version >/dev/null 2>&1; then
  echo "making .venv"
  rm -rf .venv
  /usr/bin/python3 -m venv .venv
fi
if ! "$python" - "${python_packages[@]}" <<'PYTHON'
import sys
from importlib.metadata import PackageNotFoundError, version
for wanted in sys.argv[1:]:
    name, _, exact = wanted.partition('==')
    try:
        if exact and version(name) != exact:
            sys.exit(1)
    except PackageNotFoundError:
        sys.exit(1)
PYTHON
then
  echo "installing ${python_packages[*]} into .venv"
  "$python" -m pip install --quiet --disable-pip-version-check --retries 5 "${python_packages[@]}"
fi
