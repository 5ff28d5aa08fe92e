"""What `rocwheel diff` says of two builds of one ROCm, as somebody who moves from one tool or
version to another asks it."""

import shutil
import zipfile
from pathlib import Path

import pytest

from command import Rocwheel, run
from packages import PackageSet

VERSION = "99.1.2"
# What a new version changes in a set of packages, and nothing of it in a library.
OF_A_VERSION = {"version", "version-text"}


@pytest.fixture(scope="module")
def newer(rocwheel: Rocwheel, package_set: PackageSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real artifacts, packaged once more under another version."""
    output = tmp_path_factory.mktemp("newer")
    rocwheel.package(package_set.artifacts, output, "--version", VERSION)
    return output / "dist"


def compare(rocwheel: Rocwheel, old: Path, new: Path, *arguments: object, expect: int = 0) -> dict:
    return rocwheel.json("diff", old, new, *arguments, expect=expect)


def changes(report: dict) -> list[tuple[str, str, str]]:
    found = []
    for package in report["packages"]:
        found += [(change["kind"], package["name"], "") for change in package["changes"]]
        for file in package["files"]:
            found += [(change["kind"], package["name"], file["path"]) for change in file["changes"]]
    return found


def test_a_new_version_changes_what_names_it(
    rocwheel: Rocwheel, package_set: PackageSet, newer: Path, tmp_path: Path
) -> None:
    report = compare(rocwheel, package_set.dist, newer)
    found = changes(report)
    assert {kind for kind, _, _ in found} == OF_A_VERSION and report["differs_only_in_version"]
    assert not [path for _, _, path in found if ".so" in path]
    names = {package["name"] for package in report["packages"]}
    assert {"rocm (sdist)", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel"} <= names
    assert all(package["new"]["version"] == VERSION and package["same"] > 0 for package in report["packages"])

    deviations = tmp_path / "accepted.toml"
    rocwheel.run("diff", package_set.dist, newer, "--write-deviations", deviations)
    deviations.write_text(deviations.read_text().replace('reason = ""', 'reason = "a new version"'))
    assert compare(rocwheel, package_set.dist, newer, "--accept", deviations)["failures"] == 0
    compare(rocwheel, package_set.dist, newer, "--fail-on", "growth=1%,new-needed,lost-file,lost-symbol,glibc-floor")


def test_a_library_that_others_edited(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    """patchelf's work on a real library: the search path is another one, and the code is where it
    was."""
    library = tmp_path / "old" / "libamdhip64.so"
    library.parent.mkdir()
    with zipfile.ZipFile(package_set.wheel("rocm_sdk_core")) as wheel:
        member = next(name for name in wheel.namelist() if "/libamdhip64.so." in name)
        library.write_bytes(wheel.read(member))
    edited = tmp_path / "new" / library.name
    edited.parent.mkdir()
    shutil.copy(library, edited)
    run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/elsewhere", edited)
    assert [kind for kind, _, _ in changes(compare(rocwheel, library, edited))] == ["search-path"]
    shutil.copy(library, edited)
    run("strip", "--strip-debug", edited)
    assert changes(compare(rocwheel, library, edited)) == []


def test_the_same_is_the_same(rocwheel: Rocwheel, package_set: PackageSet, newer: Path) -> None:
    report = compare(rocwheel, newer, newer, "--fail-on", "any,growth=0")
    assert changes(report) == [] and not any(package["files"] for package in report["packages"])
    compare(rocwheel, package_set.dist, newer, "--fail-on", "version", expect=1)
