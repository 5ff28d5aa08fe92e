// What the C runtime of Windows would bring.
int atexit(void (*function)(void)) {
    (void)function;
    return 0;
}
int _fltused;
