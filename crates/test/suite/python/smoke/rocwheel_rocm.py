"""Checks of ROCm's own wheels, without torch."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from rocwheel_checks import check, not_run


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, importlib.metadata.Distribution]:
    found: dict[str, importlib.metadata.Distribution] = {}
    for distribution in importlib.metadata.distributions():
        with contextlib.suppress(Exception):
            found.setdefault(normal(distribution.metadata["Name"]), distribution)
    return found


def is_rocm(name: str) -> bool:
    return name == "rocm" or name.startswith(("rocm-sdk", "rocm-profiler"))


NOT_LOADED = re.compile(
    r"clang_rt|libLLVMOffload|libroctracer|librocprofiler-sdk-|librocprofv3|libOpenCL|libcltrace|/llvm/|/hip_plugin|/python"
)
"""Libraries that only a compiler, a profiler or another program loads."""

IS_WINDOWS = os.name == "nt"
HIP = re.compile(r"amdhip64_\d+\.dll" if IS_WINDOWS else r"libamdhip64\.so\.\d+")


def recorded(distribution: importlib.metadata.Distribution) -> list[tuple[Path, int | None]]:
    """The rows of RECORD, path and size. `Distribution.files` leaves out files that do not exist,
    from Python 3.12 on."""
    text = distribution.read_text("RECORD")
    if text is None:
        return [(Path(str(file)), file.size) for file in distribution.files or ()]
    rows = [row for row in csv.reader(text.splitlines()) if row and row[0]]
    return [(Path(row[0]), int(row[2]) if len(row) > 2 and row[2].isdigit() else None) for row in rows]


def libraries(distribution: importlib.metadata.Distribution) -> Iterator[Path]:
    """What has to load: `_contents.json` says it for our packages, RECORD for others."""
    files = [path for path, _ in recorded(distribution)]
    base = Path(str(distribution.locate_file("")))
    contents = [base / path for path in files if path.name == "_contents.json"]
    if contents and contents[0].is_file():
        table = json.loads(contents[0].read_text())
        for row in table.get("libraries", ()):
            if row.get("load"):
                yield base / table["platform_package"] / row["path"]
        return
    for path in files:
        is_library = re.search(r"\.so(\.\d+)+$", path.name) and path.parent.name in ("lib", "lib64")
        if IS_WINDOWS:
            is_library = path.suffix == ".dll" and path.parent.name == "bin"
        if is_library and not NOT_LOADED.search(path.as_posix()):
            yield base / path


def requirement_parser() -> Callable | None:
    """`packaging`, on its own or as the part of a pip: that of the environment, or the one that
    `ensurepip` installs (Debian has it elsewhere)."""
    folders = [Path("/usr/share/python-wheels")]
    with contextlib.suppress(Exception):
        folders.append(Path(importlib.util.find_spec("ensurepip").origin).parent / "_bundled")
    sys.path += [str(wheel) for folder in folders for wheel in folder.glob("pip-*.whl")]
    for name in ("packaging.requirements", "pip._vendor.packaging.requirements"):
        with contextlib.suppress(Exception):
            return importlib.import_module(name).Requirement
    return None


@check("rocm", gpu=False)
def rocm_requirements() -> None:
    """Everything that an installed package wants of ROCm is installed, with its extras."""
    packages = installed()
    parse = requirement_parser()
    if parse is None:
        not_run("requirements cannot be read without `packaging`: install it")
    todo = [(name, frozenset()) for name in packages]
    seen, missing = set(todo), []
    while todo:
        name, extras = todo.pop()
        for text in packages[name].requires or ():
            wanted = parse(text)
            if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in (extras or {""})):
                continue
            other = normal(wanted.name)
            if not is_rocm(other):
                continue
            found = packages.get(other)
            if found is None or not wanted.specifier.contains(found.version, prereleases=True):
                has = f"{found.version} is installed" if found else "it is not installed"
                missing.append(f"{name} requires {text}: {has}")
                continue
            step = (other, frozenset(wanted.extras))
            if step not in seen:
                seen.add(step)
                todo.append(step)
    assert not missing, "; ".join(missing)


def expendable(site: Path) -> set[str]:
    """The rows of RECORD that the expansion of the devel tree leaves without a file, if these
    packages can say so: other builders' cannot."""
    try:
        from rocm_sdk import _devel, _dist_info

        package = _dist_info.ALL_PACKAGES["devel"].get_py_package_name()
        return _devel.rows_that_may_be_missing(site / package)
    except (AttributeError, ImportError, KeyError):
        return set()


@check("rocm", gpu=False)
def rocm_files() -> None:
    """Every file of RECORD exists with its size."""
    wrong = []
    for name, distribution in installed().items():
        if is_rocm(name):
            may_be_missing = expendable(Path(str(distribution.locate_file(""))))
            for file, size in recorded(distribution):
                path = Path(distribution.locate_file(file))
                if file.as_posix() in may_be_missing and not path.exists():
                    continue
                if not path.exists():
                    wrong.append(f"{file} is missing")
                elif size is not None and path.stat().st_size != size:
                    wrong.append(f"{file} has {path.stat().st_size} bytes and not {size}")
    assert not wrong, "; ".join(wrong[:20])


def rocm_load(path: str) -> None:
    """One library, in this process alone."""
    assert Path(path).exists(), f"{path} is missing"
    add_folders()
    ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL | getattr(os, "RTLD_NOW", 0))


def add_folders() -> None:
    """On Windows libraries are found in the folders that a process names, as `rocm_sdk` does."""
    if IS_WINDOWS:
        ours = [distribution for name, distribution in installed().items() if is_rocm(name)]
        for folder in {path.parent for distribution in ours for path in libraries(distribution)}:
            os.add_dll_directory(str(folder))


def hip_library() -> str | None:
    for name, distribution in installed().items():
        if is_rocm(name):
            for file, _ in recorded(distribution):
                if HIP.fullmatch(file.name):
                    return str(distribution.locate_file(file))
    return None


class Hip:
    """The runtime through ctypes, without torch."""

    def __init__(self) -> None:
        path = hip_library()
        assert path, "no installed package has the HIP runtime"
        add_folders()
        self.library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments)
        assert code == 0, f"{name} returned error {code}"

    def count(self) -> int:
        number = ctypes.c_int()
        self.call("hipGetDeviceCount", ctypes.byref(number))
        return number.value


@check("rocm", gpu=True)
def rocm_memory() -> None:
    hip = Hip()
    assert hip.count() >= 1
    size = 1 << 20
    there, back = ctypes.create_string_buffer(os.urandom(size), size), ctypes.create_string_buffer(size)
    device = ctypes.c_void_p()
    hip.call("hipMalloc", ctypes.byref(device), ctypes.c_size_t(size))
    hip.call("hipMemcpy", device, there, ctypes.c_size_t(size), 1)
    hip.call("hipMemcpy", back, device, ctypes.c_size_t(size), 2)
    assert there.raw == back.raw, "memory comes back changed"
    hip.call("hipMemset", device, 7, ctypes.c_size_t(size))
    hip.call("hipMemcpy", back, device, ctypes.c_size_t(size), 2)
    assert back.raw == b"\7" * size
    hip.call("hipFree", device)
