#include "scale.h"

#include <hip/hip_runtime.h>

namespace {

constexpr unsigned block = 256;

__global__ void multiply(float *values, unsigned count, float factor) {
    // clang's own functions: blockIdx and its kin would need the device library of the ROCm that is there.
    const unsigned at = __builtin_amdgcn_workgroup_id_x() * block + __builtin_amdgcn_workitem_id_x();
    if (at < count)
        values[at] *= factor;
}

}  // namespace

int hip_extension_device_count(int *count) { return hipGetDeviceCount(count); }

const char *hip_extension_error(int code) { return hipGetErrorString(static_cast<hipError_t>(code)); }

int hip_extension_scale(float *values, std::size_t count, float factor) {
    const std::size_t bytes = count * sizeof(float);
    float *device = nullptr;
    hipError_t error = hipMalloc(reinterpret_cast<void **>(&device), bytes);
    if (error != hipSuccess)
        return error;
    error = hipMemcpy(device, values, bytes, hipMemcpyHostToDevice);
    if (error == hipSuccess) {
        const unsigned blocks = static_cast<unsigned>((count + block - 1) / block);
        multiply<<<dim3(blocks), dim3(block), 0, 0>>>(device, static_cast<unsigned>(count), factor);
        error = hipGetLastError();
    }
    if (error == hipSuccess)
        error = hipMemcpy(values, device, bytes, hipMemcpyDeviceToHost);
    const hipError_t freed = hipFree(device);
    return error == hipSuccess ? freed : error;
}
