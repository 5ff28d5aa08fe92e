"""`rocm-sdk init --verify` and `--repair`: problems that are found, that are repaired, and that
need the wheel."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import device_wheel
from fixtures import VERSION
from sites import Site

KERNEL = "lib/rocblas/library/K_gfx942.co"
AGAIN = f"pip install --force-reinstall --no-deps 'rocm-sdk-devel=={VERSION}'"


@pytest.fixture
def full(site: Site) -> Site:
    site.unpack_libraries()
    site.unpack(device_wheel("gfx942"))
    site.unpack_devel()
    assert site.init()[0] == 0
    assert site.problems() == {}
    return site


def overwrite(path: Path, content: bytes) -> None:
    """Does not write through a hard link."""
    path.unlink()
    path.write_bytes(content)


def test_every_kind_of_damage_is_found_and_named(full: Site) -> None:
    tree = full.devel
    (tree / "include" / "top.h").unlink()
    overwrite(tree / "include" / "hip" / "hip_runtime.h", b"int")
    overwrite(tree / "lib" / "cmake" / "hip" / "hip-config.cmake", b"# pih\n")
    overwrite(tree / 'include/odd, "name".h', b"int odd; // longer\n")
    (tree / "lib" / "python" / "tool.py").chmod(0o755)
    (tree / "lib" / "llvm" / "bin" / "clang").unlink()
    (tree / "lib" / "llvm" / "bin" / "clang").mkdir()
    (tree / "share" / "empty").rmdir()
    (tree / "lib" / "librocblas.so").unlink()
    (tree / "llvm").unlink()
    os.symlink("lib/cmake", tree / "llvm")
    overwrite(tree / "lib" / "librocblas.so.4", b"another one")
    (tree / KERNEL).unlink()
    os.symlink("nowhere", tree / KERNEL)
    (tree / "mine.h").write_bytes(b"mine")
    (tree / ".new_link.tmp").touch()
    (tree / "lib" / "python" / "__pycache__").mkdir()
    (tree / "lib" / "python" / "__pycache__" / "tool.cpython-311.pyc").touch()
    record = full.directory / f"rocm_sdk_devel-{VERSION}.dist-info" / "RECORD"
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(line for line in lines if not line.startswith("_rocm_sdk_devel/lib/libamdhip64.so,")))
    assert full.problems() == {
        "include/top.h": "missing",
        "include/hip/hip_runtime.h": "truncated",
        "lib/cmake/hip/hip-config.cmake": "changed",
        'include/odd, "name".h': "changed",
        "lib/python/tool.py": "permissions",
        "lib/llvm/bin/clang": "missing",
        "share/empty": "folder-missing",
        "lib/librocblas.so": "link-missing",
        "llvm": "link-changed",
        "lib/librocblas.so.4": "link-changed",
        KERNEL: "link-changed",
        "bin/amdclang": "link-changed",
        "mine.h": "foreign",
        ".new_link.tmp": "leftover",
        "lib/libamdhip64.so": "not-in-record",
    }
    status, output, errors = full.init("--verify")
    assert status == 1
    assert "truncated _rocm_sdk_devel/include/hip/hip_runtime.h: has 3 bytes instead of 9\n" in output
    assert output.endswith(" problems\n") and "15 problems" in output.splitlines()[-1]
    assert errors.splitlines() == [
        "hint: Put right what can be put right here with: rocm-sdk init --repair",
        f"hint: Install anew: {AGAIN}",
        "hint: and then expand again with: rocm-sdk init",
        "hint: Foreign files are left alone: remove them yourself if nothing needs them",
    ]


def test_what_can_be_put_right_is(full: Site) -> None:
    before = full.snapshot()
    tree = full.devel
    (tree / "lib" / "python" / "tool.py").chmod(0o755)
    (tree / "share" / "empty").rmdir()
    for name in ("llvm", "lib/libamdhip64.so.6", "lib/librocblas.so", KERNEL):
        (tree / name).unlink()
    os.symlink("lib/cmake", tree / "llvm")
    os.symlink("nowhere", tree / "lib" / "librocblas.so")
    (tree / "mine.h").write_bytes(b"mine")
    found = full.problems()
    status, output, errors = full.init("--repair", "--json")
    document = json.loads(output)
    assert (status, [problem["path"] for problem in document["problems"]]) == (1, ["_rocm_sdk_devel/mine.h"])
    repaired = {problem["path"].removeprefix("_rocm_sdk_devel/") for problem in document["repaired"]}
    assert repaired == set(found) - {"mine.h"}
    assert "remove them yourself" not in errors and (tree / "mine.h").read_bytes() == b"mine"
    (tree / "mine.h").unlink()
    assert full.snapshot() == before
    status, output, _ = full.init("--repair")
    assert status == 0 and output.splitlines()[-1].endswith(" 0 problems, 0 repaired")


@pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
def test_what_only_the_wheel_has_is_said_with_its_command(full: Site, damage: str) -> None:
    header = full.devel / "include" / "top.h"
    if damage == "missing":
        header.unlink()
    else:
        overwrite(header, {"truncated": b"int", "changed": b"int pot;\n"}[damage])
    status, output, errors = full.init("--repair")
    assert status == 1 and f"{damage} _rocm_sdk_devel/include/top.h: " in output
    assert f"hint: Install anew: {AGAIN}\n" in errors
    # Like that command: everything that RECORD names is removed, and the package is unpacked again.
    for row in full.record():
        path = full.directory / row
        if path.is_symlink() or path.is_file():
            path.unlink()
    full.unpack_devel()
    assert full.problems() == {"_rocm_sdk_devel": "not-expanded"}
    assert full.init()[0] == 0
    assert full.problems() == {}


def test_files_of_other_packages_are_checked_where_links_lead(full: Site) -> None:
    core = full.directory / "_rocm_sdk_core" / "lib" / "libamdhip64.so.6"
    core.write_bytes(b"hi")
    (full.directory / "_rocm_sdk_libraries" / "lib" / "librocblas.so.4").unlink()
    (full.directory / "_rocm_sdk_libraries" / KERNEL).write_bytes(b"gfx943")
    assert full.problems() == {
        "_rocm_sdk_core/lib/libamdhip64.so.6": "truncated",
        "_rocm_sdk_libraries/lib/librocblas.so.4": "missing",
        f"_rocm_sdk_libraries/{KERNEL}": "changed",
    }
    status, _, errors = full.init("--repair")
    assert status == 1
    for name in ("core", "device-gfx942", "libraries"):
        assert f"hint: Install anew: pip install --force-reinstall --no-deps 'rocm-sdk-{name}=={VERSION}'" in errors


def test_layers_that_split_hard_links(full: Site, tmp_path: Path) -> None:
    """As in an image that is installed and expanded in two layers."""
    split = tmp_path / "split"
    # Like layers, this copies every name separately, with its time stamp.
    shutil.copytree(full.directory, split, symlinks=True)
    site = object.__new__(Site)
    site.directory, site.devel = split, split / "_rocm_sdk_devel"
    found = site.verify()
    libraries = [f"lib/libamdhip64.so{end}" for end in ("", ".6", ".6.4.0")] + [
        "bin/hipconfig",
        "lib/librocblas.so",
        "lib/librocblas.so.4",
        KERNEL,
    ]
    assert site.problems() == dict.fromkeys(libraries, "split")
    assert sum(problem["bytes"] for problem in found["problems"]) == 3 * 3 + 10 + 2 * 4 + 6
    before = {path: path.stat().st_ino for path in split.rglob("*")}
    status, _, errors = site.init()
    assert (status, {path: path.stat().st_ino for path in split.rglob("*")}) == (0, before), "not asked for"
    status, _, errors = site.init("--verify")
    assert status == 1 and "hint: 7 hard links have become files of their own, 0.0 MB. This happens when" in errors
    assert "Option ... registered more than once" in errors and "--link-mode symlink" in errors
    status, output, errors = site.init("--repair")
    assert (status, errors) == (0, "")
    assert (site.devel / "lib" / "libamdhip64.so").samefile(split / "_rocm_sdk_core" / "lib" / "libamdhip64.so.6")
    assert site.problems() == {}
    # The mode whose links cannot be split.
    assert site.init("--link-mode", "symlink")[0] == 0
    again = tmp_path / "again"
    shutil.copytree(split, again, symlinks=True)
    site.directory, site.devel = again, again / "_rocm_sdk_devel"
    assert site.problems() == {"bin/hipconfig": "split"} or site.problems() == {}


def test_copies_are_compared_with_what_they_copy(full: Site) -> None:
    assert full.init("--link-mode", "copy")[0] == 0
    library = full.devel / "lib" / "librocblas.so.4"
    status = library.stat()
    library.write_bytes(b"blAs")
    os.utime(library, ns=(status.st_atime_ns, status.st_mtime_ns))
    # The other name is a copy of it, and still equals the file of the package.
    assert full.problems() == {"lib/librocblas.so": "link-changed", "lib/librocblas.so.4": "link-changed"}
    assert full.init("--repair")[0] == 0
    assert library.read_bytes() == b"blas" and full.problems() == {}


@pytest.mark.parametrize(
    ("cut", "kind"),
    [(lambda whole: whole[: len(whole) // 2], "truncated"), (lambda whole: whole.replace(b"top", b"pot"), "changed")],
)
def test_a_tar_file_that_is_not_the_installed_one(site: Site, cut: Callable[[bytes], bytes], kind: str) -> None:
    site.unpack_devel()
    packed = site.directory / "rocm_sdk_devel" / "_devel.tar"
    packed.write_bytes(cut(packed.read_bytes()))
    found = site.verify()["problems"]
    assert [(problem["kind"], problem["path"], problem["install"]) for problem in found] == [
        (kind, "rocm_sdk_devel/_devel.tar", AGAIN)
    ]
    for options in ((), ("--repair",)):
        status, _, errors = site.init(*options)
        assert status == 1 and AGAIN in errors, errors
    assert packed.exists() and [problem["kind"] for problem in site.verify()["problems"]] == [kind]


def test_a_half_tree_whose_tar_file_is_there_is_repaired_from_it(full: Site) -> None:
    packed = full.directory / "rocm_sdk_devel" / "_devel.tar"
    expected = full.snapshot()
    full.unpack_devel()
    shutil.rmtree(full.devel / "include")
    assert full.problems() == {"_rocm_sdk_devel": "not-expanded"}
    status, output, errors = full.init("--repair", "--json")
    assert status == 0, errors
    assert [problem["kind"] for problem in json.loads(output)["repaired"]] == ["not-expanded"]
    assert full.snapshot() == expected and not packed.exists()


def test_without_the_list_only_the_wheel_helps(full: Site) -> None:
    (full.devel / ".expanded.json").unlink()
    assert full.problems() == {".expanded.json": "no-list"}
    status, _, errors = full.init("--repair")
    assert status == 1 and AGAIN in errors
    for content in ("{", '{"schema": 2}', '{"schema": 1}', "[]"):
        (full.devel / ".expanded.json").write_text(content)
        for options in (("--verify",), ("--repair",), ()):
            status, _, errors = full.init(*options)
            assert status == 1 and "ERROR: Cannot read `" in errors and AGAIN in errors, (content, errors)


def test_nothing_to_verify(site: Site) -> None:
    status, output, errors = site.init("--verify", "--json")
    assert status == 1 and "pip install 'rocm[devel]==6.4.0'" in errors
    assert "rocm[devel]" in json.loads(output)["error"]
    assert not list(site.directory.glob("_rocm_sdk_devel"))
