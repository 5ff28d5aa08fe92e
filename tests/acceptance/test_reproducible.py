"""Same input, same bytes: whatever directory, clock, umask, locale, user, order and number of
threads."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from command import NOBODY, Rocwheel, run, unprivileged
from packages import PackageSet
from trees import differences, snapshot

STRANGE = {"TZ": "Pacific/Kiritimati", "LC_ALL": "C", "LANG": "tr_TR.UTF-8"}


def copy_in_reverse(source: Path, target: Path) -> None:
    """A copy whose directory entries were made in reverse order, with other times: what a file
    system lists changes with both."""
    target.mkdir(mode=0o755)
    for entry in sorted(source.iterdir(), reverse=True):
        copied = target / entry.name
        if entry.is_symlink():
            copied.symlink_to(os.readlink(entry))
        elif entry.is_dir():
            copy_in_reverse(entry, copied)
        else:
            shutil.copyfile(entry, copied)
            copied.chmod(0o755 if os.access(entry, os.X_OK) and entry.stat().st_mode & 0o111 else 0o644)
            os.utime(copied, (1234567890, 1234567890))


def test_artifacts_from_the_same_packages(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    """Real packages, named in another order, under another name of directory, one thread, another
    umask."""
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    debs = [Path(shutil.copyfile(deb, moved / deb.name)) for deb in reversed(package_set.debs)]
    for deb in debs:
        os.utime(deb, (1234567890, 1234567890))
    output = tmp_path / "again"
    rocwheel.import_debs(debs, output, "--jobs", 1, environment=STRANGE, umask=0o077)
    assert differences(without_modes(package_set.artifacts), without_modes(output)) == []


def without_modes(root: Path) -> dict[str, object]:
    """Directories' bits follow the umask, as everywhere; a file's executable bit and content must
    not change."""
    return dict(normalised(root))


def normalised(root: Path) -> Iterator[tuple[str, object]]:
    for path, entry in snapshot(root).items():
        kind, *rest = entry
        if kind == "file":
            mode, digest = rest
            rest = [bool(mode & 0o100), digest]
        elif kind == "directory":
            rest = []
        yield path, (kind, *rest)


def test_wheels_from_the_same_artifacts(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    """Real artifacts, copied in another order, one thread, another umask, time zone and locale."""
    copied = tmp_path / "copy"
    copy_in_reverse(package_set.artifacts, copied)
    rocwheel.package(copied, tmp_path / "again", "--jobs", 1, environment=STRANGE, umask=0o077)
    assert differences(without_modes(package_set.dist), without_modes(tmp_path / "again/dist")) == []


def test_wheels_by_another_user(public: Path, artifacts: Path, rocwheel: Rocwheel, tmp_path: Path) -> None:
    """A small set, once by us and once by a user without rights, from the same files under another
    name."""
    rocwheel.package(artifacts, tmp_path / "ours", "--jobs", 4)
    theirs = public / "artifacts"
    copy_in_reverse(artifacts, theirs)
    words = (*unprivileged(), public / "rocwheel", "package", "--artifacts", theirs, "--output", public / "theirs")
    run(*words, environment=STRANGE)
    owner = (public / "theirs/dist").stat().st_uid
    assert owner == (NOBODY if os.geteuid() == 0 else os.geteuid())
    assert differences(without_modes(tmp_path / "ours/dist"), without_modes(public / "theirs/dist")) == []


def test_the_whole_way_twice(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    """A small set on 1, 2 and 7 threads, into three directories."""
    made = []
    for jobs in (1, 2, 7):
        rocwheel.package(artifacts, tmp_path / str(jobs), "--jobs", jobs)
        made.append(without_modes(tmp_path / str(jobs) / "dist"))
    assert made[0] and made[0] == made[1] == made[2]
