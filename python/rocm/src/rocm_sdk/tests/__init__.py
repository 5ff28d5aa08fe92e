"""`rocm-sdk test`. Input: the installed packages. Output: a line for each check, and an exit
status.

The packages themselves list the contents to test (`_contents.json`).
"""

from __future__ import annotations

from pathlib import Path

from .. import _dist_info
from ._report import Report
from .devel import check_devel
from .devices import check_devices
from .installation import check_distributions, check_files
from .libraries import check_libraries, check_short_names
from .tools import check_tools


def run(site: Path, *, verify: bool, quiet: bool) -> int:
    """Checks all ROCm packages in `site`. Returns 1 if a check failed, else 0. With `verify` hashes
    are compared, not only sizes."""
    report = Report(quiet=quiet)
    report.say(f"rocm {_dist_info.__version__} in {site}")
    # Devel first: expanding it adds files that are checked later.
    check_distributions(report, site)
    check_devel(report)
    check_files(report, site, verify=verify)
    check_libraries(report, site)
    check_short_names(report)
    check_tools(report, site)
    check_devices(report)
    return report.finish()
