__version__ = '5.2.3'
PY_PACKAGE_SUFFIX_NONCE = ''
ALL_PACKAGES["libraries"].dist_package_template = "rocm-sdk-libraries"
ALL_PACKAGES.pop('hpc', None)
ALL_PACKAGES.pop('device', None)
ALL_PACKAGES.pop('profiler', None)
THIS_TARGET_FAMILY = None
THIS_PACKAGE_ENTRY = ALL_PACKAGES['meta']
