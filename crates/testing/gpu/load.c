// Loads a library and calls its function: exit code 0 when the result is right.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (count != 2 || !library) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    printf("loaded\n");
    fflush(stdout);
    int (*answer)(int) = (int (*)(int))dlsym(library, "answer");
    if (!answer) {
        fprintf(stderr, "%s\n", dlerror());
        return 3;
    }
    int value = answer(1);
    printf("answer %d\n", value);
    return value == 42 ? 0 : 1;
}
