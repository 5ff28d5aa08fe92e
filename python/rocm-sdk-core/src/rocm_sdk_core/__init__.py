"""The ROCm runtime as a Python package: its programs. The files themselves are in `_rocm_sdk_core`."""
