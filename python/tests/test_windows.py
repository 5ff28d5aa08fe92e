"""Tables for Windows, in a module that is told it runs there. What is installed runs under Wine,
with CPython for Windows (tests/windows)."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

import pytest

from fixtures import TEMPLATE, tail


class Windows:
    """The module `os` of a Python on Windows, as far as the packages use it."""

    name = "nt"

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
