"""Behaviour on Windows, with modules that are told they run there."""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fixtures import TEMPLATE, Wheel, contents, pure_files, tail
from sites import Site


class Windows:
    """The module `os` of a Python on Windows, as far as the packages use it."""

    name = "nt"

    def __init__(self) -> None:
        self.dll_directories: list[Path] = []

    def add_dll_directory(self, path: str) -> object:
        self.dll_directories.append(Path(path))
        return SimpleNamespace(close=lambda: None)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@pytest.fixture
def windows() -> Windows:
    return Windows()


def load(lines: str, windows: Windows) -> ModuleType:
    module = ModuleType("dist_info_on_windows")
    exec(compile(TEMPLATE.read_text() + lines, "_dist_info.py", "exec"), module.__dict__)
    module.__dict__["os"] = windows
    return module


def test_libraries_are_dlls_in_bin(windows: Windows) -> None:
    libraries = load("", windows).ALL_LIBRARIES
    assert libraries["amdhip64"].matches("bin/amdhip64_7.dll")
    assert not libraries["amdhip64"].matches("lib/libamdhip64.so.7")
    # Case is ignored there.
    assert libraries["miopen"].matches("bin/miopen.dll") and libraries["miopen"].matches("Bin/MIOpen.DLL")
    assert libraries["hipblas"].matches("bin/libhipblas.dll")
    assert not libraries["hipblas"].matches("bin/libhipblaslt.dll"), "another library"
    assert libraries["hiprtc"].matches("bin/hiprtc0701.dll")
    assert not libraries["hiprtc"].matches("bin/hiprtc-builtins0701.dll")
    assert libraries["rccl"].pattern == "", "there is none"


def test_the_default_is_a_target_that_the_platform_has(windows: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROCM_SDK_TARGET_FAMILY", raising=False)
    monkeypatch.setenv("PATH", "")
    lines = tail("gfx942", "gfx1100", "gfx1151")
    lines += "LINUX_TARGET_FAMILIES.append('gfx942')\n"
    lines += "WINDOWS_TARGET_FAMILIES.append('gfx1100')\nWINDOWS_TARGET_FAMILIES.append('gfx1151')\n"
    nothing = f"KFD_TOPOLOGY = {os.devnull!r}\n"
    assert load(lines + nothing, windows).determine_target_family() == "gfx1100"
    linux = ModuleType("dist_info_on_linux")
    exec(compile(TEMPLATE.read_text() + lines + nothing, "_dist_info.py", "exec"), linux.__dict__)
    assert linux.determine_target_family() == "gfx942"
    # A release tool has trimmed only the common list.
    trimmed = lines.replace("AVAILABLE_TARGET_FAMILIES.append('gfx1100')\n", "", 1)
    assert load(trimmed + nothing, windows).default_target_family() == "gfx1151"


def test_a_package_of_one_system_has_a_marker(windows: Windows) -> None:
    lines = tail("gfx942", "gfx1100") + "ALL_PACKAGES['profiler'].sys_platform = 'linux'\n"
    for module in (load(lines, windows), load(lines.replace("profiler", "device"), windows)):
        extras = module.build_extras("gfx942")
        marked = {extra for extra, (first, *_) in extras.items() if first.endswith('; sys_platform == "linux"')}
        expected = {"profiler"} if module.ALL_PACKAGES["profiler"].sys_platform else {"device"}
        assert {extra for extra in marked if "-" not in extra} == expected
        assert ("device-gfx1100" in marked) == ("device" in expected)


@pytest.fixture
def installed(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Core and libraries in the layout of Windows, with every library in `bin`. They can be
    imported."""
    for name, libraries in (("core", ["amdhip64_7.dll", "amd_comgr0701.dll"]), ("libraries", ["rocblas.dll"])):
        pure, platform = f"rocm_sdk_{name}", f"_rocm_sdk_{name}"
        files = pure_files(pure, tail("gfx1100"))
        paths = [f"bin/{library}" for library in libraries]
        files |= {f"{platform}/{path}": b"MZ" for path in paths} | {f"{platform}/__init__.py": b""}
        files[f"{pure}/_contents.json"] = contents(f"rocm-sdk-{name}", platform, paths, [])
        site.unpack(Wheel(f"rocm-sdk-{name}", files=files))
    monkeypatch.syspath_prepend(str(site.directory))
    yield site
    for name in [name for name in sys.modules if name.split(".")[0].lstrip("_").startswith("rocm_sdk")]:
        del sys.modules[name]


def test_dlls_are_found_and_their_folders_named_once(
    installed: Site, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    rocm_sdk, packages = importlib.import_module("rocm_sdk"), importlib.import_module("rocm_sdk._contents")
    for module in (rocm_sdk, importlib.import_module("rocm_sdk._dist_info")):
        monkeypatch.setattr(module, "os", windows)
    loaded: list[Path] = []
    monkeypatch.setattr(ctypes, "CDLL", lambda path, mode: loaded.append(Path(path)))  # noqa: ARG005
    root = installed.directory
    assert rocm_sdk.find_libraries("rocblas", "rccl", "amdhip64") == [
        root / "_rocm_sdk_libraries/bin/rocblas.dll",
        root / "_rocm_sdk_core/bin/amdhip64_7.dll",
    ]
    rocm_sdk.initialize_process(preload_shortnames=["amd_comgr", "amdhip64"])
    rocm_sdk.preload_libraries("rocblas")
    assert [path.name for path in loaded] == ["amd_comgr0701.dll", "amdhip64_7.dll", "rocblas.dll"]
    bins = [root.resolve() / "_rocm_sdk_core/bin", root.resolve() / "_rocm_sdk_libraries/bin"]
    assert windows.dll_directories == bins == packages.dll_directories()


def test_the_folders_of_dlls_are_named_before_a_library_is_tested(
    installed: Site, windows: Windows, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    libraries = importlib.import_module("rocm_sdk.tests.libraries")
    monkeypatch.setattr(libraries, "os", windows)
    monkeypatch.setattr(importlib.import_module("rocm_sdk._dist_info"), "os", windows)
    seen = tmp_path / "seen"
    # Replaces the interpreter and records its arguments.
    recorder = tmp_path / "python"
    recorder.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >{seen}\nprintf \'\\n{{"error": null, "loaded": []}}\'\n')
    recorder.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(recorder))
    library = installed.directory / "_rocm_sdk_libraries/bin/rocblas.dll"
    policy = importlib.import_module("rocm_sdk.tests._policy").Policy(installed.directory)
    assert libraries.load(library, policy) == (None, "")
    bins = [f"{installed.directory.resolve()}/_rocm_sdk_{name}/bin" for name in ("core", "libraries")]
    assert seen.read_text().splitlines()[3:] == [str(library), *bins]


def test_programs_are_run_and_their_status_is_ours(
    installed: Site, windows: Windows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows has no exec, so the launcher waits."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace(returncode=7)

    launcher = importlib.import_module("rocm_sdk_core._cli")
    monkeypatch.setattr(launcher, "os", windows)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["hipcc", "--version"])
    program = installed.directory / "_rocm_sdk_core/bin/hipcc.exe"
    for path in (program, program.with_suffix("")):
        with pytest.raises(SystemExit) as ended:
            launcher._run({"name": "hipcc"}, path, None)
        assert ended.value.code == 7
    assert commands == [[str(program), "--version"]] * 2
