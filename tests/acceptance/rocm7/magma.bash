#!/usr/bin/env bash
# Inside a root of Debian unstable with its HIP, Fortran and OpenBLAS: build MAGMA by its recipe,
# whole and not optimized, and say what the tarball holds.
#
#   magma.bash ROCWHEEL ARCHIVE TARGET HERE    HERE: the folder of this file
set -euo pipefail
rocwheel=$1 archive=$2 target=$3 here=$4

step() { printf '== %s\n' "$1"; shift; local begin=$SECONDS; "$@"; printf -- '-- %d s\n' $((SECONDS - begin)); }

# clang looks for its device libraries elsewhere when ROCM_PATH is set, as it is by the recipe.
build() {
    local bitcode=(/usr/lib/llvm-*/lib/clang/*/amdgcn/bitcode)
    HIP_DEVICE_LIB_PATH=${bitcode[0]} "$rocwheel" build magma --rocm 6.4 --gpu-targets "$target" --executor here \
        --rocm-sdk prefix=/usr --source "$archive" --feature openblas=on --feature unoptimized=on --output /tmp/out
}
tarball() { (cd /tmp/out && find linux-64 -type f -not -name '*.provenance.json'); }
unpack() { python3 -m tarfile --extract /tmp/out/linux-64/*.tar.bz2 /tmp/magma; }
members() { (cd /tmp/magma && find . -not -type d -printf '%P\n'); }
kernels() { "$rocwheel" kernels --json /tmp/magma/lib/libmagma.so; }
dynamic() { readelf --dynamic --wide /tmp/magma/lib/libmagma.so; }
# The headers and the library of the tarball, and nothing of the tree. The headers want to know how
# Fortran names its functions: ADD_.
running() {
    hipcc --offload-host-only -DADD_ -I/tmp/magma/include "$here/magma.cpp" -L/tmp/magma/lib -lmagma \
        -Wl,-rpath,/tmp/magma/lib -o /tmp/uses-magma
    /tmp/uses-magma
}
step build build
step tarball tarball
step unpacking unpack
step members members
step kernels kernels
step dynamic dynamic
step running running
