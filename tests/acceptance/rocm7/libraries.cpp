// libraries NAME: asks one library for its version, and then for what it has only with a GPU.
// Prints the version, and then the status; some libraries end the process instead.
#include <cstdio>
#include <cstring>
#include <hip/hip_runtime_api.h>
#include <hipblaslt/hipblaslt.h>
#include <miopen/miopen.h>
#include <rccl/rccl.h>
#include <rocblas/rocblas.h>
#include <rocfft/rocfft.h>

static char text[256] = "";

static int answer_version(const char* library) {
    std::printf("%s version %s\n", library, text);
    return std::fflush(stdout);
}

static int ask(const char* library) {
    int number = 0;
    if (std::strcmp(library, "hip") == 0) {
        (void)hipRuntimeGetVersion(&number);
        std::snprintf(text, sizeof text, "%d", number);
        answer_version(library);
        return hipGetDeviceCount(&number);
    }
    if (std::strcmp(library, "rocfft") == 0) {
        (void)rocfft_get_version_string(text, sizeof text);
        answer_version(library);
        (void)rocfft_setup();
        rocfft_plan plan = nullptr;
        const size_t length = 16;
        return rocfft_plan_create(&plan, rocfft_placement_inplace, rocfft_transform_type_complex_forward,
                                  rocfft_precision_single, 1, &length, 1, nullptr);
    }
    if (std::strcmp(library, "rccl") == 0) {
        (void)ncclGetVersion(&number);
        std::snprintf(text, sizeof text, "%d", number);
        answer_version(library);
        ncclComm_t communicator = nullptr;
        return ncclCommInitAll(&communicator, 1, nullptr);
    }
    if (std::strcmp(library, "miopen") == 0) {
        size_t major = 0, minor = 0, patch = 0;
        (void)miopenGetVersion(&major, &minor, &patch);
        std::snprintf(text, sizeof text, "%zu.%zu.%zu", major, minor, patch);
        answer_version(library);
        miopenHandle_t handle = nullptr;
        return miopenCreate(&handle);
    }
    if (std::strcmp(library, "hipblaslt") == 0) {
        // The library tells its version only through a handle.
        std::snprintf(text, sizeof text, "%d.%d", HIPBLASLT_VERSION_MAJOR, HIPBLASLT_VERSION_MINOR);
        answer_version(library);
        hipblasLtHandle_t handle = nullptr;
        return hipblasLtCreate(&handle);
    }
    (void)rocblas_get_version_string(text, sizeof text);
    answer_version(library);
    rocblas_handle handle = nullptr;
    return rocblas_create_handle(&handle);
}

int main(int count, char** words) {
    const char* library = count == 2 ? words[1] : "rocblas";
    std::printf("%s status %d\n", library, ask(library));
    return 0;
}
