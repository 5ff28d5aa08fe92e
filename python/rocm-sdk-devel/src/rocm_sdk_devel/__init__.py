"""The files for building with ROCm, packed; `rocm-sdk init` expands them into `_rocm_sdk_devel`."""
