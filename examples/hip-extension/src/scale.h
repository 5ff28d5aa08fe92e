// What the Python module calls. Answers are HIP's error codes; 0 is none.
#pragma once
#include <cstddef>

int hip_extension_device_count(int *count);
int hip_extension_scale(float *values, std::size_t count, float factor);
const char *hip_extension_error(int code);
