"""`artifact fetch` against directories and web servers, with the network doing what it does."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from serving import Answers, served

import synthetic
from command import Rocwheel, on_a_disk, run
from trees import put, snapshot

RUN = "17123441166"
FOLDER = f"{RUN}-linux"


@dataclass
class Web:
    """A web server that counts the bytes of bodies, continues files, and fails as it is told to."""

    root: Path
    sent: dict[str, int] = field(default_factory=dict)
    # How many answers to a path fail, and how: a status, or `cut` for half a body.
    faults: dict[str, list[int | str]] = field(default_factory=dict)
    # Bytes after which a body waits until the test goes on.
    stall: tuple[str, int] | None = None
    stalled: threading.Event = field(default_factory=threading.Event)
    resume: threading.Event = field(default_factory=threading.Event)
    # Answers of GitHub's API by path, and what was asked with which token.
    answers: dict[str, object] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, list[str]], str | None]] = field(default_factory=list)
    ranges: bool = True
    address: str = ""


class Handler(Answers):
    protocol_version = "HTTP/1.1"
    web: Web

    def do_GET(self) -> None:
        web, parts, body = self.web, urlsplit(self.path), self.command == "GET"
        path = unquote(parts.path)
        if path in web.answers:
            web.asked.append((path, parse_qs(parts.query), self.headers.get("Authorization")))
            return self.reply(json.dumps(web.answers[path]).encode(), 200, "application/json")
        name = path.rsplit("/", 1)[-1]
        fault = web.faults.get(name, []).pop(0) if body and web.faults.get(name) else None
        file = web.root / path.lstrip("/")
        if isinstance(fault, int) or not file.is_file():
            return self.reply(b"", fault if isinstance(fault, int) else 404, None)
        content = file.read_bytes()
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()[:16]}"'}
        first, status = 0, 200
        asked = self.headers.get("Range")
        if web.ranges and asked and self.headers.get("If-Range") == headers["ETag"]:
            first, status = int(asked.removeprefix("bytes=").rstrip("-")), 206
            headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
        content = content[first:]
        self.send_response(status)
        for header, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(header, value)
        self.end_headers()
        if not body:
            return None
        if fault == "cut":
            content = content[: len(content) // 2]
            self.close_connection = True
        if web.stall and web.stall[0] == name and not web.stalled.is_set():
            self.send(name, content[: web.stall[1]])
            web.stalled.set()
            web.resume.wait(60)
            content = content[web.stall[1] :]
        return self.send(name, content)

    do_HEAD = do_GET

    def send(self, name: str, content: bytes) -> None:
        try:
            self.wfile.write(content)
            self.wfile.flush()
        except OSError:
            return
        self.web.sent[name] = self.web.sent.get(name, 0) + len(content)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    web = Web(tmp_path / "web")
    web.root.mkdir()
    with served(web.root, type("OwnHandler", (Handler,), {"web": web})) as web.address:
        yield web
        web.resume.set()


@pytest.fixture
def store(rocwheel: Rocwheel, artifacts: Path, web: Web) -> Path:
    """The artifacts in the folder of a run, as `artifact push` leaves them for the web server."""
    rocwheel.run("artifact", "push", artifacts, "--to", web.root, "--run-id", RUN)
    return web.root / FOLDER


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A cache of the test's own, and no credentials."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "GITHUB_TOKEN", "GH_TOKEN")
    return {"ROCWHEEL_CACHE": str(tmp_path / "cache")} | dict.fromkeys(names, "")


def fetch(rocwheel: Rocwheel, home: dict[str, str], *words: object, expect: int = 0, **more: object):
    return run(rocwheel.binary, "artifact", "fetch", *words, environment=home, expect=expect, **more)


def visible(root: Path) -> dict[str, object]:
    """A tree without modes and times of the folders above, and without our own record."""
    return {name: what for name, what in snapshot(root).items() if not str(name).startswith(".rocwheel")}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_directory_comes_back_as_it_was_and_is_packaged(
    rocwheel: Rocwheel, artifacts: Path, store: Path, home: dict[str, str], tmp_path: Path
) -> None:
    listed = names(store)
    assert "index.html" in listed and "blas_lib_gfx942.tar.zst.sha256sum" in listed
    run("sha256sum", "--check", "--quiet", *store.glob("*.sha256sum"), cwd=store)
    output = tmp_path / "out"
    fetch(rocwheel, home, "--run-id", RUN, "--from", store.parent, "--output", output)
    assert visible(output) == visible(artifacts)
    rocwheel.package(output, tmp_path / "packages")
    assert list((tmp_path / "packages/dist").glob("rocm_sdk_core-*.whl"))
    # Pushing it again changes nothing, and other bytes are refused.
    before = snapshot(store)
    again = rocwheel.json("artifact", "push", artifacts, "--to", store.parent, "--run-id", RUN)
    assert {file["state"] for file in again["artifacts"]} == {"unchanged"}
    assert {name: what for name, what in snapshot(store).items() if str(name) != "index.html"} == {
        name: what for name, what in before.items() if str(name) != "index.html"
    }
    (artifacts / "blas_lib_gfx942/math-libs/BLAS/rocBLAS/stage/new.txt").write_text("new\n")
    refused = rocwheel.run("artifact", "push", artifacts, "--to", store.parent, "--run-id", RUN, expect=1)
    assert "other contents of 1 artifact" in refused.stderr and "blas_lib_gfx942.tar.zst" in refused.stderr


def test_filters_agree_or_name_what_is_missing(
    rocwheel: Rocwheel, store: Path, home: dict[str, str], tmp_path: Path
) -> None:
    words = ["--run-id", RUN, "--from", store.parent, "--dry-run"]

    def planned(*more: object) -> list[str]:
        found = json.loads(fetch(rocwheel, home, *words, *more, "--json").stdout)
        return [artifact["artifact"] for artifact in found["artifacts"]]

    generic = ["base_lib_generic", "blas_lib_generic", "core-hip_dev_generic", "core-hip_lib_generic"]
    assert planned("--targets", "gfx94X-dcgpu") == sorted([*generic, "blas_lib_gfx942"])
    assert planned("--targets", "generic") == generic
    # It has no artifacts of its own.
    assert planned("--targets", "gpu-generic,gfx942") == sorted([*generic, "blas_lib_gfx942"])
    assert planned("--components", "dev") == ["core-hip_dev_generic"]
    assert planned("--include", "blas_*", "--exclude", "*_gfx1100") == ["blas_lib_generic", "blas_lib_gfx942"]
    topology = tmp_path / "topology.toml"
    topology.write_text(
        '[build_stages.math]\nartifact_groups = ["math"]\n[artifact_groups.base]\n'
        '[artifact_groups.math]\nartifact_group_deps = ["base"]\n[artifacts.base]\nartifact_group = "base"\n'
        '[artifacts.blas]\nartifact_group = "math"\n'
    )
    assert planned("--stage", "math", "--topology", topology) == ["base_lib_generic"]
    assert planned("--group", "math", "--topology", topology, "--targets", "gfx1100") == [
        "blas_lib_generic",
        "blas_lib_gfx1100",
    ]
    for more, code, said in (
        (["--include", "blas_*", "rnad_lib_*"], 1, "has nothing for `rnad_lib_*`"),
        (["--targets", "gfx1201"], 1, "hint: there are `generic`, `gfx1100`, `gfx942`"),
        (["--exclude", "*"], 1, "none of which is selected"),
        # What was to be left out is not fetched because its name is misspelt.
        (["--exclude", "*_gfx1100", "blass_*"], 1, "has nothing for `blass_*`"),
        (["--stage", "mth", "--topology", topology], 2, "hint: there are math"),
        (["--stage", "math", "--topology", "nowhere"], 1, "`nowhere`: there is no such file"),
        (["--include", "regex:("], 2, "is no pattern of artifact names"),
    ):
        assert said in fetch(rocwheel, home, *words, *more, expect=code).stderr
    empty = fetch(rocwheel, home, "--run-id", "1", "--from", store.parent, "--dry-run", expect=1)
    assert "1-linux` has no artifacts" in empty.stderr


def test_exclusions_of_the_script_are_names_that_exist(
    rocwheel: Rocwheel, store: Path, home: dict[str, str], tmp_path: Path
) -> None:
    """The components are six, and the topology has the artifacts. A run may lack some of them."""
    topology = tmp_path / "BUILD_TOPOLOGY.toml"
    topology.write_text('[artifacts.base]\nartifact_group = "a"\n[artifacts.blas]\nartifact_group = "a"\n'
                        '[artifacts.fusilli]\nartifact_group = "a"\n')  # fmt: skip
    words = ["compat", "artifact_manager", "fetch", "--stage", "all", "--run-id", RUN, "--local-staging-dir"]
    words += [store.parent, "--platform", "linux", "--amdgpu-targets", "gfx942", "--no-extract"]

    def fetched(name: str, *more: object, expect: int = 0) -> tuple[list[str], str]:
        output = tmp_path / name
        said = run(rocwheel.binary, *words, *more, "--output-dir", output, environment=home, expect=expect).stderr
        return sorted(path.name.split(".")[0] for path in output.rglob("*.tar.*") if "sha256" not in path.name), said

    named = ["--topology", topology]
    left, _ = fetched("one", "--exclude-components", "dev,test", "--exclude-artifacts", "blas,fusilli", *named)
    assert left == ["base_lib_generic", "core-hip_lib_generic"]
    for number, (more, reason, hint) in enumerate((
        (["--exclude-components", "dev,tests"], "there is no component `tests`", "did you mean `test`?"),
        (["--exclude-artifacts", "fusilli,blass", *named], "there is no artifact `blass`", "did you mean `blas`?"),
        (["--exclude-components", "lib,run,dev,dbg,doc,test"], "leaves no component", ""),
    )):  # fmt: skip
        left, said = fetched(f"wrong{number}", *more, expect=2)
        assert not left and reason in said and hint in said, said
    # Without the topology, the run itself says what there is.
    left, said = fetched("other", "--exclude-artifacts", "blass", expect=1)
    assert not left and "has nothing for `blass_*`" in said, said


def test_the_web_is_read_once(
    rocwheel: Rocwheel, artifacts: Path, store: Path, web: Web, home: dict[str, str], tmp_path: Path
) -> None:
    output, name = tmp_path / "out", "blas_lib_gfx942.tar.zst"
    # Out of order twice, and once only half of it comes.
    web.faults = {name: [503, "cut", 500], "index.html": [503], f"{name}.sha256sum": [502]}
    words = ["--run-id", RUN, "--from", web.address, "--output", output]
    first = json.loads(fetch(rocwheel, home, *words, "--json").stdout)
    assert {artifact["state"] for artifact in first["artifacts"]} == {"fetched"}
    assert {artifact["checksum"] for artifact in first["artifacts"]} == {"sidecar"}
    assert visible(output) == visible(artifacts)
    archives = {path.name: path.stat().st_size for path in store.glob("*.tar.zst")}
    secret = web.address.replace("http://", "http://me:hunter2@")
    loud = fetch(rocwheel, home, "-vv", "--run-id", RUN, "--from", secret, "--dry-run", "--json")
    assert "hunter2" not in loud.stdout + loud.stderr
    assert {archive: web.sent[archive] for archive in archives} == archives, "each byte of an archive came once"
    second = json.loads(fetch(rocwheel, home, *words, "--json").stdout)
    assert {artifact["state"] for artifact in second["artifacts"]} == {"unchanged"}
    elsewhere = ["--run-id", RUN, "--from", web.address, "--output", tmp_path / "packed", "--no-extract"]
    third = json.loads(fetch(rocwheel, home, *elsewhere, "--json").stdout)
    assert {artifact["state"] for artifact in third["artifacts"]} == {"cached"}
    run("sha256sum", "--check", "--quiet", *(tmp_path / "packed").glob("*.sha256sum"), cwd=tmp_path / "packed")
    assert {archive: web.sent[archive] for archive in archives} == archives


@pytest.mark.parametrize("ranges", [True, False], ids=["ranges", "no ranges"])
def test_a_killed_run_is_continued(
    rocwheel: Rocwheel, web: Web, home: dict[str, str], tmp_path: Path, ranges: bool
) -> None:
    source, name = tmp_path / "one", "blas_lib_gfx942.tar.zst"
    synthetic.write_artifact(source, "blas_lib_gfx942", "stage", {"lib/noise.bin": os.urandom(6 << 20)})
    rocwheel.run("artifact", "push", source, "--to", web.root, "--run-id", RUN)
    size = (web.root / FOLDER / name).stat().st_size
    web.ranges, web.stall = ranges, (name, 4 << 20)
    words = ["artifact", "fetch", "--run-id", RUN, "--from", web.address, "--output", tmp_path / "out"]
    process = subprocess.Popen([rocwheel.binary, *map(str, words)], env={**os.environ, **home}, stderr=subprocess.PIPE)
    assert web.stalled.wait(60)
    partial = tmp_path / "cache/artifacts/partial"
    deadline = time.monotonic() + 60
    while sum(file.stat().st_size for file in partial.iterdir()) < 4 << 20:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert names(tmp_path / "out") == []
    web.resume.set()
    web.sent.clear()
    fetch(rocwheel, home, *words[2:])
    assert web.sent[name] == (size - (4 << 20) if ranges else size)
    assert visible(tmp_path / "out") == visible(source)


@pytest.mark.parametrize("ends", ["well", "with another hash"])
def test_an_archive_is_unpacked_while_it_arrives(
    rocwheel: Rocwheel, web: Web, home: dict[str, str], tmp_path: Path, ends: str
) -> None:
    source, name = tmp_path / "one", "blas_lib_gfx942.tar.zst"
    files = {f"lib/noise-{number}.bin": os.urandom(2 << 20) for number in range(4)}
    synthetic.write_artifact(source, "blas_lib_gfx942", "stage", files)
    rocwheel.run("artifact", "push", source, "--to", web.root, "--run-id", RUN)
    if ends != "well":
        (web.root / FOLDER / f"{name}.sha256sum").write_text("0" * 64 + "\n")
    web.stall = (name, 6 << 20)
    output = tmp_path / "out"
    words = ["artifact", "fetch", "--run-id", RUN, "--from", web.address, "--output", output]
    process = subprocess.Popen([rocwheel.binary, *map(str, words)], env={**os.environ, **home}, stderr=subprocess.PIPE)
    assert web.stalled.wait(60)
    deadline = time.monotonic() + 60
    # The first files are there while the last ones are still on their way, and not in their place.
    while not list(output.glob(".rocwheel-fetch-*/*/stage/lib/noise-1.bin")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    assert names(output) == []
    web.resume.set()
    said = process.communicate()[1].decode()
    if ends == "well":
        assert process.returncode == 0, said
        assert visible(output) == visible(source)
    else:
        assert process.returncode == 1 and "its SHA-256 is" in said
        assert not output.exists()
    assert not list(output.glob(".rocwheel-fetch-*")), "what was unpacked is gone"


def test_all_failures_are_named_and_the_rest_is_there(
    rocwheel: Rocwheel, store: Path, web: Web, home: dict[str, str], tmp_path: Path
) -> None:
    (store / "blas_lib_gfx942.tar.zst.sha256sum").write_text("0" * 64 + "\n")
    (store / "core-hip_dev_generic.tar.zst.sha256sum").write_text("nonsense\n")
    damaged = store / "blas_lib_gfx1100.tar.zst"
    damaged.write_bytes(damaged.read_bytes()[:-8])
    damaged.with_name(f"{damaged.name}.sha256sum").unlink()
    web.faults = {"blas_lib_generic.tar.zst": [403] * 9}
    output = tmp_path / "out"
    words = ["--run-id", RUN, "--from", web.address, "--output", output]
    refused = fetch(rocwheel, home, *words, expect=1).stderr
    assert "4 artifacts could not be fetched" in refused
    assert "`blas_lib_gfx942.tar.zst`: its SHA-256 is" in refused and "but its sidecar says 0000" in refused
    assert "`core-hip_dev_generic.tar.zst`: its sidecar is not a SHA-256" in refused
    assert "`blas_lib_gfx1100.tar.zst`" in refused and "`blas_lib_generic.tar.zst`: the server answers 403" in refused
    assert names(output) == ["base_lib_generic", "core-hip_lib_generic"]
    # Trouble that may pass has another exit code.
    web.faults = {"blas_lib_generic.tar.zst": [503] * 99}
    busy = fetch(rocwheel, home, *words, "--include", "blas_lib_generic", expect=4).stderr
    assert "the server answers 503" in busy and "hint: run it again" in busy


def test_a_full_disk_is_named(rocwheel: Rocwheel, home: dict[str, str], tmp_path: Path) -> None:
    source, disk = tmp_path / "one", tmp_path / "disk"
    synthetic.write_artifact(source, "blas_lib_gfx942", "stage", {"lib/noise.bin": os.urandom(4 << 20)})
    rocwheel.run("artifact", "push", source, "--to", tmp_path / "store", "--run-id", RUN)
    words = ("artifact", "fetch", "--run-id", RUN, "--from", tmp_path / "store", "--output", disk / "output")
    result = on_a_disk("2m", disk, rocwheel.binary, *words, environment=home)
    assert "blas_lib_gfx942.tar.zst" in result.stderr and "hint: make room on the disk" in result.stderr
    assert result.stdout == "", f"left behind: {result.stdout}"


def test_what_others_put_into_the_output_stays(
    rocwheel: Rocwheel, store: Path, home: dict[str, str], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    mine = output / "base_lib_generic/mine.txt"
    put(mine, "mine\n")
    words = ["--run-id", RUN, "--from", store.parent, "--output", output, "--include", "base_*"]
    refused = fetch(rocwheel, home, *words, expect=1)
    assert "exists and was not fetched by rocwheel" in refused.stderr and mine.read_text() == "mine\n"
    fetch(rocwheel, home, *words, "--force")
    assert not mine.exists() and (output / "base_lib_generic/artifact_manifest.txt").is_file()


def test_what_is_gone_or_damaged_is_put_there_again(
    rocwheel: Rocwheel, artifacts: Path, store: Path, home: dict[str, str], tmp_path: Path
) -> None:
    output, packed = tmp_path / "out", tmp_path / "packed"
    words = ("--run-id", RUN, "--from", store.parent, "--json")

    def states(*more: object) -> set[str]:
        return {artifact["state"] for artifact in json.loads(fetch(rocwheel, home, *words, *more).stdout)["artifacts"]}

    states("--output", output)
    assert states("--output", output) == {"unchanged"}
    shutil.rmtree(output / "blas_lib_gfx942/math-libs")
    assert states("--output", output) != {"unchanged"}
    assert visible(output) == visible(artifacts)
    before = snapshot(store)
    keep = ("--no-extract", "--output", packed)
    states(*keep)
    assert states(*keep) == {"unchanged"}
    archive = packed / "blas_lib_gfx942.tar.zst"
    assert archive.stat().st_nlink == 1
    os.truncate(archive, 100)
    assert snapshot(store) == before, "a change of the output is none of the store"
    assert states(*keep) != {"unchanged"}
    assert archive.read_bytes() == (store / archive.name).read_bytes()
    archive.with_name(archive.name + ".sha256sum").unlink()
    assert states(*keep) != {"unchanged"}
    run("sha256sum", "--check", "--quiet", *packed.glob("*.sha256sum"), cwd=packed)


def test_files_that_did_not_change_are_not_written_again(
    rocwheel: Rocwheel, web: Web, home: dict[str, str], tmp_path: Path
) -> None:
    """The next build of an artifact, over the web and from a folder."""
    same, output = os.urandom(3 << 20), tmp_path / "out"
    for night, place in ((1, web.address), (2, web.address), (3, web.root)):
        source = tmp_path / f"night{night}"
        files = {"lib/libsame.so": same, "lib/libnew.so": os.urandom(3 << 20), "share/night": f"{night}\n"}
        synthetic.write_artifact(source, "blas_lib_gfx942", "stage", files, {"lib/link.so": "libsame.so"})
        run_id = str(int(RUN) + night)
        rocwheel.run("artifact", "push", source, "--to", web.root, "--run-id", run_id)
        old = output / "blas_lib_gfx942/stage/lib"
        before = {path.name: path.stat().st_ino for path in old.iterdir()} if night > 1 else {}
        words = ("--run-id", run_id, "--from", place, "--output", output)
        rocwheel.run("artifact", "fetch", *words, environment=home)
        assert visible(output) == visible(source)
        after = {path.name: path.stat().st_ino for path in old.iterdir()}
        kept = {name for name in before if before[name] == after[name]}
        assert kept == ({"libsame.so", "link.so"} if night > 1 else set())
        assert (old / "libsame.so").stat().st_nlink == 1


def test_waiting_ends_when_the_artifact_is_there(
    rocwheel: Rocwheel, store: Path, home: dict[str, str], tmp_path: Path
) -> None:
    archive = store / "blas_lib_gfx942.tar.zst"
    late = archive.rename(tmp_path / archive.name)
    words = ["--run-id", RUN, "--from", store.parent, "--output", tmp_path / "out", "--wait-for", "blas_lib_gfx942"]
    given_up = fetch(rocwheel, home, *words, "--timeout", "1", expect=4)
    assert "`blas_lib_gfx942` did not appear" in given_up.stderr
    process = rocwheel.start("artifact", "fetch", *words, "--timeout", "60", env={**os.environ, **home})
    late.rename(archive)
    assert process.wait(60) == 0, process.stderr.read()
    assert (tmp_path / "out/blas_lib_gfx942").is_dir()


@pytest.mark.usefixtures("store")
def test_a_tree_is_an_installed_rocm(
    rocwheel: Rocwheel, artifacts: Path, web: Web, home: dict[str, str], tmp_path: Path
) -> None:
    words = ["--run-id", RUN, "--from", web.address, "--flatten", "--no-cache", "--output", tmp_path / "rocm"]
    fetch(rocwheel, home, *words)
    rocwheel.run("artifact", "flatten", artifacts, "--output", tmp_path / "other")
    assert visible(tmp_path / "rocm") == visible(tmp_path / "other")
    assert (tmp_path / "rocm/lib/libamdhip64.so").is_symlink()
    assert not (tmp_path / "cache").exists() and not list(tmp_path.glob(".rocm*")), "no archive stays"


def test_github_is_asked_for_the_run(rocwheel: Rocwheel, store: Path, web: Web, home: dict[str, str]) -> None:
    runs = "/repos/ROCm/TheRock/actions/workflows/multi_arch_ci.yml/runs"

    def answer(*ids: int) -> dict:
        head = {"full_name": "ROCm/TheRock"}
        return {"workflow_runs": [{"id": id_, "head_sha": "abc", "head_repository": head} for id_ in ids]}

    web.answers[runs] = answer(5, int(RUN), 4)
    both = {**home, "GITHUB_API_URL": web.address, "GITHUB_TOKEN": "ghp_secret"}
    words = ["--from", store.parent, "--dry-run", "--json"]
    found = fetch(rocwheel, both, "--commit", "abc", *words)
    assert json.loads(found.stdout)["run_id"] == RUN, "run 5 has no artifacts"
    path, query, token = web.asked[-1]
    assert query["head_sha"] == ["abc"] and token == "Bearer ghp_secret"
    fetch(rocwheel, both, "--latest-good", *words)
    assert web.asked[-1][1]["status"] == ["success"] and web.asked[-1][1]["branch"] == ["main"]
    web.answers[runs] = answer()
    none = fetch(rocwheel, both, "--commit", "abd", *words, expect=1)
    assert "no run of `multi_arch_ci.yml` for commit `abd`" in none.stderr
    assert "ghp_secret" not in none.stderr + found.stderr + found.stdout


def test_a_release_becomes_artifacts(rocwheel: Rocwheel, artifacts: Path, home: dict[str, str], tmp_path: Path) -> None:
    rocwheel.run("artifact", "flatten", artifacts, "--output", tmp_path / "tree")
    store = tmp_path / "tarballs"
    store.mkdir()
    run("tar", "czf", store / "therock-dist-linux-multiarch-7.1.0.tar.gz", "-C", tmp_path / "tree", ".")
    words = ["--from", store, "--output", tmp_path / "out"]
    fetch(rocwheel, home, "--release", "7.1.0", *words)
    assert {"blas_lib_gfx942", "core-hip_lib_generic"} <= set(names(tmp_path / "out"))
    # `rc1` is not `rc10`, and neither is it the release.
    refused = fetch(rocwheel, home, "--release", "7.1.0rc1", *words, expect=1)
    assert "hint: there are `therock-dist-linux-multiarch-7.1.0.tar.gz`" in refused.stderr


@pytest.mark.usefixtures("store")
def test_two_runs_share_a_cache(
    rocwheel: Rocwheel, artifacts: Path, web: Web, home: dict[str, str], tmp_path: Path
) -> None:
    outputs = [tmp_path / "one", tmp_path / "two"]
    words = ["artifact", "fetch", "--run-id", RUN, "--from", web.address, "--output"]
    both = [rocwheel.start(*words, output, env={**os.environ, **home}) for output in outputs]
    for process, output in zip(both, outputs, strict=True):
        assert process.wait(60) == 0, process.stderr.read()
        assert visible(output) == visible(artifacts)
    assert not any((tmp_path / "cache/artifacts/partial").iterdir()), "nothing unfinished stays"
