"""Real ROCm split by GPU target, packaged and installed. The judge is written here from the
description of the formats, without any of the Rust code: what the runtime would find for every
wrapper and target is what the original holds.

Debian's HIP runtime cannot read archives, so this is a test of formats, and the set is made with
--force.
"""

import json
import os
import shutil
import signal
import struct
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import msgpack
import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection

from command import Rocwheel, run
from environment import Environment
from packages import PackageSet, record_problems
from trees import put, snapshot

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
    """A code object of an archive."""
    archive = path.read_bytes()
    magic, version, offset = struct.unpack_from("<4sIQ", archive)
    assert (magic, version) == (b"KPAK", 1)
    table = msgpack.unpackb(archive[offset:])
    if target not in table["gfx_arches"]:
        return None
    entry = table["toc"][key][target]
    if table["compression_scheme"] == "zstd-per-kernel":
        place = table["zstd_offset"] + 4
        for _ in range(entry["ordinal"]):
            place += 4 + struct.unpack_from("<I", archive, place)[0]
        (length,) = struct.unpack_from("<I", archive, place)
        frame = archive[place + 4 : place + 4 + length]
        code = subprocess.run(["zstd", "--decompress", "--stdout"], input=frame, capture_output=True, check=True).stdout
        assert len(code) == entry["original_size"]
        return code
    assert table["compression_scheme"] == "none"
    blob = table["blobs"][entry["ordinal"]]
    assert blob["size"] == entry["original_size"]
    return archive[blob["offset"] : blob["offset"] + blob["size"]]


def find(host: Host, wrapper: Wrapper, target: str) -> bytes | None:
    """What the loader finds: the search path from the real place of the library, for every
    compatible target."""
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
    rocwheel.run("split", package_set.artifacts, "--output", tmp_path / "out", expect=1).says("libamdhip64", "--force")
    assert not (tmp_path / "out").exists()
    rocwheel.package(split_artifacts, tmp_path / "packages", expect=1).says(".kpack archives", "--force")


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


def overlaid(parts: list[Path], folder: Path) -> Path:
    """The prefixes of several artifacts laid over each other, as an installation does it."""
    for part in parts:
        shutil.copytree(part, folder, symlinks=True, dirs_exist_ok=True)
    return folder


def check_all_found(before: Path, after: Path, targets: set[str]) -> None:
    """Every code object for these targets is found for the library; code for others is not
    there."""
    old_host, new_host = Host(before), Host(after)
    checked = 0
    for old, new in zip(old_host.wrappers, new_host.wrappers, strict=True):
        for target, code in old_host.bundle(old.pointer).items():
            found = find(new_host, new, target)
            if target.split(":")[0] in targets:
                assert found == code, target
                checked += 1
            else:
                assert found is None, target
    assert checked >= len(targets)


def test_todays_flags_split_artifacts(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    """`compat split_artifacts`: one artifact, some of its targets, and a folder of artifacts."""
    library = min(libraries(package_set), key=lambda path: path.stat().st_size)
    name, *inside = library.relative_to(package_set.artifacts).parts
    artifact, prefix, path = package_set.artifacts / name, name.removesuffix("_generic"), Path(*inside)
    before = Host(library)
    wrappers = [before.bundle(wrapper.pointer) for wrapper in before.wrappers]
    targets = {target.split(":")[0] for bundle in wrappers for target in bundle}

    one = tmp_path / "one"
    said = rocwheel.run(
        *["compat", "split_artifacts", "--artifact-dir", artifact, "--artifact-prefix", prefix, "--output-dir", one],
        *["--tmp-dir", tmp_path / "unused", "--clang-offload-bundler", "/usr/bin/clang-offload-bundler"],
        *["--split-databases", "rocblas", "miopen", "--verbose"],
    )
    assert "`--clang-offload-bundler` has no effect" in said.stderr and not (tmp_path / "unused").exists()
    # A folder of artifacts that other runs wrote to may hold a manifest for `rocwheel package`
    # besides.
    parts = {part.name for part in one.iterdir() if part.name.startswith(f"{prefix}_")}
    assert parts == {f"{prefix}_generic", *(f"{prefix}_{target}" for target in targets)}
    for part in parts:
        assert (one / part / "artifact_manifest.txt").read_text().split(), part
    check_all_found(library, overlaid([one / part for part in sorted(parts)], tmp_path / "laid") / path, targets)

    # Another artifact is written beside the first, which stays; only these targets are kept.
    some = {sorted(targets)[0]}
    rocwheel.run(
        *["compat", "split_artifacts", "--artifact-dir", artifact, "--artifact-prefix", "some_lib"],
        *["--output-dir", one, "--gpu-targets", *some],
    )
    fresh = {part.name for part in one.iterdir() if part.name.startswith("some_lib_")}
    assert fresh == {"some_lib_generic", *(f"some_lib_{target}" for target in some)}
    assert parts <= {part.name for part in one.iterdir()}
    check_all_found(library, overlaid([one / part for part in sorted(fresh)], tmp_path / "some") / path, some)

    # In a folder the family is the last part of the name, and what is generic is passed over.
    folder, batch = tmp_path / "folder", tmp_path / "batch"
    shutil.copytree(artifact, folder / f"{prefix}_gfx90X-all", symlinks=True)
    shutil.copytree(artifact, folder / "other_lib_generic", symlinks=True)
    rocwheel.run("compat", "split_artifacts", "--batch-artifact-parent-dir", folder, "--output-dir", batch)
    assert {part.name for part in batch.iterdir() if part.name.startswith(f"{prefix}_")} == parts
    assert not list(batch.glob("other_lib_*"))
    for archive in sorted(one.glob(f"{prefix}_*/**/*_*.kpack")):
        assert (batch / archive.relative_to(one)).read_bytes() == archive.read_bytes()

    failed = rocwheel.run("compat", "split_artifacts", "--artifact-dir", artifact, "--output-dir", one, expect=2)
    assert "--artifact-prefix" in failed.stderr
    failed = rocwheel.run(
        *["compat", "split_artifacts", "--artifact-dir", artifact, "--artifact-prefix", "x_lib"],
        *["--output-dir", tmp_path / "none", "--gpu-targets", "gfx1250"],
        expect=1,
    )
    assert "gfx1250" in failed.stderr and not list((tmp_path / "none").glob("x_lib*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
def test_a_split_interrupted_leaves_nothing(
    rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path, number: int
) -> None:
    output = tmp_path / "out"
    words = ("split", package_set.artifacts, "--output", output, "--force")
    rocwheel.interrupted(*words, when=lambda: any(tmp_path.glob(".out.rocwheel-*/*")), number=number)
    assert list(tmp_path.iterdir()) == []


def test_the_check_alone_agrees_and_sees_a_flipped_byte(
    rocwheel: Rocwheel, package_set: PackageSet, split_artifacts: Path, tmp_path: Path
) -> None:
    before = package_set.artifacts / "rand_lib_generic"
    after = tmp_path / "after"
    after.mkdir()
    for artifact in split_artifacts.glob("rand_lib_*"):
        run("cp", "-a", artifact, after)
    said = rocwheel.json("split", "--verify-only", before, after)
    assert said["differences"] == [] and said["binaries"][0]["code_objects"] == 7, said
    (archive,) = after.glob("rand_lib_gfx1030/**/.kpack/*.kpack")
    content = bytearray(archive.read_bytes())
    content[5000] ^= 1
    archive.write_bytes(content)
    said = rocwheel.json("split", "--verify-only", before, after, expect=1)
    (difference,) = said["differences"]
    assert difference["wrapper"] == 0 and difference["target"] == "gfx1030", difference
    assert difference["path"].endswith("librocrand.so.1.1") and "differs at byte" in difference["what"], difference


def test_an_import_can_be_split_in_one_go(
    rocwheel: Rocwheel, debs: list[Path], package_set: PackageSet, tmp_path: Path
) -> None:
    """The same bytes as an import and a split of its result. A runtime that cannot read archives is
    refused before anything is unpacked, and an output of someone else is not touched."""
    refused = rocwheel.run("artifact", "import", "--deb", *debs, "-o", tmp_path / "out", "--split", expect=1)
    assert "cannot read .kpack archives" in refused.stderr and "`--force`" in refused.stderr, refused.stderr
    assert "Unpacking" not in refused.stderr
    assert list(tmp_path.iterdir()) == []

    other = tmp_path / "other"
    put(other / "mine", "mine")
    rocwheel.import_debs(debs, other, "--split", "--force", expect=1)
    assert [path.name for path in other.iterdir()] == ["mine"]
    shutil.rmtree(other)

    said = json.loads(rocwheel.import_debs(debs, tmp_path / "out", "--split", "--force", "--json").stdout)
    assert said["output"] == str(tmp_path / "out")
    rocwheel.run("split", package_set.artifacts, "--output", tmp_path / "after", "--force")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    made, expected = snapshot(tmp_path / "out"), snapshot(tmp_path / "after")
    assert made.pop(".rocwheel-import") and expected.pop(".rocwheel-split")
    assert made == expected
    assert {one["name"] for one in said["artifacts"]} == {path.partition("/")[0] for path in expected}
    assert said["split"]["archive_bytes"] > 0
    # The output of one form is replaced by the other.
    rocwheel.import_debs(debs, tmp_path / "out")
    assert snapshot(tmp_path / "out") == snapshot(package_set.artifacts)
