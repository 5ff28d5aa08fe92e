// What the first unit calls when the second one is not linked.
extern "C" int second_answer(int value) { return value + 1; }
