"""Wheels and source distributions of a few bytes, for tests of what is said about files rather than
of what is in them."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path


def core_metadata(name: str, version: str, requires: Sequence[str] = (), python: str | None = None) -> str:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    if python:
        lines.append(f"Requires-Python: {python}")
    extras = {extra for requirement in requires for extra in re.findall(r'extra == "(.+?)"', requirement)}
    lines += [f"Provides-Extra: {extra}" for extra in sorted(extras)]
    return "\n".join([*lines, *(f"Requires-Dist: {requirement}" for requirement in requires), "", ""])


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
    stem = name.replace("-", "_")
    path = folder / f"{stem}-{version}-{tag}.whl"
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{stem}-{version}.dist-info"
    members = {
        f"{stem}.py": f'VERSION = "{version}"\n',
        f"{info}/METADATA": core_metadata(name, said or version, requires, python),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    members[f"{info}/RECORD"] = "".join(f"{member},,\n" for member in [*members, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            archive.writestr(zipfile.ZipInfo(member), text)
    return path


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
