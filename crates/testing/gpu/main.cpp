// A program that contains kernels.
#include <stdio.h>

extern "C" int answer(int value);

int main() {
    int value = answer(1);
    printf("answer %d\n", value);
    return value == 42 ? 0 : 1;
}
