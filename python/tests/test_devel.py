"""Expanding the devel tree, in any order, by several processes at once, and after one of them was
killed at any moment."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from conftest import device_wheel
from fixtures import VERSION
from sites import DEVEL_MEMBERS, Site


def test_the_tree_holds_everything_and_record_names_it(site: Site, devel: ModuleType) -> None:
    site.unpack_libraries()
    site.unpack_devel()
    assert devel.get_devel_root() == site.devel
    files = {name for name, content in DEVEL_MEMBERS if content is not None}
    assert set(site.snapshot()) == files
    listed = site.record()
    assert len(listed) == len(set(listed))
    assert {f"_rocm_sdk_devel/{name}" for name in files} <= set(listed)
    assert not (site.directory / "rocm_sdk_devel" / "_devel.tar").exists()
    assert (site.devel / "share" / "empty").is_dir()


def test_links_to_files_are_the_files(site: Site, devel: ModuleType) -> None:
    site.unpack_libraries()
    site.unpack_devel()
    root = devel.get_devel_root()
    core = site.directory / "_rocm_sdk_core" / "lib" / "libamdhip64.so.6"
    for name in ("libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.6.4.0"):
        assert not (root / "lib" / name).is_symlink()
        assert (root / "lib" / name).stat().st_ino == core.stat().st_ino
    assert os.readlink(root / "bin" / "amdclang") == "../lib/llvm/bin/clang"
    assert os.readlink(root / "llvm") == "lib/llvm"


def test_the_order_in_the_tar_means_nothing(tmp_path: Path) -> None:
    orders = [DEVEL_MEMBERS, DEVEL_MEMBERS[::-1], sorted(DEVEL_MEMBERS, key=lambda member: member[0])]
    results = []
    for index, order in enumerate(orders):
        site = Site(tmp_path / str(index))
        site.unpack_libraries()
        site.unpack_devel(order)
        process = site.start_init()
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        assert output == f"Devel contents expanded to '{site.devel}'\n"
        results.append(site.snapshot())
    assert results[0] == results[1] == results[2]


def test_an_xz_tar_is_read_as_well(site: Site, devel: ModuleType) -> None:
    import lzma

    site.unpack_devel()
    packed = site.directory / "rocm_sdk_devel" / "_devel.tar"
    packed.with_name("_devel.tar.xz").write_bytes(lzma.compress(packed.read_bytes()))
    packed.unlink()
    assert (devel.get_devel_root() / "include" / "top.h").read_bytes() == b"int top;\n"
    assert not packed.with_name("_devel.tar.xz").exists()


def many_files() -> list[tuple[str, bytes | str | None]]:
    files: list[tuple[str, bytes | str | None]] = [(f"include/d{n % 50}/h{n}.h", b"x" * 3000) for n in range(2000)]
    return [*files, *DEVEL_MEMBERS]


def test_four_at_a_time(site: Site) -> None:
    site.unpack_libraries()
    site.unpack_devel(many_files())
    processes = [site.start_init() for _ in range(4)]
    for process in processes:
        output, errors = process.communicate(timeout=120)
        said = set(errors.splitlines())
        allowed = {
            f"rocm-sdk: Expanding '{site.directory}/rocm_sdk_devel/_devel.tar'",
            "rocm-sdk: waiting for another process that expands it",
        }
        assert (process.returncode, said - allowed) == (0, set())
        assert output.startswith("Devel contents expanded")
    assert len(site.record()) == len(set(site.record()))
    assert len(site.snapshot()) == 2000 + len(DEVEL_MEMBERS) - 1


def test_killed_in_the_middle_and_started_again(site: Site) -> None:
    site.unpack_libraries()
    site.unpack_devel(many_files())
    process = site.start_init()
    deadline = time.monotonic() + 60
    while not (site.devel / "include" / "d0" / "h500.h").exists():
        assert process.poll() is None and time.monotonic() < deadline
    process.send_signal(signal.SIGKILL)
    process.communicate()
    made = set(site.snapshot())
    assert 500 <= len(made) < 2000, "it was killed in the middle"
    # Uninstalling now would leave nothing behind: RECORD names every file that was created.
    assert {f"_rocm_sdk_devel/{name}" for name in made} <= set(site.record())
    # The worst possible leftover: half a file.
    (site.devel / "include" / "d0" / "h500.h").write_bytes(b"x")
    again = site.start_init()
    _, errors = again.communicate(timeout=120)
    assert again.returncode == 0, errors
    assert len(site.snapshot()) == 2000 + len(DEVEL_MEMBERS) - 1
    assert (site.devel / "include" / "d0" / "h500.h").stat().st_size == 3000
    assert len(site.record()) == len(set(site.record()))


def test_links_wait_for_their_package(site: Site, devel: ModuleType) -> None:
    site.unpack_devel()
    root = devel.get_devel_root()
    assert not (root / "lib" / "librocblas.so.4").exists()
    waiting = [name for name, (_, kind) in site.receipt()["links"].items() if kind == "waiting"]
    assert waiting == ["lib/librocblas.so", "lib/librocblas.so.4"]
    assert site.verify()["notes"] == [
        "2 links wait for packages that are not installed, the first is lib/librocblas.so"
    ]
    assert not [path for path in root.rglob("*") if path.is_symlink() and not path.exists()]
    site.unpack_libraries()
    devel.get_devel_root()
    assert (root / "lib" / "librocblas.so").read_bytes() == b"blas"
    assert "waiting" not in {kind for _, kind in site.receipt()["links"].values()}
    assert {"_rocm_sdk_devel/lib/librocblas.so", "_rocm_sdk_devel/.expanded.json"} <= set(site.record())


def test_device_files_are_linked_and_recorded_twice(site: Site, devel: ModuleType) -> None:
    site.unpack_libraries()
    site.unpack_devel()
    root = devel.get_devel_root()
    site.unpack(device_wheel("gfx942"))
    assert devel._reconcile_device_links(site.directory, site.devel, f"{VERSION}.post1") == 1
    kernel = "lib/rocblas/library/K_gfx942.co"
    assert (root / kernel).samefile(site.directory / "_rocm_sdk_libraries" / kernel)
    for name in ("rocm_sdk_devel", "rocm_sdk_device_gfx942"):
        assert site.record(name).count(f"_rocm_sdk_devel/{kernel}") == 1
    assert devel._reconcile_device_links(site.directory, site.devel, VERSION) == 0


def test_device_files_of_another_version_are_left_out(
    site: Site, devel: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    site.unpack_libraries()
    site.unpack_devel()
    site.unpack(device_wheel("gfx942", "6.3.0"))
    root = devel.get_devel_root()
    assert not (root / "lib" / "rocblas").exists()
    assert "skipping rocm-sdk-device-gfx942 6.3.0: does not match rocm-sdk 6.4.0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("version", "expected"),
    [("6.4.0.post2", "6.4.0"), ("6.4.0", "6.4.0"), ("7.0.0rc1.post3+local.post4", "7.0.0rc1+local.post4")],
)
def test_post_releases_are_the_same_version(devel: ModuleType, version: str, expected: str) -> None:
    assert devel._without_post_release(version) == expected


def test_nothing_is_written_through_links_or_outside(site: Site, devel: ModuleType, tmp_path: Path) -> None:
    site.unpack_devel([("__init__.py", b""), ("../rocm_sdk/evil.py", b"evil")])
    with pytest.raises(devel.DevelError, match=r"`_rocm_sdk_devel/../rocm_sdk/evil.py` is not below"):
        devel.get_devel_root()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    site.unpack_devel(
        [("out", str(outside)), ("up", "../../outside"), ("out/file.h", b"new"), ("f", "../../outside/secret")]
    )
    root = devel.get_devel_root()
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (root / "out" / "file.h").read_bytes() == b"new"
    assert not (root / "up").exists() and not (root / "f").exists()


def test_what_an_earlier_version_left_is_not_linked_to(site: Site, devel: ModuleType) -> None:
    site.unpack_devel()
    (site.devel / "lib").mkdir(parents=True)
    (site.devel / "lib" / "libamdhip64.so.6").write_bytes(b"old")
    core = site.directory / "_rocm_sdk_core" / "lib" / "libamdhip64.so.6"
    # The overwriting must not change a file of another package through a hard link.
    (site.devel / "include").mkdir()
    os.link(core, site.devel / "include" / "top.h")
    root = devel.get_devel_root()
    assert (root / "lib" / "libamdhip64.so").read_bytes() == b"hip"
    assert core.read_bytes() == b"hip"


def test_errors_say_what_to_do(site: Site, devel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rocm\[devel\]==6.4.0'"):
        devel.get_devel_root()
    site.unpack_devel()
    packed = site.directory / "rocm_sdk_devel" / "_devel.tar"
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        devel.DevelError,
        match=r"bytes instead of \d+\. Repair it with: pip install --force-reinstall --no-deps 'rocm-sdk-devel==6.4.0'",
    ):
        devel.get_devel_root()
    packed.write_bytes(whole)
    with monkeypatch.context() as context:
        for number, words in ((errno.EROFS, "cannot be written to"), (errno.ENOSPC, "no space is left")):
            context.setattr(devel, "exclusive_lock", raising(OSError(number, os.strerror(number))))
            with pytest.raises(devel.DevelError, match=words):
                devel.get_devel_root()
    record = site.directory / f"rocm_sdk_devel-{VERSION}.dist-info" / "RECORD"
    record.rename(record.with_name("list"))
    with pytest.raises(devel.DevelError, match="it has no RECORD in .* managed by the system"):
        devel.get_devel_root()


def raising(error: Exception) -> Callable[..., None]:
    def raise_it(*_: object) -> None:
        raise error

    return raise_it


def test_a_record_that_shares_its_file_with_a_cache_is_copied_first(
    site: Site, devel: ModuleType, tmp_path: Path
) -> None:
    site.unpack_devel()
    record = site.directory / f"rocm_sdk_devel-{VERSION}.dist-info" / "RECORD"
    cached = tmp_path / "cached-RECORD"
    os.link(record, cached)
    before = cached.read_bytes()
    devel.get_devel_root()
    assert cached.read_bytes() == before
    assert len(site.record()) > before.count(b"\n")


def test_a_read_only_tree_that_is_expanded_is_used(
    site: Site, devel: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.unpack_libraries()
    site.unpack(device_wheel("gfx942"))
    site.unpack_devel()
    devel.get_devel_root()
    monkeypatch.setattr(devel, "exclusive_lock", raising(OSError(errno.EROFS, "Read-only file system")))
    assert devel.get_devel_root() == site.devel
