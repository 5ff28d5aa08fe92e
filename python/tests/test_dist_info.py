"""`_dist_info.py` alone: the GPU it finds, and the packages it selects."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from fixtures import TEMPLATE, make_topology, tail


def load(lines: str) -> ModuleType:
    """Runs the template with generated lines like release tools do: from text, without registering
    a module."""
    module = ModuleType("dist_info_by_itself")
    exec(compile(TEMPLATE.read_text() + lines, "_dist_info.py", "exec"), module.__dict__)
    return module


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ROCM_SDK_TARGET_FAMILY", "HSA_OVERRIDE_GFX_VERSION", "ROCM_SDK_VERBOSE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "scripts"))


@pytest.mark.parametrize(
    ("version", "target"),
    [(90402, "gfx942"), (110000, "gfx1100"), (90010, "gfx90a"), (90012, "gfx90c"), (120001, "gfx1201"), (0, None)],
)
def test_the_drivers_version_numbers(version: int, target: str | None) -> None:
    assert load("").target_of_gfx_version(version) == target


def test_gpus_are_found_in_node_order(tmp_path: Path) -> None:
    # Ten nodes: as text, 10 would come before 2.
    topology = make_topology(tmp_path / "nodes", *[110000] * 8, 90402, 100306)
    assert load("").discover_gpu_targets(topology) == ["gfx1100", "gfx942", "gfx1036"]
    assert load("").discover_gpu_targets(tmp_path / "nothing") == []


def test_the_runtimes_override_is_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = make_topology(tmp_path / "nodes", 100301)
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
    assert load("").discover_gpu_targets(topology) == ["gfx1030"]
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "nonsense")
    assert load("").discover_gpu_targets(topology) == ["gfx1031"]


def test_the_first_gpu_with_packages_decides(tmp_path: Path) -> None:
    topology = make_topology(tmp_path / "nodes", 100306, 90402, 110000)
    assert load(tail("gfx1100", "gfx942")).discover_current_target_family(topology) == "gfx942"
    assert load(tail("gfx950")).discover_current_target_family(topology) is None


@pytest.mark.parametrize(
    ("target", "family"),
    [("gfx1101", "gfx110X-all"), ("gfx942", "gfx94X-dcgpu"), ("gfx90a:xnack+", "gfx90a-dcgpu"), ("gfx803", None)],
)
def test_families_by_name(target: str, family: str | None) -> None:
    assert load(tail("gfx110X-all", "gfx94X-dcgpu", "gfx90a-dcgpu")).family_of_target(target) == family


def test_variable_then_gpu_then_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = make_topology(tmp_path / "nodes", 90402)
    lines = tail("gfx1100", "gfx942", "gfx950", topology=topology)
    assert load(lines).determine_target_family() == "gfx942"
    assert load(tail("gfx1100", "gfx950", topology=topology)).determine_target_family() == "gfx1100"
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", "gfx950")
    assert load(lines).determine_target_family() == "gfx950"


def test_a_variable_that_cannot_be_met_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCM_SDK_TARGET_FAMILY", "gfx94X-dcgpu")
    expected = (
        r"Requested ROCM_SDK_TARGET_FAMILY=gfx94X-dcgpu is not available in the distribution \(available: gfx942\)"
    )
    with pytest.raises(ValueError, match=expected):
        load(tail("gfx942")).determine_target_family()
    # If there is nothing to choose from, the variable is ignored.
    assert load(tail()).determine_target_family() is None


def test_offload_arch_is_asked_where_the_driver_does_not_tell(tmp_path: Path) -> None:
    module = load(tail("gfx1100", "gfx942", topology=tmp_path / "nothing"))
    script = tmp_path / "scripts" / "offload-arch"
    script.parent.mkdir()
    script.write_text('#!/bin/sh\n[ -z "$PYTHONPATH" ] && echo noise && echo gfx942:sramecc+:xnack-\n')
    assert module.discover_current_target_family() is None, "it is not executable"
    script.chmod(0o755)
    assert module.discover_current_target_family() == "gfx942"
    script.write_text("#!/bin/sh\necho gfx942; exit 1\n")
    assert module.discover_current_target_family() is None


def test_markers_only_where_the_platforms_differ() -> None:
    platforms = "LINUX_TARGET_FAMILIES.append('gfx942')\nLINUX_TARGET_FAMILIES.append('gfx1100')\n"
    only_linux = load(tail("gfx1100", "gfx942") + platforms)
    assert only_linux.get_target_family_platform_marker("gfx942") == ""
    both = load(tail("gfx1100", "gfx942") + platforms + "WINDOWS_TARGET_FAMILIES.append('gfx1100')\n")
    assert both.get_target_family_platform_marker("gfx942:xnack+") == 'sys_platform == "linux"'
    assert both.get_target_family_platform_marker("gfx1100") == ""


def test_packages_by_name() -> None:
    module = load(tail("gfx1100"))
    device = module.ALL_PACKAGES["device"]
    assert device.is_target_specific
    assert device.get_dist_package_name("gfx90a:xnack+") == "rocm-sdk-device-gfx90a"
    assert device.get_dist_package_require("gfx942") == "rocm-sdk-device-gfx942==6.4.0"
    assert device.get_py_package_name("gfx942") == "_rocm_sdk_libraries"
    with pytest.raises(ValueError, match="name the target"):
        device.get_dist_package_name()
    core = load("PY_PACKAGE_SUFFIX_NONCE = '_n1'\n").ALL_PACKAGES["core"]
    assert core.get_py_package_name() == "_rocm_sdk_core_n1"
    assert not core.has_py_package()
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rocm==0.0.0.dev0'"):
        core.get_py_package()
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rocm\[devel\]==6.4.0'"):
        module.ALL_PACKAGES["devel"].get_py_package()


def test_what_was_not_made_is_not_offered() -> None:
    module = load(tail("gfx1100", "gfx942", without=("profiler", "device", "hpc")))
    assert list(module.build_extras("gfx1100")) == ["libraries", "devel"]
    with pytest.raises(ModuleNotFoundError, match="distributed without a 'device' package"):
        module.get_package("device")


def test_generated_text_is_data() -> None:
    module = load("__version__ = '1.0\\'; raise SystemExit'\n")
    assert module.build_install_requires() == ["rocm-sdk-core==1.0'; raise SystemExit"]
