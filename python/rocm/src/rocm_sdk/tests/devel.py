"""Checks that the devel tree is complete, and that its links are the files they refer to."""

from __future__ import annotations

from .. import _devel, _dist_info, _receipt
from ._report import Report


def check_devel(report: Report) -> None:
    """Expands the tree if necessary, and searches for links that lead nowhere."""
    report.section("devel")
    if "devel" not in _dist_info.ALL_PACKAGES:
        return
    try:
        root = _devel.get_devel_root()
    except ModuleNotFoundError:
        report.skip("devel tree", "rocm-sdk-devel is not installed")
        return
    except _devel.DevelError as error:
        report.fail("rocm-sdk-devel", str(error))
        return
    report.ok("rocm-sdk-devel", f"expanded to {root}")
    links = (path for path in root.rglob("*") if path.is_symlink())
    broken = sorted(path.relative_to(root).as_posix() for path in links if not path.exists())
    if broken:
        report.fail("links", f"{len(broken)} lead nowhere, the first is {broken[0]}. Mend them with: rocm-sdk init")
    receipt = _receipt.read(root)
    waiting = receipt.waiting() if receipt else []
    if waiting:
        report.note(f"{len(waiting)} links wait for packages that are not installed, the first is {waiting[0]}")
    if (root / "lib" / "cmake").is_dir():
        report.ok("lib/cmake", f"{sum(1 for _ in (root / 'lib' / 'cmake').iterdir())} packages")
    else:
        report.note("there is no lib/cmake: CMake will find nothing in it")
