"""A full disk is named by what could not be written, never by what was read for it, with the
advice to free space there; and nothing is left."""

import os
from pathlib import Path

import pytest
from serving import served
from small_wheels import pack
from test_index import index

from command import Result, Rocwheel, on_a_disk
from linked_wheels import gcc

NOISE = os.urandom(4 << 20)


def noisy_wheel(folder: Path, version: str, library: Path | None = None) -> Path:
    """A wheel that cannot be packed to less than 4 MiB."""
    tag = "cp312-cp312-linux_x86_64" if library else "py3-none-any"
    noise = {"demo/_ext.so": library.read_bytes()} if library else {"demo/noise.bin": NOISE}
    return pack(folder, "demo", version, {"demo/__init__.py": b"", **noise}, tag=tag, packed=True)


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with a large extension module that needs a library from elsewhere."""
    folder = tmp_path_factory.mktemp("linked")
    (folder / "noise.bin").write_bytes(NOISE)
    source = folder / "noise.s"
    source.write_text(f'.section .rodata\n.incbin "{folder}/noise.bin"\n.section .note.GNU-stack,"",@progbits\n')
    gcc(folder / "libinner.so", "int inner(void) { return 1; }", "-Wl,-soname,libinner.so")
    body = "extern int inner(void); int outer(void) { return inner(); }"
    built = gcc(folder / "_ext.so", body, f"-L{folder}", "-linner", source)
    return noisy_wheel(folder, "1.0", built)


def assert_full(result: Result, written: str) -> None:
    said = result.stderr
    assert f"error: cannot write `{written}" in said, said
    # The words of the system, or those for its number where only the kind of an error is known.
    assert "cause: No space left on device" in said or "cause: no storage space" in said, said
    assert f"hint: free space on the file system of `{written}" in said, said
    assert "cannot read" not in said and "could not read" not in said, "what was read is not at fault"
    assert ".rocwheel-" not in said and "unfinished-" not in said, "a temporary file is named"
    assert "/disk/" not in result.stdout, f"left behind: {result.stdout}"


@pytest.mark.parametrize("size", ["256k", "6m"])
def test_repair_names_its_output(rocwheel: Rocwheel, linked: Path, tmp_path: Path, size: str) -> None:
    """First there is no room to unpack, then none for the result."""
    disk = tmp_path / "disk"
    words = ("--lib-path", linked.parent, "--no-audit", "--output", disk)
    assert_full(on_a_disk(size, disk, rocwheel.binary, "repair", linked, *words), str(disk))


def test_repair_names_its_scratch(rocwheel: Rocwheel, linked: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    words = ("--lib-path", linked.parent, "--no-audit", "--output", tmp_path / "out", "--scratch", disk)
    assert_full(on_a_disk("256k", disk, rocwheel.binary, "repair", linked, *words), str(disk))


def test_publish_names_the_store(rocwheel: Rocwheel, tmp_path: Path) -> None:
    disk, wheel = tmp_path / "disk", noisy_wheel(tmp_path / "dist", "1.0")
    words = ("release", "publish", wheel.parent, "--to", disk, "--stream", "s")
    assert_full(on_a_disk("1m", disk, rocwheel.binary, *words), f"{disk}/s/demo/{wheel.name}")


def test_promote_names_its_output(rocwheel: Rocwheel, tmp_path: Path) -> None:
    disk, wheel = tmp_path / "disk", noisy_wheel(tmp_path / "dist", "1.0rc1")
    words = ("release", "promote", wheel.parent, "--version", "1.0", "--set-version", "1.0rc1", "--output", disk)
    assert_full(on_a_disk("1m", disk, rocwheel.binary, *words), f"{disk}/demo-1.0-py3-none-any.whl")


def test_pages_name_themselves(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """A store with room for the files and none for its pages."""
    disk = tmp_path / "disk"
    wheel = noisy_wheel(tmp_path / "dist", "1.0")
    script = f'cp {wheel} {disk}; head -c 100m /dev/zero > {disk}/filled; exec "$0" index build {disk}'
    result = on_a_disk("5m", disk, "bash", "-c", script, rocwheel.binary)
    assert f"error: cannot write `{disk}/" in result.stderr and "hint: free space on the file" in result.stderr
    assert "unfinished-" not in result.stderr, result.stderr


def test_check_names_the_folder_for_downloads(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Nothing is wrong with the index."""
    disk, dist = tmp_path / "disk", tmp_path / "dist"
    noisy_wheel(dist, "1.0")
    index(rocwheel, dist)
    with served(dist) as address:
        words = ("env", f"TMPDIR={disk}", rocwheel.binary, "index", "check", f"{address}/simple/", "--files")
        assert_full(on_a_disk("1m", disk, *words), str(disk))
