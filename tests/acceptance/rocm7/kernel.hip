// A Python extension with one kernel: doubles a list of numbers, or says which error HIP has.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <hip/hip_runtime.h>
#include <vector>

__global__ void twice(float* values, int count) {
    const int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < count) values[index] *= 2.0f;
}

static PyObject* call(PyObject*, PyObject*) {
    std::vector<float> values{1.5f, 3.0f};
    const size_t bytes = values.size() * sizeof(float);
    float* device = nullptr;
    hipError_t error = hipMalloc(&device, bytes);
    if (error == hipSuccess) error = hipMemcpy(device, values.data(), bytes, hipMemcpyHostToDevice);
    if (error == hipSuccess) twice<<<1, 64>>>(device, static_cast<int>(values.size()));
    if (error == hipSuccess) error = hipMemcpy(values.data(), device, bytes, hipMemcpyDeviceToHost);
    if (error != hipSuccess) return PyErr_Format(PyExc_RuntimeError, "HIP error %d", static_cast<int>(error));
    return Py_BuildValue("[ff]", values[0], values[1]);
}

static PyMethodDef methods[] = {{"call", call, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernel", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_kernel() { return PyModule_Create(&module); }
