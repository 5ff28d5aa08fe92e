"""Where a loaded library may come from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from .installation import rocm_distributions

# What every Linux has and manylinux wheels may use: the C library's family and the compiler's runtime.
SYSTEM = re.compile(
    r"(ld-linux.*|linux-vdso|libc|libm|libmvec|libdl|libpthread|librt|libutil|libresolv|libnsl|libanl|libcrypt"
    r"|libBrokenLocale|libthread_db|libnss_\w+|libc_malloc_debug|libstdc\+\+|libgcc_s|libatomic)"
    r"(-[\d.]+)?\.so(\.[\d.]+)?"
)


class Policy:
    """Tells whether a library comes from the environment or from the part of the system it may come from."""

    def __init__(self, site: Path):
        self.site = site
        self._root = Path(os.path.realpath(site))

    def outsiders(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that are neither in the environment nor on the list above."""
        return [path for path in paths if not self._is_allowed(path)]

    def _is_allowed(self, path: str) -> bool:
        if SYSTEM.fullmatch(os.path.basename(path)):
            return True
        real = os.path.realpath(path)
        return Path(real).is_relative_to(self._root) or real in self._linked_files

    @cached_property
    def _linked_files(self) -> set[str]:
        """What links of the environment lead to: uv can install links into its cache instead of files."""
        linked: set[str] = set()
        for distribution in rocm_distributions(self.site).values():
            for file in distribution.files or []:
                path = self.site / file
                if path.is_symlink():
                    linked.add(os.path.realpath(path))
        return linked
