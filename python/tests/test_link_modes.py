"""Hard links, symbolic links and copies: requested, chosen, impossible, and changed into each
other."""

from __future__ import annotations

import builtins
import errno
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from machine import NOBODY, forked, mounting, needs_root, rocm_sdk

from conftest import device_wheel
from sites import Site

MODES = ("hardlink", "symlink", "copy")
KERNEL = "lib/rocblas/library/K_gfx942.co"
CORE = "_rocm_sdk_core/lib/libamdhip64.so.6"


@pytest.fixture
def full(site: Site) -> Site:
    """Everything installed, including a program."""
    site.unpack_libraries()
    site.unpack(device_wheel("gfx942"))
    site.unpack_devel()
    (site.directory / "_rocm_sdk_core" / "bin" / "hipconfig").chmod(0o755)
    return site


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users can enter."""
    directory = Path(tempfile.mkdtemp(prefix="rocm-sdk-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def done(site: Site, *options: str, **variables: str) -> str:
    status, output, errors = site.init(*options, **variables)
    assert status == 0, errors
    assert output == f"Devel contents expanded to '{site.devel}'\n"
    return errors


def kinds(site: Site) -> dict[str, str]:
    """The actual kind of each path in the tree: a symbolic link, a hard link or a separate file."""
    found = {}
    for path in [path for path in site.devel.rglob("*") if path.is_symlink() or path.is_file()]:
        name = path.relative_to(site.devel).as_posix()
        if path.is_symlink():
            found[name] = os.readlink(path)
        else:
            found[name] = "hardlink" if path.stat().st_nlink > 1 else "file"
    found.pop(".expanded.json")
    return found


def state(site: Site) -> dict[str, tuple[int, int, int]]:
    """The properties that a second run must not change."""
    found = {}
    for path in site.directory.rglob("*"):
        status = path.lstat()
        found[path.relative_to(site.directory).as_posix()] = (status.st_ino, status.st_mtime_ns, status.st_nlink)
    return found


EXPECTED: dict[str, dict[str, str]] = {
    "hardlink": {"lib/libamdhip64.so.6": "hardlink", "lib/libamdhip64.so": "hardlink", KERNEL: "hardlink"},
    "symlink": {
        "lib/libamdhip64.so.6": f"../../{CORE}",
        "lib/libamdhip64.so": "libamdhip64.so.6",
        KERNEL: f"../../../../_rocm_sdk_libraries/{KERNEL}",
    },
    "copy": {"lib/libamdhip64.so.6": "file", "lib/libamdhip64.so": "file", KERNEL: "file"},
}


@pytest.mark.parametrize("mode", MODES)
def test_each_mode(full: Site, mode: str) -> None:
    assert "Expanding" in done(full, "--link-mode", mode)
    found = kinds(full)
    assert {name: found[name] for name in EXPECTED[mode]} == EXPECTED[mode]
    # Programs find their parts beside themselves, and drivers find the compiler, in every mode.
    assert found["bin/hipconfig"] == ("file" if mode == "copy" else "hardlink")
    assert (found["bin/amdclang"], found["llvm"]) == ("../lib/llvm/bin/clang", "lib/llvm")
    assert (full.devel / "bin" / "hipconfig").stat().st_mode & 0o111
    for name, content in (("lib/libamdhip64.so.6.4.0", b"hip"), ("lib/librocblas.so", b"blas"), (KERNEL, b"gfx942")):
        assert (full.devel / name).read_bytes() == content
    assert full.problems() == {}
    assert full.receipt()["link_mode"] == mode
    before = state(full)
    assert done(full) == "", "a second one has nothing to say"
    assert done(full, "--link-mode", mode) == ""
    assert state(full) == before, "nor to do"


@pytest.mark.parametrize("new", MODES)
@pytest.mark.parametrize("old", MODES)
def test_changing_the_mode(full: Site, tmp_path: Path, old: str, new: str) -> None:
    fresh = tmp_path / "fresh"
    subprocess.run(["cp", "-a", full.directory, fresh], check=True)
    done(full, "--link-mode", old)
    contents = {name: (full.devel / name).read_bytes() for name in kinds(full) if (full.devel / name).is_file()}
    said = done(full, "--link-mode", new)
    assert ("Changing" in said) == (old != new)
    expected = object.__new__(Site)
    expected.directory, expected.devel = fresh, fresh / "_rocm_sdk_devel"
    done(expected, "--link-mode", new)
    assert kinds(full) == kinds(expected)
    assert {name: (full.devel / name).read_bytes() for name in contents} == contents
    assert full.receipt()["settled"] and full.receipt()["link_mode"] == new
    assert full.problems() == {}
    assert len(full.record()) == len(set(full.record()))
    before = state(full)
    done(full)
    assert state(full) == before, "it stays so"


def test_the_environment_variable_and_the_option(full: Site) -> None:
    status, _, errors = full.init(ROCM_SDK_LINK_MODE="hard")
    assert (status, errors) == (1, "ERROR: `ROCM_SDK_LINK_MODE=hard` is no link mode: use hardlink, symlink or copy\n")
    assert full.init("--link-mode", "hard")[0] == 2
    done(full, ROCM_SDK_LINK_MODE="symlink")
    assert full.receipt()["link_mode"] == "symlink"
    done(full, "--link-mode", "copy", ROCM_SDK_LINK_MODE="symlink")
    assert full.receipt()["link_mode"] == "copy"
    done(full, ROCM_SDK_LINK_MODE="hardlink")
    assert full.receipt()["link_mode"] == "hardlink"
    status, output, _ = full.init("--json")
    assert (status, '"link_mode": "hardlink"' in output, '"folder": 1' in output) == (0, True, True)
    status, _, errors = full.init("--verify", "--link-mode", "copy")
    assert status == 2 and "--verify changes nothing" in errors


def test_what_a_reinstalled_package_took_is_made_again(full: Site) -> None:
    """pip removes and writes the files of a package: hard links keep the old ones, symbolic links
    are removed with them."""
    done(full, "--link-mode", "symlink")
    listed = full.record("rocm_sdk_core")
    assert {"_rocm_sdk_devel/lib/libamdhip64.so", "_rocm_sdk_devel/lib/libamdhip64.so.6"} <= set(listed)
    for name in [row for row in listed if row.startswith("_rocm_sdk_devel/lib")]:
        (full.directory / name).unlink()
    assert full.problems() == {f"lib/libamdhip64.so{end}": "link-missing" for end in ("", ".6", ".6.4.0")}
    done(full)
    assert full.problems() == {}
    done(full, "--link-mode", "hardlink")
    core = full.directory / CORE
    core.unlink()
    core.write_bytes(b"new hip")
    done(full)
    assert (full.devel / "lib" / "libamdhip64.so").samefile(core)


def test_other_file_systems_have_no_hard_links(full: Site, tmp_path: Path) -> None:
    core = full.directory / "_rocm_sdk_core"
    shutil.copytree(core, tmp_path / "core")
    prefix = mounting(f"-t tmpfs none {core}") + ("sh", "-c", f'cp -r {tmp_path}/core/. {core} && exec "$@"', "sh")
    status, _, errors = full.init("--link-mode", "hardlink", prefix=prefix)
    assert status == 1
    assert "a hardlink: Invalid cross-device link. The packages lie on different file systems. Use " in errors
    assert "`--link-mode symlink` or `--link-mode copy`" in errors
    assert (full.directory / "rocm_sdk_devel" / "_devel.tar").exists(), "it is not expanded"
    status, _, errors = full.init(prefix=prefix)
    assert status == 0, errors
    assert "files could not be made hardlinks (Invalid cross-device link)" in errors
    # The program is a copy, the libraries are symbolic links, and everything that could be
    # hard-linked was.
    found = kinds(full)
    assert found["lib/libamdhip64.so.6"] == f"../../{CORE}"
    assert (found["bin/hipconfig"], found["lib/librocblas.so.4"]) == ("file", "hardlink")
    assert "1 files, 0.0 MB, are copies of files of other packages" in errors


def test_files_of_other_users_cannot_be_linked(public: Path) -> None:
    """`fs.protected_hardlinks`, which is enabled nearly everywhere."""
    needs_root()
    assert Path("/proc/sys/fs/protected_hardlinks").read_text() == "1\n", "the kernel allows what is tested here"
    site = Site(public / "site")
    site.unpack_libraries()
    site.unpack_devel()
    for path in [site.directory, *site.directory.rglob("*")]:
        other = "core" in path.parts[-1] or any("core" in part for part in path.relative_to(public).parts)
        os.chown(path, 0 if other else NOBODY, 0)
    site_core = site.directory / "rocm_sdk_core-6.4.0.dist-info" / "RECORD"
    status, said = forked(rocm_sdk(site.directory, "init", "--link-mode", "hardlink", user=NOBODY))
    assert status == 1 and "(fs.protected_hardlinks) allows none to files of other users" in said, said
    # They cannot be added to the RECORD of that package either, so the file is a copy.
    status, said = forked(rocm_sdk(site.directory, "init", "--link-mode", "symlink", user=NOBODY))
    assert status == 1 and "Cannot make" in said and "Permission denied" in said
    status, said = forked(rocm_sdk(site.directory, "init", user=NOBODY))
    assert status == 0 and "are copies of files of other packages" in said, said
    assert not (site.devel / "lib" / "libamdhip64.so.6").samefile(site.directory / CORE)
    status, said = forked(rocm_sdk(site.directory, "init", "--verify", user=NOBODY))
    assert status == 0 and "note: 2 files are copies of files of other packages" in said, said
    os.chown(site_core, NOBODY, 0)
    status, said = forked(rocm_sdk(site.directory, "init", "--link-mode", "symlink", user=NOBODY))
    assert status == 0, said
    assert kinds(site)["lib/libamdhip64.so.6"] == f"../../{CORE}"


def test_what_cannot_be_linked_is_chosen_file_by_file(
    full: Site, devel: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = os.link

    def link(source: Any, path: Any) -> None:
        if "rocblas" in str(source):
            raise OSError(errno.EMLINK, os.strerror(errno.EMLINK), source)
        real(source, path)

    monkeypatch.setattr(os, "link", link)
    devel.get_devel_root(quiet=False)
    found = kinds(full)
    assert (found["lib/libamdhip64.so.6"], found["lib/librocblas.so"]) == ("hardlink", "librocblas.so.4")
    assert "files could not be made hardlinks (Too many links)" in capsys.readouterr().err
    with pytest.raises(devel.DevelError, match="The file has as many links as the file system allows"):
        devel.get_devel_root(link_mode="hardlink")


def test_windows_without_the_privilege_to_make_symbolic_links(
    full: Site, devel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TheRock's current expansion stops in the middle here without a message."""

    def symlink(*_: object, **__: object) -> None:
        error = OSError(errno.EINVAL, "A required privilege is not held by the client")
        error.winerror = 1314  # type: ignore[attr-defined]
        raise error

    monkeypatch.setattr(os, "symlink", symlink)
    root = devel.get_devel_root()
    assert not [path for path in root.rglob("*") if path.is_symlink()]
    # The folder that other systems see through a link contains the same files.
    assert (root / "llvm" / "bin" / "clang").samefile(root / "lib" / "llvm" / "bin" / "clang")
    assert (root / "bin" / "amdclang").read_bytes() == b"#!/bin/sh\necho clang\n"
    assert full.problems() == {}
    with pytest.raises(devel.DevelError, match="Developer Mode, or as administrator"):
        devel.get_devel_root(link_mode="symlink")
    monkeypatch.setattr(os, "link", symlink)
    devel.get_devel_root()
    assert (root / "lib" / "libamdhip64.so").read_bytes() == b"hip"


def test_nothing_is_written_through_a_link_into_a_cache(full: Site, tmp_path: Path) -> None:
    """uv's hard links: every installed file is also a file of its cache and of other environments."""
    cache = tmp_path / "cache"
    subprocess.run(["cp", "-al", full.directory, cache], check=True)
    (cache / "rocm_sdk_devel" / "_devel.tar").chmod(0o444)
    before = {path: (path.read_bytes(), path.stat().st_mode) for path in cache.rglob("*") if path.is_file()}
    for mode in (*MODES, "hardlink"):
        done(full, "--link-mode", mode)
        assert full.init("--repair")[0] == 0
    assert {path: (path.read_bytes(), path.stat().st_mode) for path in before} == before
    assert full.problems() == {}


def test_a_folder_that_cannot_be_written_to(public: Path) -> None:
    needs_root()
    site = Site(public / "site")
    site.unpack_libraries()
    site.unpack_devel()
    status, said = forked(rocm_sdk(site.directory, "init", user=NOBODY))
    assert status == 1
    assert f"ERROR: Cannot expand rocm-sdk-devel: `{site.directory}` cannot be written to ([Errno 13]" in said
    assert "Run `rocm-sdk init` as the user who installed it" in said
    status, said = forked(rocm_sdk(site.directory, "init", "--json", user=NOBODY))
    assert status == 1 and '"error": "Cannot expand' in said
    done(site)
    # After the expansion all users can use and verify it.
    for arguments in (("init",), ("init", "--verify"), ("path", "--root"), ("init", "--link-mode", "hardlink")):
        status, said = forked(rocm_sdk(site.directory, *arguments, user=NOBODY))
        assert status == 0, said
    status, said = forked(rocm_sdk(site.directory, "init", "--link-mode", "symlink", user=NOBODY))
    assert status == 1 and "cannot be written to" in said


def test_a_read_only_file_system(full: Site) -> None:
    prefix = mounting(f"--bind {full.directory} {full.directory}", f"-o remount,bind,ro {full.directory}")
    status, _, errors = full.init(prefix=prefix)
    assert status == 1 and "cannot be written to ([Errno 30] Read-only file system" in errors
    assert not full.devel.exists()
    done(full)
    before = state(full)
    for options in ((), ("--verify",), ("--repair",), ("--link-mode", "hardlink")):
        status, _, errors = full.init(*options, prefix=prefix)
        assert (status, errors) == (0, ""), options
    status, _, errors = full.init("--link-mode", "copy", prefix=prefix)
    assert status == 1 and "Read-only file system" in errors
    (full.devel / "lib" / "librocblas.so").unlink()
    status, _, errors = full.init("--repair", prefix=prefix)
    assert status == 1 and "Read-only file system" in errors
    done(full)
    assert {name: values[2] for name, values in state(full).items()} == {n: v[2] for n, v in before.items()}


def test_a_full_disk(full: Site, tmp_path: Path) -> None:
    """The disk gets full at any file: the next run completes the tree when there is room again."""
    needs_root()
    source = tmp_path / "source"
    full.unpack_devel([*[(f"include/h{n}.h", b"x" * 5000) for n in range(40)], ("__init__.py", b"")])
    shutil.move(full.directory, source)
    full.directory.mkdir()
    used = int(subprocess.run(["du", "-sk", source], check=True, capture_output=True, text=True).stdout.split()[0])
    for room in (8, 60, 120):
        first = f"cp -a {source}/. {full.directory} && "
        again = f'"$@"; echo "status $?"; mount -o remount,size=64m {full.directory} && "$@" && "$@" --verify'
        prefix = mounting(f"-t tmpfs -o size={used + room}k none {full.directory}")
        status, output, errors = full.init(prefix=(*prefix, "sh", "-c", first + again, "sh"))
        assert status == 0, errors
        assert f"Cannot expand rocm-sdk-devel into `{full.directory}`: no space is left. Make room and run" in errors
        lines = output.splitlines()
        assert lines[0] == "status 1" and lines[-1].endswith("0 problems"), output


def test_a_row_that_does_not_fit_is_taken_back(full: Site, devel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk can get full in the middle of a row of RECORD, which then would name a file that
    does not exist."""
    path = full.directory / "rocm_sdk_devel-6.4.0.dist-info" / "RECORD"
    before = path.read_bytes()
    record = devel.Record(path)
    real = builtins.open

    class Short:
        def __init__(self, file: Any):
            self.file = file

        def __enter__(self) -> Short:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

        def write(self, content: bytes) -> int:
            written: int = self.file.write(content[:5])
            return written

    monkeypatch.setattr(builtins, "open", lambda *arguments, **options: Short(real(*arguments, **options)))
    with pytest.raises(OSError, match="No space left"):
        record.add(["_rocm_sdk_devel/include/new.h"])
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert stat.S_ISREG(path.stat().st_mode)
