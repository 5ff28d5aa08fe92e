"""A source tree with MAGMA's make interface: its targets, its make.inc, its generator, kernels that
are compiled, a part in Fortran, and a library that is linked with hipBLAS. As in MAGMA, the
Makefile adds GPU targets of its own to those of make.inc. MAGMA itself is in no registry of
packages."""

from pathlib import Path

FILES = {
    "COPYRIGHT": "Copyright of a test. Redistribution and use are permitted.\n",
    "include/magma.h": """\
#ifndef MAGMA_H
#define MAGMA_H
#ifdef __cplusplus
extern "C" {
#endif
int magma_version(void);
/* y = alpha x + beta y on the GPU; n elements. 0, or an error of HIP. */
int magmablas_saxpby(int n, float alpha, const float *x, float beta, float *y);
int magmablas_daxpby(int n, double alpha, const double *x, double beta, double *y);
int magma_dgemm(void *handle, int n, const double *a, const double *b, double *c);
#ifdef __cplusplus
}
#endif
#endif
""",
    # As the example that PyTorch's script takes: OpenMP in a line of its own, which the recipe
    # takes out.
    "make.inc-examples/make.inc.hip-gcc-mkl": """\
BACKEND = hip
GPU_TARGET ?= gfx900 gfx906 gfx908
FORT ?= gfortran
CC = gcc
CXX = g++
DEVCC = hipcc
FPIC = -fPIC
FOPENMP = -fopenmp
CXXFLAGS = -O2 $(FPIC) $(FOPENMP) -D__HIP_PLATFORM_AMD__
DEVCCFLAGS = -O2 $(FPIC) $(FOPENMP)
INC = -I$(ROCM_PATH)/include
LIBDIR = -L$(ROCM_PATH)/lib
LIB = -lhipblas
""",
    # A file is generated in two steps, and the first one can be killed.
    "make.gen.hipMAGMA": """\
HIPIFY ?= sh tools/hipify
all: magmablas_hip/saxpby.hip.cpp magmablas_hip/daxpby.hip.cpp

magmablas_hip/saxpby.hip.cpp: magmablas/zaxpby.cu
\t@mkdir -p $(dir $@)
\t$(HIPIFY) $< > $@
\tsed -i -e "s/magmaDoubleComplex/float/g; s/zaxpby/saxpby/g" $@

magmablas_hip/daxpby.hip.cpp: magmablas/zaxpby.cu
\t@mkdir -p $(dir $@)
\t$(HIPIFY) $< > $@
\tsed -i -e "s/magmaDoubleComplex/double/g; s/zaxpby/daxpby/g" $@

""",
    "tools/hipify": """\
# make would remove what a killed child has begun, were it not killed itself.
if [ -e kill-me ]; then
    rm kill-me
    head -n 3 "$1"
    read -r _ _ _ make _ </proc/$PPID/stat
    kill -9 "$make" $PPID
    exit 1
fi
cat "$1"
""",
    "magmablas/zaxpby.cu": """\
#include <hip/hip_runtime.h>
#include "magma.h"

__global__ void zaxpby_kernel(int n, magmaDoubleComplex alpha, const magmaDoubleComplex *x, magmaDoubleComplex beta,
                              magmaDoubleComplex *y) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < n) y[at] = alpha * x[at] + beta * y[at];
}

extern "C" int magmablas_zaxpby(int n, magmaDoubleComplex alpha, const magmaDoubleComplex *x, magmaDoubleComplex beta,
                                magmaDoubleComplex *y) {
    zaxpby_kernel<<<dim3((n + 255) / 256), dim3(256)>>>(n, alpha, x, beta, y);
    return hipGetLastError();
}
""",
    "src/gemm.cpp": """\
#include <hipblas/hipblas.h>
#include "magma.h"

int magma_version(void) { return 42; }

int magma_dgemm(void *handle, int n, const double *a, const double *b, double *c) {
    const double one = 1, zero = 0;
    return hipblasDgemm(static_cast<hipblasHandle_t>(handle), HIPBLAS_OP_N, HIPBLAS_OP_N, n, n, n, &one, a, n, b, n, &zero, c, n);
}
""",
    "control/magma_param.F90": """\
module magma_param
    integer, parameter :: sizeof_double = 8
end module magma_param
""",
    "testing/testing_dgemm.cpp": """\
#include <cstdio>
#include "magma.h"

int main() { return std::printf("MAGMA %d\\n", magma_version()) < 0; }
""",
    "Makefile": """\
include make.inc
kernels := $(patsubst %.hip.cpp,%.hip.o,$(wildcard magmablas_hip/*.hip.cpp))

AMD_GFX := $(addprefix --offload-arch=,$(filter gfx900 gfx906 gfx908 gfx90a,$(GPU_TARGET)))
ifeq ($(AMD_GFX),)
    $(error GPU_TARGET, which is $(GPU_TARGET), has no target that is known here)
else
    DEVCCFLAGS += $(AMD_GFX)
endif

lib/libmagma.so: $(kernels) src/gemm.o control/magma_param.o
\tmkdir -p lib
\t$(DEVCC) -shared $(DEVCCFLAGS) -Wl,-soname,libmagma.so -o $@ $^ $(LIBDIR) $(LIB)

testing/testing_dgemm: testing/testing_dgemm.cpp lib/libmagma.so
\t$(CXX) $(CXXFLAGS) -Iinclude -o $@ $< -Llib -lmagma $(LIBDIR) $(LIB)

%.hip.o: %.hip.cpp
\t$(DEVCC) $(DEVCCFLAGS) $(INC) -Iinclude -c -o $@ $<

%.o: %.F90
\t$(FORT) $(FPIC) -J$(@D) -c -o $@ $<

%.o: %.cpp
\t$(CXX) $(CXXFLAGS) $(INC) -Iinclude -c -o $@ $<

clean:
\trm -rf lib magmablas_hip src/*.o control/*.o control/*.mod testing/testing_dgemm
""",
}


def write(folder: Path) -> Path:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder
