// A stand-in for libamdhip64: checks registrations by the rules of the real one; prints each.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct wrapper {
    uint32_t magic;
    uint32_t version;
    const unsigned char *binary;
    uint64_t index;
};
struct dim3 {
    unsigned x, y, z;
};

static const struct wrapper *last;

void **__hipRegisterFatBinary(const struct wrapper *wrapper) {
    static void *handle;
    const char *magic = wrapper->magic == 0x48495046 ? "fat" : wrapper->magic == 0x4b504948 ? "kpacked" : "unknown";
    printf("register %s version %u index %llu reaches ", magic, wrapper->version, (unsigned long long)wrapper->index);
    if (!wrapper->binary) {
        printf("nothing");
    } else {
        for (int place = 0; place < 48; place++) {
            unsigned char byte = wrapper->binary[place];
            putchar(byte >= 33 && byte < 127 ? byte : '.');
        }
    }
    printf("\n");
    last = wrapper;
    return &handle;
}

void __hipUnregisterFatBinary(void **handle) { (void)handle; }

void __hipRegisterFunction(void **handle, const void *host, char *device, const char *name, unsigned limit, void *thread,
                           void *block, void *block_size, void *grid, int *wavefront) {
    (void)handle, (void)host, (void)device, (void)limit, (void)thread, (void)block, (void)block_size, (void)grid;
    (void)wavefront;
    printf("kernel %s\n", name);
}

void __hipRegisterVar(void **handle, void *variable, char *host, const char *device, int external, size_t size,
                      int constant, int global) {
    (void)handle, (void)variable, (void)host, (void)external, (void)size, (void)constant, (void)global;
    printf("variable %s\n", device);
}

int __hipPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream) {
    (void)grid, (void)block, (void)shared, (void)stream;
    return 0;
}

int __hipPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void **stream) {
    *grid = *block = (struct dim3){1, 1, 1};
    *shared = 0;
    *stream = NULL;
    return 0;
}

int hipLaunchKernel(const void *function, struct dim3 grid, struct dim3 block, void **arguments, size_t shared,
                    void *stream) {
    (void)function, (void)grid, (void)block, (void)arguments, (void)shared, (void)stream;
    printf("launch\n");
    return 0;
}
