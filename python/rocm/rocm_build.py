"""The build backend of the `rocm` package. Input: `src/rocm_sdk/_dist_info.py`. Output: a wheel or
source distribution.

`rocm` only selects other packages, and the selection depends on the machine. So it is shipped as a
source distribution, and every machine builds its own wheel. That must work in an empty environment
without an index: this backend (PEP 517, in the tree through `backend-path`) requires nothing but
Python 3.10.

Everything is computed from `_dist_info.py`; release tools edit that file and repack the archive.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import inspect
import io
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent
SUMMARY = "ROCm for Python environments: selects the packages for this machine"
REQUIRES_PYTHON = ">=3.10"
LICENSE_EXPRESSION = "MIT OR Apache-2.0"
CLASSIFIERS = (
    "Development Status :: 4 - Beta",
    "Intended Audience :: Developers",
    "Programming Language :: Python :: 3",
)
ENTRY_POINTS = "[console_scripts]\nrocm-sdk = rocm_sdk.__main__:main\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: rocm_build\nRoot-Is-Purelib: false\nTag: py3-none-any\n"

# 1980-01-01, the first time that a ZIP file can represent: the archives depend only on their
# contents.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
TAR_TIME = 315532800

Settings = Mapping[str, Any] | None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return []


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """PEP 517: writes the `.dist-info` folder, without RECORD, and returns its name."""
    information = load_dist_info()
    name = f"{archive_stem(information)}.dist-info"
    directory = Path(metadata_directory, name)
    directory.mkdir(parents=True, exist_ok=True)
    for member, content in dist_info_members(information, resolve_family(information)).items():
        directory.joinpath(member).write_bytes(content)
    return name


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """PEP 517: builds the wheel for this machine and returns its file name."""
    information = load_dist_info()
    family = resolve_family(information)
    stem = archive_stem(information)
    members = {path: content for path, content in source_files() if path.startswith("src/")}
    members = {path.removeprefix("src/"): content for path, content in members.items()}
    for name, content in dist_info_members(information, family).items():
        members[f"{stem}.dist-info/{name}"] = content
    record = "".join(f"{name},{record_hash(content)},{len(content)}\n" for name, content in members.items())
    members[f"{stem}.dist-info/RECORD"] = f"{record}{stem}.dist-info/RECORD,,\n".encode()

    file_name = f"{stem}-py3-none-any.whl"
    # Stored, because the output of Python's zlib differs between its versions.
    with zipfile.ZipFile(Path(wheel_directory, file_name), "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return file_name


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """PEP 517: builds the source distribution, which is the same on every machine, and returns its
    file name."""
    information = load_dist_info()
    stem = archive_stem(information)
    members = dict(source_files())
    members.update(static_files(information))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(members):
            entry = tarfile.TarInfo(f"{stem}/{path}")
            entry.size = len(members[path])
            entry.mtime = TAR_TIME
            archive.addfile(entry, io.BytesIO(members[path]))
    file_name = f"{stem}.tar.gz"
    with open(Path(sdist_directory, file_name), "wb") as output:
        with gzip.GzipFile(filename="", mode="wb", fileobj=output, mtime=TAR_TIME) as compressed:
            compressed.write(buffer.getvalue())
    return file_name


def load_dist_info(path: Path | None = None) -> ModuleType:
    """Runs `_dist_info.py` by path, because its package is not installed yet."""
    path = ROOT / "src" / "rocm_sdk" / "_dist_info.py" if path is None else path
    specification = importlib.util.spec_from_file_location("rocm_sdk_dist_info", path)
    if specification is None or specification.loader is None:
        raise ImportError(f"Cannot load `{path}`")
    module = importlib.util.module_from_spec(specification)
    sys.modules["rocm_sdk_dist_info"] = module
    # Compiling would leave a __pycache__ in the source tree, and an existing one might be outdated.
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    try:
        specification.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = before
    return module


def resolve_family(information: ModuleType) -> str | None:
    """The family of the bare extras on this machine. Raises ValueError if `ROCM_SDK_TARGET_FAMILY`
    names a family that is not available."""
    # TheRock's own `_dist_info.py` treats a placeholder as a family if a distribution has none.
    has_families = bool(information.AVAILABLE_TARGET_FAMILIES)
    family: str | None = information.determine_target_family() if has_families else None
    available = ", ".join(information.AVAILABLE_TARGET_FAMILIES) or "none"
    print(f"rocm {information.__version__}: target family {family} (available: {available})")
    return family


def static_family(information: ModuleType) -> str | None:
    """The family of the bare extras in the source distribution, which must not depend on the
    machine."""
    if not information.AVAILABLE_TARGET_FAMILIES:
        return None
    families: list[str] = [information.DEFAULT_TARGET_FAMILY, *information.AVAILABLE_TARGET_FAMILIES]
    return next(filter(None, families), None)


def install_requires(information: ModuleType, family: str | None) -> list[str]:
    """The requirements without an extra. TheRock's function expects the family, ours does not need
    it."""
    function = information.build_install_requires
    return function(family) if inspect.signature(function).parameters else function()


def extras_of(information: ModuleType, family: str | None) -> dict[str, list[str]]:
    """The extras with their requirements; TheRock's `_dist_info.py` has only those for each target."""
    if hasattr(information, "build_extras"):
        return information.build_extras(family)
    extras = {
        name: [_marked(package.get_dist_package_require(family), getattr(package, "sys_platform", ""))]
        for name, package in information.ALL_PACKAGES.items()
        if not package.required and (family is not None or not package.is_target_specific)
    }
    per_target = information.build_per_target_extras() if information.AVAILABLE_TARGET_FAMILIES else {}
    # Names of extras are lower case (PEP 685).
    return extras | {extra.lower(): requirements for extra, requirements in per_target.items()}


def _marked(requirement: str, sys_platform: str) -> str:
    return f'{requirement}; sys_platform == "{sys_platform}"' if sys_platform else requirement


def archive_stem(information: ModuleType) -> str:
    return f"rocm-{information.__version__}"


def metadata_text(information: ModuleType, family: str | None) -> str:
    """Core metadata 2.4, without the description.

    `Dynamic` must be two lines in exactly this spelling. Otherwise uv treats the requirements of
    the source distribution as final, never runs this backend, and installs for the wrong machine.
    """
    lines = [
        "Metadata-Version: 2.4",
        "Name: rocm",
        f"Version: {information.__version__}",
        "Dynamic: Requires-Dist",
        "Dynamic: Provides-Extra",
        f"Summary: {SUMMARY}",
        f"License-Expression: {LICENSE_EXPRESSION}",
    ]
    lines += [f"Classifier: {classifier}" for classifier in CLASSIFIERS]
    lines.append(f"Requires-Python: {REQUIRES_PYTHON}")
    lines += [f"Requires-Dist: {requirement}" for requirement in install_requires(information, family)]
    extras = extras_of(information, family)
    for extra, requirements in extras.items():
        for requirement in requirements:
            joint = " and " if ";" in requirement else "; "
            lines.append(f'Requires-Dist: {requirement}{joint}extra == "{extra}"')
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    lines.append("Description-Content-Type: text/markdown")
    return "".join(f"{line}\n" for line in lines)


def package_information(information: ModuleType, family: str | None) -> bytes:
    """The text of PKG-INFO and METADATA: the headers and the README."""
    readme = ROOT.joinpath("README.md").read_bytes().replace(b"\r\n", b"\n")
    return metadata_text(information, family).encode() + b"\n" + readme


def dist_info_members(information: ModuleType, family: str | None) -> dict[str, bytes]:
    """The files of the wheel's `.dist-info` folder, except RECORD."""
    return {
        "METADATA": package_information(information, family),
        "WHEEL": WHEEL.encode(),
        "entry_points.txt": ENTRY_POINTS.encode(),
        "top_level.txt": b"rocm_sdk\n",
    }


def requires_text(information: ModuleType, family: str | None) -> str:
    """`requires.txt` in setuptools' format: a section for each extra and marker, sorted by name."""
    sections: dict[str, list[str]] = {}
    for extra, requirements in extras_of(information, family).items():
        sections.setdefault(extra, [])
        for requirement in requirements:
            name, _, marker = requirement.partition("; ")
            sections.setdefault(f"{extra}:{marker}" if marker else extra, []).append(name)
    text = "".join(f"{requirement}\n" for requirement in install_requires(information, family))
    for section in sorted(sections):
        text += f"\n[{section}]\n" + "".join(f"{requirement}\n" for requirement in sections[section])
    return text


def static_files(information: ModuleType) -> dict[str, bytes]:
    """The generated files of the source distribution, by path: PKG-INFO and the egg-info that release tools edit."""
    family = static_family(information)
    package_info = package_information(information, family)
    egg_info = "src/rocm.egg-info"
    files = {
        "PKG-INFO": package_info,
        f"{egg_info}/PKG-INFO": package_info,
        f"{egg_info}/SOURCES.txt": b"",
        f"{egg_info}/dependency_links.txt": b"\n",
        f"{egg_info}/entry_points.txt": ENTRY_POINTS.encode(),
        f"{egg_info}/requires.txt": requires_text(information, family).encode(),
        f"{egg_info}/top_level.txt": b"rocm_sdk\n",
    }
    sources = sorted({path for path, _ in source_files()} | set(files) - {"PKG-INFO"})
    files[f"{egg_info}/SOURCES.txt"] = "".join(f"{path}\n" for path in sources).encode()
    return files


def source_files() -> Iterable[tuple[str, bytes]]:
    """The files of this tree that are shipped, as sorted relative paths with their contents."""
    paths = [ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "rocm_build.py"]
    paths += [path for path in (ROOT / "src" / "rocm_sdk").rglob("*") if path.is_file()]
    named = {path.relative_to(ROOT).as_posix(): path for path in paths if "__pycache__" not in path.parts}
    return [(name, named[name].read_bytes()) for name in sorted(named)]


def record_hash(content: bytes) -> str:
    digest = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def main(arguments: list[str]) -> int:
    """`rocm_build.py --write-egg-info`: writes the generated files into this tree, for the tests."""
    if arguments != ["--write-egg-info"]:
        print("usage: rocm_build.py --write-egg-info", file=sys.stderr)
        return 2
    for name, content in static_files(load_dist_info()).items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
