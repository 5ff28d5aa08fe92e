"""The ROCm libraries for high performance computing as a Python package. The files themselves are in
`_rocm_sdk_hpc`."""
