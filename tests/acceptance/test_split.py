"""Real ROCm split by GPU target, packaged and installed. The judge is written here from the description of the formats,
without any of the Rust code: what the runtime would find for every wrapper and target is what the original holds.

Debian's HIP runtime cannot read archives, so this is a test of formats, and the set is made with --force.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import time
from dataclasses import dataclass, replace
from pathlib import Path

import msgpack
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from command import Rocwheel, run
from environment import Environment
from packages import PackageSet, record_problems

WRAPPER = struct.Struct("<IIQQ")
MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
FAT, KPACKED = 0x48495046, 0x4B504948


@dataclass(frozen=True)
class Wrapper:
    magic: int
    pointer: int
    index: int


class Host:
    """The GPU part of a library."""

    def __init__(self, path: Path):
        with open(path, "rb") as file:
            elf = ELFFile(file)
            self.path = path
            self.loads = [dict(segment.header) for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
            section = elf.get_section_by_name(".hipFatBinSegment")
            places = {section["sh_addr"] + start: start for start in range(0, section["sh_size"], WRAPPER.size)}
            raw = [list(values) for values in WRAPPER.iter_unpack(section.data())]
            for table in elf.iter_sections():
                if not isinstance(table, RelocationSection):
                    continue
                for relocation in table.iter_relocations():
                    start = places.get(relocation["r_offset"] - 8)
                    if start is not None:
                        assert relocation["r_info_type"] == 8, "not relative"
                        raw[start // WRAPPER.size][2] = relocation["r_addend"]
            self.wrappers = [Wrapper(magic, pointer, index) for magic, version, pointer, index in raw if version == 1]
            assert len(self.wrappers) == len(raw)

    def mapped(self, address: int, size: int) -> bytes:
        """What is in memory at an address, as far as one segment has it."""
        for load in self.loads:
            skip = address - load["p_vaddr"]
            if 0 <= skip < load["p_filesz"]:
                with open(self.path, "rb") as file:
                    file.seek(load["p_offset"] + skip)
                    return file.read(min(size, load["p_filesz"] - skip))
        raise AssertionError(f"nothing is mapped at {address:#x} of {self.path}")

    def bundle(self, address: int) -> dict[str, bytes]:
        """Target to code object of the bundle at an address."""
        head = self.mapped(address, 65536)
        assert head.startswith(MAGIC)
        (count,) = struct.unpack_from("<Q", head, 24)
        position, found = 32, {}
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", head, position)
            name = head[position + 24 : position + 24 + length].decode()
            position += 24 + length
            if size:
                found[name.rsplit("--", 1)[1]] = self.mapped(address + offset, size)
        return found

    def marker(self, address: int) -> dict:
        unpacker = msgpack.Unpacker()
        unpacker.feed(self.mapped(address, 65536))
        return unpacker.unpack()


def code_object(path: Path, key: str, target: str) -> bytes | None:
    """A code object of an uncompressed archive."""
    archive = path.read_bytes()
    magic, version, offset = struct.unpack_from("<4sIQ", archive)
    assert (magic, version) == (b"KPAK", 1)
    table = msgpack.unpackb(archive[offset:])
    assert table["compression_scheme"] == "none"
    if target not in table["gfx_arches"]:
        return None
    entry = table["toc"][key][target]
    blob = table["blobs"][entry["ordinal"]]
    assert blob["size"] == entry["original_size"]
    return archive[blob["offset"] : blob["offset"] + blob["size"]]


def find(host: Host, wrapper: Wrapper, target: str) -> bytes | None:
    """What the loader finds: the search path from the real place of the library, for every compatible target."""
    marker = host.marker(wrapper.pointer)
    for search in marker["kpack_search_paths"]:
        for name in (target, target.split(":")[0]):
            path = Path(os.path.normpath(host.path.resolve().parent / search.replace("@GFXARCH@", name, 1)))
            if path.is_file():
                found = code_object(path, f"{marker['kernel_name']}#{wrapper.index}", target)
                if found is not None:
                    return found
    return None


@pytest.fixture(scope="module")
def split_artifacts(rocwheel: Rocwheel, package_set: PackageSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("split") / "artifacts"
    rocwheel.run("split", package_set.artifacts, "--output", output, "--force", "--compression", "none")
    return output


@pytest.fixture(scope="module")
def split_set(rocwheel: Rocwheel, package_set: PackageSet, split_artifacts: Path) -> PackageSet:
    output = split_artifacts.parent / "packages"
    rocwheel.package(split_artifacts, output, "--force", "--compression", "fast")
    return replace(package_set, artifacts=split_artifacts, output=output)


@pytest.fixture(scope="module")
def split_environment(split_set: PackageSet, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    fresh = Environment.create(tmp_path_factory.mktemp("split-venv") / "venv", "pip")
    fresh.install(split_set.dist, "rocm[libraries]", *split_set.device_packages)
    return fresh


def libraries(package_set: PackageSet) -> list[Path]:
    """The libraries of the input that hold GPU code."""
    found = []
    for path in sorted(package_set.artifacts.glob("*_lib_generic/**/*.so*")):
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF" and ELFFile(file).get_section_by_name(".hipFatBinSegment"):
                    found.append(path)
    assert found, "there is nothing to test"
    return found


def test_a_set_whose_runtime_cannot_read_archives_is_refused(
    rocwheel: Rocwheel, package_set: PackageSet, split_artifacts: Path, tmp_path: Path
) -> None:
    said = rocwheel.run("split", package_set.artifacts, "--output", tmp_path / "out", expect=1)
    assert "libamdhip64" in said.stderr and "--force" in said.stderr, said.stderr
    assert not (tmp_path / "out").exists()
    said = rocwheel.package(split_artifacts, tmp_path / "packages", expect=1)
    assert ".kpack archives" in said.stderr and "--force" in said.stderr, said.stderr


def test_the_set_has_a_device_wheel_for_each_target(package_set: PackageSet, split_set: PackageSet) -> None:
    targets = set()
    for library in libraries(package_set):
        host = Host(library)
        for wrapper in host.wrappers:
            targets |= {target.split(":")[0] for target in host.bundle(wrapper.pointer)}
    assert split_set.device_packages == sorted(f"rocm-sdk-device-{target}" for target in targets)
    assert [problem for wheel in split_set.wheels for problem in record_problems(wheel)] == []
    fat = package_set.wheel("rocm_sdk_libraries").stat().st_size
    assert split_set.wheel("rocm_sdk_libraries").stat().st_size < fat


def test_every_installed_library_finds_every_code_object(
    package_set: PackageSet, split_environment: Environment
) -> None:
    checked = 0
    for library in libraries(package_set):
        before = Host(library)
        with open(library, "rb") as file:
            dynamic = ELFFile(file).get_section_by_name(".dynamic")
            (soname,) = [tag.soname for tag in dynamic.iter_tags("DT_SONAME")]
        after = Host(split_environment.site / "_rocm_sdk_libraries/lib" / soname)
        assert len(after.wrappers) == len(before.wrappers)
        for old, new in zip(before.wrappers, after.wrappers, strict=True):
            assert (old.magic, new.magic) == (FAT, KPACKED)
            for target, code in before.bundle(old.pointer).items():
                assert find(after, new, target) == code, f"{soname}, index {new.index}, {target}"
                checked += 1
        assert after.path.stat().st_size < library.stat().st_size
    assert checked >= 7, "rocRAND alone has seven code objects"


def test_split_libraries_load(split_environment: Environment) -> None:
    paths = sorted((split_environment.site / "_rocm_sdk_libraries/lib").glob("*.so*"))
    assert paths
    for path in paths:
        split_environment.run("python", "-c", f"import ctypes; ctypes.CDLL({str(path)!r})")


def test_a_target_is_removed_without_touching_the_others(split_set: PackageSet, tmp_path: Path) -> None:
    environment = Environment.create(tmp_path / "venv", "uv")
    names = split_set.device_packages
    environment.install(split_set.dist, "rocm[libraries]", *names)
    archives = environment.site / "_rocm_sdk_libraries/.kpack"
    target = names[0].removeprefix("rocm-sdk-device-")
    environment.uninstall(names[0])
    left = {path.name for path in archives.iterdir()}
    assert left and not any(name.endswith(f"_{target}.kpack") for name in left), left
    environment.uninstall(*environment.installed())
    assert environment.left_over() == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
def test_a_split_interrupted_leaves_nothing(
    rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path, number: int
) -> None:
    output = tmp_path / "out"
    process = rocwheel.start("split", package_set.artifacts, "--output", output, "--force")
    deadline = time.monotonic() + 60
    while not any(tmp_path.glob(".out.rocwheel-*/*")):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.005)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert "panicked" not in stderr
    assert list(tmp_path.iterdir()) == []


def test_the_check_alone_agrees_and_sees_a_flipped_byte(
    rocwheel: Rocwheel, package_set: PackageSet, split_artifacts: Path, tmp_path: Path
) -> None:
    before = package_set.artifacts / "rand_lib_generic"
    after = tmp_path / "after"
    after.mkdir()
    for artifact in split_artifacts.glob("rand_lib_*"):
        run("cp", "-a", artifact, after)
    said = json.loads(rocwheel.run("split", "--verify-only", before, after, "--json").stdout)
    assert said["differences"] == [] and said["binaries"][0]["code_objects"] == 7, said
    (archive,) = after.glob("rand_lib_gfx1030/**/.kpack/*.kpack")
    content = bytearray(archive.read_bytes())
    content[5000] ^= 1
    archive.write_bytes(content)
    said = json.loads(rocwheel.run("split", "--verify-only", before, after, "--json", expect=1).stdout)
    (difference,) = said["differences"]
    assert difference["wrapper"] == 0 and difference["target"] == "gfx1030", difference
    assert difference["path"].endswith("librocrand.so.1.1") and "differs at byte" in difference["what"], difference
