// A second translation unit with a kernel of its own.
#include "hip/hip_runtime.h"

__global__ void shift(float *values, float by) {
    values[__builtin_amdgcn_workitem_id_x()] += by;
}

extern "C" int second_answer(int value) {
    float *values = nullptr;
    shift<<<dim3(1), dim3(64)>>>(values, 2.0f);
    return value + 1;
}
