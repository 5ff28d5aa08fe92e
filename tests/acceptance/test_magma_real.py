"""MAGMA's own sources, whole, by its recipe: compiled for one GPU target in a root of Debian
unstable with its HIP, linked and packed. Part of `--set all`."""

import json
import re
import tarfile
from pathlib import Path

import pytest

from command import REPOSITORY, Rocwheel, run

HERE = Path(__file__).resolve().parent / "rocm7"
TARGET = "gfx942"
# What a machine has that MAGMA is built on; MAGMA's make asks ps and rev.
PACKAGES = ("bsdextrautils", "gfortran", "hipcc", "libhipblas-dev", "libhipsparse-dev", "libopenblas-dev", "make")
PACKAGES += ("procps",)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("magma")
    run(REPOSITORY / "scripts/fetch-sources", folder, "magma")
    (archive,) = folder.iterdir()
    return archive


@pytest.fixture(scope="module")
def said(rocwheel: Rocwheel, archive: Path) -> str:
    """What magma.bash prints. On two cores that nobody else uses, it takes about half an hour."""
    arguments = [word for name in PACKAGES for word in ("--package", name)]
    for shared in (rocwheel.binary.parent, archive.parent, HERE):
        arguments += ["--share", shared]
    script = ["bash", HERE / "magma.bash", rocwheel.binary, archive, TARGET, HERE]
    return run(REPOSITORY / "scripts/in-root", "sid", *arguments, "--", *script, timeout=4 * 3600).stdout


def part(said: str, name: str) -> str:
    """What one step has printed."""
    return said.partition(f"== {name}\n")[2].partition("\n-- ")[0]


def test_the_tarball_is_as_the_document_says(said: str, archive: Path) -> None:
    """The name that PyTorch's script gives; the headers of the release, one library, the licence
    and the script of the build, and nothing else, such as the static library that MAGMA's make
    builds as well. It moves the modules of its Fortran files to the headers, and so does the
    script, which copies the folder."""
    assert re.fullmatch(r"linux-64/magma-rocm64-[0-9a-f]{64}-1\.tar\.bz2", part(said, "tarball"))
    with tarfile.open(archive) as release:
        names = [Path(*Path(member.name).parts[1:]) for member in release if member.isfile()]
        (lists,) = (member for member in release if Path(member.name).parts[1:] == ("control", "Makefile.src"))
        fortran = re.findall(r"\$\(cdir\)/(\w+)\.F90", release.extractfile(lists).read().decode())
    assert len(fortran) >= 10
    given = {str(name) for name in names if name.parts[0] == "include"}
    assert {"include/magma_v2.h", "include/magma_lapack.h"} <= given
    made = {"include/magma_config.h", "lib/libmagma.so", *(f"include/{module}.mod" for module in fortran)}
    info = {"info/licenses/COPYRIGHT", "info/recipe/build.sh"}
    assert set(part(said, "members").splitlines()) == given | made | info


def test_the_library_has_the_target_and_no_other(said: str) -> None:
    listed = json.loads(part(said, "kernels"))
    assert [target["target"] for target in listed["targets"]] == [TARGET]
    assert listed["targets"][0]["kernels"] > 4000


def test_the_library_is_linked_to_what_was_asked_for(said: str) -> None:
    needed = set(re.findall(r"\(NEEDED\) .*\[(\S+)\]", part(said, "dynamic")))
    assert {"libopenblas.so.0", "libhipblas.so.2", "libhipsparse.so.1", "libamdhip64.so.6"} <= needed
    assert "/opt/rocm/magma/lib" in re.search(r"\(RUNPATH\) .*\[(\S+)\]", part(said, "dynamic"))[1].split(":")


def test_a_program_is_linked_to_the_library_and_runs(said: str) -> None:
    """By the headers and the library of the tarball alone. There is no GPU in the root."""
    printed = part(said, "running").splitlines()
    assert printed == ["version 2.9.0", "norm 5", "init 0", "devices 0"]
