"""The ROCm libraries as a Python package. The files themselves are in `_rocm_sdk_libraries`."""
