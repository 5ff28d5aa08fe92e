"""The devel tree: `rocm_sdk_devel/_devel.tar` in, `_rocm_sdk_devel/` with headers, CMake files and libraries out.

A wheel cannot hold links, and the devel tree is mostly links to the files of the other packages; so it comes as a tar
file that is expanded on first use. The rules:

* Removing the tar file is the last step: as long as it is there, the tree is not expanded, and expanding starts over.
  Whatever a killed process left is overwritten.
* Every file is entered in the package's RECORD before it is made. pip and uv thus remove all of it, at any moment.
* Links to files become hard links, or copies where the file system has none: pip leaves symbolic links behind whose
  target it has removed before. Links to folders, and the compiler drivers that look at the name they are called by,
  stay symbolic.
* Links are made after all files, until none is left that can be made; the order in the tar file means nothing. Those
  to files of packages that are not installed are kept in `.pending_links.json` and made once they are.
* Device packages bring the list of their files that belong into the tree (`.devel_links/<target>.json`). Such a link is
  entered in the RECORD of both packages, so that they can be uninstalled in any order.
"""

from __future__ import annotations

import errno
import json
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from . import _dist_info
from ._contents import distribution_name, site_directory
from ._record import Record, exclusive_lock

if TYPE_CHECKING:
    import tarfile

# The compiler finds its configuration through the name and folder it is started by, so a hard link would not do.
COMPILER_LINKS = frozenset({"amdclang", "amdclang++", "amdclang-cl", "amdclang-cpp", "amdflang", "amdlld", "amdllvm"})
TAR_NAMES = ("_devel.tar.xz", "_devel.tar")
PENDING_LINKS = ".pending_links.json"
# Every file that a device package has ever brought into this tree.
DEVICE_LINKS = ".device_links.json"
NO_HARD_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
READ_ONLY = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})

# A link: its path relative to the devel tree, and its text, relative to the folder it lies in.
Link = tuple[str, str]


class DevelError(RuntimeError):
    """The devel tree cannot be expanded; the message says what to do."""


def get_devel_root(quiet: bool = True) -> Path:
    """The folder of the devel tree, expanded and with the files of the installed device packages.

    ModuleNotFoundError if `rocm-sdk-devel` is not installed, DevelError if it cannot be expanded here. Safe to call
    from several processes at a time.
    """
    say: Callable[[str], None] = _say_nothing if quiet else _say
    pure = find_pure_package()
    site = pure.parent
    devel_dir = site / _dist_info.get_package("devel").get_py_package_name()
    try:
        if not is_expanded(pure, devel_dir):
            with exclusive_lock(pure / "__init__.py"):
                # Another process may have done it while this one waited for the lock.
                if not is_expanded(pure, devel_dir):
                    _expand(pure, devel_dir, say)
        _make_pending_links(pure, devel_dir)
        _reconcile_device_links(site, devel_dir, _dist_info.__version__)
    except OSError as error:
        raise _explained(error, site) from error
    return devel_dir


def find_pure_package() -> Path:
    """The folder of `rocm_sdk_devel`. ModuleNotFoundError if it is not installed."""
    entry = _dist_info.get_package("devel")
    beside = site_directory() / entry.get_pure_py_package_name()
    if (beside / "__init__.py").is_file():
        return beside
    raise entry.missing()


def is_expanded(pure: Path, devel_dir: Path) -> bool:
    """Whether the tree is complete, apart from links to packages that are not installed."""
    return (devel_dir / "__init__.py").is_file() and not any((pure / name).exists() for name in TAR_NAMES)


def _explained(error: OSError, site: Path) -> DevelError:
    if error.errno in READ_ONLY:
        return DevelError(
            f"Cannot expand rocm-sdk-devel: `{site}` cannot be written to ({error}). "
            "Run `rocm-sdk init` as the user who installed it, or install it into a virtual environment"
        )
    if error.errno == errno.ENOSPC:
        return DevelError(
            f"Cannot expand rocm-sdk-devel into `{site}`: no space is left. Make room and run `rocm-sdk init` again"
        )
    return DevelError(f"Cannot expand rocm-sdk-devel into `{site}`: {error}")


def _repair() -> str:
    version = _dist_info.__version__
    return f"Repair it with: pip install --force-reinstall --no-deps 'rocm-sdk-devel=={version}'"


def _expand(pure: Path, devel_dir: Path, say: Callable[[str], None]) -> None:
    record = _record_of(pure.parent, "rocm_sdk_devel")
    archive = next((pure / name for name in TAR_NAMES if (pure / name).exists()), None)
    if archive is None:
        raise DevelError(
            f"Cannot expand rocm-sdk-devel: neither `_devel.tar` nor the expanded tree is in `{pure}`. {_repair()}"
        )
    # A tar file that was cut off between two members would look complete.
    size = record.size_of(f"{pure.name}/{archive.name}")
    if size is not None and size != archive.stat().st_size:
        raise DevelError(
            f"Cannot expand `{archive}`: it has {archive.stat().st_size} bytes instead of {size}. {_repair()}"
        )
    say(f"Expanding '{archive}'")
    tree = _Tree(devel_dir, record)
    links = tree.extract(archive)
    tree.clear(links)
    tree.add_file("__init__.py")
    pending = tree.make_links(links)
    _write_pending(devel_dir, record, pending)
    if pending:
        say(f"{len(pending)} links wait for packages that are not installed")
    for name in TAR_NAMES:
        (pure / name).unlink(missing_ok=True)


class _Tree:
    """The devel tree while it is written."""

    def __init__(self, directory: Path, record: Record):
        self.directory = directory
        self.record = record
        self._made: set[Path] = set()

    def extract(self, archive: Path) -> list[Link]:
        """Writes the files and folders of the archive; the answer is its links, to be made afterwards."""
        import tarfile

        links: list[Link] = []
        try:
            # A stream: the archive is read once, from front to end.
            with tarfile.open(archive, "r|xz" if archive.suffix == ".xz" else "r|") as tar:
                for member in tar:
                    relpath = self._relpath(archive, member.name)
                    if relpath == ".":
                        continue
                    if member.issym():
                        links.append((relpath, member.linkname))
                    elif member.islnk():
                        target = self._relpath(archive, member.linkname)
                        links.append((relpath, posixpath.relpath(target, posixpath.dirname(relpath) or ".")))
                    elif member.isdir():
                        self._make_directory(self.directory / relpath)
                    elif member.isreg():
                        self._write_file(tar, member, relpath)
                    else:
                        raise DevelError(f"Cannot expand `{archive}`: `{member.name}` is neither file nor link")
        except (tarfile.TarError, EOFError) as error:
            raise DevelError(f"Cannot expand `{archive}`: {error}. {_repair()}") from error
        return links

    def clear(self, links: Iterable[Link]) -> None:
        """Removes what an earlier version left where links are to be: no link may lead to a file of that version."""
        for relpath, _ in links:
            path = self.directory / relpath
            if path.is_symlink() or path.is_file():
                path.unlink()

    def add_file(self, relpath: str) -> None:
        """Makes an empty file unless there is one."""
        self._make_directory(self.directory)
        self.record.add([self._row(relpath)])
        self.directory.joinpath(relpath).touch()

    def make_links(self, links: Iterable[Link]) -> list[Link]:
        """Makes all links whose target is there; the answer is the others, sorted."""
        waiting = sorted(set(links))
        while waiting:
            still = [link for link in waiting if not self._make_link(*link)]
            if len(still) == len(waiting):
                break
            waiting = still
        return waiting

    def _make_link(self, relpath: str, text: str) -> bool:
        path = self.directory / relpath
        target = _target_of(path, text, self.directory.parent)
        if target is None:
            return False
        self._make_directory(path.parent)
        self.record.add([self._row(relpath)])
        if target.is_dir():
            _replace(path)
            os.symlink(text, path, target_is_directory=True)
        elif self._stays_symbolic(relpath, target):
            _replace(path)
            os.symlink(text, path)
        else:
            link_or_copy(target, path)
        return True

    def _stays_symbolic(self, relpath: str, target: Path) -> bool:
        parent, name = posixpath.split(relpath)
        is_compiler = os.name != "nt" and parent == "bin" and name in COMPILER_LINKS
        return is_compiler and target.is_relative_to(self.directory)

    def _write_file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, relpath: str) -> None:
        path = self.directory / relpath
        self._make_directory(path.parent)
        self.record.add([self._row(relpath)])
        source = tar.extractfile(member)
        assert source is not None  # only asked for regular files
        # Never written through: what is there may be a hard link to a file of another package.
        _replace(path)
        with source, open(path, "xb") as output:
            shutil.copyfileobj(source, output, 1 << 20)
        path.chmod(member.mode & 0o777 | 0o200)
        os.utime(path, (member.mtime, member.mtime))

    def _make_directory(self, path: Path) -> None:
        """Makes a folder of the tree with its parents, never through a link that was there before."""
        if path in self._made:
            return
        if path != self.directory:
            self._make_directory(path.parent)
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


def _target_of(path: Path, text: str, site: Path) -> Path | None:
    """The file or folder a link leads to; None if there is none, or if it leads out of site-packages."""
    if posixpath.isabs(text) or os.path.isabs(text):
        return None
    head, tail = os.path.split(os.path.join(path.parent, text).rstrip("/"))
    folder = os.path.realpath(head if tail not in ("", ".", "..") else os.path.join(head, tail))
    if not Path(folder).is_relative_to(os.path.realpath(site)):
        return None
    # The file itself may be a link that leads out: uv can install links into its cache.
    target = Path(os.path.realpath(path.parent / text))
    return target if target != path and target.exists() else None


def _replace(path: Path) -> None:
    """Removes what is at a path that is to be written."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link_or_copy(target: Path, path: Path) -> None:
    """Makes `path` the same file as `target`, or a copy of it where the file system cannot link them."""
    if path.exists() and not path.is_symlink() and path.samefile(target):
        return
    _replace(path)
    try:
        os.link(os.path.realpath(target), path)
    except OSError as error:
        if error.errno not in NO_HARD_LINK:
            raise
        shutil.copy2(target, path)


def _is_same(target: Path, path: Path) -> bool:
    """Whether the link has been made already, as a hard link or, where there are none, as a copy."""
    try:
        if path.is_symlink():
            return False
        there, here = target.stat(), path.stat()
    except FileNotFoundError:
        return False
    if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
        return True
    return (there.st_size, int(there.st_mtime)) == (here.st_size, int(here.st_mtime))


def _write_pending(devel_dir: Path, record: Record, pending: list[Link]) -> None:
    if pending:
        links = [{"relpath": relpath, "target": target} for relpath, target in pending]
        _write_state(devel_dir, record, PENDING_LINKS, links)
    else:
        (devel_dir / PENDING_LINKS).unlink(missing_ok=True)


def _write_state(devel_dir: Path, record: Record, name: str, document: object) -> None:
    temporary = f"{name}.tmp"
    record.add([f"{devel_dir.name}/{name}", f"{devel_dir.name}/{temporary}"])
    devel_dir.joinpath(temporary).write_text(json.dumps(document, indent=2), encoding="utf-8")
    os.replace(devel_dir / temporary, devel_dir / name)


def rows_that_may_be_missing(devel_dir: Path) -> set[str]:
    """The rows of RECORD whose files need not exist: what expanding used up, and the files of device packages, which
    those take with them when they are uninstalled."""
    rows = {f"rocm_sdk_devel/{name}" for name in TAR_NAMES}
    for name in (PENDING_LINKS, DEVICE_LINKS):
        rows |= {f"{devel_dir.name}/{name}", f"{devel_dir.name}/{name}.tmp"}
    pending = [relpath for relpath, _ in _read_links(devel_dir / PENDING_LINKS)]
    return rows | {f"{devel_dir.name}/{relpath}" for relpath in pending + _read_device_files(devel_dir)}


def _read_device_files(devel_dir: Path) -> list[str]:
    try:
        return [str(relpath) for relpath in json.loads((devel_dir / DEVICE_LINKS).read_text(encoding="utf-8"))]
    except (FileNotFoundError, ValueError):
        # It only spares a false alarm, and the next reconciliation writes it anew.
        return []


def _read_links(path: Path) -> list[Link]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        links = content["links"] if isinstance(content, dict) else content
        return [(link["relpath"], link["target"]) for link in links]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise DevelError(f"Cannot read the links in `{path}`: {error!r}") from error


def _make_pending_links(pure: Path, devel_dir: Path) -> None:
    pending = _read_links(devel_dir / PENDING_LINKS)
    if not any(_target_of(devel_dir / relpath, text, devel_dir.parent) for relpath, text in pending):
        return
    with exclusive_lock(pure / "__init__.py"):
        record = _record_of(devel_dir.parent, "rocm_sdk_devel")
        pending = _read_links(devel_dir / PENDING_LINKS)
        _write_pending(devel_dir, record, _Tree(devel_dir, record).make_links(pending))


def _reconcile_device_links(site: Path, devel_dir: Path, version: str) -> int:
    """Makes the files of the installed device packages appear in the devel tree; the answer is how many were missing.

    Packages of another version are left out, with a warning; a `.postN` does not make another version.
    """
    made = 0
    for distribution in _device_distributions(site):
        name = distribution_name(distribution)
        if _without_post_release(distribution.version) != _without_post_release(version):
            _say(f"skipping {name} {distribution.version}: does not match rocm-sdk {version}")
            continue
        directory = _metadata_directory(distribution, site)
        links = sorted(_device_links(distribution, site, devel_dir).items())
        if not links:
            continue
        if directory is None:
            raise DevelError(f"Cannot add the files of {name} to the devel tree: it has no RECORD")
        made += _make_device_links(directory / "RECORD", devel_dir, links)
    return made


def _make_device_links(device_record: Path, devel_dir: Path, links: list[tuple[str, Path]]) -> int:
    site = devel_dir.parent
    rows = [f"{devel_dir.name}/{relpath}" for relpath, _ in links]

    def is_complete() -> bool:
        return all(_is_same(target, devel_dir / relpath) for relpath, target in links) and all(
            row in record for record in records() for row in rows
        )

    def records() -> list[Record]:
        return [Record(device_record), _record_of(site, "rocm_sdk_devel")]

    if is_complete():
        return 0
    with exclusive_lock(_lock_file(site, devel_dir)):
        both = records()
        for record in both:
            record.add(rows)
        tree = _Tree(devel_dir, both[-1])
        made = 0
        for relpath, target in links:
            path = devel_dir / relpath
            if _is_same(target, path):
                continue
            tree._make_directory(path.parent)
            link_or_copy(target, path)
            made += 1
        known = set(_read_device_files(devel_dir))
        if not known.issuperset(relpath for relpath, _ in links):
            _write_state(devel_dir, both[-1], DEVICE_LINKS, sorted(known.union(relpath for relpath, _ in links)))
    return made


def _lock_file(site: Path, devel_dir: Path) -> Path:
    pure = site / _dist_info.get_package("devel").get_pure_py_package_name() / "__init__.py"
    return pure if pure.is_file() else devel_dir / "__init__.py"


def _device_distributions(site: Path) -> list[metadata.PathDistribution]:
    directories = sorted(site.glob("rocm_sdk_device-*.dist-info")) + sorted(site.glob("rocm_sdk_device_*.dist-info"))
    return [metadata.PathDistribution(directory) for directory in directories if (directory / "METADATA").is_file()]


def _device_links(distribution: metadata.Distribution, site: Path, devel_dir: Path) -> dict[str, Path]:
    """The files a device package adds to the tree, by path in it, as far as they exist."""
    links: dict[str, Path] = {}
    for file in distribution.files or []:
        if file.suffix != ".json" or file.parent.name != ".devel_links":
            continue
        for relpath, text in _read_links(site / file):
            if posixpath.isabs(relpath) or ".." in PurePosixPath(relpath).parts:
                raise DevelError(f"Cannot add `{relpath}`, of `{file}`, to the devel tree: it lies outside")
            # Told by the text alone: the folder it is relative to may not exist yet.
            target = Path(os.path.normpath(devel_dir / posixpath.dirname(relpath) / text))
            if target.is_relative_to(site) and target.is_file():
                links[relpath] = target
    return links


def _record_of(site: Path, name: str) -> Record:
    for directory in sorted(site.glob(f"{name}-*.dist-info")):
        if (directory / "RECORD").is_file():
            return Record(directory / "RECORD")
    raise DevelError(
        f"Cannot expand {name.replace('_', '-')}: it has no RECORD in `{site}`, so it is managed by the system. "
        "Install it with pip or uv into a virtual environment"
    )


def _metadata_directory(distribution: metadata.Distribution, site: Path) -> Path | None:
    for file in distribution.files or []:
        if file.name == "RECORD" and file.parent.name.endswith(".dist-info"):
            return site / file.parent
    return None


def _without_post_release(version: str) -> str:
    """The version without its first `.postN`: repackaging does not change what is inside."""
    return re.sub(r"\.post\d+", "", version, count=1)


def _say(message: str) -> None:
    print(f"rocm-sdk: {message}", file=sys.stderr)


def _say_nothing(message: str) -> None:
    """Progress of an expansion that happens inside another program."""
