"""Wheels and source distributions of a few bytes, for tests of what is said about files rather than
of what is in them."""

import base64
import csv
import hashlib
import io
import re
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from trees import put


def core_metadata(name: str, version: str, requires: Sequence[str] = (), python: str | None = None) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    if python:
        lines.append(f"Requires-Python: {python}")
    extras = {extra for requirement in requires for extra in re.findall(r'extra == "(.+?)"', requirement)}
    lines += [f"Provides-Extra: {extra}" for extra in sorted(extras)]
    return "\n".join([*lines, *(f"Requires-Dist: {requirement}" for requirement in requires), "", ""])


def pack(
    folder: Path,
    name: str,
    version: str,
    members: dict[str, bytes | str],
    *,
    tag: str = "py3-none-any",
    metadata: str = "",
    hashed: bool = False,
    packed: bool = False,
    date: tuple[int, ...] = (1980, 1, 1, 0, 0, 0),
) -> Path:
    """A wheel of these members, the same bytes whenever it is written. `hashed`: its RECORD has
    hashes. `packed`: its members are compressed. `tag` may have several platforms."""
    stem = f"{name.replace('-', '_')}-{version}"
    python, _, platforms = tag.rpartition("-")
    tags = "".join(f"Tag: {python}-{platform}\n" for platform in platforms.split("."))
    info = f"{stem}.dist-info"
    texts = {
        f"{info}/METADATA": metadata or core_metadata(name, version),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: {str(tag.endswith('any')).lower()}\n{tags}",
    }
    folder.mkdir(parents=True, exist_ok=True)
    rows = io.StringIO()
    record = csv.writer(rows, lineterminator="\n")
    with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as archive:
        for member, content in {**members, **texts, f"{info}/RECORD": b""}.items():
            data = content.encode() if isinstance(content, str) else content
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            has_hash = hashed and not member.endswith("/RECORD")
            record.writerow([member, *((f"sha256={digest}", len(data)) if has_hash else ("", ""))])
            entry = zipfile.ZipInfo(member, date)
            entry.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            # pip makes scripts executable that are so in the wheel.
            entry.external_attr = (0o100755 if ".so" in member or "scripts/" in member else 0o100644) << 16
            archive.writestr(entry, rows.getvalue() if member.endswith("/RECORD") else data)
    return folder / f"{stem}-{tag}.whl"


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    *requires: str,
    tag: str = "py3-none-any",
    python: str | None = ">=3.8",
    said: str | None = None,
) -> Path:
    """A wheel with one module, the same bytes whenever it is written.

    `said` is the version in METADATA where the file name lies.
    """
    members = {f"{name.replace('-', '_')}.py": f'VERSION = "{version}"\n'}
    metadata = core_metadata(name, said or version, requires, python)
    return pack(folder, name, version, members, tag=tag, metadata=metadata)


def install(
    site: Path, name: str, version: str, files: dict[str, bytes | str] | None = None, requires: Sequence[str] = ()
) -> Path:
    """A package in site-packages with its RECORD, as an installer leaves it; gives its
    `.dist-info`."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    members = {**(files or {}), f"{info}/METADATA": core_metadata(name, version, requires), f"{info}/WHEEL": wheel}
    rows = ""
    for member, content in members.items():
        data = put(site / member, content).read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows += f"{member},sha256={digest},{len(data)}\n"
    put(site / info / "RECORD", f"{rows}{info}/RECORD,,\n")
    return site / info


def write_sdist(folder: Path, name: str, version: str) -> Path:
    stem = f"{name.replace('-', '_')}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        text = core_metadata(name, version).encode()
        member = tarfile.TarInfo(f"{stem}/PKG-INFO")
        member.size = len(text)
        archive.addfile(member, io.BytesIO(text))
    return path
