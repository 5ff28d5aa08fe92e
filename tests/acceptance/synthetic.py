"""Small inputs made by code: artifacts in TheRock's layout, and .deb files with any member we
like."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path

from command import run
from trees import put

VERSION = "7.1.0"
BASE = "base/aux-overlay/stage"

# A tar member and its content.
Member = tuple[tarfile.TarInfo, bytes]


@dataclass(frozen=True)
class Compiled:
    """Shared libraries that the compiler made once: the runtime, what it loads by name, and one
    that needs it."""

    runtime: bytes
    comgr: bytes
    rocblas: bytes

    @staticmethod
    def make(directory: Path) -> Compiled:
        runtime, rocblas = directory / "libamdhip64.so", directory / "librocblas.so"
        comgr = directory / "libamd_comgr.so"
        (directory / "comgr.c").write_text("int amd_comgr_get_version(void) { return 3; }\n")
        (directory / "hip.c").write_text("int hipGetDeviceCount(int *n) { *n = 0; return 100; }\n")
        (directory / "blas.c").write_text(
            "int hipGetDeviceCount(int *);\nint rocblas_count(int *n) { return hipGetDeviceCount(n); }\n"
        )
        flags = ["-shared", "-fPIC", "-O1"]
        run("gcc", *flags, "-Wl,-soname,libamdhip64.so.7", "-o", runtime, directory / "hip.c")
        run("gcc", *flags, "-Wl,-soname,libamd_comgr.so.3", "-o", comgr, directory / "comgr.c")
        run("gcc", *flags, "-Wl,-soname,librocblas.so.5", "-o", rocblas, directory / "blas.c", runtime)
        return Compiled(runtime.read_bytes(), comgr.read_bytes(), rocblas.read_bytes())


def write_artifact(
    root: Path, name: str, basedir: str, files: dict[str, bytes | str], links: dict[str, str] | None = None
) -> Path:
    """One artifact directory with one base directory."""
    artifact = root / name
    for relative, content in files.items():
        put(artifact / basedir / relative, content, 0o755 if relative.startswith("bin/") or ".so" in relative else None)
    for relative, target in (links or {}).items():
        path = artifact / basedir / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    (artifact / "artifact_manifest.txt").write_text(f"{basedir}\n")
    return artifact


def manifest(**changes: object) -> str:
    versions = {"the_rock_commit": None, "rocm_package_version": VERSION, "rocm_version": VERSION, "submodules": []}
    return json.dumps({**versions, "flags": {"KPACK_SPLIT_ARTIFACTS": True}, **changes}, indent=2)


def write_artifacts(root: Path, compiled: Compiled) -> Path:
    """A runtime, rocBLAS, and rocBLAS kernels for two GPU targets."""
    root.mkdir(parents=True, exist_ok=True)
    targets = ("gfx942", "gfx1100")
    therock, hip, blas = "share/therock", "core/clr/stage", "math-libs/BLAS/rocBLAS/stage"
    inventory = json.dumps({"dist_amdgpu_targets": ";".join(targets)})
    texts = {f"{therock}/therock_manifest.json": manifest(), f"{therock}/dist_info.json": inventory}
    write_artifact(root, "base_lib_generic", BASE, texts)
    libraries = {f"lib/libamdhip64.so.{VERSION}": compiled.runtime, "lib/libamd_comgr.so.3": compiled.comgr}
    links = {"lib/libamdhip64.so.7": f"libamdhip64.so.{VERSION}", "lib/libamdhip64.so": "libamdhip64.so.7"}
    write_artifact(root, "core-hip_lib_generic", hip, libraries, links)
    headers = {"include/hip/hip_runtime.h": "#pragma once\n", "lib/cmake/hip/hip-config.cmake": "# hip\n"}
    write_artifact(root, "core-hip_dev_generic", hip, headers)
    links = {"lib/librocblas.so.5": "librocblas.so.5.1", "lib/librocblas.so": "librocblas.so.5"}
    write_artifact(root, "blas_lib_generic", blas, {"lib/librocblas.so.5.1": compiled.rocblas}, links)
    for target in targets:
        kernel = f"lib/rocblas/library/TensileLibrary_{target}.dat"
        write_artifact(root, f"blas_lib_{target}", blas, {kernel: f"kernels for {target}\n" * 100})
    return root


def tar(members: list[Member]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def file_member(name: str, content: bytes = b"content\n", mode: int = 0o644) -> Member:
    member = tarfile.TarInfo(name)
    member.mode = mode
    return member, content


def link_member(name: str, target: str) -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = tarfile.SYMTYPE, target, 0o777
    return member, b""


def hard_link_member(name: str, target: str) -> Member:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.LNKTYPE, target
    return member, b""


def write_deb(path: Path, members: list[Member], package: str = "libamdhip64-5", version: str = "5.2.3-8") -> Path:
    """A package as dpkg-deb lays it out (deb(5)), with members that dpkg-deb itself would not
    make."""
    control = (
        f"Package: {package}\nVersion: {version}\nArchitecture: amd64\nMaintainer: nobody\n"
        "Source: rocm-hipamd\nDescription: made by a test\n"
    )
    parts = [
        ("debian-binary", b"2.0\n"),
        ("control.tar", tar([file_member("./control", control.encode())])),
        ("data.tar", tar(members)),
    ]
    archive = b"!<arch>\n"
    for name, content in parts:
        archive += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        archive += content + b"\n" * (len(content) % 2)
    path.write_bytes(archive)
    return path
