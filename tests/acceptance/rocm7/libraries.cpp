// Asks each library for its version, and then for what it has only with a GPU. Prints one line for
// each: name, version, status.
#include <cstdio>
#include <hip/hip_runtime_api.h>
#include <hipblaslt/hipblaslt.h>
#include <miopen/miopen.h>
#include <rccl/rccl.h>
#include <rocblas/rocblas.h>
#include <rocfft/rocfft.h>

static void print(const char* library, const char* version, int status) {
    std::printf("%s %s %d\n", library, version, status);
    std::fflush(stdout);
}

int main() {
    char text[256] = "";
    int number = 0, devices = 0;
    (void)hipRuntimeGetVersion(&number);
    std::snprintf(text, sizeof text, "%d", number);
    print("hip", text, hipGetDeviceCount(&devices));

    (void)rocfft_get_version_string(text, sizeof text);
    rocfft_plan plan = nullptr;
    const size_t length = 16;
    (void)rocfft_setup();
    print("rocfft", text,
          rocfft_plan_create(&plan, rocfft_placement_inplace, rocfft_transform_type_complex_forward,
                             rocfft_precision_single, 1, &length, 1, nullptr));

    (void)ncclGetVersion(&number);
    std::snprintf(text, sizeof text, "%d", number);
    ncclComm_t communicator = nullptr;
    print("rccl", text, ncclCommInitAll(&communicator, 1, nullptr));

    size_t major = 0, minor = 0, patch = 0;
    (void)miopenGetVersion(&major, &minor, &patch);
    std::snprintf(text, sizeof text, "%zu.%zu.%zu", major, minor, patch);
    miopenHandle_t miopen = nullptr;
    print("miopen", text, miopenCreate(&miopen));

    hipblasLtHandle_t lt = nullptr;
    std::snprintf(text, sizeof text, "%d", HIPBLASLT_VERSION_MAJOR);
    print("hipblaslt", text, hipblasLtCreate(&lt));

    (void)rocblas_get_version_string(text, sizeof text);
    rocblas_handle handle = nullptr;
    print("rocblas", text, rocblas_create_handle(&handle));
}
