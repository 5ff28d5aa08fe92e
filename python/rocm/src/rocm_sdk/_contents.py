"""The contents of the installed ROCm packages, from their `_contents.json`, and their paths.

This module reads the environment of the running interpreter. It imports only the package that is
searched for, and loads no libraries.
"""

from __future__ import annotations

import importlib.util
import json
import re
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from . import _dist_info


@dataclass(frozen=True)
class Library:
    """A shared library of a package; if `load` is false, `reason` says why it cannot be loaded
    alone."""

    path: str
    load: bool
    reason: str | None


@dataclass(frozen=True)
class Probe:
    """A test of a tool: its arguments and the expected result."""

    arguments: list[str] = field(default_factory=list)
    expect: str = ""
    exit_codes: list[int] = field(default_factory=lambda: [0])
    needs_gpu: bool = False
    needs: list[str] = field(default_factory=list)
    no_driver: str = ""


@dataclass(frozen=True)
class Tool:
    """A program of a package, started through `<pure package>._cli:<function>`."""

    name: str
    path: str
    function: str
    devel: bool
    probe: Probe | None
    compiler: bool = False


@dataclass(frozen=True)
class Package:
    """An installed package: its Python code in `pure_directory`, its files in `platform_directory`."""

    logical_name: str
    distribution: str
    pure_name: str
    pure_directory: Path
    platform_directory: Path
    libraries: list[Library]
    tools: list[Tool]

    @property
    def site(self) -> Path:
        """The site-packages folder it is installed in."""
        return self.pure_directory.parent


def site_directory() -> Path:
    """The folder in which this package is installed; all ROCm packages are in the same folder."""
    # Resolves the folder, not the file: uv can install files as links into its cache.
    return Path(__file__).parent.resolve().parent


def distribution_name(distribution: metadata.Distribution) -> str:
    """The normalised name of an installed distribution; empty if only its folder is left."""
    found = re.search(r"^Name: *(\S+)", distribution.read_text("METADATA") or "", re.MULTILINE)
    return re.sub(r"[-_.]+", "-", found.group(1)).lower() if found else ""


def installed_family(package: _dist_info.PackageEntry) -> str | None:
    """The family of a target-specific package: the one for this machine if installed, else any
    installed one."""
    if not package.is_target_specific:
        return None
    available = list(_dist_info.AVAILABLE_TARGET_FAMILIES)
    try:
        chosen = _dist_info.determine_target_family()
    except ValueError:
        # A wrong variable must not make the installed libraries unusable.
        chosen = None
    for family in ([chosen] if chosen else []) + available:
        if package.has_py_package(family):
            return family
    return chosen or (available[0] if available else None)


def installed_packages() -> list[Package]:
    """The installed packages that contain files, in the order core, libraries, devel, profiler, hpc."""
    found: list[Package] = []
    for entry in _dist_info.ALL_PACKAGES.values():
        if entry.logical_name in ("meta", "device"):
            continue
        family = installed_family(entry)
        if entry.is_target_specific and family is None:
            continue
        pure = _pure_directory(entry, family)
        if pure is None:
            continue
        contents = read_contents(pure)
        platform = pure.parent / contents.get("platform_package", entry.get_py_package_name(family))
        found.append(
            Package(
                logical_name=entry.logical_name,
                distribution=entry.get_dist_package_name(family),
                pure_name=pure.name,
                pure_directory=pure,
                platform_directory=platform,
                libraries=[_library(item) for item in contents.get("libraries", [])],
                tools=[_tool(item) for item in contents.get("tools", [])],
            )
        )
    return found


def dll_directories() -> list[Path]:
    """The folders in which Windows must look for DLLs of the installed packages, because libraries
    there have no search path. Core comes first."""
    names = ["bin", "lib/llvm/bin", "lib"]
    folders = [package.platform_directory / name for package in installed_packages() for name in names]
    return [folder for folder in folders if any(folder.glob("*.dll"))]


def read_contents(pure_directory: Path) -> dict[str, Any]:
    """The `_contents.json` of a package; empty if it was made without one."""
    path = pure_directory / "_contents.json"
    try:
        contents: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"Cannot read `{path}`: {error}") from error
    if contents.get("schema") != 1:
        raise ValueError(f"Cannot read `{path}`: schema {contents.get('schema')} is not known to this rocm_sdk")
    return contents


def _pure_directory(entry: _dist_info.PackageEntry, family: str | None) -> Path | None:
    name = entry.get_pure_py_package_name(family)
    # A family-specific package (`rocm_sdk_libraries_gfx94X-dcgpu`) cannot be imported by its folder's name.
    beside = site_directory() / name
    if (beside / "__init__.py").is_file():
        return beside
    try:
        specification = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if specification is None or specification.origin is None:
        return None
    return Path(specification.origin).parent


def _library(item: dict[str, Any]) -> Library:
    return Library(item["path"], item.get("load", True), item.get("reason"))


def _tool(item: dict[str, Any]) -> Tool:
    probe = item.get("probe")
    known = {key: value for key, value in (probe or {}).items() if key in Probe.__dataclass_fields__}
    return Tool(
        name=item["name"],
        path=item["path"],
        function=item.get("function", item["name"].replace("-", "_")),
        devel=item.get("devel", False),
        compiler=item.get("compiler", False),
        probe=None if probe is None else Probe(**known),
    )
