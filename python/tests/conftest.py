"""The distribution that the tests share: the whole set, but small, with loadable libraries and
runnable programs."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fixtures import (
    VERSION,
    Wheel,
    compile_library,
    contents,
    devel_tar,
    make_topology,
    pure_files,
    run,
    selector_sdist,
    selector_tree,
    tail,
    tool,
)
from sites import DEVEL_MEMBERS, Site

TARGETS = ("gfx1100", "gfx942")
TOOLS = ("rocminfo", "hipconfig", "offload-arch", "hipcc")


@pytest.fixture(scope="session")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled files in the layout of site-packages: core, and libraries that need it."""
    root = tmp_path_factory.mktemp("binaries")
    core = root / "_rocm_sdk_core"
    compile_library(core / "lib" / "libhsa-runtime64.so.1", "int hsa(void) { return 1; }")
    compile_library(
        core / "lib" / "libamdhip64.so.6",
        "int hsa(void); int hip(void) { return hsa(); }",
        str(core / "lib" / "libhsa-runtime64.so.1"),
        "-Wl,--disable-new-dtags,-rpath,$ORIGIN",
    )
    compile_library(
        root / "_rocm_sdk_libraries" / "lib" / "librocblas.so.4",
        "int hip(void); int blas(void) { return hip(); }",
        str(core / "lib" / "libamdhip64.so.6"),
        "-Wl,--disable-new-dtags,-rpath,$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib",
    )
    (core / "bin").mkdir()
    source = (
        '#include <stdio.h>\nint main(int n, char **a) { printf("ROCk %s %s\\n", a[0], n > 1 ? a[1] : ""); return 1; }'
    )
    run(["cc", "-x", "c", "-", "-o", core / "bin" / "rocminfo"], input=source)
    script = core / "bin" / "hipconfig"
    script.write_text('#!/bin/sh\necho "HIP version: 6.4 from $0"\n')
    script.chmod(0o755)
    return root


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory, binaries: Path) -> Path:
    """A folder with the wheels and the selector's source distribution, for a machine without a GPU."""
    return make_distribution(tmp_path_factory.mktemp("distribution"), binaries)


def make_distribution(directory: Path, binaries: Path, *gpus: int, version: str = VERSION) -> Path:
    """Writes the set; `gpus` are the GPUs of the simulated machine."""
    topology = make_topology(directory / "topology", *gpus)
    wheels = directory / "wheels"

    def lines(logical: str) -> str:
        return tail(*TARGETS, version=version, topology=topology, logical=logical)

    selector_sdist(selector_tree(directory / "rocm", lines("meta")), wheels)
    for wheel in make_wheels(binaries, version, lines):
        wheel.write(wheels)
    return wheels


def make_wheels(binaries: Path, version: str, lines: Callable[[str], str]) -> list[Wheel]:
    core = Wheel("rocm-sdk-core", version, pure_files("rocm_sdk_core", lines("core")))
    manifest = {"rocm_package_version": version, "rocm_version": version}
    core.files.update(
        {
            "_rocm_sdk_core/__init__.py": b"",
            "_rocm_sdk_core/share/therock/therock_manifest.json": json.dumps(manifest).encode(),
            "_rocm_sdk_core/share/therock/dist_info.json": b'{"dist_amdgpu_targets": "gfx1100;gfx942"}',
        }
    )
    names = ["lib/libhsa-runtime64.so.1", "lib/libamdhip64.so.6", "bin/rocminfo", "bin/hipconfig"]
    core.files.update({f"_rocm_sdk_core/{name}": binaries / "_rocm_sdk_core" / name for name in names})
    core.executables = {"_rocm_sdk_core/bin/rocminfo", "_rocm_sdk_core/bin/hipconfig"}
    tools: list[object] = [
        tool("rocminfo", "bin/rocminfo", expect="ROCk", exit_codes=[0, 1]),
        tool("hipconfig", "bin/hipconfig", devel=True, arguments=["--version"], expect="HIP version:"),
        tool("offload-arch", "bin/rocminfo", needs_gpu=True, exit_codes=[1]),
        tool("hipcc", "bin/hipconfig", needs=["no-such-compiler"]),
    ]
    core.scripts = {name: f"rocm_sdk_core._cli:{name.replace('-', '_')}" for name in TOOLS}
    core.files["rocm_sdk_core/_contents.json"] = contents("rocm-sdk-core", "_rocm_sdk_core", names[:2], tools)

    requires_core = [f"rocm-sdk-core=={version}"]
    libraries = Wheel(
        "rocm-sdk-libraries", version, pure_files("rocm_sdk_libraries", lines("libraries")), requires=requires_core
    )
    blas = "lib/librocblas.so.4"
    libraries.files["_rocm_sdk_libraries/__init__.py"] = b""
    libraries.files[f"_rocm_sdk_libraries/{blas}"] = binaries / "_rocm_sdk_libraries" / blas
    skipped = ("lib/libclang_rt.so", "sanitizer runtime")
    libraries.files["rocm_sdk_libraries/_contents.json"] = contents(
        "rocm-sdk-libraries", "_rocm_sdk_libraries", [blas, skipped], []
    )
    wheels = [core, libraries]
    for target in TARGETS:
        wheels.append(device_wheel(target, version))
    devel = Wheel("rocm-sdk-devel", version, pure_files("rocm_sdk_devel", lines("devel")), requires=requires_core)
    devel.files["rocm_sdk_devel/_devel.tar"] = devel_tar(DEVEL_MEMBERS)
    devel.files["rocm_sdk_devel/_contents.json"] = contents("rocm-sdk-devel", "_rocm_sdk_devel", [], [])
    return [*wheels, devel]


def device_wheel(target: str, version: str = VERSION) -> Wheel:
    kernel = f"lib/rocblas/library/K_{target}.co"
    link = {"relpath": kernel, "target": f"../../../../_rocm_sdk_libraries/{kernel}"}
    return Wheel(
        f"rocm-sdk-device-{target}",
        version,
        {
            f"_rocm_sdk_libraries/_device_{target}.py": f'TARGET = "{target}"\nVERSION = "{version}"\n'.encode(),
            f"_rocm_sdk_libraries/{kernel}": target.encode(),
            f"_rocm_sdk_libraries/.devel_links/{target}.json": json.dumps(
                {"version": version, "links": [link]}, indent=2
            ).encode(),
        },
        requires=[f"rocm-sdk-libraries=={version}"],
    )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


@pytest.fixture
def devel(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`rocm_sdk._devel` of that site, imported into this process."""
    monkeypatch.syspath_prepend(str(site.directory))
    yield importlib.import_module("rocm_sdk._devel")
    for name in [name for name in sys.modules if name.split(".")[0] == "rocm_sdk"]:
        del sys.modules[name]
