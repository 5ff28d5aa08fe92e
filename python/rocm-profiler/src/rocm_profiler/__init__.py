"""The ROCm profilers as a Python package. The files themselves are in `_rocm_profiler`."""
