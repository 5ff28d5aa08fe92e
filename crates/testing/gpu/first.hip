// Host code with tables, exceptions and relocated data behind the device code in the file.
#include "hip/hip_runtime.h"

__global__ void scale(float *values, float factor) {
    values[__builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x()] *= factor;
}

extern "C" int second_answer(int value);

struct failure {
    int value;
};
static const char *const names[] = {"one", "two", "three", "four", "five"};
extern "C" const char *volatile chosen;
const char *volatile chosen = names[2];
static thread_local int counter = 39;
static long zeros[1000];

__attribute__((noinline)) static int thrown(int value) {
    if (value > 0) {
        throw failure{value};
    }
    return value;
}

extern "C" int answer(int value) {
    float *values = nullptr;
    scale<<<dim3(1), dim3(64)>>>(values, 2.0f);
    int sum = 0;
    try {
        sum = thrown(value);
    } catch (const failure &caught) {
        sum = caught.value + (int)zeros[caught.value];
    }
    for (const char *text = chosen; *text; text++) {
        sum += *text == names[2][0];
    }
    return sum + counter + second_answer(0);
}
