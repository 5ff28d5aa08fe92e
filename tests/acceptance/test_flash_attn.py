"""flash-attn's wheels are imported before they leave: the real Triton backend, and a compiled
extension of the real name."""

import shutil
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import served

from command import Result, Rocwheel, with_uv
from linked_wheels import PYTHON, gcc, write_wheel

ROCM, TORCH = "6.2", "2.5.1"
NAME = "flash_attn-2.8.3+rocm6.2torch2.5"

SETUP = """
import os
from setuptools import Extension, setup

extension = Extension("flash_attn_2_cuda", ["extension.c"], library_dirs=[os.environ["ROCM_HOME"] + "/lib"],
                      extra_link_args=["-Wl,--no-as-needed", "-l:libamdhip64.so.6"])
setup(name="flash_attn", version="2.8.3+" + os.environ["FLASH_ATTN_LOCAL_VERSION"], packages=["flash_attn"],
      ext_modules=[extension], install_requires=["torch"])
"""
EXTENSION = """
#include <Python.h>
int hip_answer(void);
int {needed}(void);
static PyObject *answer(PyObject *self, PyObject *none) {{ return PyLong_FromLong({needed}()); }}
static PyMethodDef methods[] = {{{{"answer", answer, METH_NOARGS, 0}}, {{0, 0, 0, 0}}}};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{module}", 0, -1, methods}};
PyMODINIT_FUNC PyInit_{module}(void) {{ return PyModule_Create(&module); }}
"""
# As setup.py calls Composable Kernel's generator: one file.
GENERATE = """
import pathlib, sys
pathlib.Path(sys.argv[sys.argv.index("--output_dir") + 1], "one.cpp").write_text("")
"""
INIT = '__version__ = "2.8.3"\n\nimport flash_attn_2_cuda\n\nassert flash_attn_2_cuda.answer() == 62\n'
# PyTorch's wheels for ROCm have ROCm's libraries in torch/lib and load them first.
TORCH_INIT = """
import ctypes, pathlib
__version__ = "2.5.1+rocm6.2"
ctypes.CDLL(str(pathlib.Path(__file__).parent / "lib/libamdhip64.so"), ctypes.RTLD_GLOBAL)
"""
TORCH_VERSION = """
from typing import Optional
__version__ = {version!r}
cuda: Optional[str] = {cuda!r}
hip: Optional[str] = {hip!r}
"""


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An installed ROCm of one library."""
    prefix = tmp_path / "rocm"
    for folder in (".info", "bin"):
        (prefix / folder).mkdir(parents=True)
    (prefix / ".info/version").write_text("6.2.0\n")
    gcc(prefix / "lib/libamdhip64.so.6", "int hip_answer(void) { return 62; }\n", "-Wl,-soname,libamdhip64.so.6")
    return prefix


@pytest.fixture
def index(prefix: Path, tmp_path: Path) -> Iterator[str]:
    """An index with a torch that has ROCm inside."""
    library = (prefix / "lib/libamdhip64.so.6").read_bytes()
    members = {"torch/__init__.py": TORCH_INIT.encode(), "torch/lib/libamdhip64.so": library}
    version = TORCH_VERSION.format(version="2.5.1+rocm6.2", cuda=None, hip="6.2.41133-dd7f95766")
    members["torch/version.py"] = version.encode()
    write_wheel(tmp_path / "simple/torch", members, name="torch", version=TORCH)
    with served(tmp_path) as address:
        yield f"{address}/simple/"


def sources(folder: Path, module: str = "flash_attn_2_cuda", needed: str = "hip_answer") -> Path:
    """What flash-attn's tree has, as far as its recipe looks at it, with an extension of a few
    lines."""
    generator = folder / "csrc/composable_kernel/example/ck_tile/01_fmha/generate.py"
    generator.parent.mkdir(parents=True)
    generator.write_text(GENERATE)
    (folder / "flash_attn").mkdir()
    (folder / "flash_attn/__init__.py").write_text(INIT)
    (folder / "setup.py").write_text(SETUP)
    (folder / "extension.c").write_text(EXTENSION.format(module=module, needed=needed))
    return folder


def build_ck(rocwheel: Rocwheel, tmp_path: Path, index: str, *more: object, expect: int = 0) -> Result:
    return rocwheel.run(
        *("build", "flash-attn", "--backend", "ck", "--rocm", ROCM, "--torch", TORCH, "--source", tmp_path / "source"),
        *("--rocm-sdk", f"prefix={tmp_path / 'rocm'}", "--torch-index", index, "--interpreter", sys.executable),
        *("--no-preflight", "--output", tmp_path / "out", *more),
        environment=with_uv(),
        expect=expect,
    )


def log(output: Path, stage: str) -> str:
    (path,) = output.glob(f".rocwheel/jobs/*/logs/*-{stage}.log")
    return path.read_text()


def test_a_compiled_wheel_is_imported_beside_torch(rocwheel: Rocwheel, index: str, tmp_path: Path) -> None:
    """It is repaired: its tag says what its symbols allow, and ROCm comes with torch, not as a
    requirement."""
    sources(tmp_path / "source")
    build_ck(rocwheel, tmp_path, index)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    assert wheel.name.startswith(f"{NAME}-{PYTHON}-{PYTHON}-manylinux"), wheel.name
    assert wheel.name.endswith("_x86_64.whl") and "linux_x86_64" not in wheel.name.split("-")[-1].split(".")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = [archive.read(name).decode() for name in names if name.endswith("/METADATA")]
    assert not [name for name in names if "libamdhip64" in name], "ROCm stays outside"
    requirements = [line for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert requirements == ["Requires-Dist: torch"]
    assert "2.8.3 beside torch 2.5.1+rocm6.2" in log(tmp_path / "out", "check-import")
    # As it was built, when that is asked for.
    build_ck(rocwheel, tmp_path, index, "--repair", "none")
    assert (tmp_path / "out" / f"{NAME}-{PYTHON}-{PYTHON}-linux_x86_64.whl").is_file()


@pytest.mark.parametrize(
    ("module", "needed", "reason"),
    [
        ("flash_attn_2_cuda", "nowhere", "undefined symbol"),
        ("flash_attn_3_cuda", "hip_answer", "does not define module export function"),
    ],
)
def test_a_compiled_wheel_that_does_not_load_stays_here(
    rocwheel: Rocwheel, index: str, tmp_path: Path, module: str, needed: str, reason: str
) -> None:
    sources(tmp_path / "source", module, needed)
    said = build_ck(rocwheel, tmp_path, index, expect=1).stderr
    assert "check-import" in said and reason in said, said
    assert "an extension of the wheel does not load" in said, said
    assert not list((tmp_path / "out").glob("*.whl"))


@pytest.mark.parametrize(
    ("version", "hip", "cuda", "rocm", "reason"),
    [
        ("2.6.0", None, "12.4", "6.2", "torch 2.6.0 is for CUDA 12.4, not for ROCm 6.2"),
        ("2.15.0+cpu", None, None, "7.14", "torch 2.15.0+cpu is for no GPU, not for ROCm 7.14"),
        ("2.9.1", "6.3.42131", None, "6.4", "torch 2.9.1 is for ROCm 6.3, not for 6.4"),
        ("2.13.0+rocm10.0.0", "7.15.26333", None, "7.14", "torch 2.13.0+rocm10.0.0 is for ROCm 10.0, not for 7.14"),
        # The HIP of ROCm 10 has a number of its own.
        ("2.13.0+rocm10.0.0", "7.15.26333", None, "10.0", None),
        ("2.13.0", "7.15.26333", None, "10.0", None),
        ("2.6.0+rocm6.2.4", "6.2.41134-65d174c3e", None, "6.2.4", None),
    ],
)
def test_a_torch_for_something_else_stops_the_build_before_it_compiles(
    rocwheel: Rocwheel,
    index: str,
    tmp_path: Path,
    version: str,
    hip: str | None,
    cuda: str | None,
    rocm: str,
    reason: str | None,
) -> None:
    """Beside an index without the torch that was asked for, PyPI has one for CUDA."""
    source = sources(tmp_path / "source")
    shutil.rmtree(tmp_path / "simple/torch")
    members = {"torch/__init__.py": b"raise SystemExit('imported')", "torch/version.py": b""}
    members["torch/version.py"] = TORCH_VERSION.format(version=version, cuda=cuda, hip=hip).encode()
    write_wheel(tmp_path / "simple/torch", members, name="torch", version=version.partition("+")[0])
    (tmp_path / "rocm/.info/version").write_text(f"{rocm}\n")
    said = rocwheel.run(
        *("build", "flash-attn", "--backend", "ck", "--rocm", rocm, "--torch", version.partition("+")[0]),
        *("--source", source, "--rocm-sdk", f"prefix={tmp_path / 'rocm'}", "--torch-index", index),
        *("--interpreter", sys.executable, "--no-preflight", "--output", tmp_path / "out"),
        *("--gpu-targets", "gfx942"),
        environment=with_uv(),
        expect=1,
    ).stderr
    if reason:
        assert "torch-is-for-rocm" in said and reason in said, said
        assert not list((tmp_path / "out").glob(".rocwheel/jobs/*/logs/*-wheel.log"))
    else:
        assert f"torch {version} with HIP {hip}" in log(tmp_path / "out", "torch-is-for-rocm")


def test_the_triton_of_a_torch_decides_whether_a_wheel_can_be_imported(
    rocwheel: Rocwheel, sdist: Path, tmp_path: Path
) -> None:
    """triton 3.1, which torch 2.5 requires, does not take what 2.8.3 gives it."""
    command = ["build", "flash-attn", "--backend", "triton", "--rocm", ROCM, "--torch", "2.5.1", "--source", sdist]
    said = rocwheel.run(*command, "--output", tmp_path / "out", environment=with_uv(), expect=2).stderr
    assert "cannot be imported beside triton 3.1, which this torch requires" in said, said
    # Were the table not to know, the check would say so.
    text = (Path(__file__).resolve().parents[2] / "data/frameworks.toml").read_text()
    (tmp_path / "table.toml").write_text(text[: text.index("# Their backward kernels")])
    options = ["--table", tmp_path / "table.toml", "--output", tmp_path / "out"]
    rocwheel.run(*command, *options, environment=with_uv(), expect=1).says(
        "check-kernels", "'IS_CAUSAL' is not in list"
    )
    assert not list((tmp_path / "out").glob("*.whl"))


def test_the_kernels_of_the_triton_backend_are_compiled(rocwheel: Rocwheel, sdist: Path, tmp_path: Path) -> None:
    """Of the real 2.8.3, and of the same without a module that its wheel needs."""
    command = ["build", "flash-attn", "--backend", "triton", "--rocm", ROCM, "--torch", "2.6.0"]
    needs = "needs `FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE` in the environment"
    rocwheel.run(*command, "--source", sdist, "--output", tmp_path / "out", environment=with_uv()).says(needs)
    rocwheel.run("release", "pages", "--wheels", tmp_path / "out", "--output", tmp_path / "pages")
    assert f"flash-attn (triton) {needs}" in (tmp_path / "pages/release-notes.md").read_text()
    assert "passed: 2 tests" in log(tmp_path / "out", "check-kernels")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    tree = tmp_path / "flash_attn-2.8.3"
    (tree / "flash_attn/flash_attn_triton_amd/interface_fa.py").unlink()
    shutil.rmtree(tree / "csrc")
    broken = ["--source", tree, "--output", tmp_path / "broken"]
    said = rocwheel.run(*command, *broken, environment=with_uv(), expect=1).stderr
    assert "check-kernels" in said and "cannot import name 'interface_fa'" in said, said
    assert not list((tmp_path / "broken").glob("*.whl"))


TEN = "gfx90a gfx942 gfx950 gfx1100 gfx1101 gfx1102 gfx1150 gfx1151 gfx1200 gfx1201".split()


@pytest.mark.parametrize(
    ("version", "allowed", "targets", "reason"),
    [
        ("2.8.4", ["native", *TEN], "gfx1100,gfx1201,gfx942,gfx1151", None),
        # The first commits of that name; a release that somebody mended; no list.
        ("2.8.4", ["native", *TEN[:3]], "gfx1100,gfx942", "flash-attn 2.8.4 cannot be built for gfx1100"),
        ("2.8.3", ["native", *TEN], "gfx1151", None),
        ("2.8.3", None, "gfx1151", "flash-attn 2.8.3 cannot be built for gfx1151"),
        ("2.8.4", None, "gfx1151", None),
    ],
)
def test_the_tree_says_for_which_targets_it_can_be_built(
    rocwheel: Rocwheel, tmp_path: Path, version: str, allowed: list[str] | None, targets: str, reason: str | None
) -> None:
    source = sources(tmp_path / "source")
    (source / "flash_attn/__init__.py").write_text(f'__version__ = "{version}"\n')
    if allowed:
        (source / "setup.py").write_text(f"def validate(archs):\n    allowed_archs = {allowed!r}\n")
    said = rocwheel.run(
        *("build", "flash-attn", "--backend", "ck", "--source", source, "--python", "3.12", "--torch", "2.14.0"),
        *("--rocm", "7.2", "--gpu-targets", targets, "--output", tmp_path / "out", "--dry-run"),
        environment=with_uv(),
        expect=2 if reason else 0,
    )
    assert (reason or "GPU targets: ") in said.stdout + said.stderr, said
