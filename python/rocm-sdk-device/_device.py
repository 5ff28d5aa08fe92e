"""Kernels of the ROCm libraries for one GPU target.

`rocm_sdk` reads the name of this module to know which targets are installed; nothing else is in it.
"""

TARGET = @TARGET@
VERSION = @VERSION@
