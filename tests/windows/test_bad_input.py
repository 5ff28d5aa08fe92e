"""Input that only Windows refuses: rocwheel.exe says what is wrong, and leaves nothing behind."""

import io
import os
import subprocess
import tarfile
import time
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


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [("lib/Name", "lib/name", ["lib/Name", "lib/name"]), ("Include/a.h", "include/b.h", ["Include", "include"])],
)
def test_names_that_differ_only_by_case(
    windows: Rocwheel, tmp_path: Path, first: str, second: str, named: list[str]
) -> None:
    """The second one would replace the first one, or get into its folder."""
    write_archive(tmp_path, first, second)
    said = windows.run("artifact", "flatten", ".", "--output", "tree", cwd=tmp_path, expect=1).stderr
    assert "differ only by case" in said and all(f"{name}`" in said for name in named), said
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
    drive, path = wheel.drive or "Z:", str(wheel)[len(wheel.drive) :]
    native = path.replace("/", "\\")
    forms = [drive + native, drive + path.replace("\\", "/"), native, rf"\\?\{drive}{native}", drive + wheel.name]
    for path in [*forms, f".\\{wheel.name}"]:
        said = windows.run("audit", "--json", path, cwd=tmp_path).stdout
        assert '"demo"' in said, path


def test_a_share_that_does_not_answer(windows: Rocwheel, tmp_path: Path) -> None:
    said = windows.run("audit", r"\\nobody\share\demo-1.0-py3-none-any.whl", cwd=tmp_path, expect=1).stderr
    assert r"\\nobody\share" in said


def test_a_share_that_answers(windows: Rocwheel, share: tuple[str, Path]) -> None:
    """Input and output are on a share, which has no letter of a drive. Another program made it:
    Wine takes a folder for one."""
    name, folder = share
    write_wheel(folder, "demo", "1.0")
    where = ["edit", name + r"\demo-1.0-py3-none-any.whl", "--local-version", "x", "--output", name + r"\out"]
    said = windows.run(*where, cwd=folder)
    (edited,) = (folder / "out").iterdir()
    with zipfile.ZipFile(edited) as archive:
        assert archive.testzip() is None
    assert r"?\UNC" not in said.stdout + said.stderr
    assert '"demo"' in windows.run("audit", "--json", rf"{name}\out\{edited.name}", cwd=folder).stdout


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
    said = windows.run("artifact", "flatten", ".", "--output", "tree", cwd=tmp_path, expect=1).stderr
    assert "tree" in said and [path.name for path in (tmp_path / "tree").iterdir()] == ["mine"]


def hold(starter: list[str], folder: Path, name: str) -> subprocess.Popen[str]:
    """A program that has a file open until it is let go: it waits for a line."""
    words = [*starter, "cmd", "/c", f"(echo held& set /p line=) > {name}"]
    held = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    begun = time.monotonic()
    while not (folder / name).is_file() or not (folder / name).read_bytes():
        assert held.poll() is None and time.monotonic() - begun < 60
        time.sleep(0.05)
    return held


def let_go(held: subprocess.Popen[str]) -> None:
    assert held.poll() is None, "the file was not held"
    held.communicate("\r\n", timeout=60)


def test_an_output_that_another_program_has_open_stays(windows: Rocwheel, starter: list[str], tmp_path: Path) -> None:
    write_wheel(tmp_path, "demo", "1.0")
    (tmp_path / "out").mkdir()
    name = "demo-1.0+x-py3-none-any.whl"
    held = hold(starter, tmp_path / "out", name)
    words = ["edit", "demo-1.0-py3-none-any.whl", "--local-version", "x", "--output", "out", "--force"]
    said = windows.run(*words, cwd=tmp_path, expect=1).stderr
    assert name in said and "error: " in said, said
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]
    assert b"held" in (tmp_path / "out" / name).read_bytes()
    let_go(held)
    windows.run(*words, cwd=tmp_path)
    with zipfile.ZipFile(tmp_path / "out" / name) as archive:
        assert archive.testzip() is None


@pytest.mark.skipif(os.name == "nt", reason="Windows refuses the move")
def test_an_open_file_of_an_old_tree_goes_with_the_next_run(
    windows: Rocwheel, starter: list[str], tmp_path: Path
) -> None:
    """Wine moves a folder that has an open file in it, and cannot remove it. Windows refuses the
    move, and the old tree stays; this is not tested here."""
    write_archive(tmp_path, "lib/good")
    words = ["artifact", "flatten", "core_lib_generic.tar.xz", "--output", "tree"]
    windows.run(*words, cwd=tmp_path)
    held = hold(starter, tmp_path / "tree/lib", "held")
    said = windows.run(*words, cwd=tmp_path).stderr
    (left,) = tmp_path.glob(".rocwheel-*")
    assert "could not remove a temporary directory" in said and left.name in said, said
    assert [path.name for path in (tmp_path / "tree/lib").iterdir()] == ["good"]
    let_go(held)
    windows.run(*words, cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["core_lib_generic.tar.xz", "tree"]


def test_a_tree_with_read_only_files_is_replaced(windows: Rocwheel, tmp_path: Path) -> None:
    """Windows removes none of them unless it is asked to; nothing of the old tree may stay."""
    write_archive(tmp_path, "lib/good", "lib/old")
    words = ["artifact", "flatten", "core_lib_generic.tar.xz", "--output", "tree"]
    windows.run(*words, cwd=tmp_path)
    for path in (tmp_path / "tree/lib").iterdir():
        path.chmod(0o444)
    write_archive(tmp_path, "lib/good")
    windows.run(*words, cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["core_lib_generic.tar.xz", "tree"]
    assert [path.name for path in (tmp_path / "tree/lib").iterdir()] == ["good"]


def test_a_read_only_output_is_not_replaced_without_a_word(windows: Rocwheel, tmp_path: Path) -> None:
    write_wheel(tmp_path, "demo", "1.0")
    words = ["edit", "demo-1.0-py3-none-any.whl", "--local-version", "x", "--output", "out"]
    windows.run(*words, cwd=tmp_path)
    (edited,) = (tmp_path / "out").iterdir()
    before = edited.read_bytes()
    edited.chmod(0o444)
    windows.run(*words, cwd=tmp_path)
    assert edited.read_bytes() == before and len(list((tmp_path / "out").iterdir())) == 1


def test_a_path_with_a_semicolon(windows: Rocwheel, tmp_path: Path) -> None:
    """In PATH it separates folders, and a folder may have one in its name."""
    folder = tmp_path / "a;b c"
    write_wheel(folder, "demo", "1.0")
    windows.run("edit", folder / "demo-1.0-py3-none-any.whl", "--local-version", "x", "--output", folder / "out")
    assert len(list((folder / "out").iterdir())) == 1
