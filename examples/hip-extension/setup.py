"""Compiles the extension: kernels for every GPU target of HIP_TARGETS, host code for this machine.

ROCM_HOME says where ROCm is, HIP_CLANG which clang compiles; without it, ROCm's own does, else one
of PATH.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

TARGETS = "gfx90a;gfx942;gfx1100;gfx1201"
CLANGS = ("amdclang++", "clang++-19", "clang++")


def compiler(rocm: Path) -> str:
    own = rocm / "lib/llvm/bin/clang++"
    candidates = (os.environ.get("HIP_CLANG"), str(own), *CLANGS)
    for candidate in candidates:
        if candidate and (found := shutil.which(candidate)):
            return found
    raise SystemExit(f"no clang that compiles HIP: neither {own} nor {', '.join(CLANGS)} is there; HIP_CLANG names one")


class BuildHip(build_ext):
    """setuptools knows no HIP: every file goes through clang, and clang links them."""

    def build_extension(self, extension: Extension) -> None:
        rocm = Path(os.environ.get("ROCM_HOME", "/opt/rocm"))
        clang = compiler(rocm)
        targets = [target for target in os.environ.get("HIP_TARGETS", TARGETS).split(";") if target]
        common = [clang, "-O2", "-fPIC", "-D__HIP_PLATFORM_AMD__", "-isystem", str(rocm / "include")]
        python = [f"-I{folder}" for folder in self.include_dirs]
        Path(self.build_temp).mkdir(parents=True, exist_ok=True)
        objects = []
        for source in extension.sources:
            output = str(Path(self.build_temp, Path(source).name + ".o"))
            # The kernel uses the compiler's own functions only, so that the device library of no
            # ROCm has to fit this clang.
            hip = ["-x", "hip", "-nogpulib", *(f"--offload-arch={target}" for target in targets)]
            language = hip if source.endswith(".hip") else ["-x", "c++", "-DPy_LIMITED_API=0x03080000", *python]
            self.spawn([*common, *language, "-c", source, "-o", output])
            objects.append(output)
        place = Path(self.get_ext_fullpath(extension.name))
        place.parent.mkdir(parents=True, exist_ok=True)
        self.spawn([clang, "-shared", "-fPIC", *objects, f"-L{rocm / 'lib'}", "-lamdhip64", "-o", str(place)])


setup(
    name="hip-extension",
    version=os.environ.get("HIP_EXTENSION_VERSION") or Path("version.txt").read_text().strip(),
    description="A small extension with a HIP kernel",
    license="MIT",
    python_requires=">=3.8",
    package_dir={"": "src"},
    packages=["hip_extension"],
    ext_modules=[Extension("hip_extension._hip", ["src/scale.hip", "src/module.cpp"], py_limited_api=True)],
    options={"bdist_wheel": {"py_limited_api": "cp38"}},
    cmdclass={"build_ext": BuildHip},
)
