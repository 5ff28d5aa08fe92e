"""Reads and writes kpack archives and markers with MessagePack's own package and the zstd program,
for the tests.

Written from the description of the format, without any knowledge of the Rust code.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import msgpack

HEADER = struct.Struct("<4sIQ48x")


def zstd(data: bytes, *arguments: str) -> bytes:
    return subprocess.run(
        ["zstd", "--quiet", "--stdout", *arguments], input=data, stdout=subprocess.PIPE, check=True
    ).stdout


def frames(area: bytes) -> list[bytes]:
    (count,) = struct.unpack_from("<I", area)
    position, found = 4, []
    for _ in range(count):
        (length,) = struct.unpack_from("<I", area, position)
        found.append(area[position + 4 : position + 4 + length])
        position += 4 + length
    assert position == len(area), "the frames fill their area"
    return found


def read_archive(path: str, folder: str) -> None:
    data = Path(path).read_bytes()
    magic, version, table = HEADER.unpack_from(data)
    assert (magic, version) == (b"KPAK", 1)
    assert data[16:64] == bytes(48)
    toc = msgpack.unpackb(data[table:], strict_map_key=True)
    scheme = toc["compression_scheme"]
    if scheme == "none":
        expected = ["blobs"]
        stored = [data[blob["offset"] : blob["offset"] + blob["size"]] for blob in toc["blobs"]]
    else:
        expected = ["zstd_offset", "zstd_size"]
        assert toc["zstd_offset"] + toc["zstd_size"] == table
        stored = [zstd(frame, "--decompress") for frame in frames(data[toc["zstd_offset"] : table])]
    keys = ["format_version", "group_name", "gfx_arch_family", "gfx_arches", "toc", "compression_scheme", *expected]
    assert list(toc) == keys, list(toc)
    print(*(f"{key} {toc[key]}" for key in keys[:3]), "scheme", scheme)
    print("gfx_arches", *toc["gfx_arches"])
    Path(folder).mkdir(exist_ok=True)
    entries = [
        (key, arch, entry)
        for key, arches in sorted(toc["toc"].items(), key=lambda item: split(item[0]))
        for arch, entry in sorted(arches.items())
    ]
    for number, (key, arch, entry) in enumerate(entries):
        assert sorted(entry) == ["ordinal", "original_size", "type"] and entry["type"] == "hsaco"
        code = stored[entry["ordinal"]]
        assert len(code) == entry["original_size"]
        Path(folder, str(number)).write_bytes(code)
        print(number, key, arch)


def split(key: str) -> tuple[str, int]:
    name, index = key.rsplit("#", 1)
    return name, int(index)


def write_archive(path: str, scheme: str) -> None:
    kernels = [("lib\\libtest.so", 0, "gfx900"), ("lib/libtest.so", 1, "gfx906"), ("bin/testapp", 0, "gfx900")]
    toc: dict = {}
    body, blobs = b"", []
    if scheme != "none":
        body += struct.pack("<I", len(kernels))
    for ordinal, (name, index, arch) in enumerate(kernels):
        code = f"code of {name.replace(chr(92), '/')}#{index} for {arch}\n".encode() * 1000
        entry = {"type": "hsaco", "ordinal": ordinal, "original_size": len(code), "metadata": {"target": arch}}
        toc.setdefault(f"{name}#{index}", {})[arch] = entry
        if scheme != "none":
            code = zstd(code, "-19")
            body += struct.pack("<I", len(code))
        blobs.append({"offset": HEADER.size + len(body), "size": len(code)})
        body += code
    table = {
        "format_version": 1,
        "group_name": "test",
        "gfx_arch_family": "gfx900",
        "gfx_arches": ["gfx900", "gfx906"],
        "toc": toc,
        "compression_scheme": scheme,
    }
    table |= {"blobs": blobs} if scheme == "none" else {"zstd_offset": HEADER.size, "zstd_size": len(body)}
    Path(path).write_bytes(HEADER.pack(b"KPAK", 1, HEADER.size + len(body)) + body + msgpack.packb(table))


def write_marker(path: str, name: str, *paths: str) -> None:
    Path(path).write_bytes(msgpack.packb({"kpack_search_paths": paths, "kernel_name": name}))


COMMANDS = {"read-archive": read_archive, "write-archive": write_archive, "write-marker": write_marker}

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
