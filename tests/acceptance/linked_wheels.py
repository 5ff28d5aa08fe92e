"""Wheels whose extension module is linked to libraries outside of it, compiled by gcc in a
second."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from small_wheels import pack

from command import run

PYTHON = f"cp{sys.version_info[0]}{sys.version_info[1]}"
VERSION = "1.0"

# An extension module without Python's headers: the stable part of its interface is a dozen words.
EXTENSION = """
struct definition {{ long count; void *type, *init; long index; void *copy; const char *name, *text; long size; void *rest[5]; }};
extern void *PyModule_Create2(struct definition *, int);
static struct definition module = {{ 1, 0, 0, 0, 0, "{module}", 0, -1 }};
extern int {function}(void);
int answer(void) {{ return {function}(); }}
void *PyInit_{module}(void) {{ return PyModule_Create2(&module, 1013); }}
"""

INIT = '''"""A package with a docstring."""

from __future__ import annotations

import ctypes

from demo import _ext


def answer() -> int:
    return ctypes.CDLL(_ext.__file__).answer()


def mapped() -> list[str]:
    """The libraries of this process."""
    with open("/proc/self/maps") as maps:
        return sorted({line.split()[5] for line in maps if ".so" in line})
'''

METADATA = """Metadata-Version: 2.1
Name: demo
Version: {version}
Requires-Dist: packaging
{more}
A wheel.
"""


def gcc(output: Path, source: str, *flags: object) -> Path:
    output.parent.mkdir(parents=True, exist_ok=True)
    file = output.with_suffix(".c") if output.suffix != ".c" else output
    file = output.parent / f"{output.name}.c"
    file.write_text(source)
    run("gcc", "-shared", "-fPIC", "-O1", "-g", file, "-o", output, *flags)
    file.unlink()
    return output


def library(
    folder: Path, name: str, function: str, body: str, *flags: object, version: str = "1.2", soname: str | None = None
) -> Path:
    """`libNAME.so.VERSION` with its usual links, with one function that returns what `body`
    says."""
    major = version.split(".")[0]
    soname = soname or f"lib{name}.so.{major}"
    file = gcc(folder / f"lib{name}.so.{version}", f"{body}\n", f"-Wl,-soname,{soname}", *flags)
    for link in (f"lib{name}.so.{major}", f"lib{name}.so"):
        if link != file.name:
            (folder / link).unlink(missing_ok=True)
            (folder / link).symlink_to(file.name)
    assert function in body
    return file


def extension(folder: Path, function: str, *flags: object, module: str = "_ext") -> Path:
    # Every extension module needs the C library, also where gcc would see no reason for it.
    source = EXTENSION.format(module=module, function=function)
    return gcc(folder / f"{module}.so", source, *flags, "-Wl,--no-as-needed", "-lc")


def write_wheel(
    folder: Path,
    members: dict[str, bytes],
    platform: str = "linux_x86_64",
    name: str = "demo",
    version: str = VERSION,
    python: str = f"{PYTHON}-{PYTHON}",
    requires: tuple[str, ...] = (),
    packed: bool = True,
) -> Path:
    more = "".join(f"Requires-Dist: {one}\n" for one in requires)
    metadata = METADATA.replace("Name: demo", f"Name: {name}").format(version=version, more=more)
    tag = f"{python}-{platform}"
    return pack(folder, name, version, members, tag=tag, metadata=metadata, hashed=True, packed=packed)


def check_record(wheel: Path) -> None:
    """Every file is in RECORD with its hash and size, and nothing else is."""
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        assert sorted(row[0] for row in rows) == sorted(name for name in archive.namelist() if not name.endswith("/"))
        for name, digest, size in rows:
            if name != record:
                data = archive.read(name)
                hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={hashed}", str(len(data))), name


@dataclass(frozen=True)
class Dynamic:
    """What readelf says about a library."""

    soname: str | None
    needed: list[str]
    rpath: str | None
    runpath: str | None
    versions: dict[str, list[str]]

    @staticmethod
    def of(file: Path) -> Dynamic:
        text = run("readelf", "-d", "-V", "-W", file).stdout

        def one(tag: str) -> str | None:
            found = re.findall(rf"\({tag}\).*\[(.*)\]", text)
            return found[0] if found else None

        versions: dict[str, list[str]] = {}
        library = ""
        for line in text.splitlines():
            if match := re.search(r"Version: \d+\s+File: (\S+)", line):
                library = match[1]
            elif library and (match := re.search(r"Name: (\S+)\s+Flags: ", line)):
                versions.setdefault(library, []).append(match[1])
        return Dynamic(one("SONAME"), re.findall(r"\(NEEDED\).*\[(.*)\]", text), one("RPATH"), one("RUNPATH"), versions)


def unpack(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def texts(wheel: Path, name: str) -> list[str]:
    """The members that end so."""
    with zipfile.ZipFile(wheel) as archive:
        return [archive.read(member).decode() for member in archive.namelist() if member.endswith(name)]


def bill_of_materials(wheel: Path) -> dict:
    (text,) = texts(wheel, ".dist-info/sboms/rocwheel.cdx.json")
    return json.loads(text)
