"""`rocwheel index build` with damaged records, hostile names and texts, and folders that change
while they are read; and runs for one project, whose result is that of a whole run."""

import os
import random
import shutil
import threading
from pathlib import Path

from small_wheels import write_wheel
from test_index import NOW, Links, assert_every_link_is_true, dist, index, pip

from command import Rocwheel
from trees import differences, snapshot

__all__ = ["dist"]


def attempt(rocwheel: Rocwheel, folder: Path, *arguments: object) -> tuple[int, str]:
    """The exit code of a run that may fail, and what it says."""
    process = rocwheel.start("index", "build", folder, "--now", NOW, *arguments)
    _, said = process.communicate()
    return process.returncode, said


def test_a_damaged_record_costs_a_second_reading_only(rocwheel: Rocwheel, dist: Path) -> None:
    """Any byte of any record may change, or the end be cut off: pages and times stay true."""
    for file in dist.iterdir():
        os.utime(file, (1_700_000_000, 1_700_000_000))
    index(rocwheel, dist, "--view", "python")
    pages = {name: text for name, text in snapshot(dist).items() if ".rocwheel" not in str(name)}
    chosen = random.Random(20261123)
    records = sorted(path for path in (dist / ".rocwheel").rglob("*") if path.is_file())
    assert len(records) == 9, "a head and the files of four projects, and the pages of one index"
    for record in records:
        good = record.read_bytes()
        for bad in (good[: len(good) // 2], b"", b"{}\n", bytes([good[0] ^ 1]) + good[1:]):
            record.write_bytes(bad)
            said = rocwheel.run("index", "build", dist, "--now", "2027-01-01T00:00:00Z", "--view", "python")
            assert ("ignored" in said.stderr) == (record.suffix == ".json"), said.stderr
        at = chosen.randrange(len(good))
        record.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        write_wheel(dist, "torch", f"3.{at}", python=">=3.9, <4")
        rocwheel.run("index", "build", dist, "--now", NOW, "--view", "python")
        (dist / f"torch-3.{at}-py3-none-any.whl").unlink()
        (dist / f"torch-3.{at}-py3-none-any.whl.metadata").unlink()
        rocwheel.run("index", "build", dist, "--now", NOW, "--view", "python")
        now = {name: text for name, text in snapshot(dist).items() if ".rocwheel" not in str(name)}
        assert differences(pages, now) == [], record


def test_a_project_run_writes_what_a_whole_run_would(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Views and the page for people too; and it does not make half a view."""
    whole, single = tmp_path / "whole", tmp_path / "single"

    def add(name: str, version: str, tag: str = "py3-none-any") -> None:
        for root in (whole, single):
            path = write_wheel(root / name, name, version, tag=tag)
            os.utime(path, (1_700_000_000, 1_700_000_000))

    for project in ("rocm", "torch", "amd-torch-device-gfx942", "amd-torch-device-gfx1100"):
        add(project, "1.0")
    for python in ("cp312", "cp313"):
        add("torch", "1.0", f"{python}-{python}-linux_x86_64")
    views = ("--view", "python", "--view", "target", "--json-root")
    for root in (whole, single):
        index(rocwheel, root, *views)
    for name, version, tag in (
        ("torch", "2.0", "cp312-cp312-linux_x86_64"),
        ("rocm", "0.9", "py3-none-any"),
        ("amd-torch-device-gfx942", "2.0", "py3-none-any"),
    ):
        add(name, version, tag)
        index(rocwheel, whole, *views)
        index(rocwheel, single, *views, "--project", name)
        assert differences(snapshot(whole), snapshot(single)) == [], name
    (whole / "torch/torch-1.0-cp313-cp313-linux_x86_64.whl").unlink()
    (single / "torch/torch-1.0-cp313-cp313-linux_x86_64.whl").unlink()
    index(rocwheel, single, *views, "--project", "torch")
    assert len(Links(single / "by_python/cp313/torch/index.html").links) == 1
    add("torch", "2.0", "cp314-cp314-linux_x86_64")
    said = rocwheel.run("index", "build", single, "--now", NOW, *views, "--project", "torch")
    assert "there is no view yet of cp314" in said.stderr and not (single / "by_python/cp314").exists()
    for root in (whole, single):
        index(rocwheel, root, *views)
    assert differences(snapshot(whole), snapshot(single)) == []
    # Only what the other GPU cannot use is missing in a view.
    assert {path.name for path in (single / "by_target/gfx942").iterdir() if path.is_dir()} == {
        "amd-torch-device-gfx942",
        "rocm",
        "torch",
        "v1_json",
    }
    assert_every_link_is_true(single)
    target = tmp_path / "got"
    address = (single / "by_python/cp312").as_uri() + "/"
    pip("download", "--quiet", "--no-deps", "--index-url", address, "--dest", target, "rocm")
    assert [path.name for path in target.iterdir()] == ["rocm-1.0-py3-none-any.whl"]


# Names that projects do not have, and that programs have stumbled over.
HOSTILE = [
    "<script>alert(1)<b>-1.0-py3-none-any.whl",
    "a b-1.0-py3-none-any.whl",
    "a&b-1.0-py3-none-any.whl",
    'a"b-1.0-py3-none-any.whl',
    "a'b-1.0-py3-none-any.whl",
    "..-1.0-py3-none-any.whl",
    "-1.0-py3-none-any.whl",
    "a%2Fb-1.0-py3-none-any.whl",
    "a#b-1.0-py3-none-any.whl",
    "a?b-1.0-py3-none-any.whl",
    "ünï-1.0-py3-none-any.whl",
    "a-1.0;rm-py3-none-any.whl",
    "a-1.0-py3-none-any.whl\n",
    "a-not.a.version-py3-none-any.whl",
    "a-1.0-py3-none-../any.whl".replace("/", "_"),
    "a\\b-1.0-py3-none-any.whl",
    "_-1.0-py3-none-any.whl",
    "a-1.0-x-py3-none-any.whl",
    "a\u202egnp-1.0-py3-none-any.whl",
    "a-1.0-py3-none-any.WHL",
]


def test_hostile_names_are_refused_or_harmless(rocwheel: Rocwheel, dist: Path) -> None:
    # The records of new files change once more, when the files are old enough to be trusted.
    for file in dist.iterdir():
        os.utime(file, (1_700_000_000, 1_700_000_000))
    index(rocwheel, dist)
    before = snapshot(dist)
    good = (dist / "rocm_entry-7.2.0-py3-none-any.whl").read_bytes()
    for name in HOSTILE:
        path = dist / name
        path.write_bytes(good)
        code, said = attempt(rocwheel, dist)
        path.unlink()
        # Hidden files and other endings are no packages.
        is_ignored = name.startswith(".") or name.endswith("\n")
        assert code == (0 if is_ignored else 1) and "panicked" not in said, (name, said)
        assert differences(before, snapshot(dist)) == [], name


def test_hostile_metadata_stays_text(rocwheel: Rocwheel, tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" ' &amp; {script} \u202e"
    for number, line in enumerate((f"Requires-Dist: {evil}", f"Provides-Extra: {evil}", f"Summary: {evil}")):
        write_wheel(tmp_path / "d", f"evil-{number}", "1.0", f"x\n{line}")
    write_wheel(tmp_path / "refused", "evil", "1.0", python=f">=3.8{evil}")
    said = rocwheel.run("index", "build", tmp_path / "refused", "--now", NOW, expect=1).stderr
    assert "has a Requires-Python that cannot be read" in said and "\u202e" not in said
    rocwheel.run("index", "build", tmp_path / "d", "--now", NOW)
    for page in tmp_path.rglob("*.html"):
        found = Links(page).tags
        assert "img" not in found and ("script" in found) == (page.name == "chooser.html"), page
    chooser = (tmp_path / "d/chooser.html").read_text()
    assert chooser.count("<script") == 2 and "<img" not in chooser


def test_pages_that_a_killed_run_left_are_removed(rocwheel: Rocwheel, dist: Path) -> None:
    """It was killed between the pages of a project and its record, and the wheel is gone now."""
    index(rocwheel, dist, "--json-root")
    write_wheel(dist, "left-over", "1.0")
    before = snapshot(dist)
    index(rocwheel, dist, "--json-root")
    pages = {path for path in differences(before, snapshot(dist)) if "left-over/" in path}
    assert len(pages) >= 4, pages
    (dist / "left_over-1.0-py3-none-any.whl").unlink()
    (dist / "left_over-1.0-py3-none-any.whl.metadata").unlink()
    for record in (dist / ".rocwheel/index").glob("left-over.*"):
        record.unlink()
    for name in ("handmade", "inner"):
        shutil.copytree(dist / "simple/left-over", dist / "simple" / name)
    handmade = dist / "simple/handmade/index.html"
    handmade.write_text(handmade.read_text().replace("rocwheel index build", "a person"))
    index(rocwheel, dist, "--json-root")
    assert not list(dist.rglob("*left-over*"))
    assert handmade.exists() and (dist / "simple/inner/index.html").exists(), "not a page of that project"


def test_a_listing_that_changes_while_it_is_read(rocwheel: Rocwheel, dist: Path) -> None:
    """Files come and go while the index is made: each run ends well or names a file that went."""
    index(rocwheel, dist)
    stop = threading.Event()

    def stir() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            path = write_wheel(dist / f"new-{number % 7}", "torch", f"9.{number}")
            shutil.rmtree(path.parent)
            path = write_wheel(dist, "moving", f"1.{number % 3}")
            path.rename(dist / f"moving-2.{number % 3}-py3-none-any.whl.part")
            (dist / f"moving-2.{number % 3}-py3-none-any.whl.part").unlink()

    stirring = threading.Thread(target=stir)
    stirring.start()
    try:
        for _ in range(25):
            code, said = attempt(rocwheel, dist, "--filter", "*.whl")
            assert code in (0, 1) and "panicked" not in said
            assert code == 0 or "moving-" in said or "new-" in said, said
    finally:
        stop.set()
        stirring.join()
    index(rocwheel, dist, "--filter", "*.whl")
    assert_every_link_is_true(dist)
