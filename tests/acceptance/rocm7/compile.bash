#!/usr/bin/env bash
# Inside a root without ROCm, with Debian's clang: install the packages, compile an extension for
# four GPU targets with their hipcc, and link a program to their libraries.
#
#   compile.bash DIST HERE VERSION     DIST: packages; HERE: the sources; VERSION: clang's
#
# Prints the seconds of each step, what the extension says when it is called, and what the program
# prints.
set -euo pipefail
dist=$1 here=$2 version=$3
venv=/opt/venv
export PATH=$venv/bin:$PATH

if ldconfig -p | grep -E 'hsa-runtime|amdhip|hsakmt' >&2; then
    echo "error: this root has ROCm" >&2
    exit 1
fi
step() { printf '== %s\n' "$1"; shift; local begin=$SECONDS; "$@"; printf -- '-- %d s\n' $((SECONDS - begin)); }

install() {
    python3 -m venv "$venv"
    pip install --quiet --no-cache-dir --no-index --find-links "$dist" 'rocm[libraries,devel]'
    rocm-sdk path --cmake
}
extension() {
    cd /tmp
    # The tool of the package, not one of the system.
    case $(command -v hipcc) in "$venv"/*) ;; *) echo "error: no hipcc in the packages" >&2; exit 1 ;; esac
    # shellcheck disable=SC2046  # one word an option
    hipcc --offload-arch=gfx90a --offload-arch=gfx942 --offload-arch=gfx1100 --offload-arch=gfx1201 -O2 -shared -fPIC \
        $(python3 -c 'import sysconfig; print("-I" + sysconfig.get_path("include"))') "$here/kernel.hip" -o kernel.so
}
# The targets in the names of the code objects' bundle entries.
listing() {
    python3 -c '
import json, re, sys
entries = re.findall(rb"hipv4-amdgcn-amd-amdhsa--(gfx[0-9a-f]+)", open("/tmp/kernel.so", "rb").read())
print(json.dumps(sorted({entry.decode() for entry in entries})))'
}
call() {
    cd /tmp
    python3 -c '
import rocm_sdk
rocm_sdk.initialize_process(preload_shortnames=["amdhip64"])
import kernel
try:
    print("answer", kernel.call())
except RuntimeError as error:
    print("answer", error)'
}
libraries() {
    cmake -S "$here" -B /tmp/build "-DCMAKE_CXX_COMPILER=clang++-$version" -DCMAKE_BUILD_TYPE=Release \
        "-DCMAKE_PREFIX_PATH=$(rocm-sdk path --cmake)" "-DROCM_PATH=$(rocm-sdk path --root)"
    cmake --build /tmp/build
}
running() {
    for library in hip rocfft rccl miopen hipblaslt rocblas; do
        /tmp/build/libraries "$library" 2>&1 || printf '%s ended with %d\n' "$library" $?
    done
}
step installing install
step extension extension
step listing listing
step calling call
step libraries libraries
step running running
