"""Checks if the installed kernels fit the GPUs of this machine. Input: the driver's list of GPUs.
Output: advice.

Kernels are in separate packages, one per GPU target (`rocm-sdk-device-gfx942`), or in the
libraries, for one family of targets or for all targets of the distribution. With wrong kernels
every kernel launch fails with "invalid device function", which mentions neither the reason nor the
remedy.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from . import _contents, _devel, _dist_info


@dataclass(frozen=True)
class Gpu:
    """A GPU target of this machine, the problem of its kernels (None if there is none), and the
    command that fixes it."""

    target: str
    problem: str | None
    command: str | None

    @property
    def advice(self) -> str:
        """The problem and the command in one line; empty if there is none."""
        if self.problem is None:
            return ""
        return self.problem + (f" Install them with: {self.command}" if self.command else "")


def installed_devices(site: Path) -> dict[str, str | None]:
    """The targets that have a device package in `site`, with its version if that is known.

    The version is that of the distribution, because release tools change it there and not in the
    files.
    """
    found: dict[str, str | None] = {}
    for module in sorted(site.glob("_rocm_sdk_libraries*/_device_*.py")):
        found[module.stem.removeprefix("_device_")] = None
    for links in sorted(site.glob("_rocm_sdk_libraries*/.devel_links/*.json")):
        found.setdefault(links.stem, None)
    for directory in sorted(site.glob("rocm_sdk_device_*.dist-info")):
        distribution = metadata.PathDistribution(directory)
        name = _contents.distribution_name(distribution)
        if name:
            found[name.removeprefix("rocm-sdk-device-")] = distribution.version
    return {_dist_info.base_target(target): version for target, version in found.items()}


def examine(topology: str | os.PathLike[str] | None = None) -> list[Gpu]:
    """The GPUs of this machine in the order of the kernel driver, each with a verdict.

    Empty without a GPU, and if no libraries are installed: the runtime alone needs no kernels.
    """
    targets = _dist_info.discover_gpu_targets(topology)
    libraries = _dist_info.ALL_PACKAGES.get("libraries")
    if not targets or libraries is None or not libraries.has_py_package(_contents.installed_family(libraries)):
        return []
    if libraries.is_target_specific:
        return [_judge_family(target, _contents.installed_family(libraries)) for target in targets]
    if not _dist_info.AVAILABLE_TARGET_FAMILIES or "device" not in _dist_info.ALL_PACKAGES:
        inside = distribution_targets()
        return [_judge_inside(target, inside) for target in targets]
    installed = installed_devices(_contents.site_directory())
    return [_judge_device(target, installed) for target in targets]


def complaint(topology: str | os.PathLike[str] | None = None) -> str | None:
    """The advice for the user; None if there is no problem. If one of several GPUs has its kernels,
    the others are not reported, because a processor's integrated graphics beside a large GPU needs
    no kernels."""
    gpus = examine(topology)
    if not gpus or any(gpu.problem is None for gpu in gpus):
        return None
    return " ".join(gpu.advice for gpu in gpus)


def distribution_targets() -> list[str]:
    """The targets this distribution was built for, from core's `dist_info.json`, or else those that
    `rocm` offers.

    Raises ModuleNotFoundError without core.
    """
    module = _dist_info.get_package("core").get_py_package()
    assert module.__file__ is not None  # get_py_package refuses a package without files
    path = Path(module.__file__).parent / "share" / "therock" / "dist_info.json"
    try:
        text = json.loads(path.read_text(encoding="utf-8")).get("dist_amdgpu_targets", "")
    except FileNotFoundError:
        # Some builds were packaged without this file.
        return list(_dist_info.AVAILABLE_TARGET_FAMILIES)
    return [target.strip() for target in text.replace(",", ";").split(";") if target.strip()]


def _judge_device(target: str, installed: dict[str, str | None]) -> Gpu:
    if target in installed:
        version = installed[target]
        if version is None or _devel._without_post_release(version) == _devel._without_post_release(
            _dist_info.__version__
        ):
            return Gpu(target, None, None)
        problem = (
            f"This machine has a {target} GPU, but the kernels installed for it are of version {version} "
            f"and the rest of ROCm is {_dist_info.__version__}."
        )
    else:
        others = f" (only those for {', '.join(sorted(installed))})" if installed else ""
        problem = f"This machine has a {target} GPU, but no kernels for it are installed{others}."
    family = _dist_info.family_of_target(target)
    if family is None:
        return Gpu(target, f"{problem} {_unavailable(target)}", None)
    return Gpu(target, problem, _pip_install(_dist_info.ALL_PACKAGES["device"].get_dist_package_require(family)))


def _judge_family(target: str, installed: str | None) -> Gpu:
    wanted = _dist_info.family_of_target(target)
    if wanted is None:
        problem = f"This machine has a {target} GPU, but the libraries installed have no kernels for it."
        return Gpu(target, f"{problem} {_unavailable(target)}", None)
    if wanted == installed:
        return Gpu(target, None, None)
    problem = f"This machine has a {target} GPU, but the libraries installed are those for {installed}."
    return Gpu(target, problem, _pip_install(_dist_info.ALL_PACKAGES["libraries"].get_dist_package_require(wanted)))


def _judge_inside(target: str, inside: list[str]) -> Gpu:
    if not inside or target in {_dist_info.base_target(name) for name in inside}:
        return Gpu(target, None, None)
    problem = f"This machine has a {target} GPU, but this ROCm has kernels only for {', '.join(inside)}."
    return Gpu(target, problem, None)


def _unavailable(target: str) -> str:
    available = ", ".join(_dist_info.AVAILABLE_TARGET_FAMILIES) or "none"
    return f"ROCm {_dist_info.__version__} has no package for {target} (available: {available})."


def _pip_install(requirement: str) -> str:
    # The package by its own name, not through an extra of `rocm`: a cached `rocm` may be for
    # another GPU.
    return f"pip install '{requirement}'"
