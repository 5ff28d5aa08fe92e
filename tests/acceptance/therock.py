"""Artifacts as a TheRock build leaves them, with what is hard about them: chains of SONAMEs, links to programs and scripts, links
into other artifacts, variants of targets, profilers. Everything is made here by code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from command import run

VERSION = "10.1.0a20260822"
BASE = "base/aux-overlay/stage"


@dataclass(frozen=True)
class Build:
    root: Path

    def place(self, artifact: str, path: str) -> Path:
        name = artifact.split("_")[0]
        basedir = BASE if name == "base" else f"{name}/stage"
        place = self.root / artifact / basedir / path
        place.parent.mkdir(parents=True, exist_ok=True)
        (self.root / artifact / "artifact_manifest.txt").write_text(f"{basedir}\n")
        return place

    def file(self, artifact: str, path: str, text: str = "text\n") -> None:
        self.place(artifact, path).write_text(text)

    def script(self, artifact: str, path: str) -> None:
        place = self.place(artifact, path)
        place.write_text("#!/bin/sh\nexit 0\n")
        place.chmod(0o755)

    def link(self, artifact: str, path: str, target: str) -> None:
        self.place(artifact, path).symlink_to(target)

    def library(self, artifact: str, path: str, soname: str | None = None, needs: tuple[Path, ...] = ()) -> Path:
        place = self.place(artifact, path)
        source = self.root / "source.c"
        source.write_text(f"int f_{sum(map(ord, path))}(void) {{ return 42; }}\n")
        flags = ["-shared", "-fPIC", "-Wl,--no-as-needed", "-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN"]
        if soname:
            flags.append(f"-Wl,-soname,{soname}")
        run("gcc", *flags, "-o", place, source, *needs)
        source.unlink()
        return place

    def program(self, artifact: str, path: str) -> None:
        place = self.place(artifact, path)
        source = self.root / "source.c"
        source.write_text("int main(void) { return 0; }\n")
        run("gcc", "-o", place, source)
        source.unlink()

    def manifest(self, *, split: bool) -> None:
        document = {
            "the_rock_commit": "abc",
            "rocm_package_version": VERSION,
            "rocm_version": "10.1.0",
            "submodules": [],
            "flags": {"KPACK_SPLIT_ARTIFACTS": split},
        }
        self.file("base_lib_generic", "share/therock/therock_manifest.json", json.dumps(document, indent=2))
        targets = json.dumps({"dist_amdgpu_targets": "gfx942;gfx1100"})
        self.file("base_lib_generic", "share/therock/dist_info.json", targets)

    def runtime(self) -> Path:
        """Core and what belongs to it; the answer is the HIP library."""
        core, llvm = "core-hip_lib_generic", "amd-llvm_run_generic"
        self.library("amd-llvm_lib_generic", "lib/libamd_comgr.so.3", "libamd_comgr.so.3")
        hip = self.library(core, "lib/libamdhip64.so.7.1.0", "libamdhip64.so.7")
        self.link(core, "lib/libamdhip64.so.7", "libamdhip64.so.7.1.0")
        self.link(core, "lib/libamdhip64.so", "libamdhip64.so.7")
        self.library(core, "lib/libnosoname.so")
        self.link(core, "lib/libnosoname_link.so", "libnosoname.so")
        self.link(core, "lib/dangling", "missing")
        self.library("core-kpack_lib_generic", "lib/librocm_kpack.so.1", "librocm_kpack.so.1")
        run_part = "core-hip_run_generic"
        self.program(run_part, "bin/hipcc")
        self.link(run_part, "bin/hipconfig", "hipcc")
        self.script(run_part, "bin/script.sh")
        self.link(run_part, "bin/script-link", "script.sh")
        self.file("core-hip_dev_generic", "include/hip/hip_runtime.h")
        self.file("core-hip_dev_generic", "lib/cmake/hip/hip-config.cmake")
        self.link("base_lib_generic", "llvm", "lib/llvm")
        self.program(llvm, "lib/llvm/bin/clang-20")
        self.link(llvm, "lib/llvm/bin/clang", "clang-20")
        self.link(llvm, "lib/llvm/bin/clang++", "clang")
        self.link("base_run_generic", "bin/amdclang", "../lib/llvm/bin/clang")
        self.file("prim_dev_generic", "include/rocprim/rocprim.hpp")
        self.file("fftw3_lib_generic", "lib/libfftw3.a")
        return hip

    def profiler(self, hip: Path) -> None:
        systems, compute = "rocprofiler-systems_lib_generic", "rocprofiler-compute_run_generic"
        self.library(systems, "lib/librocprof-sys.so.1.2", "librocprof-sys.so.1", (hip,))
        self.link(systems, "lib/librocprof-sys.so.1", "librocprof-sys.so.1.2")
        self.link(systems, "lib/librocprof-sys.so", "librocprof-sys.so.1")
        self.program("rocprofiler-systems_run_generic", "bin/rocprof-sys-run")
        self.file("rocprofiler-systems_run_generic", "share/doc/rocprofiler-systems/README")
        self.script(compute, "libexec/rocprofiler-compute/rocprof-compute")
        self.file(compute, "share/rocprofiler-compute/config.yaml")

    def blas(self, family: str, hip: Path) -> None:
        lib = f"blas_lib_{family}"
        self.library(lib, "lib/librocblas.so.5.1", "librocblas.so.5", (hip,))
        self.link(lib, "lib/librocblas.so.5", "librocblas.so.5.1")
        self.link(lib, "lib/librocblas.so", "librocblas.so.5")
        self.file(f"blas_dev_{family}", "include/rocblas/rocblas.h")
        self.program(f"blas_test_{family}", "bin/rocblas-test")


def kpack(root: Path) -> None:
    """A build with KPACK_SPLIT_ARTIFACTS, with a target in two variants."""
    build = Build(root)
    build.manifest(split=True)
    hip = build.runtime()
    build.profiler(hip)
    build.blas("generic", hip)
    for target in ("gfx942", "gfx942:xnack+", "gfx1100"):
        name = target.replace(":", "-")
        build.file(f"blas_lib_{target}", f".kpack/blas_lib_{name}.kpack", target)
        build.file(f"blas_lib_{target}", f"lib/rocblas/library/K_{name}.co", target)


def legacy(root: Path) -> None:
    """A build before kpack, for two families."""
    build = Build(root)
    build.manifest(split=False)
    hip = build.runtime()
    build.profiler(hip)
    for family in ("gfx94X-dcgpu", "gfx110X-all"):
        build.blas(family, hip)
        build.file(f"blas_lib_{family}", f"lib/rocblas/library/K_{family}.co", family)


BUILDS: dict[str, Callable[[Path], None]] = {"kpack": kpack, "legacy": legacy}
