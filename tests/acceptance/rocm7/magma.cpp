// Asks MAGMA for its version, has it compute a norm on the host, and asks it for the number
// of GPUs.
#include <cstdio>
#include <magma_lapack.h>
#include <magma_v2.h>

int main() {
    magma_int_t major = 0, minor = 0, micro = 0;
    magma_version(&major, &minor, &micro);
    std::printf("version %d.%d.%d\n", static_cast<int>(major), static_cast<int>(minor), static_cast<int>(micro));
    const double vector[2] = {3.0, 4.0};
    std::printf("norm %g\n", magma_cblas_dnrm2(2, vector, 1));
    std::fflush(stdout);
    // Without a GPU there is nothing to begin with, which is no error.
    std::printf("init %d\n", static_cast<int>(magma_init()));
    magma_device_t devices[64];
    magma_int_t found = -1;
    magma_getdevices(devices, 64, &found);
    std::printf("devices %d\n", static_cast<int>(found));
    return static_cast<int>(magma_finalize());
}
