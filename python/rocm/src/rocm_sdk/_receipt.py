"""The list of everything that expanding the devel package has created:
`_rocm_sdk_devel/.expanded.json`.

The tar file is removed when the tree is complete, and RECORD has no hashes of files that were
created after the installation. So the expansion leaves a list, with which `rocm-sdk init --verify`
compares the tree. The list is written before the tar file is removed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from . import _dist_info
from ._record import Record

FILE_NAME = ".expanded.json"
TEMPORARY_NAME = f"{FILE_NAME}.tmp"
SCHEMA = 1

# A link of the tar file: its path relative to the devel tree, and its text, relative to its folder.
Link = tuple[str, str]


class DevelError(RuntimeError):
    """The devel tree cannot be expanded; the message says what to do."""


class Kind(str, Enum):
    """The kind of a link."""

    HARDLINK = "hardlink"
    SYMLINK = "symlink"
    COPY = "copy"
    # A symbolic link to a folder of the tree.
    FOLDER = "folder"
    # Not created: its target belongs to a package that is not installed.
    WAITING = "waiting"


LINK_MODES = (Kind.HARDLINK, Kind.SYMLINK, Kind.COPY)


@dataclass
class File:
    """A file of the tar file: size in bytes, SHA-256 in hexadecimal, permission bits."""

    size: int
    sha256: str
    mode: int


@dataclass
class MadeLink:
    """A link: its text in the tar file, and its current kind."""

    text: str
    kind: Kind


@dataclass
class Receipt:
    """The list. All paths are relative to the devel tree, with `/`."""

    version: str
    link_mode: Kind
    # False while links are changed from one mode to another: a killed process leaves a mixture.
    settled: bool = True
    files: dict[str, File] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    links: dict[str, MadeLink] = field(default_factory=dict)
    # Every file that a device package has ever added, with its kind.
    devices: dict[str, Kind] = field(default_factory=dict)

    def texts(self) -> dict[str, str]:
        """The texts of the links."""
        return {relpath: link.text for relpath, link in self.links.items()}

    def waiting(self) -> list[str]:
        """The links that wait for packages that are not installed."""
        return sorted(relpath for relpath, link in self.links.items() if link.kind is Kind.WAITING)

    def counts(self) -> dict[str, int]:
        """The number of links of each kind, including those of device packages."""
        kinds = [link.kind for link in self.links.values()] + list(self.devices.values())
        return {kind.value: kinds.count(kind) for kind in Kind}


def read(devel_dir: Path) -> Receipt | None:
    """The list of a tree; None if there is none. Raises DevelError if it cannot be parsed."""
    path = devel_dir / FILE_NAME
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']} is not known to this rocm_sdk")
        return Receipt(
            version=content["version"],
            link_mode=Kind(content["link_mode"]),
            settled=content["settled"],
            files={relpath: File(*values) for relpath, values in content["files"].items()},
            folders=content["folders"],
            links={relpath: MadeLink(text, Kind(kind)) for relpath, (text, kind) in content["links"].items()},
            devices={relpath: Kind(kind) for relpath, kind in content["devices"].items()},
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DevelError(f"Cannot read `{path}`: {error}. {reinstall()}") from error


def write(devel_dir: Path, record: Record, receipt: Receipt) -> None:
    """Replaces the list of a tree."""
    record.add(f"{devel_dir.name}/{name}" for name in (FILE_NAME, TEMPORARY_NAME))
    content = {
        "schema": SCHEMA,
        "version": receipt.version,
        "link_mode": receipt.link_mode,
        "settled": receipt.settled,
        "files": {name: [file.size, file.sha256, file.mode] for name, file in sorted(receipt.files.items())},
        "folders": sorted(receipt.folders),
        "links": {name: [link.text, link.kind] for name, link in sorted(receipt.links.items())},
        "devices": dict(sorted(receipt.devices.items())),
    }
    temporary = devel_dir / TEMPORARY_NAME
    temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    os.replace(temporary, devel_dir / FILE_NAME)


def remove(devel_dir: Path) -> None:
    """Removes the list, because the tree will be written again."""
    for name in (FILE_NAME, TEMPORARY_NAME):
        (devel_dir / name).unlink(missing_ok=True)


def reinstall(distribution: str = "rocm-sdk-devel", version: str | None = None) -> str:
    """The sentence with the command that reinstalls a distribution."""
    return f"Repair it with: {reinstall_command(distribution, version)}"


def reinstall_command(distribution: str, version: str | None = None) -> str:
    """The command that reinstalls a distribution."""
    return f"pip install --force-reinstall --no-deps '{distribution}=={version or _dist_info.__version__}'"
