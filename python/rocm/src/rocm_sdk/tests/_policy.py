"""The places from which a library may be loaded."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from ._dynamic import dynamic_objects, program_interpreter
from .installation import rocm_distributions

# Libraries that every Linux has and wheels may use: the C library's family and the compiler's
# runtime. Also by the names of the files that the SONAMEs lead to: libc-2.31.so,
# libstdc++.so.6.0.30.
SYSTEM = re.compile(
    r"(ld|ld-linux.*|linux-vdso|libc|libm|libmvec|libdl|libpthread|librt|libutil|libresolv|libnsl|libanl"
    r"|libBrokenLocale|libthread_db|libnss_\w+|libc_malloc_debug|libstdc\+\+|libgcc_s|libatomic)"
    r"(-[\d.]+)?\.so(\.[\d.]+)?"
)

# Libraries of a driver or a display server, of which only the machine's own work, with all their
# needs.
HOST = re.compile(
    r"(libX11|libXext|libXrender|libICE|libSM|libGL|libEGL|libGLX|libOpenGL|libOpenCL|libcuda|libibverbs)\.so(\.[\d.]+)?"
)


class Policy:
    """Decides if a library is from the environment, or is one that may be from the system."""

    def __init__(self, site: Path):
        self.site = site
        self._root = Path(os.path.realpath(site))

    def outsiders(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that are neither in the environment nor libraries that may be from the
        system."""
        outside = [path for path in paths if not self._is_allowed(path)]
        of_host = {path for path in outside if HOST.fullmatch(os.path.basename(path))}
        loader = program_interpreter(Path(os.path.realpath(sys.executable))) if of_host else None
        if loader is not None:
            for path in sorted(of_host):
                of_host |= {os.path.realpath(found) for found in dynamic_objects(loader, path).values() if found}
        return [path for path in outside if path not in of_host and os.path.realpath(path) not in of_host]

    def _is_allowed(self, path: str) -> bool:
        if SYSTEM.fullmatch(os.path.basename(path)):
            return True
        real = os.path.realpath(path)
        return Path(real).is_relative_to(self._root) or real in self._linked_files

    @cached_property
    def _linked_files(self) -> set[str]:
        """The targets of links in the environment: uv can install links into its cache instead of
        files."""
        linked: set[str] = set()
        for distribution in rocm_distributions(self.site).values():
            for file in distribution.files or []:
                path = self.site / file
                if path.is_symlink():
                    linked.add(os.path.realpath(path))
        return linked
