"""MAGMA's tarball from a small tree with MAGMA's make interface, compiled by clang: the script in
it is the build, names no machine, and the bytes are the same wherever it was built."""

import hashlib
import os
import re
import shutil
import tarfile
from pathlib import Path

import magma_tree
import pytest

from command import Rocwheel, run
from linked_wheels import gcc

GPU = Path(__file__).resolve().parents[2] / "crates/base/fixtures/gpu"
TARGETS = "gfx942,gfx1100"

# A kernel that no other file sees: clang gives it a name with a number.
KERNEL = """
#include "hip/hip_runtime.h"
static __global__ void zaxpby_kernel(magmaDoubleComplex alpha, magmaDoubleComplex *y) {
    y[__builtin_amdgcn_workitem_id_x()] *= alpha;
}
extern "C" void magmablas_zaxpby(magmaDoubleComplex alpha, magmaDoubleComplex *y) {
    zaxpby_kernel<<<dim3(1), dim3(64)>>>(alpha, y);
}
"""
HIPCC = """#!/bin/sh
case " $* " in
*" -c "* | *" -E "*) exec clang++-19 -x hip -nogpulib -nogpuinc -I {headers} "$@" ;;
esac
for word; do
    shift
    case $word in --offload-arch=* | --gpu-* | -cuid=*) ;; *) set -- "$@" "$word" ;; esac
done
exec clang++-19 "$@" -L {libraries} -lamdhip64
"""


def tree(folder: Path) -> Path:
    """MAGMA's interface without Fortran and hipBLAS, which this machine may lack."""
    magma_tree.write(folder)
    (folder / "magmablas/zaxpby.cu").write_text(KERNEL)
    (folder / "src/gemm.cpp").write_text('#include "magma.h"\nint magma_version(void) { return 42; }\n')
    example = folder / "make.inc-examples/make.inc.hip-gcc-mkl"
    text = example.read_text().replace("-lhipblas", "-Wl,--allow-shlib-undefined")
    example.with_name("make.inc.hip-gcc-openblas").write_text(text)
    makefile = folder / "Makefile"
    makefile.write_text(makefile.read_text().replace(" control/magma_param.o", ""))
    return folder


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installed ROCm whose compiler is clang."""
    prefix = tmp_path_factory.mktemp("prefix") / "rocm"
    for folder in (".info", "bin"):
        (prefix / folder).mkdir(parents=True)
    (prefix / ".info/version").write_text("6.3.0\n")
    runtime = (GPU / "runtime.c").read_text()
    gcc(prefix / "lib/libamdhip64.so.6", runtime, "-Wl,-soname,libamdhip64.so.6")
    (prefix / "lib/libamdhip64.so").symlink_to("libamdhip64.so.6")
    hipcc = prefix / "bin/hipcc"
    hipcc.write_text(HIPCC.format(headers=GPU, libraries=prefix / "lib"))
    hipcc.chmod(0o755)
    return prefix


def build(rocwheel: Rocwheel, prefix: Path, place: Path, jobs: int, *more: object, **options) -> Path:
    tree(place / "magma")
    run_build(rocwheel, prefix, place, jobs, *more, **options)
    (tarball,) = (place / "output").rglob("*.tar.bz2")
    return tarball


def run_build(rocwheel: Rocwheel, prefix: Path, place: Path, jobs: int, *more: object, **options) -> None:
    source = place / "magma"
    rocwheel.run(
        *("build", "magma-rocm63", "--executor", "here", "--rocm-sdk", f"prefix={prefix}", "--source", source),
        *("--feature", "openblas=on", "--gpu-targets", TARGETS, "--jobs", jobs, "--no-preflight"),
        *("--output", place / "output", *more),
        **options,
    )


def contents(tarball: Path) -> dict[str, bytes]:
    with tarfile.open(tarball) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}


@pytest.fixture(scope="module")
def tarball(rocwheel: Rocwheel, prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(rocwheel, prefix, tmp_path_factory.mktemp("first"), jobs=1)


def test_any_folder_and_any_number_of_jobs_give_the_same_tarball(
    rocwheel: Rocwheel, prefix: Path, tarball: Path, tmp_path: Path
) -> None:
    other = build(rocwheel, prefix, tmp_path / "a longer path/to the tree", jobs=2)
    assert other.name == tarball.name
    assert hashlib.sha256(other.read_bytes()).digest() == hashlib.sha256(tarball.read_bytes()).digest()


def test_a_compiler_cache_knows_what_make_compiled_in_another_folder(
    rocwheel: Rocwheel, prefix: Path, tarball: Path, tmp_path: Path
) -> None:
    """The second build compiles nothing, and its library is the one that was made without it."""
    made, counted = [], []
    for place, jobs in ("one", 1), ("two/of them", 2):
        options = ("--compiler-cache", "ccache")
        cache = {"CCACHE_DIR": str(tmp_path / "cache")}
        made.append(build(rocwheel, prefix, tmp_path / place, jobs, *options, environment=cache))
        (log,) = (tmp_path / place).rglob("*-cache-statistics.log")
        counted.append(re.search(r"Hits: +(\d+) / +(\d+)", log.read_text()).groups())
    # The two kernels and the file of the host.
    assert counted == [("0", "3"), ("3", "3")]
    assert contents(made[0]) == contents(made[1])
    assert contents(made[0])["lib/libmagma.so"] == contents(tarball)["lib/libmagma.so"]


def test_what_was_half_generated_when_the_build_was_killed_is_generated_again(
    rocwheel: Rocwheel, prefix: Path, tarball: Path, tmp_path: Path
) -> None:
    """make looks at the time of a file, not at what is in it."""
    (tree(tmp_path / "magma") / "kill-me").touch()
    run_build(rocwheel, prefix, tmp_path, jobs=1, expect=1)
    (half,) = (tmp_path / "output").rglob("magmablas_hip/*axpby*")
    assert half.read_text() == "\n".join(KERNEL.splitlines()[:3]) + "\n"
    run_build(rocwheel, prefix, tmp_path, jobs=1)
    (made,) = (tmp_path / "output").rglob("*.tar.bz2")
    assert contents(made)["lib/libmagma.so"] == contents(tarball)["lib/libmagma.so"]


def test_the_script_in_the_tarball_is_the_build(
    rocwheel: Rocwheel, prefix: Path, tarball: Path, tmp_path: Path
) -> None:
    """It names no folder of the machine that it comes from, and gives the same files elsewhere."""
    expected = contents(tarball)
    script = expected["info/recipe/build.sh"].decode()
    for place in (prefix, tarball.parent, Path.home(), Path("/tmp")):
        assert f"{place}/" not in script, place
    assert not re.search(r"\$\{[a-z]", script) and f"-j{os.cpu_count()}" not in script
    source, stage = tree(tmp_path / "else where/magma"), tmp_path / "stage"
    (tmp_path / "build.sh").write_text(script)
    variables = {"SOURCE": source, "STAGE": stage, "ROCM_ROOT": prefix, "ROCWHEEL": rocwheel.binary}
    run("sh", tmp_path / "build.sh", environment={name: str(value) for name, value in variables.items()}, cwd=tmp_path)
    made = {str(path.relative_to(stage)): path.read_bytes() for path in stage.rglob("*") if path.is_file()}
    assert made.keys() == expected.keys()
    assert [name for name in made if made[name] != expected[name]] == []


def test_what_the_recipe_tells_the_compiler_is_what_makes_it_so(tmp_path: Path) -> None:
    """clang itself gives two folders two numbers: the judge of the recipe's line."""
    for folder in ("one", "two"):
        shutil.copytree(GPU, tmp_path / folder)
        (tmp_path / folder / "k.hip").write_text(KERNEL.replace("magmaDoubleComplex", "float"))
    words = ["clang++-19", "-x", "hip", "-nogpulib", "-nogpuinc", "-I.", "--offload-arch=gfx942", "-O1", "-c", "k.hip"]
    for option, same in ((), False), (("-cuid=k_hip",), True):
        objects = []
        for folder in ("one", "two"):
            run(*words, *option, "-o", "k.o", cwd=tmp_path / folder)
            objects.append((tmp_path / folder / "k.o").read_bytes())
        assert (objects[0] == objects[1]) is same, option
