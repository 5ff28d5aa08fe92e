"""Artifacts as a TheRock build leaves them, with what is hard about them: chains of SONAMEs, links
to programs and scripts, links into other artifacts, variants of targets, profilers. Everything is
made here by code."""

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from command import run

VERSION = "10.1.0a20260822"
BASE = "base/aux-overlay/stage"
# Functions of Windows' own libraries that take nothing.
FUNCTIONS = {"KERNEL32.dll": "IsDebuggerPresent", "MSVCP140.dll": "_Thrd_yield"}


def function_in(library: str) -> str:
    """The function that a file for Windows has, or that others call."""
    return FUNCTIONS.get(library) or "f_" + re.sub(r"\W", "_", library)


def link_for_windows(place: Path, code: str, needs: tuple[str, ...] = (), exported: tuple[str, ...] = ()) -> Path:
    """Links a DLL that exports functions, or the program of this name, which imports a function of
    each library in `needs`, or of `LIBRARY:FUNCTION`."""
    with tempfile.TemporaryDirectory() as folder:
        imports = []
        for number, need in enumerate(needs):
            name, _, function = need.partition(":")
            Path(folder, "x.def").write_text(f"LIBRARY {name}\nEXPORTS\n{function or function_in(name)}\n")
            imports.append(f"{number}.lib")
            run("llvm-dlltool-19", "-m", "i386:x86-64", "-d", "x.def", "-l", imports[-1], cwd=folder)
        Path(folder, "x.c").write_text(code)
        run("clang-19", "--target=x86_64-pc-windows-msvc", "-O1", "-c", "x.c", "-o", "x.obj", cwd=folder)
        kind = ["/entry:" + function_in(place.name), "/subsystem:console"]
        if exported:
            kind = ["/dll", "/noentry", *(f"/export:{name}" for name in exported)]
        run("lld-link-19", "/nodefaultlib", "/brepro", "/out:x.out", "x.obj", *imports, *kind, cwd=folder)
        place.write_bytes(Path(folder, "x.out").read_bytes())
    return place


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

    def windows_file(
        self, artifact: str, path: str, needs: tuple[str, ...] = (), without_device: tuple[str, ...] = ()
    ) -> Path:
        """A DLL or a program for Windows, by its name, which calls a function of each library in
        `needs` and returns a number that its path tells. Windows can load it. Functions of HIP say
        that there is no device."""
        place = self.place(artifact, path)
        own, others = function_in(place.name), [function_in(name) for name in needs]
        declared = "".join(f"__declspec(dllimport) int {name}(void);\n" for name in others)
        called = "".join(f" + 0 * {name}()" for name in others)
        code = f"{declared}int {own}(void) {{ return {sum(map(ord, path))}{called}; }}\n"
        code += "".join(f"int {name}(void) {{ return 100; }}\n" for name in without_device)
        return link_for_windows(place, code, needs, (own, *without_device) if path.endswith(".dll") else ())

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


def windows(root: Path) -> None:
    """A build for Windows: libraries in `bin`, import libraries in `lib`, no links, no SONAMEs."""
    build = Build(root)
    build.manifest(split=True)
    build.windows_file("amd-llvm_lib_generic", "bin/amd_comgr0701.dll", ("KERNEL32.dll",))
    for name in ("clang", "amdclang", "amdclang++", "offload-arch"):
        build.windows_file("amd-llvm_run_generic", f"lib/llvm/bin/{name}.exe")
    build.windows_file("core-kpack_lib_generic", "bin/rocm_kpack.dll")
    build.windows_file(
        "core-hip_lib_generic", "bin/amdhip64_7.dll", ("KERNEL32.dll", "MSVCP140.dll"), ("hipGetDeviceCount",)
    )
    build.windows_file("core-hip_lib_generic", "bin/hiprtc0701.dll", ("amd_comgr0701.dll",))
    build.windows_file("core-hip_run_generic", "bin/hipcc.exe")
    build.windows_file("core-hip_run_generic", "bin/hipconfig.exe")
    build.windows_file("core-hipinfo_run_generic", "bin/hipInfo.exe", ("amdhip64_7.dll",))
    build.file("core-hip_dev_generic", "lib/amdhip64.lib")
    build.file("core-hip_dev_generic", "include/hip/hip_runtime.h")
    build.file("core-hip_dev_generic", "lib/cmake/hip/hip-config.cmake")
    build.file("prim_dev_generic", "include/rocprim/rocprim.hpp")
    build.windows_file("blas_lib_generic", "bin/rocblas.dll", ("amdhip64_7.dll",))
    build.windows_file("blas_lib_generic", "bin/hipblas.dll", ("rocblas.dll",))
    build.file("blas_dev_generic", "lib/rocblas.lib")
    build.file("blas_dev_generic", "include/rocblas/rocblas.h")
    build.windows_file("blas_test_generic", "bin/rocblas-test.exe")
    for target in ("gfx1100", "gfx1151"):
        build.file(f"blas_lib_{target}", f".kpack/blas_lib_{target}.kpack", target)
        build.file(f"blas_lib_{target}", f"bin/rocblas/library/K_{target}.co", target)


SPEAKER = """
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    for (int up = 0; up < 2 && strrchr(path, '/'); up++) *strrchr(path, '/') = 0;
    if (argc > 1 && !strcmp(argv[1], "--rocmpath")) return puts(path) < 0;
    return puts("clang LLVM compiler; USAGE: this; HIP version: 7; AMD-SMI; Management") < 0;
}
"""
DRIVERS = ("amdclang", "amdclang++", "amdclang-cl", "amdclang-cpp", "amdflang", "amdlld", "amdllvm")


@dataclass(frozen=True)
class Library:
    """A library as TheRock's own tests ask for it: the package that has it, where, and by which
    pattern."""

    package: str
    folder: str
    pattern: str

    @property
    def soname(self) -> str:
        return self.pattern.split(".so")[0].rstrip("*") + ".so.1"


def full(root: Path, libraries: list[Library]) -> None:
    """A build with KPACK_SPLIT_ARTIFACTS in which TheRock's own tests of installed packages find
    all that they ask for."""
    kpack(root)
    build = Build(root)
    for library in libraries:
        artifact = "blas_lib_generic" if library.package == "libraries" else "core-runtime_lib_generic"
        known = (root / "core-hip_lib_generic", root / "core-kpack_lib_generic", root / "amd-llvm_lib_generic")
        if not any(list(folder.rglob(library.pattern)) for folder in known):
            build.library(artifact, f"{library.folder}/{library.soname}", library.soname)
    for loaded in ("libhiprtc-builtins.so.1", "libhsa-runtime64.so.1"):
        build.library("core-runtime_lib_generic", f"lib/{loaded}", loaded)
    run_part, llvm = "core-hip_run_generic", "amd-llvm_run_generic"
    for artifact, path in ((llvm, "lib/llvm/bin/clang-20"), (run_part, "bin/hipcc")):
        build.place(artifact, path).unlink()
    names = ("hipcc", "hipify-clang", "hipify-perl", "amd-smi", "rocm-smi", "rocminfo", "rocm_agent_enumerator")
    for artifact, path in ((llvm, "lib/llvm/bin/clang-20"), *((run_part, f"bin/{name}") for name in names)):
        place, source = build.place(artifact, path), root / "source.c"
        source.write_text(SPEAKER)
        run("gcc", "-o", place, source)
        source.unlink()
    (root / "base_run_generic" / BASE / "bin/amdclang").unlink()
    for name in DRIVERS:
        build.link(llvm, f"lib/llvm/bin/{name}", "clang-20")
        build.link("base_run_generic", f"bin/{name}", f"../lib/llvm/bin/{name}")


BUILDS: dict[str, Callable[[Path], None]] = {"kpack": kpack, "legacy": legacy, "windows": windows}
