"""GPU code of @HOST@ for one kind of GPU. It shows what is installed, and is all that a program needs to find the code.

The HIP runtime looks for archives beside the real path of a library. Where files are links into a cache, it does not
find them there; then ROCM_KPACK_PATH_PREFIX has to name `ARCHIVES`, which are relative to the folder of this module.
"""

DISTRIBUTION = @DISTRIBUTION@
VERSION = @VERSION@
TARGETS = @TARGETS@
ARCHIVES = @ARCHIVES@
