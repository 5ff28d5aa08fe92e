"""`rocwheel release publish`: what pip and uv see of a stream, and that no killed or beaten
publisher leaves it broken."""

import fcntl
import json
import re
import time
import zipfile
from pathlib import Path

import pytest
from envelopes import payload
from serving import served
from test_chooser import write_wheel as tagged_wheel
from test_index import assert_every_link_is_true, pip, uv

from command import Result, Rocwheel, run, with_uv
from small_index import write_wheel
from trees import differences, put, snapshot

NOW = "2026-11-20T01:02:03Z"

TARGETS = ("gfx942", "gfx1100")


def requires(*texts: str) -> list[str]:
    return [f"Requires-Dist: {text}" for text in texts]


def rocm(folder: Path, version: str, targets: tuple[str, ...] = TARGETS) -> Path:
    """ROCm in small: an entry point with an extra for each GPU, which pins its parts."""
    write_wheel(folder, "rocm_sdk_core", version, "Requires-Python: >=3.8")
    lines = requires(f"rocm-sdk-core=={version}")
    for target in targets:
        write_wheel(folder, f"rocm_sdk_device_{target}", version, *requires(f"rocm-sdk-core=={version}"))
        pinned = f"rocm-sdk-device-{target}=={version}; extra == 'device-{target}'"
        lines += [f"Provides-Extra: device-{target}", *requires(pinned)]
    write_wheel(folder, "rocm", version, *lines)
    return folder


def torch(folder: Path, version: str, rocm_version: str) -> Path:
    write_wheel(folder, "triton_rocm", version)
    write_wheel(folder, "torch", version, *requires(f"rocm=={rocm_version}", f"triton-rocm=={version}"))
    return folder


def publish(rocwheel: Rocwheel, dist: Path, store: Path, *words: object, **options) -> Result:
    return rocwheel.run("release", "publish", dist, "--to", store, "--stream", "nightly", *words, **options)


def change(rocwheel: Rocwheel, verb: str, store: Path, *words: object, **options) -> Result:
    return rocwheel.run("release", verb, *words, "--store", store, "--stream", "nightly", **options)


def installed(index: str, name: str, scratch: Path) -> dict[str, str]:
    """The versions that uv would install."""
    wanted = scratch / "wanted.in"
    wanted.write_text(f"{name}\n")
    out = scratch / "lock.txt"
    out.unlink(missing_ok=True)
    uv("pip", "compile", "--quiet", "--generate-hashes", "--index-url", index, "--output-file", out, wanted)
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[[^]]*\])?==(\S+)", out.read_text(), re.MULTILINE))


def assert_installable(stream: Path, scratch: Path, extras: bool = True) -> None:
    """Every link is true, and the newest version of every entry point can be installed."""
    assert_every_link_is_true(stream)
    for entry in ("rocm", "torch"):
        if (stream / entry / "index.html").exists():
            suffix = f"[{','.join(f'device-{target}' for target in TARGETS)}]" if extras and entry == "rocm" else ""
            assert entry in installed(f"{stream.as_uri()}/", entry + suffix, scratch)


def test_a_set_is_published_and_another_joins_it(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    dist = rocm(tmp_path / "rocm", "7.2.0a20261120")
    plan = publish(rocwheel, dist, store, "--now", NOW, "--dry-run")
    assert "`rocm-7.2.0a20261120` would be published as number 1: 4 files" in plan.stderr
    assert not store.exists(), "a dry run writes nothing"
    publish(rocwheel, dist, store, "--now", NOW).says("published as number 1: 4 files", "not signed")
    assert assert_every_link_is_true(stream) == 4
    document = json.loads((stream / ".release/sets/rocm-7.2.0a20261120.json").read_text())
    assert document["entry-points"] == ["rocm"] and document["targets-promised"] == ["gfx1100", "gfx942"]
    page = json.loads((stream / "rocm/index.v1_json").read_text())
    assert page["meta"] == {"api-version": "1.4", "_generation": 1}
    assert page["files"][0]["upload-time"] == NOW
    before = snapshot(store)
    again = publish(rocwheel, dist, store)
    assert "is published already" in again.stderr and differences(before, snapshot(store)) == []

    publish(rocwheel, torch(tmp_path / "torch", "2.13.0", "7.2.0a20261120"), store, "--join", "rocm-7.2.0a20261120")
    found = installed(f"{stream.as_uri()}/", "torch", tmp_path)
    assert found == {
        "torch": "2.13.0",
        "triton-rocm": "2.13.0",
        "rocm": "7.2.0a20261120",
        "rocm-sdk-core": "7.2.0a20261120",
    }
    document = json.loads((stream / ".release/sets/rocm-7.2.0a20261120.json").read_text())
    assert sorted(document["versions"]) == sorted([*found, *(f"rocm-sdk-device-{target}" for target in TARGETS)])
    # pip believes each hash and METADATA, from a plain server.
    with served(stream) as address:
        target = tmp_path / "target"
        pip("install", "--quiet", "--index-url", address, "--target", target, "torch")
        assert (target / "rocm_sdk_core.py").exists()
        words = ("--join", "rocm-7.2.0a20261120", "--verify-url", address)
        verified = publish(rocwheel, tmp_path / "torch", store, *words, environment=with_uv())
        assert "uv finds the set" in verified.stderr or "pip finds the set" in verified.stderr


def spoil(wheel: Path) -> None:
    """Changes bytes of a member that is not compressed."""
    wheel.write_bytes(wheel.read_bytes().replace(b'version = "', b'Version = "', 1))


def lie(wheel: Path) -> None:
    """Gives a member other bytes, which the archive knows of and RECORD does not."""
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, b"import evil\n" if name.endswith(".py") else content)


def test_what_is_not_whole_is_refused(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = tmp_path / "store"

    def refused(dist: Path, *texts: str, words: tuple[str, ...] = ()) -> None:
        before = snapshot(store) if store.exists() else {}
        said = publish(rocwheel, dist, store, *words, expect=1)
        for text in texts:
            assert text in said.stderr, said.stderr
        assert differences(before, snapshot(store) if store.exists() else {}) == []

    lacking = rocm(tmp_path / "lacking", "7.1.0")
    (lacking / "rocm_sdk_device_gfx942-7.1.0-py3-none-any.whl").unlink()
    refused(lacking, "rocm[device-gfx942] cannot be installed", "requires `rocm-sdk-device-gfx942==7.1.0", "--outside")
    refused(torch(tmp_path / "early", "2.13.0", "7.1.0"), "torch cannot be installed", "neither the set nor the stream")
    publish(rocwheel, rocm(tmp_path / "good", "7.1.0"), store, "--now", NOW)
    refused(torch(tmp_path / "wrong", "2.13.0", "7.0.0"), "requires `rocm==7.0.0`: there is only 7.1.0")

    fewer = rocm(tmp_path / "fewer", "7.2.0", ("gfx942",))
    refused(fewer, "rocm 7.1.0 has the extras device-gfx1100, and 7.2.0 has not", "--allow fewer")
    refused(rocm(tmp_path / "older", "7.0.0"), "rocm 7.0.0 is older than 7.1.0", "--allow older")
    refused(
        rocm(tmp_path / "mixed", "7.3.0rc1"), "is of kind rc, and the stream has 7.1.0 of kind final", "--allow mixed"
    )
    other = rocm(tmp_path / "other", "7.1.0")
    write_wheel(other, "rocm_sdk_core", "7.1.0", "Requires-Python: >=3.9")
    refused(other, "1 of the files of rocm-sdk-core 7.1.0 has other bytes", "7.1.0.post1 is not taken")
    two = rocm(tmp_path / "two", "7.2.0")
    write_wheel(two, "rocm_sdk_core", "7.2.1")
    refused(two, "rocm-sdk-core has 2 versions")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/x-1-py3-none-any.whl").write_bytes(b"no wheel")
    refused(tmp_path / "broken", "`x-1-py3-none-any.whl`: ")
    unread = tmp_path / "unread"
    write_wheel(unread, "rocm_sdk_core", "7.2.0", 'Requires-Python: >=3.8" onload="')
    refused(unread, "it has a Requires-Python that cannot be read")
    named = tmp_path / "named"
    wheel = write_wheel(named, "rocm_sdk_core", "7.2.0")
    wheel.rename(named / "rocm_sdk_core-7.2.0-1%2f#x-py3-none-any.whl")
    refused(named, "its build tag `1%2f#x` should be letters, digits")
    for change in (spoil, lie):
        changed = rocm(tmp_path / change.__name__, "7.2.0")
        change(changed / "rocm_sdk_core-7.2.0-py3-none-any.whl")
        refused(changed, "nothing was published: the audit finds 1 error", "RW016")
    publish(rocwheel, fewer, store, "--allow", "fewer", "--now", NOW)
    assert_installable(store / "nightly", tmp_path, extras=False)
    # ROCm 10 sorts before ROCm 7 in a local version, so nobody would get it.
    plain = tmp_path / "plain"
    write_wheel(tmp_path / "first", "vision", "1.0+rocm7.2.0")
    publish(rocwheel, tmp_path / "first", plain)
    write_wheel(tmp_path / "second", "vision", "1.0+rocm10.1.0")
    publish(rocwheel, tmp_path / "second", plain, expect=1).says("sorts before 1.0+rocm7.2.0", "--allow misordered")


def test_pages_of_others_are_not_replaced(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = tmp_path / "store"
    page = store / "nightly/rocm/index.html"
    put(page, '<a href="rocm-6.0.tar.gz">rocm-6.0.tar.gz</a>\n')
    dist = rocm(tmp_path / "rocm", "7.2.0")
    before = snapshot(store)
    for words in ((), ("--dry-run",)):
        said = publish(rocwheel, dist, store, *words, expect=1)
        assert f"`{page}` was not written by `rocwheel release publish`" in said.stderr
        assert "hint: publish to a new folder" in said.stderr
        assert differences(before, snapshot(store)) == []
    page.unlink()
    publish(rocwheel, dist, store)
    # A project that comes later is another page; those of the stream are its own.
    foreign = store / "nightly/torch/index.html"
    put(foreign, "torch\n")
    before = snapshot(store)
    later = torch(tmp_path / "torch", "2.13.0", "7.2.0")
    assert f"`{foreign}` was not written" in publish(rocwheel, later, store, expect=1).stderr
    assert differences(before, snapshot(store)) == []


def test_incomplete_targets_can_be_dropped(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Extras, requirements, pages and the description of the set shrink together."""
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    publish(rocwheel, rocm(tmp_path / "before", "7.1.0"), store)
    dist = rocm(tmp_path / "dist", "7.2.0")
    (dist / "rocm_sdk_device_gfx942-7.2.0-py3-none-any.whl").unlink()
    write_wheel(dist, "helper", "1.5")
    publish(rocwheel, dist, store, expect=1)
    words = ("--drop-incomplete", "--set", "rocm-7.2.0")
    before = snapshot(store)
    dry = publish(rocwheel, dist, store, *words, "--dry-run", expect=3)
    assert "something is missing for them: gfx942" in dry.stderr and differences(before, snapshot(store)) == []
    publish(rocwheel, dist, store, *words, expect=3)
    document = json.loads((stream / ".release/sets/rocm-7.2.0.json").read_text())
    assert document["targets-promised"] == ["gfx1100"] and document["targets-dropped"] == ["gfx942"]
    assert document["extras"] == {"rocm": ["device-gfx1100"]}
    metadata = (stream / "rocm/rocm-7.2.0-py3-none-any.whl.metadata").read_text()
    assert "gfx942" not in metadata and "device-gfx1100" in metadata
    assert "helper" in document["versions"], "packages of others stay as they are"
    found = installed(f"{stream.as_uri()}/", "rocm[device-gfx1100]", tmp_path)
    assert found["rocm"] == found["rocm-sdk-device-gfx1100"] == "7.2.0"
    assert installed(f"{stream.as_uri()}/", "rocm[device-gfx942]==7.1.0", tmp_path)["rocm"] == "7.1.0"
    assert_every_link_is_true(stream)
    rocwheel.run("release", "verify", stream)
    for path in dist.glob("rocm_sdk_device_*"):
        path.unlink()
    publish(rocwheel, dist, tmp_path / "other", *words, expect=1).says("no GPU target of the set is complete")


def test_incomplete_pythons_can_be_dropped(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """What has no wheel for a Python takes that Python from the set; targets are looked at then."""
    store, stream, dist = tmp_path / "store", tmp_path / "store/nightly", tmp_path / "dist"

    def compiled(name: str, version: str, python: str, *metadata: str, folder: Path = dist) -> Path:
        tag = f"{python}-{python}-manylinux_2_28_x86_64"
        return tagged_wheel(folder, name, version, tag, *metadata)

    for python in ("cp312", "cp313"):
        for name in ("torch", "torchvision"):
            compiled(name, "1.0", python, folder=tmp_path / "before")
    publish(rocwheel, tmp_path / "before", store, "--set", "torch-1.0")
    for python in ("cp312", "cp313"):
        compiled("torch", "2.0", python)
        compiled("amd-torch-device-gfx942", "2.0", python, "Requires-Dist: torch==2.0")
    compiled("torchvision", "2.0", "cp312", "Requires-Dist: torch==2.0")
    words = ("--set", "torch-2.0")
    publish(rocwheel, dist, store, *words, expect=1).says("torchvision` has no wheel for Python 3.13")
    said = publish(rocwheel, dist, store, *words, "--drop-incomplete", expect=3)
    assert "something is missing for them: cp313-cp313 on Linux" in said.stderr
    document = json.loads((stream / ".release/sets/torch-2.0.json").read_text())
    assert document["pythons-dropped"] == ["cp313-cp313 on Linux"] and document["targets-dropped"] == []
    assert len(document["files"]) == 3 and not any("cp313" in key for key in document["files"])
    assert not (stream / "torch/torch-2.0-cp313-cp313-manylinux_2_28_x86_64.whl").exists()
    wanted = tmp_path / "requirements.in"
    wanted.write_text("torch\ntorchvision\n")
    for python, version in (("3.12", "2.0"), ("3.13", "1.0")):
        command = ["uv", "pip", "compile", wanted, "--no-config", "--no-cache", "--default-index", stream.as_uri()]
        command += ["--python-version", python, "--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:"]
        run(*command, environment=with_uv()).prints(f"torch=={version}", f"torchvision=={version}")
    rocwheel.run("release", "verify", stream)
    # No Python is complete.
    for path in dist.glob("torch-*cp312*"):
        path.unlink()
    nothing = publish(rocwheel, dist, tmp_path / "other", *words, "--drop-incomplete", expect=1)
    assert "something is missing for gfx942" in nothing.stderr and not (tmp_path / "other").exists()


def test_the_owner_of_a_stream_sets_its_rules(rocwheel: Rocwheel, tmp_path: Path) -> None:
    stream = tmp_path / "nightly"
    (stream / ".release").mkdir(parents=True)
    rules = stream / ".release/stream.toml"
    rules.write_text('kinds = "rc"\n')
    dist = rocm(tmp_path / "dist", "7.2.0")
    assert "unknown field `kinds`" in publish(rocwheel, dist, tmp_path, expect=1).stderr
    rules.write_text('kind = "rc"\noutside = ["nump*"]\n')
    assert "the stream takes kind rc" in publish(rocwheel, dist, tmp_path, expect=1).stderr
    dist = rocm(tmp_path / "rc", "7.2.0rc1")
    write_wheel(dist, "tool", "7.2.0rc1", *requires("numpy>=1", "rocm==7.2.0rc1"))
    publish(rocwheel, dist, tmp_path, "--now", NOW, "--set", "first")
    assert "pypi:project-status" not in (stream / "rocm/index.html").read_text()
    rules.write_text('kind = "rc"\noutside = ["nump*"]\n[deprecated]\nsuccessor = "https://example.invalid/new/"\n')
    publish(rocwheel, rocm(tmp_path / "next", "7.2.0rc2"), tmp_path)
    for project in ("rocm", "tool"):
        assert "use https://example.invalid/new/" in (stream / project / "index.html").read_text()
    # An index that somebody made of the folder is not taken over, and a stream's is not rewritten.
    assert "is a stream" in rocwheel.run("index", "build", stream, expect=1).stderr
    other = tmp_path / "other"
    rocm(other / "nightly", "7.2.0")
    rocwheel.run("index", "build", other / "nightly", "--layout", "flat")
    said = publish(rocwheel, dist, other, expect=1, environment={})
    assert "has no stream" not in said.stderr and "index already" in said.stderr


def test_history_goes_back_and_versions_are_withdrawn(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    address = f"{stream.as_uri()}/"
    for version in ("7.1.0", "7.2.0"):
        publish(rocwheel, rocm(tmp_path / version, version), store, "--now", NOW)
    publish(rocwheel, torch(tmp_path / "torch", "2.13.0", "7.2.0"), store, "--now", NOW)
    listed = change(rocwheel, "list", store).stdout
    assert [line.split()[0] for line in listed.splitlines()[-3:]] == ["1", "2", "3"], listed
    shown = json.loads(change(rocwheel, "list", store, "--snapshot", 2, "--json").stdout)
    sealed = json.loads((stream / ".release/snapshots/2.json").read_text())
    assert shown["files"] == payload(sealed)["files"]
    assert "rocm-7.1.0-py3-none-any.whl" in change(rocwheel, "list", store, "--snapshot", 2).stdout
    assert "added torch/torch-2.13.0-py3-none-any.whl" in change(rocwheel, "diff", store, 2, 3).stdout
    said = change(rocwheel, "diff", store, 1, 2, "--contents", "--fail-on", "any-but-version").stdout
    assert "\nnothing changed but the version 7.1.0 → 7.2.0\n" in said, said
    assert change(rocwheel, "diff", store, 1, 2, "--contents", "--fail-on", "any", expect=1).stdout == said
    document = json.loads(change(rocwheel, "diff", store, 2, 3, "--contents", "--json").stdout)
    new = {package["name"]: package["changes"][0]["kind"] for package in document["contents"]["packages"]}
    assert new == {"torch": "new-package", "triton-rocm": "new-package"}
    assert not document["differs_only_in_version"]

    words = ("rocm-sdk-core==7.2.0", "--reason", "<b>loses data</b>")
    dry = change(rocwheel, "yank", store, *words, "--dry-run").stdout.splitlines()
    assert {line.split("/")[0] for line in dry} == {
        "rocm",
        "rocm-sdk-core",
        "torch",
        *(f"rocm-sdk-device-{target}" for target in TARGETS),
    }
    change(rocwheel, "yank", store, *words)
    assert installed(address, "rocm", tmp_path)["rocm"] == "7.1.0"
    assert "&lt;b&gt;loses data" in (stream / "rocm-sdk-core/index.html").read_text()
    assert "requires rocm-sdk-core==7.2.0" in (stream / "torch/index.html").read_text()
    # What is pinned can still be installed, with a warning.
    said = pip("install", "--dry-run", "--target", tmp_path / "none", "--index-url", address, "rocm==7.2.0")
    assert "Would install rocm-7.2.0 rocm-sdk-core-7.2.0" in said.stdout and "loses data" in said.stderr
    change(rocwheel, "yank", store, "rocm-sdk-core==7.2.0", "--undo")
    assert installed(address, "torch", tmp_path)["rocm"] == "7.2.0"
    assert "the stream has no rocm 9" in change(rocwheel, "yank", store, "rocm==9", "--reason", "x", expect=1).stderr

    change(rocwheel, "rollback", store, "--to", 1)
    assert installed(address, "rocm", tmp_path)["rocm"] == "7.1.0" and not (stream / "torch/index.html").exists()
    assert sorted(path.name for path in (stream / ".release/sets").iterdir()) == ["rocm-7.1.0.json"]
    assert_installable(stream, tmp_path)
    rocwheel.run("release", "verify", stream)
    change(rocwheel, "rollback", store, "--to", 3)
    assert installed(address, "torch", tmp_path)["rocm"] == "7.2.0"
    rocwheel.run("release", "verify", stream)
    assert "no snapshot 99" in change(rocwheel, "rollback", store, "--to", 99, expect=1).stderr

    script = 'test "$(uv pip compile --no-config --no-cache -q - <<<rocm | grep -c rocm==7.2.0)" = 0'
    bisect = ("release", "bisect", 1, 3, "--store", store, "--stream", "nightly", "--", "bash", "-c", script)
    rocwheel.run(*bisect, environment=with_uv()).says("1 is good, 2 is bad: publish rocm-7.2.0")


def test_a_night_that_lost_a_package_is_not_only_another_version(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = tmp_path / "store"
    for version, targets in (("7.1.0", TARGETS), ("7.2.0", TARGETS), ("7.3.0", TARGETS[:1])):
        publish(rocwheel, rocm(tmp_path / version, version, targets), store, "--now", NOW, "--allow", "fewer")
    only = ("--contents", "--fail-on", "any-but-version")
    assert "nothing changed but the version" in change(rocwheel, "diff", store, 1, 2, *only).stdout
    said = change(rocwheel, "diff", store, 2, 3, *only, expect=1).stdout
    assert "lost-package" in said and "nothing changed" not in said, said
    # The last night counts, and each package once.
    assert said.count("lost-package") == len(TARGETS) - 1
    assert change(rocwheel, "diff", store, 1, 3, *only, expect=1).stdout.count("lost-package") == len(TARGETS) - 1


def test_bisect_says_what_could_not_be_tested(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = tmp_path / "store"
    for number in range(1, 5):
        dist = tmp_path / str(number)
        write_wheel(dist, "bx", f"{number}.0")
        publish(rocwheel, dist, store, "--now", NOW)

    def bisect(script: str, *words: object, expect: int) -> Result:
        place = ("--store", store, "--stream", "nightly", *words, "--", "bash", "-c", script)
        return rocwheel.run("release", "bisect", 1, 4, *place, expect=expect)

    said = bisect("exit 125", expect=3).says("1 is good, 4 is bad, and nothing between them could be tested")
    rows = said.stdout.partition("the first bad publication is one of these:\n")[2].splitlines()
    assert sorted(row.split()[0] for row in rows) == ["2", "3", "4"]
    document = json.loads(bisect("exit 125", "--json", expect=3).stdout)
    assert (document["good"], document["bad"], document["untested"]) == (1, 4, [2, 3])
    document = json.loads(bisect("test $ROCWHEEL_SNAPSHOT = 2", "--json", expect=0).stdout)
    assert (document["good"], document["bad"], document["untested"]) == (2, 3, [])


def withdrawn(stream: Path) -> dict[str, str]:
    """The reasons of withdrawn files, by name."""
    pages = [json.loads(page.read_text()) for page in stream.glob("*/index.v1_json")]
    return {file["filename"]: file["yanked"] for page in pages for file in page["files"] if file.get("yanked")}


def test_taking_a_withdrawal_back_leaves_others(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, stream, dist = tmp_path / "store", tmp_path / "store/nightly", tmp_path / "dist"
    write_wheel(dist, "beta", "2.0")
    gamma = write_wheel(dist, "gamma", "2.0").name
    alpha = write_wheel(dist, "alpha", "2.0", *requires("beta==2.0", "gamma==2.0")).name
    publish(rocwheel, dist, store, "--now", NOW)
    change(rocwheel, "yank", store, "beta==2.0", "--reason", "slow")
    change(rocwheel, "yank", store, "gamma==2.0", "--reason", "loses data")
    said = change(rocwheel, "yank", store, "beta==2", "--undo").stderr
    reason = "it requires gamma==2.0, which was withdrawn: loses data"
    assert f"alpha==2.0 stays withdrawn: {reason}" in said and "1 file restored, and 0 because of that" in said
    assert withdrawn(stream) == {alpha: reason, gamma: "loses data"}
    said = change(rocwheel, "yank", store, "alpha==2.0", "--undo").stderr
    assert "alpha==2.0 stays withdrawn" in said and "0 files restored" in said and alpha in withdrawn(stream)
    change(rocwheel, "yank", store, "gamma==2.0", "--undo")
    assert withdrawn(stream) == {}
    # Another reason for the same withdrawal.
    for reason in ("one", "two"):
        change(rocwheel, "yank", store, "beta==2.0", "--reason", reason)
        assert withdrawn(stream)[alpha] == f"it requires beta==2.0, which was withdrawn: {reason}"
    said = change(rocwheel, "yank", store, "beta==2.0", "--undo").stderr
    assert "1 file restored, and 1 because of that" in said and withdrawn(stream) == {}


def test_pins_for_some_pythons_are_withdrawn_too(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, dist = tmp_path / "store", tmp_path / "dist"
    core = write_wheel(dist, "core", "1.0").name
    user = write_wheel(dist, "user", "1.0", *requires("core==1.0; python_version < '3.12'")).name
    pinned = requires("core==1.0; python_version < '3.10'")
    old = tagged_wheel(dist, "old", "1.0", "cp39-cp39-manylinux_2_28_x86_64", *pinned)
    write_wheel(dist, "mac", "1.0", *requires("core==1.0; sys_platform == 'darwin'"))
    write_wheel(dist, "option", "1.0", "Provides-Extra: core", *requires("core==1.0; extra == 'core'"))
    publish(rocwheel, dist, store, "--set", "all", "--now", NOW)
    change(rocwheel, "yank", store, "core==1.0", "--reason", "loses data")
    assert set(withdrawn(store / "nightly")) == {core, user, old.name}


def test_packages_for_other_pythons_are_checked_too(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """A set without compiled packages is installed in thought on today's Pythons only."""
    store, lacking = tmp_path / "store", requires("missing==1.0")
    write_wheel(tmp_path / "old", "old", "1.0", "Requires-Python: <3.10", *lacking)
    write_wheel(tmp_path / "old", "new", "1.0", "Requires-Python: >=3.12")
    said = publish(rocwheel, tmp_path / "old", store, "--set", "old", expect=1).stderr
    assert "old cannot be installed: old 1.0 requires `missing==1.0`" in said and "(Python 3.9 on Linux)" in said
    tagged_wheel(tmp_path / "arm", "arm", "1.0", "cp312-cp312-manylinux_2_28_aarch64", *lacking)
    said = publish(rocwheel, tmp_path / "arm", store, "--set", "arm").stderr
    assert "`arm` is for no Python 3 on 64-bit x86: whether it can be installed was not checked" in said


def test_what_is_withdrawn_stays_so(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """New files of a withdrawn version are withdrawn, and nothing new may need it."""
    store, stream, dist = tmp_path / "store", tmp_path / "store/nightly", tmp_path / "dist"
    write_wheel(dist, "beta", "2.0")
    write_wheel(dist, "alpha", "2.0", *requires("beta==2.0"))
    publish(rocwheel, dist, store, "--now", NOW)
    change(rocwheel, "yank", store, "beta==2.0", "--reason", "loses data")
    assert "is published already" in publish(rocwheel, dist, store, "--now", NOW).stderr
    joined = tagged_wheel(tmp_path / "more", "beta", "2.0", "cp311-cp311-manylinux_2_28_x86_64").name
    words = (tmp_path / "more", store, "--join", "alpha-2.0", "--now", NOW)
    for dry in (("--dry-run",), ()):
        publish(rocwheel, *words, *dry).says(f"`{joined}` is withdrawn, as its version is: loses data")
    assert withdrawn(stream)[joined] == "loses data"
    rocwheel.run("release", "verify", stream)
    write_wheel(tmp_path / "top", "top", "1.0", *requires("beta==2.0"))
    before = snapshot(store)
    said = publish(rocwheel, tmp_path / "top", store, expect=1).stderr
    assert "top cannot be installed: top 1.0 requires `beta==2.0`: 2.0 is withdrawn: loses data" in said
    assert "rocwheel release yank --undo" in said and differences(before, snapshot(store)) == []
    change(rocwheel, "yank", store, "beta==2.0", "--undo")
    assert withdrawn(stream) == {}
    publish(rocwheel, tmp_path / "top", store)


def test_the_first_publication_says_what_a_stream_is_for(rocwheel: Rocwheel, tmp_path: Path) -> None:
    for version in ("1.0", "2.0a20261120"):
        write_wheel(tmp_path / version, "demo", version)
    said = rocwheel.run("release", "publish", tmp_path / "1.0", "--to", tmp_path / "store", "--stream", "stable").stderr
    assert 'first publication of `stable`, of kind final; `kind = "final"` in `stable/.release/stream.toml`' in said
    said = publish(rocwheel, tmp_path / "1.0", tmp_path / "store").stderr
    assert "warning: the first versions of `nightly` are of kind final: those of kind nightly will be refused" in said
    said = publish(rocwheel, tmp_path / "2.0a20261120", tmp_path / "store", expect=1).stderr
    assert "publish it to another stream, such as `--stream nightly-only`" in said and "`--allow mixed`" in said
    words = ("--to", tmp_path / "store", "--stream", "nightly-only")
    said = rocwheel.run("release", "publish", tmp_path / "2.0a20261120", *words).stderr
    assert "warning: the first versions" not in said


def test_a_publisher_that_waits_says_for_whom(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Also under `-q`: a job that stands still for ten minutes is looked at."""
    store = tmp_path / "store"
    for version in ("1.0", "2.0"):
        write_wheel(tmp_path / version, "demo", version)
    publish(rocwheel, tmp_path / "1.0", store)
    lock = store / "nightly/.rocwheel/index.lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        said = publish(rocwheel, tmp_path / "2.0", store, "--wait", 1, "--quiet", expect=4).stderr
    waits = f"warning: another run is writing the index of `{store}/nightly`; waiting for it up to 1 s"
    assert said.count(waits) == 1, said


@pytest.mark.parametrize("point", range(3))
def test_two_publishers_lose_nothing(rocwheel: Rocwheel, tmp_path: Path, point: int) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    publish(rocwheel, rocm(tmp_path / "rocm", "7.2.0"), store)
    sets = [torch(tmp_path / "torch", "2.13.0", "7.2.0"), tmp_path / "tools"]
    for name in ("one", "two"):
        write_wheel(sets[1], f"tool_{name}", "1.0", *requires("rocm==7.2.0"))
    both = []
    for dist in sets:
        words = ("--to", store, "--stream", "nightly", "--set", f"set-{dist.name}")
        both.append(rocwheel.start("release", "publish", dist, *words))
        time.sleep(0.02 * point)
    ends = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert {path.name for path in stream.iterdir()} >= {"torch", "triton-rocm", "tool-one", "tool-two", "rocm"}
    assert sorted(path.name for path in (stream / ".release/snapshots").iterdir()) == ["1.json", "2.json", "3.json"]
    rocwheel.run("release", "verify", stream)
    assert_installable(stream, tmp_path)
