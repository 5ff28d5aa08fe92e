__version__ = '10.1.0a20260822'
PY_PACKAGE_SUFFIX_NONCE = ''
ALL_PACKAGES["libraries"].dist_package_template = "rocm-sdk-libraries"
ALL_PACKAGES["hpc"].dist_package_template = "rocm-sdk-hpc"
DEFAULT_TARGET_FAMILY = 'gfx1100'
AVAILABLE_TARGET_FAMILIES.append('gfx1100')
AVAILABLE_TARGET_FAMILIES.append('gfx942')
LINUX_TARGET_FAMILIES.append('gfx1100')
LINUX_TARGET_FAMILIES.append('gfx942')
WINDOWS_TARGET_FAMILIES.append('gfx1100')
THIS_TARGET_FAMILY = None
THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']
