"""The devel tree. Input: `rocm_sdk_devel/_devel.tar`. Output: `_rocm_sdk_devel/` with headers,
CMake files and libraries.

A wheel cannot contain links, and the devel tree consists mostly of links to files of the other
packages. So it is shipped as a tar file that is expanded on first use, by these rules:

* The tar file is removed last. As long as it exists, the tree is not expanded, and expanding starts
  from the beginning and overwrites everything that a killed process left.
* Every file is added to the package's RECORD before it is created. So pip and uv can remove
  everything at any moment.
* Links to files become hard links, symbolic links or copies, as requested and as the system allows
  (`_links`). Links to folders stay symbolic.
* Links are created after all files, until none is left that can be created; the order in the tar
  file does not matter. Links to files of packages that are not installed are created when these
  are.
* `.expanded.json` lists everything that was created (`_receipt`). It is used to recreate links that
  a reinstalled package has removed, and to verify and repair the tree (`_verify`).
* Device packages contain a list of their files that belong into the tree
  (`.devel_links/<target>.json`). Such a link is added to the RECORD of both packages, so that they
  can be uninstalled in any order.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path, PurePosixPath

from . import _dist_info, _receipt
from ._contents import distribution_name, site_directory
from ._links import (
    NEW_LINK,
    Linker,
    Records,
    Wish,
    kind_of,
    leads_somewhere,
    record_folder_links,
    remove_leftovers,
    target_of,
    wish,
)
from ._receipt import DevelError, Kind, Link, MadeLink, Receipt, reinstall
from ._record import Record, exclusive_lock
from ._tree import Tree

TAR_NAMES = ("_devel.tar.xz", "_devel.tar")
READ_ONLY = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
DEFAULT = Wish(Kind.HARDLINK, by_name=False)

Say = Callable[[str], None]


def get_devel_root(quiet: bool = True, link_mode: str | None = None) -> Path:
    """The folder of the devel tree, expanded and with the files of the installed device packages.

    A tree that is expanded by this call gets the links of `link_mode`, or else of
    `ROCM_SDK_LINK_MODE`, or else hard links where possible. An existing tree is changed to
    `link_mode` if that is given.

    Raises ModuleNotFoundError if `rocm-sdk-devel` is not installed, DevelError if it cannot be
    expanded here, and ValueError for an unknown mode. Several processes may call this at the same
    time.
    """
    say: Say = _say_nothing if quiet else _say
    asked = wish(link_mode)
    pure = find_pure_package()
    devel_dir = devel_directory(pure)
    change = asked if link_mode else None
    try:
        if not is_expanded(pure, devel_dir):
            with exclusive_lock(pure / "__init__.py", lambda: say("waiting for another process that expands it")):
                # Another process may have expanded it while this one waited for the lock.
                if not is_expanded(pure, devel_dir):
                    _expand(pure, devel_dir, asked or DEFAULT, say)
                    change = asked
        change = _settle(pure, devel_dir, change, say)
        _reconcile_device_links(pure.parent, devel_dir, _dist_info.__version__, change, say)
        if change is not None:
            _mark_settled(pure, devel_dir)
    except OSError as error:
        raise explained(error, pure.parent) from error
    return devel_dir


def find_pure_package() -> Path:
    """The folder of `rocm_sdk_devel`. Raises ModuleNotFoundError if it is not installed."""
    entry = _dist_info.get_package("devel")
    beside = site_directory() / entry.get_pure_py_package_name()
    if (beside / "__init__.py").is_file():
        return beside
    raise entry.missing()


def devel_directory(pure: Path) -> Path:
    """The folder of the devel tree, beside that of `rocm_sdk_devel`; it need not exist."""
    return pure.parent / _dist_info.get_package("devel").get_py_package_name()


def is_expanded(pure: Path, devel_dir: Path) -> bool:
    """True if the tree is complete, except for links to packages that are not installed."""
    return (devel_dir / "__init__.py").is_file() and packed(pure) is None


def packed(pure: Path) -> Path | None:
    """The tar file that must be expanded; None if it does not exist, or was removed after the
    expansion."""
    return next((pure / name for name in TAR_NAMES if (pure / name).exists()), None)


def explained(error: OSError, site: Path) -> DevelError:
    """The error with advice for the user."""
    if error.errno in READ_ONLY:
        return DevelError(
            f"Cannot expand rocm-sdk-devel: `{site}` cannot be written to ({error}). "
            "Run `rocm-sdk init` as the user who installed it, or install it into a virtual environment. "
            "For an image or a shared folder that is read-only later, run it there right after the installation"
        )
    if error.errno in NO_SPACE:
        return DevelError(
            f"Cannot expand rocm-sdk-devel into `{site}`: no space is left. Make room and run `rocm-sdk init` again"
        )
    return DevelError(f"Cannot expand rocm-sdk-devel into `{site}`: {error}")


def _expand(pure: Path, devel_dir: Path, wanted: Wish, say: Say) -> None:
    records = Records(pure.parent)
    record = devel_record(records)
    archive = packed(pure)
    if archive is None:
        raise DevelError(
            f"Cannot expand rocm-sdk-devel: neither `_devel.tar` nor the expanded tree is in `{pure}`. {reinstall()}"
        )
    size = record.size_of(f"{pure.name}/{archive.name}")
    if size is not None and size != archive.stat().st_size:
        raise DevelError(
            f"Cannot expand `{archive}`: it has {archive.stat().st_size} bytes instead of {size}. {reinstall()}"
        )
    say(f"Expanding '{archive}'")
    _receipt.remove(devel_dir)
    receipt = Receipt(_dist_info.__version__, wanted.mode)
    tree = Tree(devel_dir, record, receipt)
    tree.make_directory(devel_dir)
    tree.extract(archive)
    tree.clear()
    tree.add_file("__init__.py")
    linker = Linker(devel_dir, records, record, wanted, receipt.texts())
    tree.make_links(receipt.texts().items(), linker)
    _finish(linker, receipt, say)
    waiting = receipt.waiting()
    if waiting:
        say(f"{len(waiting)} links wait for packages that are not installed")
    for name in TAR_NAMES:
        (pure / name).unlink(missing_ok=True)


def _finish(linker: Linker, receipt: Receipt, say: Say) -> None:
    """Records the links as they are now."""
    remove_leftovers(linker.directory, [*receipt.links, *receipt.devices])
    folders = [(relpath, link.text) for relpath, link in receipt.links.items() if link.kind is Kind.FOLDER]
    record_folder_links(linker, folders, receipt.devices)
    _receipt.write(linker.directory, linker.record, receipt)
    for note in linker.notes():
        say(note)


def _settle(pure: Path, devel_dir: Path, change: Wish | None, say: Say) -> Wish | None:
    """Creates the links that have become possible or were removed since the tree was expanded.
    Changes all links to another mode if requested, or if a process that did so was killed. Returns
    that mode, to which the links of device packages must be changed too; None without a change."""
    receipt = _receipt.read(devel_dir)
    if receipt is None or not _has_work(devel_dir, receipt, change):
        return change
    with exclusive_lock(pure / "__init__.py"):
        before, receipt = _receipt.read(devel_dir), _receipt.read(devel_dir)
        if receipt is None:
            return change
        if change is None and not receipt.settled:
            change = Wish(receipt.link_mode, by_name=False)
        records = Records(devel_dir.parent)
        record = devel_record(records)
        linker = Linker(devel_dir, records, record, change or _wish_of(receipt), receipt.texts())
        work = _work(linker, receipt, anew=change is not None)
        if change is not None:
            receipt.link_mode = change.mode
        if work or receipt != before or os.path.lexists(devel_dir / NEW_LINK):
            if change is not None:
                say(f"Changing {len(work)} links: {change.mode.value}")
                # Until all of it is done, the next process that finds it unfinished continues.
                receipt.settled = False
                _receipt.write(devel_dir, record, receipt)
            Tree(devel_dir, record, receipt).make_links(work, linker)
            _finish(linker, receipt, say)
    return change


def _wish_of(receipt: Receipt) -> Wish:
    return Wish(receipt.link_mode, by_name=False)


def _mark_settled(pure: Path, devel_dir: Path) -> None:
    receipt = _receipt.read(devel_dir)
    if receipt is None or receipt.settled:
        return
    with exclusive_lock(pure / "__init__.py"):
        receipt = _receipt.read(devel_dir)
        if receipt is not None:
            receipt.settled = True
            _receipt.write(devel_dir, devel_record(Records(devel_dir.parent)), receipt)


def _has_work(devel_dir: Path, receipt: Receipt, change: Wish | None) -> bool:
    if change is not None or not receipt.settled or os.path.lexists(devel_dir / NEW_LINK):
        return True
    return any(_may_be_wrong(devel_dir / relpath, link, devel_dir.parent) for relpath, link in receipt.links.items())


def _may_be_wrong(path: Path, link: MadeLink, site: Path) -> bool:
    """True if a link must be created, or given up. It is cheap, because it is called for every link
    of the tree."""
    if not leads_somewhere(path, link.text):
        # Its target was uninstalled, or never existed.
        return link.kind is not Kind.WAITING and (path.is_symlink() or not path.exists())
    if link.kind is Kind.WAITING:
        return target_of(path, link.text, site) is not None
    return kind_of(path, link.text) is None


def _work(linker: Linker, receipt: Receipt, *, anew: bool) -> list[Link]:
    """The links to create; with `anew` also those of another kind than wanted. Links whose package
    is gone wait again."""
    work: list[Link] = []
    for relpath, link in receipt.links.items():
        path = linker.directory / relpath
        target = target_of(path, link.text, linker.directory.parent)
        actual = kind_of(path, link.text)
        if target is None:
            if path.is_symlink():
                path.unlink()
            if not path.exists():
                link.kind = Kind.WAITING
        elif actual is None:
            work.append((relpath, link.text))
        elif anew and actual is not Kind.FOLDER and actual is not linker.first_choice(relpath, link.text, target):
            work.append((relpath, link.text))
        elif link.kind is Kind.WAITING or anew:
            link.kind = actual
    if not work:
        return []
    # Links may depend on each other, and a hard link must follow a target that becomes another
    # file.
    names = {relpath for relpath, _ in work}
    followers = {
        relpath: link.text
        for relpath, link in receipt.links.items()
        if relpath not in names and link.kind is not Kind.FOLDER and not (linker.directory / relpath).is_symlink()
    }
    while found := {name for name, text in followers.items() if linker.next_in_tree(name, text) in names}:
        work += [(name, followers.pop(name)) for name in sorted(found)]
        names |= found
    return work + [(name, text) for name, text in followers.items() if receipt.links[name].kind is Kind.WAITING]


def rows_that_may_be_missing(devel_dir: Path) -> set[str]:
    """The rows of RECORD whose files need not exist: the tar files, links that wait for their
    package, and the files of device packages, which are removed together with their package."""
    rows = {f"rocm_sdk_devel/{name}" for name in TAR_NAMES}
    names = [_receipt.FILE_NAME, _receipt.TEMPORARY_NAME, NEW_LINK]
    try:
        receipt = _receipt.read(devel_dir)
    except DevelError:
        # The list only prevents false alarms here; its errors are reported where the tree is used.
        receipt = None
    if receipt is not None:
        names += [*receipt.waiting(), *receipt.devices]
        names += {posixpath.join(posixpath.dirname(name), NEW_LINK) for name in receipt.links}
    return rows | {f"{devel_dir.name}/{name}" for name in names}


def _reconcile_device_links(
    site: Path, devel_dir: Path, version: str, change: Wish | None = None, say: Say | None = None
) -> int:
    """Adds the files of the installed device packages to the devel tree, and returns the number of
    missing ones.

    Packages of another version are skipped with a warning; a `.postN` does not count as another
    version. With `change` all links are changed to that mode.
    """
    packages: list[tuple[Path, list[Link]]] = []
    for distribution in device_distributions(site):
        name = distribution_name(distribution)
        if not is_same_version(distribution.version, version):
            _say(f"skipping {name} {distribution.version}: does not match rocm-sdk {version}")
            continue
        links = device_links(distribution, site, devel_dir)
        directory = _metadata_directory(distribution, site)
        if links and directory is None:
            raise DevelError(f"Cannot add the files of {name} to the devel tree: it has no RECORD")
        if links and directory is not None:
            packages.append((directory / "RECORD", links))
    if not packages or (change is None and _devices_are_complete(devel_dir, packages)):
        return 0
    with exclusive_lock(_lock_file(site, devel_dir)):
        return _make_device_links(devel_dir, packages, change, say or _say_nothing)


def _devices_are_complete(devel_dir: Path, packages: list[tuple[Path, list[Link]]]) -> bool:
    records = Records(devel_dir.parent)
    receipt = _receipt.read(devel_dir)
    for path, links in packages:
        for relpath, text in links:
            row = f"{devel_dir.name}/{relpath}"
            if not all(row in record for record in (records.get(path), devel_record(records))):
                return False
            if kind_of(devel_dir / relpath, text) is None or (receipt and relpath not in receipt.devices):
                return False
    return True


def _make_device_links(devel_dir: Path, packages: list[tuple[Path, list[Link]]], change: Wish | None, say: Say) -> int:
    before, receipt = _receipt.read(devel_dir), _receipt.read(devel_dir)
    # A tree that another program expanded has no list, and does not get one.
    known = receipt or Receipt(_dist_info.__version__, DEFAULT.mode)
    records = Records(devel_dir.parent)
    record = devel_record(records)
    linker = Linker(devel_dir, records, record, change or _wish_of(known), known.texts())
    tree = Tree(devel_dir, record, known)
    made = 0
    for device_record, links in packages:
        rows = [f"{devel_dir.name}/{relpath}" for relpath, _ in links]
        for each in (records.get(device_record), record):
            each.add(rows)
        for relpath, text in links:
            target = Path(os.path.realpath(os.path.normpath(devel_dir / posixpath.dirname(relpath) / text)))
            actual = kind_of(devel_dir / relpath, text)
            if actual is None or (change and actual is not linker.first_choice(relpath, text, target)):
                tree.make_directory((devel_dir / relpath).parent)
                known.devices[relpath] = linker.make(relpath, text, target)
                made += 1
            elif change or relpath not in known.devices:
                known.devices[relpath] = actual
    if receipt is not None and receipt != before:
        _finish(linker, receipt, say)
    return made


def _lock_file(site: Path, devel_dir: Path) -> Path:
    pure = site / _dist_info.get_package("devel").get_pure_py_package_name() / "__init__.py"
    return pure if pure.is_file() else devel_dir / "__init__.py"


def device_distributions(site: Path) -> list[metadata.PathDistribution]:
    """The installed device packages."""
    directories = sorted(site.glob("rocm_sdk_device-*.dist-info")) + sorted(site.glob("rocm_sdk_device_*.dist-info"))
    return [metadata.PathDistribution(directory) for directory in directories if (directory / "METADATA").is_file()]


def device_links(distribution: metadata.Distribution, site: Path, devel_dir: Path) -> list[Link]:
    """The existing files that a device package adds to the tree, as sorted links."""
    links: dict[str, str] = {}
    for file in distribution.files or []:
        if file.suffix != ".json" or file.parent.name != ".devel_links":
            continue
        for relpath, text in _read_device_links(site / file):
            if posixpath.isabs(relpath) or ".." in PurePosixPath(relpath).parts:
                raise DevelError(f"Cannot add `{relpath}`, of `{file}`, to the devel tree: it lies outside")
            # Computed from the text alone: the folder it is relative to may not exist yet.
            target = Path(os.path.normpath(devel_dir / posixpath.dirname(relpath) / text))
            if target.is_relative_to(site) and target.is_file():
                links[relpath] = text
    return sorted(links.items())


def _read_device_links(path: Path) -> list[Link]:
    import json

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [(link["relpath"], link["target"]) for link in content["links"]]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise DevelError(f"Cannot read the links in `{path}`: {error!r}") from error


def devel_record(records: Records) -> Record:
    """The RECORD of the devel package."""
    for directory in sorted(records.site.glob("rocm_sdk_devel-*.dist-info")):
        if (directory / "RECORD").is_file():
            return records.get(directory / "RECORD")
    raise DevelError(
        f"Cannot expand rocm-sdk-devel: it has no RECORD in `{records.site}`, so it is managed by the system. "
        "Install it with pip or uv into a virtual environment"
    )


def _metadata_directory(distribution: metadata.Distribution, site: Path) -> Path | None:
    for file in distribution.files or []:
        if file.name == "RECORD" and file.parent.name.endswith(".dist-info"):
            return site / file.parent
    return None


def is_same_version(one: str, other: str) -> bool:
    """True if two versions differ at most in `.postN`."""
    return _without_post_release(one) == _without_post_release(other)


def _without_post_release(version: str) -> str:
    """The version without its first `.postN`, because repackaging does not change the contents."""
    return re.sub(r"\.post\d+", "", version, count=1)


def _say(message: str) -> None:
    print(f"rocm-sdk: {message}", file=sys.stderr)


def _say_nothing(message: str) -> None:
    """Discards the progress of an expansion that happens inside another program."""
