"""Checks that the packages are complete, unchanged, and of one version."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
from importlib import metadata
from pathlib import Path

from .. import _contents, _devel, _dist_info
from ._report import Report

NAMES = re.compile(r"rocm|rocm-profiler|rocm-sdk-.+")
SHOWN = 5
MISSING = "is missing"


def rocm_distributions(site: Path) -> dict[str, metadata.Distribution]:
    """The ROCm distributions installed in `site`, by name."""
    found = {}
    for distribution in metadata.distributions(path=[str(site)]):
        name = _contents.distribution_name(distribution)
        if NAMES.fullmatch(name):
            found[name] = distribution
    return dict(sorted(found.items()))


def check_distributions(report: Report, site: Path) -> None:
    """All distributions have the version of this one, in their name and in the code. The version of
    the build is reported too."""
    report.section("versions")
    expected = _dist_info.__version__
    distributions = rocm_distributions(site)
    for name in ("rocm", "rocm-sdk-core"):
        if name not in distributions:
            report.fail(name, f"is not installed in {site}. Install it with: pip install 'rocm=={expected}'")
    for name, distribution in distributions.items():
        if _devel.is_same_version(distribution.version, expected):
            report.ok(f"{name} {distribution.version}")
        else:
            report.fail(
                f"{name} {distribution.version}",
                f"rocm is {expected}. Install its version with: pip install '{name}=={expected}'",
            )
    for package in _contents.installed_packages():
        version = _version_in(package.pure_directory / "_dist_info.py")
        if version is not None and not _devel.is_same_version(version, expected):
            report.fail(f"{package.pure_name}._dist_info", f"says {version}, rocm is {expected}")
    _check_manifest(report, expected)


def _check_manifest(report: Report, expected: str) -> None:
    core = next((package for package in _contents.installed_packages() if package.logical_name == "core"), None)
    if core is None:
        return
    path = core.platform_directory / "share" / "therock" / "therock_manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        report.fail("therock_manifest.json", f"cannot read `{path}`: {error}")
        return
    built = str(manifest.get("rocm_package_version") or manifest.get("rocm_version") or "")
    report.ok("therock_manifest.json", f"made from ROCm {built or 'of unknown version'}")
    # The version of the build. Packages may deliberately be published with another suffix or
    # version.
    if _release(built) != _release(expected):
        report.note(f"made from ROCm {built or 'of unknown version'}, and published as {expected}")


def _release(version: str) -> tuple[int, ...]:
    match = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(number) for number in match.group(1).split(".")] if match else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def _version_in(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    found = re.findall(r"^__version__ = ['\"](.*)['\"]\s*$", text, re.MULTILINE)
    return found[-1] if found else None


def check_files(report: Report, site: Path, *, verify: bool) -> None:
    """Every installed file exists with its size and, with `verify`, its hash."""
    report.section("files")
    devel = _dist_info.ALL_PACKAGES.get("devel")
    expendable = set() if devel is None else _devel.rows_that_may_be_missing(site / devel.get_py_package_name())
    for name, distribution in rocm_distributions(site).items():
        text = distribution.read_text("RECORD")
        if text is None:
            report.skip(name, "has no RECORD: it is managed by the system")
            continue
        problems, files, size = [], 0, 0
        for row in filter(None, csv.reader(text.splitlines())):
            problem = _problem_of(row, site, verify=verify)
            if problem is MISSING:
                # The row may be for a link in the devel tree, which may have been uninstalled
                # since.
                is_link = name != "rocm-sdk-devel" and row[0].startswith("_rocm_sdk_devel")
                if not (row[0].endswith(".pyc") or row[0] in expendable or is_link):
                    problems.append(f"{row[0]} {MISSING}")
            elif problem is None:
                files += 1
                size += int(row[2]) if row[2] else 0
            else:
                problems.append(problem)
        if problems:
            more = [f"and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
            repair = f"Repair it with: pip install --force-reinstall --no-deps '{name}=={distribution.version}'"
            report.fail(name, "\n".join([*problems[:SHOWN], *more, repair]))
        else:
            report.ok(name, f"{files} files, {size / 1e6:.1f} MB{', hashes agree' if verify else ''}")


def _place(site: Path, name: str) -> Path:
    """Where the file of a row of RECORD is. `pip install --target` moves what lies outside of the
    packages, such as `../../bin`, into the folder, and RECORD keeps the row."""
    path = site / name
    if name.startswith("../") and not path.exists():
        moved = site / name.replace("../", "")
        return moved if moved.exists() else path
    return path


def _problem_of(row: list[str], site: Path, *, verify: bool) -> str | None:
    """The problem of a row of RECORD; None if there is none."""
    if len(row) != 3:
        return f"RECORD has a row that is not one: {row}"
    name, expected, size = row
    path = _place(site, name)
    try:
        status = path.stat()
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"
    if size and int(size) != status.st_size:
        return f"{name} has {status.st_size} bytes instead of {size}"
    if verify and expected:
        algorithm, _, digest = expected.partition("=")
        with open(path, "rb") as file:
            found = hashlib.new(algorithm)
            while block := file.read(1 << 20):
                found.update(block)
        if base64.urlsafe_b64encode(found.digest()).rstrip(b"=").decode() != digest:
            return f"{name} was changed: its hash is another than the installed file's"
    return None
