// Prints what the HIP runtime and rocRAND of the packages answer: no GPU is needed for either.
#include <cstdio>
#include <hip/hip_runtime_api.h>
#include <rocrand/rocrand.h>

int main() {
    int devices = -1;
    const hipError_t status = hipGetDeviceCount(&devices);
    int version = 0;
    const rocrand_status random = rocrand_get_version(&version);
    std::printf("hipGetDeviceCount %d rocrand_get_version %d %d\n", static_cast<int>(status), static_cast<int>(random), version);
    return 0;
}
