// The Python module, for the stable ABI: one wheel for every Python from 3.8 on.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <vector>

#include "scale.h"

namespace {

PyObject *fail(int code) { return PyErr_Format(PyExc_RuntimeError, "HIP error %d: %s", code, hip_extension_error(code)); }

PyObject *device_count(PyObject *, PyObject *) {
    int count = 0;
    const int code = hip_extension_device_count(&count);
    return code == 0 ? PyLong_FromLong(count) : fail(code);
}

PyObject *scale(PyObject *, PyObject *arguments) {
    PyObject *given = nullptr;
    double factor = 0;
    if (!PyArg_ParseTuple(arguments, "Od:scale", &given, &factor))
        return nullptr;
    PyObject *list = PySequence_List(given);
    if (list == nullptr)
        return nullptr;
    std::vector<float> values(static_cast<std::size_t>(PyList_Size(list)));
    for (std::size_t at = 0; at < values.size(); ++at) {
        values[at] = static_cast<float>(PyFloat_AsDouble(PyList_GetItem(list, static_cast<Py_ssize_t>(at))));
        if (PyErr_Occurred()) {
            Py_DECREF(list);
            return nullptr;
        }
    }
    const int code = values.empty() ? 0 : hip_extension_scale(values.data(), values.size(), static_cast<float>(factor));
    for (std::size_t at = 0; code == 0 && at < values.size(); ++at) {
        PyObject *value = PyFloat_FromDouble(values[at]);
        if (value == nullptr || PyList_SetItem(list, static_cast<Py_ssize_t>(at), value) != 0) {
            Py_DECREF(list);
            return nullptr;
        }
    }
    if (code == 0)
        return list;
    Py_DECREF(list);
    return fail(code);
}

PyMethodDef functions[] = {
    {"device_count", device_count, METH_NOARGS, "How many GPUs there are; RuntimeError when HIP finds none."},
    {"scale", scale, METH_VARARGS, "scale(values, factor): the values multiplied, as a new list."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_hip", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__hip() { return PyModule_Create(&definition); }
