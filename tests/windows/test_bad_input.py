"""Input that only Windows refuses: rocwheel.exe says what is wrong, and leaves nothing behind."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from small_wheels import write_wheel

from command import Rocwheel


def write_archive(folder: Path, *names: str) -> Path:
    """An archive of an artifact with these files."""
    path = folder / "core_lib_generic.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        members = {"artifact_manifest.txt": b"core/stage\n", **{f"core/stage/{name}": b"x" for name in names}}
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("include/aux.h", "a device is called like that"),
        ("CON", "a device is called like that"),
        ("lib/name.", "a name cannot end with a dot or a space"),
        ("lib/a:b", "a name cannot hold any of"),
    ],
)
def test_a_name_that_windows_cannot_have(windows: Rocwheel, tmp_path: Path, name: str, reason: str) -> None:
    write_archive(tmp_path, "lib/good", name)
    said = windows.run("artifact", "flatten", ".", "--output", "tree", cwd=tmp_path, expect=1).stderr
    assert name.rsplit("/", 1)[-1] in said and reason in said
    assert not (tmp_path / "tree").exists()


def test_a_path_of_300_characters(windows: Rocwheel, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 25) / ("path" * 25) / ("name" * 25)
    write_wheel(folder, "demo", "1.0")
    windows.run("edit", folder / "demo-1.0-py3-none-any.whl", "--local-version", "x", "--output", folder / "edited")
    (edited,) = (folder / "edited").iterdir()
    with zipfile.ZipFile(edited) as archive:
        assert archive.testzip() is None and "demo.py" in archive.namelist()


def test_a_read_only_input_is_read_and_not_changed(windows: Rocwheel, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "demo", "1.0")
    wheel.chmod(0o444)
    before = wheel.read_bytes()
    windows.run("edit", wheel.name, "--local-version", "x", "--output", "edited", cwd=tmp_path)
    assert wheel.read_bytes() == before and len(list((tmp_path / "edited").iterdir())) == 1


def test_paths_in_the_forms_of_windows(windows: Rocwheel, tmp_path: Path) -> None:
    """Of a drive, with either separator, relative to the folder of a drive, and in the form without
    a limit."""
    wheel = write_wheel(tmp_path, "demo", "1.0")
    native = str(wheel).replace("/", "\\")
    for path in (f"Z:{native}", f"Z:{wheel}", native, f"\\\\?\\Z:{native}", f"Z:{wheel.name}", f".\\{wheel.name}"):
        said = windows.run("audit", "--json", path, cwd=tmp_path).stdout
        assert '"demo"' in said, path


def test_a_share_that_does_not_answer(windows: Rocwheel, tmp_path: Path) -> None:
    said = windows.run("audit", r"\\nobody\share\demo-1.0-py3-none-any.whl", cwd=tmp_path, expect=1).stderr
    assert r"\\nobody\share" in said


def test_line_ends_are_kept(windows: Rocwheel, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "demo", "1.0")
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("demo/dos.txt", b"one\r\ntwo\n")
    windows.run("edit", wheel.name, "--local-version", "x", "--output", "edited", cwd=tmp_path)
    (edited,) = (tmp_path / "edited").iterdir()
    with zipfile.ZipFile(edited) as archive:
        assert archive.read("demo/dos.txt") == b"one\r\ntwo\n"
        assert b"\r" not in archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA")))


def test_an_output_that_is_in_use_is_refused(windows: Rocwheel, tmp_path: Path) -> None:
    """A folder that another command has made is not replaced."""
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/mine").write_text("x")
    write_archive(tmp_path, "lib/good")
    said = windows.run("artifact", "flatten", ".", "--output", "tree", cwd=tmp_path, expect=2).stderr
    assert "tree" in said and [path.name for path in (tmp_path / "tree").iterdir()] == ["mine"]
