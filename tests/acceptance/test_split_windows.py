"""A wheel for Windows with libraries that clang and lld made: split, installed for Windows, and put
together again.

Nothing here runs on Windows. The judge reads the libraries by the description of PE files.
"""

import struct
import subprocess
import sys
from pathlib import Path

import msgpack
import pytest

import hip_wheels
from command import TOOLS, Rocwheel, run
from hip_wheels import SOURCES, Read, device, wheels
from trees import files

NAME = "demo_hip-1.2+rocm7.1-cp312-cp312-win_amd64.whl"
TARGETS = ("gfx942", "gfx1100", "gfx1151")
WRAPPER = struct.Struct("<IIQQ")
FAT, KPACKED = 0x48495046, 0x4B504948


class Pe:
    """The sections of a PE file and what they hold."""

    def __init__(self, content: bytes):
        self.content = content
        (start,) = struct.unpack_from("<I", content, 0x3C)
        assert content[start : start + 4] == b"PE\0\0"
        machine, count, optional = struct.unpack_from("<HH12xH", content, start + 4)
        assert machine == 0x8664
        (self.base,) = struct.unpack_from("<Q", content, start + 24 + 24)
        self.sections: dict[str, tuple[int, int, int, int]] = {}
        for number in range(count):
            at = start + 24 + optional + 40 * number
            name = content[at : at + 8].rstrip(b"\0").decode()
            memory, address, size, offset = struct.unpack_from("<IIII", content, at + 8)
            self.sections[name] = (address, memory, offset, size)

    def at(self, address: int) -> bytes:
        """The bytes from an address to the end of what its section has in the file."""
        for start, memory, offset, size in self.sections.values():
            inside = address - self.base - start
            if 0 <= inside < memory:
                return self.content[offset + inside : offset + size]
        raise AssertionError(f"nothing is at {address:#x}")

    def wrappers(self) -> list[tuple[int, int, int, int]]:
        _, memory, offset, _ = self.sections[".hipFatB"]
        count = memory // WRAPPER.size
        found = [WRAPPER.unpack_from(self.content, offset + WRAPPER.size * number) for number in range(count)]
        return [wrapper for wrapper in found if wrapper[0]]

    def code(self) -> list[dict[str, bytes]]:
        """For each wrapper what its bundle holds."""
        found = []
        for magic, version, pointer, _ in self.wrappers():
            assert (magic, version) == (FAT, 1)
            bundle, codes, place = plain(self.at(pointer)), {}, 32
            assert bundle.startswith(b"__CLANG_OFFLOAD_BUNDLE__")
            for _ in range(struct.unpack_from("<Q", bundle, 24)[0]):
                offset, size, length = struct.unpack_from("<QQQ", bundle, place)
                if size:
                    codes[bundle[place + 24 : place + 24 + length].decode()] = bundle[offset : offset + size]
                place += 24 + length
            found.append(codes)
        return found


def plain(bundle: bytes) -> bytes:
    """A bundle as it is once it is decompressed."""
    if not bundle.startswith(b"CCOB"):
        return bundle
    (version,) = struct.unpack_from("<H", bundle, 4)
    (length,) = struct.unpack_from("<I" if version == 2 else "<Q", bundle, 8)
    frame = bundle[24 if version == 2 else 32 : length]
    return subprocess.run(["zstd", "--decompress", "--stdout"], input=frame, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiled = hip_wheels.Compiled.make(tmp_path_factory.mktemp("hip"))
    compiled.tool("llvm-dlltool-19", "-m", "i386:x86-64", "-d", "amdhip64.def", "-l", "amdhip64.lib")
    windows = "--target=x86_64-pc-windows-msvc"
    compiled.tool("clang++-19", windows, "-x", "c", "-c", "windows.c", "-o", "windows.o")
    assert SOURCES.is_dir()
    units = ["second", "third"]
    for name, options in (("plain", []), ("compressed", ["--offload-compress"])):
        for unit in units:
            common = [windows, "-x", "hip", "-nogpulib", "-nogpuinc", "-I", ".", "-O1", "-c", *options]
            architectures = [f"--offload-arch={target}" for target in TARGETS]
            compiled.tool("clang++-19", *common, *architectures, f"{unit}.hip", "-o", f"{unit}.obj")
        objects = [*(f"{unit}.obj" for unit in units), "windows.o", "amdhip64.lib"]
        exports = [f"/export:{unit}_answer" for unit in units]
        link = ["lld-link-19", "/dll", "/noentry", "/nodefaultlib", "/debug", f"/out:{name}.dll"]
        compiled.tool(*link, *objects, *exports)
    plain, compressed = ((compiled.folder / f"{name}.dll").read_bytes() for name in ("plain", "compressed"))
    contents = {
        "demo/__init__.py": b"",
        "demo/bin/demo.dll": plain,
        "demo/_native.cp312-win_amd64.pyd": plain,
        "demo_hip.libs/demo-1f7b8bcc.dll": compressed,
        "demo/bin/rocblas/library/TensileLibrary_gfx1100.co": b"tensile" * 900,
        f"{hip_wheels.INFO}/METADATA": hip_wheels.METADATA.encode(),
        f"{hip_wheels.INFO}/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: false\nTag: cp312-cp312-win_amd64\n"
        ),
    }
    return hip_wheels.write_wheel(tmp_path_factory.mktemp("wheel"), contents, NAME)


@pytest.fixture(scope="module")
def parts(rocwheel: Rocwheel, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    done = rocwheel.json("split", wheel, "--output", folder)
    assert done["wheels"][0]["outcome"]["verification"]["differences"] == []
    return folder


def archive_table(content: bytes) -> dict:
    magic, version, offset = struct.unpack_from("<4sIQ", content)
    assert (magic, version) == (b"KPAK", 1)
    return msgpack.unpackb(content[offset:])


def libraries(wheel: Read) -> list[str]:
    return sorted(name for name in wheel.payload() if name.endswith((".dll", ".pyd")))


def test_every_library_finds_its_archives(wheel: Path, parts: Path) -> None:
    before, after = Read(wheel), Read(parts / NAME)
    after.check_record()
    assert after.text("WHEEL") == before.text("WHEEL")
    assert {read.path.name for read in wheels(parts)} == {
        NAME,
        *(NAME.replace("demo_hip-", f"demo_hip_device_{target}-") for target in TARGETS),
    }
    for name in libraries(before):
        old, new = Pe(before.bytes(name)), Pe(after.bytes(name))
        assert b"__CLANG_OFFLOAD_BUNDLE__" not in new.content and b"CCOB" not in new.content
        assert len(new.content) < len(old.content) or b"CCOB" in old.content
        layout = [(section[0], section[1]) for section in old.sections.values()]
        assert [(section[0], section[1]) for section in new.sections.values()][: len(layout)] == layout
        for number, (magic, version, pointer, index) in enumerate(new.wrappers()):
            unpacker = msgpack.Unpacker()
            unpacker.feed(new.at(pointer)[:65536])
            marker = unpacker.unpack()
            assert (magic, version, index) == (KPACKED, 1, number)
            for target in TARGETS:
                search = marker["kpack_search_paths"][0].replace("@GFXARCH@", target)
                path = Path(name).parent / search
                resolved = "/".join(_normal(path.parts))
                table = archive_table(device(parts, target).bytes(resolved))
                assert table["gfx_arches"] == [target]
                assert target in table["toc"][f"{marker['kernel_name']}#{index}"]


def _normal(parts: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for part in parts:
        if part == "..":
            found.pop()
        else:
            found.append(part)
    return found


def test_names_are_what_windows_can_hold(parts: Path) -> None:
    for read in wheels(parts):
        assert not [name for name in read.archive.namelist() if set(name) & set('<>:"|?*\\')]


def test_installs_for_windows_and_fuses_back(rocwheel: Rocwheel, wheel: Path, parts: Path, tmp_path: Path) -> None:
    paths = sorted(parts.glob("*.whl"))
    common = ["--no-deps", "--no-index", "--python-version", "3.12", "--target"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--implementation", "cp"]
    run(*pip, "--abi", "cp312", "--platform", "win_amd64", *common, tmp_path / "pip", *paths)
    uv = [TOOLS / "uv", "pip", "install", "--quiet", "--no-cache", "--python-platform", "x86_64-pc-windows-msvc"]
    run(*uv, *common, tmp_path / "uv", *paths)
    for folder in (tmp_path / "pip", tmp_path / "uv"):
        assert {name for read in wheels(parts) for name in read.payload()} <= files(folder)
    # A file for Windows has no room for more than it had, and one of them was compressed.
    failed = rocwheel.run("fuse", *paths, "--output", tmp_path / "fat", expect=1)
    assert "could not put the GPU code back into `demo_hip.libs/demo-1f7b8bcc.dll`" in failed.stderr
    assert "add `--compress`" in failed.stderr and not (tmp_path / "fat").exists()
    rocwheel.run("fuse", *paths, "--output", tmp_path / "fat", "--compress")
    before, after = Read(wheel), Read(tmp_path / "fat" / NAME)
    after.check_record()
    assert after.payload() == before.payload()
    for name in libraries(before):
        old, new = Pe(before.bytes(name)), Pe(after.bytes(name))
        wanted = {f"hipv4-amdgcn-amd-amdhsa--{target}" for target in TARGETS}
        assert [set(code) for code in old.code()] == [wanted, wanted]
        assert new.code() == old.code()


def test_prunes(rocwheel: Rocwheel, wheel: Path, tmp_path: Path) -> None:
    rocwheel.run("prune", wheel, "--keep", "gfx1100", "--output", tmp_path)
    before, after = Read(wheel), Read(tmp_path / NAME)
    after.check_record()
    wanted = "hipv4-amdgcn-amd-amdhsa--gfx1100"
    for name in libraries(before):
        assert Pe(after.bytes(name)).code() == [{wanted: code[wanted]} for code in Pe(before.bytes(name)).code()]
