// Defines the function of the second unit, for tests that link the first unit alone.
extern "C" int second_answer(int value) { return value + 1; }
