"""Wheels with GPU code: one made here, of every oddity that real ones have, and those that PyPI
has."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from command import REPOSITORY, run

SOURCES = REPOSITORY / "crates/base/fixtures/gpu"
NAME, VERSION = "Demo.Hip", "1.2+rocm7.1"
TAGS = ("cp38-abi3-manylinux2014_x86_64", "cp38-abi3-manylinux_2_17_x86_64")
FILE_NAME = f"demo_hip-{VERSION}-1local-cp38-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
INFO = f"demo_hip-{VERSION}.dist-info"
DATA = f"demo_hip-{VERSION}.data"
WIDE = ("gfx90a:xnack+", "gfx90a:xnack-", "gfx942", "gfx1100", "gfx1201")

METADATA = f"""Metadata-Version:  2.0\r
Name: {NAME}\r
Version: {VERSION}\r
Summary: a wheel\r
 with a folded line\r
Classifier: License :: OSI Approved :: MIT License\r
Requires-Python: >=3.8\r
Provides-Extra: other\r
\r
Requires-Dist: this is text\r
"""
WHEEL = (
    "Wheel-Version:  1.0\r\nGenerator: by hand\r\nRoot-Is-Purelib: false\r\n"
    + "".join(f"Tag: {tag}\r\n" for tag in TAGS)
    + "Build: 1local\r\n"
)
DATABASES = {
    "demo/lib/rocblas/library/TensileLibrary_gfx942.co": ("gfx942", b"tensile 942" * 900),
    "demo/lib/rocblas/library/TensileLibrary_gfx90a-xnack+.co": ("gfx90a", b"tensile 90a" * 900),
    "demo/lib/aotriton.images/amd-gfx11xx/flash/attention.aks2": ("gfx11", b"triton 11" * 900),
    "demo/lib/aotriton.images/amd-gfx120x/flash/attention.aks2": ("gfx12_0", b"triton 12" * 900),
    f"{DATA}/data/share/miopen/db/gfx1100_48.db.txt": ("gfx1100", b"miopen" * 900),
}


@dataclass(frozen=True)
class Compiled:
    """HIP libraries that clang made, and what it takes to load one."""

    folder: Path

    @staticmethod
    def make(folder: Path) -> Compiled:
        shutil.copytree(SOURCES, folder, dirs_exist_ok=True)
        compiled = Compiled(folder)
        runtime = "libamdhip64.so.7"
        compiled.tool("gcc", "-shared", "-fPIC", f"-Wl,-soname,{runtime}", "-o", runtime, "runtime.c")
        compiled.tool("gcc", "-o", "load", "load.c", "-ldl")
        compiled.library("wide.so", WIDE)
        compiled.library("narrow.so", ("gfx942", "gfx1100"), "--offload-compress")
        return compiled

    def tool(self, *command: str) -> None:
        run(*command, cwd=self.folder)

    def library(self, name: str, targets: tuple[str, ...], *options: str) -> Path:
        architectures = [f"--offload-arch={target}" for target in targets]
        common = ["-x", "hip", "-nogpulib", "-nogpuinc", "-I", ".", "-O1", "-fPIC", "-c", *options, *architectures]
        self.tool("clang++-19", *common, "first.hip", "-o", f"{name}.o")
        self.tool("clang++-19", "-shared", "-fPIC", f"{name}.o", "alone.cpp", "libamdhip64.so.7", "-o", name)
        return self.folder / name

    def load(self, library: Path) -> str:
        """What the runtime saw when the library was loaded; its function has to give the right
        answer."""
        return run(self.folder / "load", library, environment={"LD_LIBRARY_PATH": str(self.folder)}).stdout


def record_hash(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def members(compiled: Compiled) -> dict[str, bytes]:
    """Code in a package, beside it as auditwheel puts it, twice under one name, at the top, and
    below the prefix."""
    wide, narrow = ((compiled.folder / name).read_bytes() for name in ("wide.so", "narrow.so"))
    return {
        "demo/__init__.py": b"",
        "demo/data, with a comma.txt": b"text" * 100,
        "demo/lib/libdemo.so": wide,
        "demo/other/libdemo.so": narrow,
        "demo_hip.libs/libdemo-1f7b8bcc.so": wide,
        "_demo.abi3.so": narrow,
        f"{DATA}/data/lib/libdemo.so": wide,
        f"{DATA}/scripts/demo": b"#!python\nprint('demo')\n",
        "demo/lib/rocblas/library/TensileLibrary_fallback.dat": b"for all" * 100,
        **{name: content for name, (_, content) in DATABASES.items()},
        f"{INFO}/METADATA": METADATA.encode(),
        f"{INFO}/WHEEL": WHEEL.encode(),
        f"{INFO}/licenses/LICENSE": b"do what you want\n",
        f"{INFO}/RECORD.jws": b"{}",
    }


def write_wheel(folder: Path, contents: dict[str, bytes], name: str = FILE_NAME) -> Path:
    """A wheel whose RECORD has hashes as other tools write them: none, in hexadecimal, or right."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for place, (member, content) in enumerate(contents.items()):
        hashes = ["", f"sha256={hashlib.sha256(content).hexdigest()}", record_hash(content)]
        rows.writerow([member, hashes[place % 3], len(content) if place % 3 else ""])
    rows.writerow([f"{INFO}/RECORD", "", ""])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in {**contents, f"{INFO}/RECORD": record.getvalue().encode()}.items():
            entry = zipfile.ZipInfo(member, (2024, 5, 6, 7, 8, 10))
            entry.external_attr = (0o100755 if ".so" in member or "/scripts/" in member else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return path


@dataclass(frozen=True)
class Read:
    """A wheel as Python's own modules read it."""

    path: Path

    @property
    def archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.path)

    @property
    def info(self) -> str:
        (info,) = {name.split("/")[0] for name in self.archive.namelist() if ".dist-info/" in name}
        return info

    def bytes(self, name: str) -> bytes:
        return self.archive.read(name)

    def text(self, name: str) -> str:
        return self.bytes(f"{self.info}/{name}").decode()

    def headers(self, name: str) -> list[str]:
        return [" ".join(value.split()) for value in HeaderParser().parsestr(self.text("METADATA")).get_all(name, [])]

    def payload(self) -> set[str]:
        info = self.info
        return {name for name in self.archive.namelist() if not name.startswith(f"{info}/")}

    def packed(self, name: str) -> bytes:
        """The bytes of a member as they lie in the archive."""
        entry = self.archive.getinfo(name)
        content = self.path.read_bytes()
        start = entry.header_offset
        name_length, extra_length = content[start + 26] | content[start + 27] << 8, content[start + 28]
        begin = start + 30 + name_length + (extra_length | content[start + 29] << 8)
        return content[begin : begin + entry.compress_size]

    def check_record(self) -> None:
        """Every member is in RECORD with the hash that installers want (wheel specification, "The
        RECORD file")."""
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(self.text("RECORD")))}
        names = [name for name in self.archive.namelist() if not name.endswith("/")]
        assert set(rows) == set(names) and len(names) == len(set(names))
        assert rows.pop(f"{self.info}/RECORD") == ["", ""]
        for name, row in rows.items():
            content = self.bytes(name)
            assert row == [record_hash(content), str(len(content))], name
        assert names[-1] == f"{self.info}/RECORD"


def wheels(folder: Path) -> Iterator[Read]:
    for path in sorted(folder.glob("*.whl")):
        yield Read(path)


def device(folder: Path, key: str) -> Read:
    (path,) = folder.glob(f"*_device_{key}-*.whl")
    return Read(path)
