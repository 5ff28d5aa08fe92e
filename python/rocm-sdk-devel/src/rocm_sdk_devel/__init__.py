"""What building for ROCm needs, packed; `rocm-sdk init` expands it into `_rocm_sdk_devel`."""
