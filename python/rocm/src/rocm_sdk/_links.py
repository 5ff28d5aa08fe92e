"""Links from the devel tree to the files of other packages: hard links, symbolic links or copies.

* A hard link is the file itself under a second name. It is not possible between file systems, to
  files of other users (`fs.protected_hardlinks`), or beyond a maximum number of names. Image layers
  store each name as a separate file.
* A symbolic link needs no space and stays one file everywhere. pip leaves one behind if its target
  was removed earlier. So it is also added to the RECORD of the package of its target, and is
  removed with whichever package is removed first.
* A copy always works and needs as much space as the file. A process that loads both it and the
  original has everything in it twice.

Programs search for their parts beside themselves, and for a symbolic link the system tells them the
path of its target. So they are hard links or copies in every mode. The compiler drivers in `bin`
are the opposite: they depend on the name by which they are called and must lead to the compiler, so
they are symbolic links in every mode.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ._receipt import LINK_MODES, DevelError, Kind
from ._record import Record

# The compiler finds its configuration through the name and folder of its call, so a hard link does
# not work.
COMPILER_LINKS = frozenset({"amdclang", "amdclang++", "amdclang-cl", "amdclang-cpp", "amdflang", "amdlld", "amdllvm"})
# A link is created under this name and then renamed: the tree may be in use, and always has the
# file.
NEW_LINK = ".new_link.tmp"
MODE_VARIABLE = "ROCM_SDK_LINK_MODE"

# Errors by which a file system or kernel reports that it cannot link here; some report EACCES and
# EINVAL. If the folder is not writable, the copy, which is tried last, fails with the same error.
REFUSALS = frozenset(
    {
        errno.EXDEV,
        errno.EPERM,
        errno.EMLINK,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.ENOSYS,
        errno.EACCES,
        errno.EINVAL,
    }
)
# The error of Windows without the privilege to create symbolic links.
ERROR_PRIVILEGE_NOT_HELD = 1314
SHARED_LIBRARY = re.compile(r"\.so(\.[\w.-]+)?$")
WINDOWS_PROGRAMS = frozenset({".exe", ".com", ".bat", ".cmd"})


@dataclass(frozen=True)
class Wish:
    """The requested kind of links; with `by_name` no other kind is used instead."""

    mode: Kind
    by_name: bool


def wish(asked: str | None) -> Wish | None:
    """The mode in an option, or else in `ROCM_SDK_LINK_MODE`; None if neither is set. Raises
    ValueError for an unknown mode."""
    source, name = ("--link-mode", asked) if asked else (MODE_VARIABLE, os.environ.get(MODE_VARIABLE))
    if not name:
        return None
    if name not in {mode.value for mode in LINK_MODES}:
        raise ValueError(f"`{source}={name}` is no link mode: use hardlink, symlink or copy")
    return Wish(Kind(name), by_name=True)


class Records:
    """The RECORD files of the ROCm packages in site-packages. Each is read once, when it is first
    needed."""

    def __init__(self, site: Path):
        self.site = site
        self._by_path: dict[Path, Record] = {}
        self._all: list[Record] | None = None

    def get(self, path: Path) -> Record:
        """The RECORD at a path; every call returns the same object."""
        if path not in self._by_path:
            self._by_path[path] = Record(path)
        return self._by_path[path]

    def owner_of(self, name: str) -> Record | None:
        """The RECORD of the package that contains a file (the devel package aside); None if no
        package lists it."""
        if self._all is None:
            found = sorted(self.site.glob("rocm*.dist-info"))
            found = [path for path in found if not path.name.startswith("rocm_sdk_devel-")]
            self._all = [self.get(path / "RECORD") for path in found if (path / "RECORD").is_file()]
        # Prefers a row with a hash: one without was added after the installation.
        named = [record for record in self._all if name in record]
        return next((record for record in named if record.hash_of(name)), named[0] if named else None)


def target_of(path: Path, text: str, site: Path) -> Path | None:
    """The file or folder a link leads to; None if it does not exist or is outside of site-packages."""
    if posixpath.isabs(text) or os.path.isabs(text):
        return None
    head, tail = os.path.split(os.path.join(path.parent, text).rstrip("/"))
    folder = os.path.realpath(head if tail not in ("", ".", "..") else os.path.join(head, tail))
    if not Path(folder).is_relative_to(os.path.realpath(site)):
        return None
    # The file itself may be a link to the outside: uv can install links into its cache.
    target = Path(os.path.realpath(path.parent / text))
    return target if target != path and target.exists() else None


def kind_of(path: Path, text: str) -> Kind | None:
    """The kind of an existing link; None if it does not exist, or differs from the target of its
    text.

    A file of the same size and time counts as a copy. Three system calls, because this is called
    for every link of the tree.
    """
    try:
        here = os.lstat(path)
        there = os.stat(_joined(path, text))
    except OSError:
        return None
    if stat.S_ISLNK(here.st_mode):
        if os.readlink(path) != native(text):
            return None
        return Kind.FOLDER if stat.S_ISDIR(there.st_mode) else Kind.SYMLINK
    if not stat.S_ISREG(here.st_mode) or not stat.S_ISREG(there.st_mode):
        return None
    if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
        return Kind.HARDLINK
    # FAT stores times in steps of two seconds.
    is_copy = there.st_size == here.st_size and abs(there.st_mtime - here.st_mtime) < 2
    return Kind.COPY if is_copy else None


def leads_somewhere(path: Path, text: str) -> bool:
    """True if the target of the link exists."""
    return os.path.exists(_joined(path, text))


def _joined(path: Path, text: str) -> str:
    joined = os.path.join(path.parent, native(text))
    # Windows includes `..` in the maximum length of a path.
    return os.path.normpath(joined) if os.name == "nt" else joined


def native(text: str) -> str:
    """The text in the system's form: Windows does not follow a symbolic link with `/` in it."""
    return text.replace("/", os.sep)


def is_program(target: Path) -> bool:
    """True for a file that is executed, not only read."""
    if os.name == "nt":
        return target.suffix.lower() in WINDOWS_PROGRAMS
    return bool(target.stat().st_mode & 0o111) and not SHARED_LIBRARY.search(target.name)


class Linker:
    """Creates the links of one tree. Use it only under the lock."""

    def __init__(self, directory: Path, records: Records, record: Record, wanted: Wish, texts: Mapping[str, str]):
        self.directory = directory
        self.records = records
        self.record = record
        self.wanted = wanted
        # The texts of all links, which determine indirect targets whatever the links are at the
        # moment.
        self.texts = texts
        self._refusals: Counter[str] = Counter()
        self._copies: Counter[str] = Counter()

    def make(self, relpath: str, text: str, target: Path) -> Kind:
        """Creates a link to a file, replaces an existing one, and returns its kind.

        Raises DevelError if it cannot be created as requested by name, OSError if it cannot be
        created at all.
        """
        path = self.directory / relpath
        self.record.add([self._row(relpath)])
        choices = self._choices(relpath, text, target)
        for kind in choices:
            try:
                self._make(kind, path, text, target)
            except OSError as error:
                if kind is Kind.COPY or not _is_refusal(error):
                    raise
                self._refuse(kind, error, path)
                continue
            if kind is Kind.COPY and self.wanted.mode is not Kind.COPY:
                self._copies["files"] += 1
                self._copies["bytes"] += path.stat().st_size
            return kind
        raise AssertionError("the last choice is made or raises")

    def make_folder(self, relpath: str, text: str) -> bool:
        """Creates a symbolic link to a folder; False if the system cannot create one."""
        path = self.directory / relpath
        self.record.add([self._row(relpath)])
        try:
            self._put_in_place(
                path, path.with_name(NEW_LINK), lambda new: os.symlink(native(text), new, target_is_directory=True)
            )
        except OSError as error:
            if not _is_refusal(error):
                raise
            return False
        return True

    def first_choice(self, relpath: str, text: str, target: Path) -> Kind:
        """The kind of a link if all kinds are possible."""
        return next(self._choices(relpath, text, target))

    def owner(self, path: Path, text: str) -> Record | None:
        """The RECORD of the package that a link leads to, through other links; None if it stays in
        the tree, or if no package lists its target."""
        end = self._end_of(path, text)
        if end is None or end.is_relative_to(self.directory):
            return None
        return self.records.owner_of(end.relative_to(self.directory.parent).as_posix())

    def next_in_tree(self, relpath: str, text: str) -> str | None:
        """The path in the tree that a link leads to directly; None if it leads out of the tree, or
        to itself."""
        folder, name = os.path.split(os.path.join(self.directory / posixpath.dirname(relpath), text))
        path = Path(os.path.realpath(folder), name)
        if not path.is_relative_to(self.directory):
            return None
        found = path.relative_to(self.directory).as_posix()
        return found if found != relpath else None

    def notes(self) -> list[str]:
        """Sentences about links of another kind than requested, with the consequences."""
        lines = [f"{count} {words}" for words, count in sorted(self._refusals.items())]
        if self._copies:
            lines.append(
                f"{self._copies['files']} files, {self._copies['bytes'] / 1e6:.1f} MB, are copies of files of other "
                "packages: a process that loads a library and its copy has everything in it twice"
            )
        return lines

    def _choices(self, relpath: str, text: str, target: Path) -> Iterator[Kind]:
        wanted, by_name = self.wanted.mode, self.wanted.by_name
        if self._is_compiler(relpath, target):
            yield Kind.SYMLINK
            yield Kind.HARDLINK
        elif wanted is not Kind.COPY:
            may_be_symbolic = not is_program(target)
            if wanted is Kind.SYMLINK and may_be_symbolic and self._goes_with_its_target(relpath, text):
                yield Kind.SYMLINK
                if by_name:
                    return
            yield Kind.HARDLINK
            if wanted is Kind.HARDLINK:
                if by_name:
                    return
                if may_be_symbolic and self._goes_with_its_target(relpath, text):
                    yield Kind.SYMLINK
        yield Kind.COPY

    def _is_compiler(self, relpath: str, target: Path) -> bool:
        parent, name = posixpath.split(relpath)
        is_driver = os.name != "nt" and parent == "bin" and name in COMPILER_LINKS
        return is_driver and target.is_relative_to(self.directory)

    def _goes_with_its_target(self, relpath: str, text: str) -> bool:
        """True if uninstalling can leave no broken symbolic link here."""
        path = self.directory / relpath
        end = self._end_of(path, text)
        return end is not None and (end.is_relative_to(self.directory) or self.owner(path, text) is not None)

    def _end_of(self, path: Path, text: str) -> Path | None:
        """The first path outside of the tree that a link leads to, or the last one in it; None for
        a cycle."""
        for _ in range(40):
            folder, name = os.path.split(os.path.join(path.parent, text))
            path = Path(os.path.realpath(folder), name)
            if not path.is_relative_to(self.directory):
                return path if path.is_relative_to(self.directory.parent) else None
            next_text = self.texts.get(path.relative_to(self.directory).as_posix())
            if next_text is None and path.is_symlink():
                next_text = os.readlink(path)
            if next_text is None:
                return path
            text = next_text
        return None

    def _make(self, kind: Kind, path: Path, text: str, target: Path) -> None:
        if kind is Kind.HARDLINK:
            self._put_in_place(path, self.directory / NEW_LINK, lambda new: os.link(target, new))
        elif kind is Kind.COPY:
            # Copying takes time, so the copy gets its name when it is complete.
            self._replace(path, self.directory / NEW_LINK, lambda new: shutil.copy2(target, new))
        else:
            owner = self.owner(path, text)
            # In the same folder, where its text has the same target: pip would leave a link behind
            # that leads nowhere.
            temporary = path.with_name(NEW_LINK)
            if owner is not None:
                rows = [path, temporary] if os.path.lexists(path) else [path]
                owner.add(self._row(row.relative_to(self.directory).as_posix()) for row in rows)
            self._put_in_place(path, temporary, lambda new: os.symlink(native(text), new))

    def _put_in_place(self, path: Path, temporary: Path, make: Callable[[Path], object]) -> None:
        if os.path.lexists(path):
            self._replace(path, temporary, make)
        else:
            make(path)

    def _replace(self, path: Path, temporary: Path, make: Callable[[Path], object]) -> None:
        self.record.add([self._row(temporary.relative_to(self.directory).as_posix())])
        temporary.unlink(missing_ok=True)
        make(temporary)
        if path.is_dir() and (not path.is_symlink() or os.name == "nt"):
            # If the folder contains other files it stays, and this raises an error. Windows cannot
            # replace links to folders either.
            path.rmdir()
        os.replace(temporary, path)
        # os.replace does nothing if both names are the same file.
        temporary.unlink(missing_ok=True)

    def _refuse(self, kind: Kind, error: OSError, path: Path) -> None:
        if kind is self.wanted.mode and self.wanted.by_name:
            others = " or ".join(f"`--link-mode {mode.value}`" for mode in LINK_MODES if mode is not kind)
            raise DevelError(
                f"Cannot make `{path}` a {kind.value}: {error.strerror}. {_reason(kind, error)}Use {others}, or "
                f"leave the option and {MODE_VARIABLE} out: then what is possible is chosen for each file"
            ) from error
        self._refusals[f"files could not be made {kind.value}s ({error.strerror})"] += 1

    def _row(self, relpath: str) -> str:
        return f"{self.directory.name}/{relpath}"


def _is_refusal(error: OSError) -> bool:
    return error.errno in REFUSALS or getattr(error, "winerror", None) == ERROR_PRIVILEGE_NOT_HELD


def _reason(kind: Kind, error: OSError) -> str:
    if getattr(error, "winerror", None) == ERROR_PRIVILEGE_NOT_HELD:
        return "Windows lets programs make them in Developer Mode, or as administrator. "
    if kind is Kind.HARDLINK and error.errno == errno.EXDEV:
        return "The packages lie on different file systems. "
    if kind is Kind.HARDLINK and error.errno == errno.EMLINK:
        return "The file has as many links as the file system allows. "
    if kind is Kind.HARDLINK and error.errno == errno.EPERM:
        return "The file system has none, or the kernel (fs.protected_hardlinks) allows none to files of other users. "
    return ""


def remove_leftovers(directory: Path, relpaths: Iterable[str]) -> None:
    """Removes the temporary link of a process that was killed."""
    for folder in {directory, *((directory / relpath).parent for relpath in relpaths)}:
        folder.joinpath(NEW_LINK).unlink(missing_ok=True)


def record_folder_links(linker: Linker, folders: Iterable[tuple[str, str]], devices: Mapping[str, Kind]) -> None:
    """Adds links to folders to the RECORDs of the packages whose files are in those folders.

    A folder is removed with its last file. If all files in it are links that are removed with their
    targets, pip would find nothing behind the link, and would leave it.
    """
    for relpath, text in folders:
        folder = Path(os.path.realpath(linker.directory / posixpath.dirname(relpath) / text))
        owners: list[Record] = []
        for path in (path for path in folder.rglob("*") if path.is_symlink() or path.is_file()):
            inside = path.relative_to(linker.directory).as_posix()
            if inside in devices:
                owner = linker.records.owner_of(f"{linker.directory.name}/{inside}")
            else:
                owner = linker.owner(path, os.readlink(path)) if path.is_symlink() else None
            if owner is None:
                break
            if owner not in owners:
                owners.append(owner)
        else:
            for owner in owners:
                owner.add([f"{linker.directory.name}/{relpath}"])
