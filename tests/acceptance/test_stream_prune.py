"""`release prune`: what leaves a stream, and what has to stay."""

from pathlib import Path

import pytest
from test_release_publish import assert_installable, change, installed, publish, requires, rocm, torch

from command import Rocwheel
from small_index import write_wheel
from trees import differences, put, snapshot


@pytest.mark.parametrize("rule", ["versions = 1", "days = 20"])
def test_pruning_keeps_what_replaces_withdrawn_versions(rocwheel: Rocwheel, tmp_path: Path, rule: str) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    for version, day in (("1.0", "2026-01-01"), ("2.0", "2026-02-20")):
        write_wheel(tmp_path / version, "beta", version)
        publish(rocwheel, tmp_path / version, store, "--now", f"{day}T00:00:00Z")
    write_wheel(tmp_path / "app", "app", "1.0", *requires("beta>=1.0"))
    publish(rocwheel, tmp_path / "app", store, "--now", "2026-02-21T00:00:00Z")
    change(rocwheel, "yank", store, "beta==2.0", "--reason", "bad", "--now", "2026-02-22T00:00:00Z")
    (stream / ".release/stream.toml").write_text(f"[retention]\n{rule}\n")
    change(rocwheel, "prune", store, "--now", "2026-03-01T00:00:00Z")
    assert installed(f"{stream.as_uri()}/", "app", tmp_path) == {"app": "1.0", "beta": "1.0"}


def test_pruning_forgets_neither_sets_nor_bytes(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    for month, version in enumerate(("1.0", "2.0"), start=1):
        write_wheel(tmp_path / version, "beta", version)
        publish(rocwheel, tmp_path / version, store, "--now", f"2026-0{month}-01T00:00:00Z")
    # All files of this set came with another one.
    publish(rocwheel, tmp_path / "2.0", store, "--set", "blessed", "--now", "2026-02-02T00:00:00Z")
    (stream / ".release/stream.toml").write_text("[retention]\nversions = 1\ngrace-days = 1\n")
    for month in (3, 4):
        change(rocwheel, "prune", store, "--now", f"2026-0{month}-01T00:00:00Z")
    assert sorted(path.name for path in (stream / ".release/sets").iterdir()) == ["beta-2.0.json", "blessed.json"]
    rocwheel.run("release", "verify", stream)
    wheel = stream / "beta/beta-1.0-py3-none-any.whl"
    assert not wheel.exists()
    words = (store, "--allow", "older", "--now", "2026-05-01T00:00:00Z")
    write_wheel(tmp_path / "other", "beta", "1.0", "Requires-Python: >=3.9")
    said = publish(rocwheel, tmp_path / "other", *words, expect=1)
    assert "1 of the files of beta 1.0 has other bytes" in said.stderr and not wheel.exists()
    publish(rocwheel, tmp_path / "1.0", *words)
    assert wheel.exists()


def test_as_many_snapshots_stay_as_the_owner_says(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, release = tmp_path / "store", tmp_path / "store/nightly/.release"
    for number in range(1, 7):
        write_wheel(tmp_path / str(number), "beta", f"{number}.0")
        publish(rocwheel, tmp_path / str(number), store, "--now", f"2026-01-0{number}T00:00:00Z")

    def left(rules: str) -> list[int]:
        (release / "stream.toml").write_text(f"[retention]\n{rules}\n")
        change(rocwheel, "prune", store, "--now", "2026-02-01T00:00:00Z")
        return sorted(int(path.stem) for path in (release / "snapshots").iterdir() if path.suffix == ".json")

    assert left("snapshots = 3\nkeep-snapshots = [2]") == [2, 4, 5, 6]
    # A prune that changes the stream is a snapshot itself.
    assert left("snapshots = 2\nversions = 1") == [6, 7]
    assert left("snapshots = 2\nversions = 1") == [6, 7]
    assert left("snapshots = 0") == [7], "the stream has a snapshot"
    rocwheel.run("release", "verify", store / "nightly")


def test_a_name_stays_taken_when_all_that_is_listed_is_older(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    for version in ("2.0", "3.0"):
        write_wheel(tmp_path / version, "foo", version)
        publish(rocwheel, tmp_path / version, store)
    change(rocwheel, "rollback", store, "--to", 1)
    (stream / ".release/stream.toml").write_text("[retention]\nversions = 1\ngrace-days = 0\n")
    change(rocwheel, "prune", store)
    assert not (stream / "foo/foo-3.0-py3-none-any.whl").exists()
    write_wheel(tmp_path / "other", "foo", "3.0", "Requires-Python: >=3.9")
    publish(rocwheel, tmp_path / "other", store, expect=1).says("1 of the files of foo 3.0 has other bytes")
    # Another project, which pruning did not touch, and the old bytes are taken.
    write_wheel(tmp_path / "bar", "bar", "1.0")
    publish(rocwheel, tmp_path / "bar", store)
    publish(rocwheel, tmp_path / "3.0", store)
    rocwheel.run("release", "verify", stream)


def test_pruning_drops_sets_that_are_not_whole(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    for month, version in enumerate(("1.0", "2.0", "3.0"), start=1):
        write_wheel(tmp_path / version, "app", version)
        # The same bytes every time: it came with the first set.
        write_wheel(tmp_path / version, "common", "1.0")
        words = ("--set", f"app-{version}", "--now", f"2026-0{month}-01T00:00:00Z")
        publish(rocwheel, tmp_path / version, store, *words)
    (stream / ".release/stream.toml").write_text("[retention]\nversions = 1\ngrace-days = 1\n")
    for month in (4, 5):
        change(rocwheel, "prune", store, "--now", f"2026-0{month}-01T00:00:00Z")
    assert sorted(path.name for path in (stream / ".release/sets").iterdir()) == ["app-1.0.json", "app-3.0.json"]
    rocwheel.run("release", "verify", stream)


def test_an_old_damaged_snapshot_stops_no_publication(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    for name in ("alpha", "beta"):
        write_wheel(tmp_path / name, name, "1.0")
        publish(rocwheel, tmp_path / name, store)
    write_wheel(tmp_path / "gamma", "gamma", "1.0")
    (stream / ".release/snapshots/1.json").write_text("{}")
    publish(rocwheel, tmp_path / "gamma", store)
    said = rocwheel.run("release", "verify", stream, expect=1)
    assert "1.json" in said.stdout + said.stderr


def test_pruning_follows_pins(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    days = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z")
    for version, day in zip(("7.0.0", "7.1.0", "7.2.0"), days, strict=True):
        publish(rocwheel, rocm(tmp_path / version, version), store, "--now", day)
    # A young package pins the oldest ROCm, and no other one the second.
    publish(rocwheel, torch(tmp_path / "torch", "2.12.0", "7.0.0"), store, "--now", days[2])
    (stream / ".release/stream.toml").write_text("[retention]\ndays = 20\ngrace-days = 10\n")
    before = snapshot(store)
    dry = change(rocwheel, "prune", store, "--now", "2026-03-05T00:00:00Z", "--dry-run").stdout.split()
    assert differences(before, snapshot(store)) == []
    assert dry[::2] == ["unlisted"] * 4 and all("7.1.0" in name for name in dry[1::2])
    change(rocwheel, "prune", store, "--now", "2026-03-05T00:00:00Z")
    assert (stream / "rocm/rocm-7.1.0-py3-none-any.whl").exists(), "lock files name it"
    assert "7.1.0" not in (stream / "rocm/index.html").read_text()
    assert installed(f"{stream.as_uri()}/", "torch", tmp_path)["rocm"] == "7.0.0"
    change(rocwheel, "prune", store, "--now", "2026-03-14T00:00:00Z")
    assert (stream / "rocm/rocm-7.1.0-py3-none-any.whl").exists()
    (stream / "rocm/rocm-6.0.0-py3-none-any.whl").write_bytes(b"left by a killed run")
    said = change(rocwheel, "prune", store, "--now", "2026-03-16T00:00:00Z")
    assert said.stdout.count("deleted ") == 4 and "1 file belongs to no publication" in said.stderr
    assert not list(stream.glob("*/*-7.1.0-*"))
    change(rocwheel, "rollback", store, "--to", 2, expect=1).says("snapshot 2 cannot be restored")
    change(rocwheel, "prune", store, "--orphans", "--now", "2026-03-16T00:00:00Z")
    assert not (stream / "rocm/rocm-6.0.0-py3-none-any.whl").exists()
    assert_installable(stream, tmp_path)
    rocwheel.run("release", "verify", stream)


def test_streams_in_the_folder_of_a_stream_are_left_alone(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """As `whl` and `whl/nightly` of download.pytorch.org."""
    store = tmp_path / "store"
    places = {"alpha": (store, "whl"), "beta": (store, "whl/next"), "gamma": (store / "whl", "nightly")}
    for project, (place, stream) in places.items():
        write_wheel(tmp_path / project, project, "1.0")
        rocwheel.run("release", "publish", tmp_path / project, "--to", place, "--stream", stream)
    whl, orphan = ("--store", store, "--stream", "whl"), "alpha/alpha-0.9-py3-none-any.whl"
    left, deeper = store / "whl" / orphan, store / "whl/mine/alpha" / Path(orphan).name
    left.write_bytes(b"left by a killed run")
    rocwheel.run("release", "verify", store / "whl")
    before = snapshot(store)
    dry = rocwheel.run("release", "prune", "--orphans", *whl, "--dry-run")
    assert dry.stdout == f"deleted {orphan}\n" and "1 file (20 B)" in dry.stderr and "nothing was changed" in dry.stderr
    assert differences(before, snapshot(store)) == []
    assert rocwheel.run("release", "prune", *whl).stdout == f"orphan {orphan}\n" and left.exists()
    # Neither is a file that another program put deeper.
    put(deeper, b"of another program")
    plan = rocwheel.json("release", "prune", "--orphans", *whl)
    assert plan["deleted"] == plan["orphans"] == [orphan] and plan["bytes"] == 20
    assert not left.exists() and deeper.exists()
    assert "0 files (0 B)" in rocwheel.run("release", "prune", "--orphans", *whl).stderr
    deeper.unlink()
    for stream in ("whl", "whl/next", "whl/nightly"):
        rocwheel.run("release", "verify", store, "--stream", stream)
    # A project of the outer stream cannot have the folder of an inner one.
    write_wheel(tmp_path / "next", "next", "1.0")
    said = rocwheel.run("release", "publish", tmp_path / "next", "--to", store, "--stream", "whl", expect=1)
    assert "whl/next` is a stream, and would be the folder of a project" in said.stderr
    rocwheel.run("release", "verify", store, "--stream", "whl/next")
