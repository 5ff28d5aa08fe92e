"""Compares the devel tree with the list of its expansion and with RECORD.

Files of the tar file are compared with the list (`_receipt`), targets of links with the RECORD of
their package. Links, folders, permissions and rows of RECORD can be repaired here, and everything
while the tar file exists. Missing or damaged files exist only in the wheel; the result names the
package to reinstall.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import _devel, _dist_info, _receipt
from ._links import NEW_LINK, Linker, Records, kind_of, leads_somewhere, native, target_of
from ._receipt import File, Kind, MadeLink, Receipt
from ._record import Record, exclusive_lock
from ._tree import Tree

SCHEMA = 1
BLOCK = 1 << 20
STATE_FILES = frozenset({_receipt.FILE_NAME, _receipt.TEMPORARY_NAME, NEW_LINK})

# Kinds of problems, grouped by the possible repair.
LINKS_AGAIN = frozenset({"link-missing", "link-changed", "split"})
REPAIRABLE = LINKS_AGAIN | {"not-expanded", "folder-missing", "permissions", "not-in-record", "leftover"}


@dataclass(frozen=True)
class Problem:
    """A difference. `path` is relative to site-packages; `kind` is one of

    not-expanded, no-list, missing, truncated, changed, permissions, folder-missing, link-missing,
    link-changed, split (a hard link that has become a separate file), not-in-record, leftover,
    foreign.

    `bytes` is the space for a second copy; `install` is the command that restores the file if
    nothing else can.
    """

    kind: str
    path: str
    detail: str
    bytes: int = 0
    install: str = ""


@dataclass
class Verification:
    """The result of a verification."""

    root: Path
    link_mode: str = ""
    files: int = 0
    links: dict[str, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    repaired: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The result as plain data for `--json`."""
        return {
            "schema": SCHEMA,
            "version": _dist_info.__version__,
            "root": str(self.root),
            "link_mode": self.link_mode,
            "files": self.files,
            "links": self.links,
            "problems": [asdict(problem) for problem in self.problems],
            "repaired": [asdict(problem) for problem in self.repaired],
            "notes": self.notes,
        }

    def advice(self) -> list[str]:
        """Explanations of the problems and their solutions, the most useful first."""
        lines = []
        split = [problem for problem in self.problems if problem.kind == "split"]
        if split:
            size = sum(problem.bytes for problem in split) / 1e6
            lines.append(
                f"{len(split)} hard links have become files of their own, {size:.1f} MB. This happens when an image is "
                "installed and expanded in different layers, or a folder is copied. A process that loads both has "
                "everything in it twice; LLVM ends it ('Option ... registered more than once'). `rocm-sdk init "
                "--repair` joins them again, `rocm-sdk init --link-mode symlink` makes them one in every layer"
            )
        if any(problem.kind in REPAIRABLE for problem in self.problems):
            lines.append("Put right what can be put right here with: rocm-sdk init --repair")
        lines += sorted({f"Install anew: {problem.install}" for problem in self.problems if problem.install})
        if any(problem.install for problem in self.problems):
            lines.append("and then expand again with: rocm-sdk init")
        if any(problem.kind == "foreign" for problem in self.problems):
            lines.append("Foreign files are left alone: remove them yourself if nothing needs them")
        return lines


def verify() -> Verification:
    """Compares the tree with the expansion, without changes. Raises ModuleNotFoundError if devel is
    not installed."""
    pure = _devel.find_pure_package()
    devel_dir = _devel.devel_directory(pure)
    try:
        with exclusive_lock(pure / "__init__.py"):
            return _Check(pure, devel_dir).run()
    except OSError as error:
        raise _receipt.DevelError(f"Cannot verify `{devel_dir}`: {error}") from error


def repair(link_mode: str | None, *, quiet: bool) -> Verification:
    """Repairs what can be repaired, and verifies the result."""
    pure = _devel.find_pure_package()
    devel_dir = _devel.devel_directory(pure)
    before = verify()
    # Expands the tree if necessary, and creates missing links.
    if not any(problem.kind == "no-list" for problem in before.problems):
        _devel.get_devel_root(quiet=quiet, link_mode=link_mode)
    try:
        with exclusive_lock(pure / "__init__.py"):
            _repair(devel_dir, _Check(pure, devel_dir).run())
    except OSError as error:
        raise _devel.explained(error, pure.parent) from error
    after = verify()
    left = {(problem.kind, problem.path) for problem in after.problems}
    after.repaired = [problem for problem in before.problems if (problem.kind, problem.path) not in left]
    return after


def _repair(devel_dir: Path, found: Verification) -> None:
    receipt = _receipt.read(devel_dir)
    if receipt is None or not any(problem.kind in REPAIRABLE for problem in found.problems):
        return
    records = Records(devel_dir.parent)
    record = _devel.devel_record(records)
    tree = Tree(devel_dir, record, receipt)
    wanted = _devel.Wish(receipt.link_mode, by_name=False)
    linker = Linker(devel_dir, records, record, wanted, receipt.texts())
    devices = dict(_device_links(devel_dir))
    again = []
    for problem in found.problems:
        relpath = problem.path.removeprefix(f"{devel_dir.name}/")
        if problem.kind == "not-in-record":
            record.add([problem.path])
        elif problem.kind == "leftover":
            (devel_dir / relpath).unlink(missing_ok=True)
        elif problem.kind == "folder-missing":
            tree.make_directory(devel_dir / relpath)
        elif problem.kind == "permissions":
            (devel_dir / relpath).chmod(receipt.files[relpath].mode)
        elif problem.kind in LINKS_AGAIN and relpath in receipt.links:
            again.append((relpath, receipt.links[relpath].text))
        elif problem.kind in LINKS_AGAIN and relpath in devices:
            target = target_of(devel_dir / relpath, devices[relpath], devel_dir.parent)
            if target is not None:
                tree.make_directory((devel_dir / relpath).parent)
                receipt.devices[relpath] = linker.make(relpath, devices[relpath], target)
    tree.make_links(again, linker)
    # A repaired link may have become one of another kind.
    _receipt.write(devel_dir, record, receipt)


def _device_links(devel_dir: Path) -> Iterator[tuple[str, str]]:
    site = devel_dir.parent
    for distribution in _devel.device_distributions(site):
        if _devel.is_same_version(distribution.version, _dist_info.__version__):
            yield from _devel.device_links(distribution, site, devel_dir)


class _Check:
    """One verification. Run it under the lock, so that no process changes the tree."""

    def __init__(self, pure: Path, devel_dir: Path):
        self.pure = pure
        self.devel_dir = devel_dir
        self.site = devel_dir.parent
        self.records = Records(self.site)
        self.record = _devel.devel_record(self.records)
        self.found = Verification(devel_dir)
        # Files of other packages that have been compared, with their problems.
        self._originals: dict[str, Problem | None] = {}
        self._copied = [0, 0]

    def run(self) -> Verification:
        archive = _devel.packed(self.pure)
        if archive is not None or not (self.devel_dir / "__init__.py").is_file():
            self._check_packed(archive)
            return self.found
        receipt = _receipt.read(self.devel_dir)
        if receipt is None:
            self._add(
                "no-list", _receipt.FILE_NAME, "is missing: nothing tells what belongs in the tree", reinstall=True
            )
            return self.found
        devices = dict(_device_links(self.devel_dir))
        for relpath, file in sorted(receipt.files.items()):
            self._check_file(relpath, file)
        for folder in receipt.folders:
            if not (self.devel_dir / folder).is_dir():
                self._add("folder-missing", folder, "the folder is missing")
        links = dict(receipt.links)
        for relpath, text in devices.items():
            links[relpath] = MadeLink(text, receipt.devices.get(relpath, receipt.link_mode))
        for relpath, link in sorted(links.items()):
            self._check_link(relpath, link)
        self._check_rows(receipt, set(devices))
        self._check_foreign({*receipt.files, *links, *STATE_FILES})
        self._summarise(receipt, devices)
        return self.found

    def _summarise(self, receipt: Receipt, devices: dict[str, str]) -> None:
        self.found.link_mode = receipt.link_mode.value
        self.found.files = len(receipt.files) + len(receipt.links) + len(devices)
        self.found.links = receipt.counts()
        waiting = receipt.waiting()
        if waiting:
            self.found.notes.append(
                f"{len(waiting)} links wait for packages that are not installed, the first is {waiting[0]}"
            )
        if not receipt.settled:
            self._add("link-changed", _receipt.FILE_NAME, "a process that changed the links was stopped in the middle")
        if self._copied[0]:
            self.found.notes.append(
                f"{self._copied[0]} files are copies of files of other packages, {self._copied[1] / 1e6:.1f} MB"
            )

    def _check_packed(self, archive: Path | None) -> None:
        if archive is None:
            self._add("no-list", "__init__.py", "the tree is not there, nor is `_devel.tar`", reinstall=True)
            return
        row = f"{self.pure.name}/{archive.name}"
        problem = self._compared(archive, row, self.record)
        if problem is not None:
            self.found.problems.append(problem)
        else:
            self._add("not-expanded", "", f"`{archive.name}` is not expanded, or was not to the end")

    def _check_file(self, relpath: str, expected: File) -> None:
        path = self.devel_dir / relpath
        if not path.is_file() or path.is_symlink():
            what = "is missing" if not os.path.lexists(path) else "is no file any more"
            self._add("missing", relpath, what, reinstall=True)
            return
        status = path.stat()
        if status.st_size != expected.size:
            kind = "truncated" if status.st_size < expected.size else "changed"
            self._add(kind, relpath, f"has {status.st_size} bytes instead of {expected.size}", reinstall=True)
        elif _digest(path, "sha256").hex() != expected.sha256:
            self._add("changed", relpath, "was changed: its hash is another", reinstall=True)
        elif os.name != "nt" and (status.st_mode ^ expected.mode) & 0o111:
            self._add("permissions", relpath, f"has mode {status.st_mode & 0o777:o} instead of {expected.mode:o}")

    def _check_link(self, relpath: str, link: MadeLink) -> None:
        path = self.devel_dir / relpath
        original = target_of(path, link.text, self.site)
        if original is None and not leads_somewhere(path, link.text):
            self._check_unmet_link(relpath, link)
            return
        if original is None:
            return
        if link.kind is Kind.WAITING or not os.path.lexists(path):
            self._add("link-missing", relpath, f"the link to {link.text} is missing")
            return
        actual = kind_of(path, link.text)
        is_equal = actual in (None, Kind.COPY) and path.is_file() and not path.is_symlink()
        is_equal = is_equal and original.is_file() and _content_is_equal(path, original)
        if link.kind is Kind.HARDLINK and is_equal:
            size = path.stat().st_size
            self._add("split", relpath, f"is a second file of {size} bytes, equal to {link.text}", size=size)
        elif actual is None:
            self._add("link-changed", relpath, f"is not what {link.text} is{self._how_it_differs(path)}")
        elif actual is Kind.COPY and not is_equal:
            self._add("link-changed", relpath, f"has other contents than {link.text}, which it is a copy of")
        elif actual not in (link.kind, Kind.HARDLINK):
            self._add("link-changed", relpath, f"is a {actual.value}, not a {link.kind.value}")
        elif actual is Kind.COPY:
            self._copied[0] += 1
            self._copied[1] += path.stat().st_size
        if original.is_file():
            self._check_original(path, link.text, original)

    def _check_unmet_link(self, relpath: str, link: MadeLink) -> None:
        """A link without a target: correct if its package is not installed, wrong if that package
        has lost the file."""
        text = os.path.normpath(os.path.join(os.path.dirname(self.devel_dir / relpath), native(link.text)))
        if not Path(text).is_relative_to(self.site) or Path(text).is_relative_to(self.devel_dir):
            if link.kind is not Kind.WAITING and not os.path.exists(self.devel_dir / relpath):
                self._add("link-missing", relpath, f"leads nowhere: {link.text}")
            return
        row = Path(text).relative_to(self.site).as_posix()
        owner = self.records.owner_of(row)
        if owner is None and os.path.lexists(self.devel_dir / relpath) and (self.devel_dir / relpath).is_symlink():
            self._add("link-missing", relpath, f"leads nowhere: {link.text}")
        elif owner is not None and row not in self._originals:
            self._originals[row] = _problem("missing", row, "is missing", owner)
            self.found.problems.append(_problem("missing", row, "is missing", owner))

    def _check_original(self, path: Path, text: str, original: Path) -> None:
        """Compares the file of another package that a link leads to with the RECORD of that
        package, once."""
        place = Path(os.path.realpath(os.path.dirname(os.path.join(path.parent, text))), os.path.basename(text))
        if not place.is_relative_to(self.site) or place.is_relative_to(self.devel_dir):
            return
        row = place.relative_to(self.site).as_posix()
        if row in self._originals:
            return
        owner = self.records.owner_of(row)
        self._originals[row] = None if owner is None else self._compared(original, row, owner)
        problem = self._originals[row]
        if problem is not None:
            self.found.problems.append(problem)

    def _compared(self, path: Path, row: str, record: Record) -> Problem | None:
        """The problem of an installed file, by the RECORD of its package; None if there is none, or
        no information."""
        size, expected = path.stat().st_size, record.size_of(row)
        if expected is not None and size != expected:
            kind = "truncated" if size < expected else "changed"
            return _problem(kind, row, f"has {size} bytes instead of {expected}", record)
        algorithm, _, digest = (record.hash_of(row) or "").partition("=")
        if algorithm and base64.urlsafe_b64encode(_digest(path, algorithm)).rstrip(b"=").decode() != digest:
            return _problem("changed", row, "was changed: its hash is another than the installed file's", record)
        return None

    def _check_rows(self, receipt: Receipt, devices: set[str]) -> None:
        made = {relpath for relpath, link in receipt.links.items() if link.kind is not Kind.WAITING}
        for relpath in sorted({*receipt.files, *made, *devices, _receipt.FILE_NAME}):
            if f"{self.devel_dir.name}/{relpath}" not in self.record:
                self._add("not-in-record", relpath, "is in no RECORD: uninstalling would leave it")

    def _check_foreign(self, known: set[str]) -> None:
        for folder, folders, files in os.walk(self.devel_dir):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in sorted([*files, *links]):
                relpath = Path(folder, name).relative_to(self.devel_dir).as_posix()
                if name == NEW_LINK:
                    self._add("leftover", relpath, "was left by a process that was stopped")
                elif relpath not in known:
                    self._add("foreign", relpath, "is not part of rocm-sdk-devel")

    def _how_it_differs(self, path: Path) -> str:
        return f": it leads to {os.readlink(path)}" if path.is_symlink() else ""

    def _add(self, kind: str, relpath: str, detail: str, *, size: int = 0, reinstall: bool = False) -> None:
        path = f"{self.devel_dir.name}/{relpath}" if relpath else self.devel_dir.name
        install = _receipt.reinstall_command(*self.record.distribution) if reinstall else ""
        self.found.problems.append(Problem(kind, path, detail, size, install))


def _problem(kind: str, row: str, detail: str, record: Record) -> Problem:
    return Problem(kind, row, detail, install=_receipt.reinstall_command(*record.distribution))


def _content_is_equal(one: Path, other: Path) -> bool:
    if one.stat().st_size != other.stat().st_size:
        return False
    with open(one, "rb") as first, open(other, "rb") as second:
        while block := first.read(BLOCK):
            if block != second.read(BLOCK):
                return False
    return True


def _digest(path: Path, algorithm: str) -> bytes:
    found = hashlib.new(algorithm)
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
    return found.digest()
