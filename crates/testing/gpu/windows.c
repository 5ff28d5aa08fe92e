// The part of the C runtime of Windows that the fixtures need.
int atexit(void (*function)(void)) {
    (void)function;
    return 0;
}
int _fltused;
