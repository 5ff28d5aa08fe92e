// A third translation unit, which compiles for every system.
#include "hip/hip_runtime.h"

__global__ void fill(float *values, float with) {
    values[__builtin_amdgcn_workitem_id_x()] = with;
}

extern "C" int third_answer(int value) {
    float *values = nullptr;
    fill<<<dim3(1), dim3(64)>>>(values, 2.0f);
    return value + 2;
}

#ifdef LARGE
// Code objects of at least this many bytes, which compress to almost nothing.
__device__ __attribute__((used)) unsigned char large[LARGE] = {1};
#endif
