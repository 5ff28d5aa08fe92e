"""Checks that the GPUs of this machine have their kernels."""

from __future__ import annotations

import os

from .. import _devices, _dist_info
from ._report import Report


def check_devices(report: Report) -> None:
    """Fails if no GPU has its kernels. If only some GPUs lack them, these are reported as notes."""
    report.section("GPUs")
    try:
        gpus = _devices.examine()
    except (ImportError, OSError, ValueError) as error:
        report.fail("GPUs", str(error))
        return
    if not gpus:
        if _dist_info.discover_gpu_targets():
            report.skip("GPUs", "no libraries are installed, so no kernels are needed")
        else:
            place = _dist_info.KFD_TOPOLOGY
            report.skip("GPUs", "none is looked for on Windows" if os.name == "nt" else f"no AMD GPU found in {place}")
        return
    served = any(gpu.problem is None for gpu in gpus)
    for gpu in gpus:
        if gpu.problem is None:
            report.ok(gpu.target, "its kernels are installed")
        elif served:
            report.note(gpu.advice)
        else:
            report.fail(gpu.target, gpu.advice)
