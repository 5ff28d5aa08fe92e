"""Writes the devel tree. Input: `_devel.tar`. Output: files, folders and links, and the list of
them."""

from __future__ import annotations

import base64
import hashlib
import os
import posixpath
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from ._links import Linker, target_of
from ._receipt import DevelError, File, Kind, Link, MadeLink, Receipt, reinstall
from ._record import Record

if TYPE_CHECKING:
    import tarfile

BLOCK = 1 << 20


class Tree:
    """The devel tree while it is written; everything that is created is added to `receipt`."""

    def __init__(self, directory: Path, record: Record, receipt: Receipt):
        self.directory = directory
        self.record = record
        self.receipt = receipt
        self._made: set[Path] = set()

    def extract(self, archive: Path) -> None:
        """Writes the files and folders of the archive, and records its links, which are created
        later.

        Raises DevelError if it is not the installed archive.
        """
        import tarfile

        expected = self.record.hash_of(f"rocm_sdk_devel/{archive.name}")
        try:
            with open(archive, "rb") as file:
                source = _Hashed(file, expected)
                # A stream: the archive is read once, from beginning to end.
                mode = "r|xz" if archive.suffix == ".xz" else "r|"
                with tarfile.open(fileobj=source, mode=mode) as tar:  # type: ignore[call-overload]
                    for member in tar:
                        self._extract_member(archive, tar, member)
                # tarfile treats unreadable data as the end.
                if not source.is_expected():
                    raise DevelError(f"Cannot expand `{archive}`: it is not the file that was installed. {reinstall()}")
        except (tarfile.TarError, EOFError) as error:
            raise DevelError(f"Cannot expand `{archive}`: {error}. {reinstall()}") from error
        # Only empty folders need an entry; the others follow from their contents.
        self.receipt.folders = sorted(set(self.receipt.folders) - self._parents())

    def clear(self) -> None:
        """Removes files of an earlier version at the paths of links: no link may lead to such a
        file."""
        parents = self._parents()
        for relpath in self.receipt.links:
            if relpath not in parents:
                remove(self.directory / relpath)

    def _parents(self) -> set[str]:
        """The folders that contain something of the archive, and their parents."""
        parents: set[str] = set()
        for name in [*self.receipt.files, *self.receipt.links, *self.receipt.folders]:
            while (name := posixpath.dirname(name)) and name not in parents:
                parents.add(name)
        return parents

    def add_file(self, relpath: str) -> None:
        """Creates an empty file unless the archive contains it."""
        if relpath in self.receipt.files or relpath in self.receipt.links:
            return
        self.make_directory(self.directory)
        self.record.add([self._row(relpath)])
        path = self.directory / relpath
        path.unlink(missing_ok=True)
        path.touch()
        path.chmod(0o644)
        self.receipt.files[relpath] = File(0, hashlib.sha256().hexdigest(), 0o644)

    def make_links(self, links: Iterable[Link], linker: Linker) -> None:
        """Creates all links whose target exists, in whatever order is needed; the others wait."""
        waiting = sorted(set(links))
        folders_without_links: list[Link] = []
        while waiting:
            # A link to another one is created after it, which may be about to become another file.
            later = {relpath for relpath, _ in waiting}
            still: list[Link] = []
            for link in waiting:
                if linker.next_in_tree(*link) in later or not self._make_link(link, linker, folders_without_links):
                    still.append(link)
                else:
                    later.discard(link[0])
            if len(still) == len(waiting):
                break
            waiting = still
        for relpath, text in waiting:
            self.receipt.links[relpath] = MadeLink(text, Kind.WAITING)
        for relpath, text in folders_without_links:
            self._mirror_folder(relpath, text, linker)

    def _make_link(self, link: Link, linker: Linker, folders_without_links: list[Link]) -> bool:
        relpath, text = link
        path = self.directory / relpath
        target = target_of(path, text, self.directory.parent)
        if target is None:
            return False
        self.make_directory(path.parent)
        if not target.is_dir():
            self.receipt.links[relpath] = MadeLink(text, linker.make(relpath, text, target))
        elif linker.make_folder(relpath, text):
            self.receipt.links[relpath] = MadeLink(text, Kind.FOLDER)
        else:
            self.receipt.links.pop(relpath, None)
            folders_without_links.append(link)
        return True

    def _mirror_folder(self, relpath: str, text: str, linker: Linker) -> None:
        """Creates a folder with links to the files of another one, for systems without symbolic
        links."""
        original = target_of(self.directory / relpath, text, self.directory.parent)
        if original is None:
            return
        self.make_directory(self.directory / relpath)
        for file in sorted(path for path in original.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            inside = file.relative_to(original).as_posix()
            folder = (self.directory / relpath / inside).parent
            self.make_directory(folder)
            name = f"{relpath}/{inside}"
            link_text = Path(os.path.relpath(file, folder)).as_posix()
            self.receipt.links[name] = MadeLink(link_text, linker.make(name, link_text, file))

    def _extract_member(self, archive: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        relpath = self._relpath(archive, member.name)
        if relpath == ".":
            return
        # The last of several members with the same name wins.
        self.receipt.files.pop(relpath, None)
        self.receipt.links.pop(relpath, None)
        if member.issym():
            self.receipt.links[relpath] = MadeLink(member.linkname, Kind.WAITING)
        elif member.islnk():
            target = self._relpath(archive, member.linkname)
            text = posixpath.relpath(target, posixpath.dirname(relpath) or ".")
            self.receipt.links[relpath] = MadeLink(text, Kind.WAITING)
        elif member.isdir():
            self.make_directory(self.directory / relpath)
            self.receipt.folders.append(relpath)
        elif member.isreg():
            self._write_file(tar, member, relpath)
        else:
            raise DevelError(f"Cannot expand `{archive}`: `{member.name}` is neither file nor link")

    def _write_file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, relpath: str) -> None:
        path = self.directory / relpath
        self.make_directory(path.parent)
        self.record.add([self._row(relpath)])
        source = tar.extractfile(member)
        assert source is not None  # only asked for regular files
        # Not overwritten: an existing file may be a hard link to one of another package, or of uv's
        # cache.
        remove(path)
        digest = hashlib.sha256()
        with source, open(path, "xb") as output:
            while block := source.read(BLOCK):
                digest.update(block)
                output.write(block)
        if path.stat().st_size != member.size:
            raise OSError(f"`{path}` has {path.stat().st_size} bytes instead of {member.size} after it was written")
        mode = member.mode & 0o777 | 0o200
        path.chmod(mode)
        os.utime(path, (member.mtime, member.mtime))
        self.receipt.files[relpath] = File(member.size, digest.hexdigest(), mode)

    def make_directory(self, path: Path) -> None:
        """Creates a folder of the tree with its parents, never through an existing link."""
        if path in self._made:
            return
        if path != self.directory:
            self.make_directory(path.parent)
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            path.unlink()
        path.mkdir(exist_ok=True)
        self._made.add(path)

    def _row(self, relpath: str) -> str:
        return f"{self.directory.name}/{relpath}"

    def _relpath(self, archive: Path, name: str) -> str:
        parts = PurePosixPath(name).parts
        if not parts or parts[0] != self.directory.name or ".." in parts:
            raise DevelError(f"Cannot expand `{archive}`: `{name}` is not below `{self.directory.name}`")
        return posixpath.join(*parts[1:]) if len(parts) > 1 else "."


def remove(path: Path) -> None:
    """Removes whatever exists at a path that will be written."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class _Hashed:
    """A file that is hashed while it is read from beginning to end."""

    def __init__(self, file: IO[bytes], expected: str | None):
        self._file = file
        self._algorithm, _, self._digest = (expected or "").partition("=")
        self._hash = hashlib.new(self._algorithm) if self._algorithm else None

    def read(self, size: int) -> bytes:
        block = self._file.read(size)
        if self._hash is not None:
            self._hash.update(block)
        return block

    def is_expected(self) -> bool:
        """Reads the rest. True if the whole file has the expected hash, or if none is expected."""
        while self.read(BLOCK):
            pass
        if self._hash is None:
            return True
        return base64.urlsafe_b64encode(self._hash.digest()).rstrip(b"=").decode() == self._digest
