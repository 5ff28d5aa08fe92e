"""`rocwheel index`: pip, uv and a parser of somebody else's read what it makes, and it says what is
wrong with indexes that others made."""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from serving import Answers, served
from small_wheels import write_sdist, write_wheel

from command import TOOLS, UV, Result, Rocwheel, run
from packages import PackageSet
from trees import differences, snapshot

NOW = "2026-11-20T01:02:03Z"


class Links(HTMLParser):
    """The links of a page, and the tags that it has."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[dict[str, str | None]] = []
        self.tags: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag == "a":
            self.links.append(dict(attributes))


def index(rocwheel: Rocwheel, folder: Path, *arguments: object, **options) -> dict:
    return rocwheel.json("index", "build", folder, "--now", NOW, *arguments, **options)


def pip(*arguments: object, expect: int = 0) -> Result:
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return run(TOOLS / "pip", *arguments, "--no-cache-dir", expect=expect, environment=environment)


def uv(*arguments: object, expect: int = 0) -> Result:
    return run(UV, *arguments, "--no-config", "--no-cache", expect=expect)


def assert_every_link_is_true(folder: Path) -> int:
    """Each file on each page exists and has its hash, and METADATA beside it too."""
    count = 0
    for page in folder.rglob("index.html"):
        for link in Links(page).links:
            address, _, fragment = link["href"].partition("#")
            if not fragment:
                continue
            path = page.parent / unquote(address)
            assert hashlib.sha256(path.read_bytes()).hexdigest() == fragment.removeprefix("sha256="), path
            if beside := link.get("data-core-metadata"):
                metadata = path.with_name(f"{path.name}.metadata").read_bytes()
                assert hashlib.sha256(metadata).hexdigest() == beside.removeprefix("sha256="), path
            count += 1
    return count


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """An entry point that pins its parts, in two versions."""
    folder = tmp_path / "dist"
    for version in ("7.1.0", "7.2.0"):
        write_wheel(folder, "rocm-sdk-core", version, tag="py3-none-linux_x86_64")
        write_wheel(folder, "rocm-entry", version, f"rocm-sdk-core=={version}")
    write_wheel(folder, "torch", "2.9.1+rocm7.2", "rocm-entry==7.2.0", python=">=3.9, <4")
    write_sdist(folder, "old-style", "1.0")
    return folder


def test_installers_take_real_packages_from_the_index(
    rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path
) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    for file in package_set.dist.iterdir():
        if file.suffix in (".whl", ".gz"):
            os.link(file, folder / file.name)
    built = index(rocwheel, folder)
    assert built["layout"] == "flat" and built["ignored"] == []
    assert assert_every_link_is_true(folder) == 2 * sum(
        1 for file in folder.iterdir() if file.suffix in (".whl", ".gz")
    )
    rocwheel.run("index", "check", folder, "--files").says("0 errors, 0 warnings")
    address = (folder / "simple").as_uri() + "/"
    lock = tmp_path / "lock.txt"
    (tmp_path / "wanted.in").write_text("rocm-sdk-core\n")
    uv(
        *("pip", "compile", "--quiet", "--generate-hashes", "--index-url", address, "--output-file", lock),
        tmp_path / "wanted.in",
    )
    assert "--hash=sha256:" in lock.read_text()
    target = tmp_path / "installed"
    pip("install", "--quiet", "--require-hashes", "--index-url", address, "--requirement", lock, "--target", target)
    assert (target / "_rocm_sdk_core").is_dir()


def test_pins_are_followed_and_old_versions_stay(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    index(rocwheel, dist)
    with served(dist) as address:
        wanted = [
            *("--index-url", f"{address}/simple/", "--dry-run", "--ignore-installed", "--report"),
            tmp_path / "report.json",
        ]
        pip("install", "--quiet", *wanted, "torch")
        names = {
            one["metadata"]["name"]: one["metadata"]["version"]
            for one in json.loads((tmp_path / "report.json").read_text())["install"]
        }
        assert names == {"torch": "2.9.1+rocm7.2", "rocm-entry": "7.2.0", "rocm-sdk-core": "7.2.0"}
        requirements = tmp_path / "in.txt"
        requirements.write_text("rocm-entry<7.2\n")
        uv(
            *("pip", "compile", "--quiet", "--index-url", f"{address}/simple/", "--exclude-newer"),
            *("2026-11-21", requirements),
        ).prints("rocm-sdk-core==7.1.0")
        # Everything was uploaded later than that.
        uv(
            *("pip", "compile", "--quiet", "--index-url", f"{address}/simple/", "--exclude-newer"),
            *("2026-11-19", requirements),
            expect=1,
        ).says("rocm-entry")
        links = pip("download", "--quiet", "--no-index", "--find-links", address, "--dest", tmp_path / "links", "torch")
        assert len(list((tmp_path / "links").iterdir())) == 3, links.stderr


def test_a_second_run_reads_and_writes_only_what_is_new(rocwheel: Rocwheel, dist: Path) -> None:
    for file in dist.iterdir():
        os.utime(file, (1_700_000_000, 1_700_000_000))
    first = index(rocwheel, dist)
    assert first["files_read"] == 6
    before = snapshot(dist)
    again = index(rocwheel, dist)
    assert (again["files_read"], again["pages"]) == (0, [])
    assert differences(before, snapshot(dist)) == []
    new = write_wheel(dist, "torch", "2.10.0+rocm7.2")
    os.utime(new, (1_700_000_000, 1_700_000_000))
    third = index(rocwheel, dist)
    assert third["files_read"] == 1
    changed = {page["page"] for page in third["pages"]}
    assert changed == {
        f"{new.name}.metadata",
        "chooser.html",
        "index.html",
        *(f"simple/torch/index.{end}" for end in ("html", "v1_html", "v1_json")),
    }
    # The records are only a memory: without them the pages stay what they are, times too.
    shutil.rmtree(dist / ".rocwheel")
    fourth = rocwheel.json("index", "build", dist, "--now", "2027-01-01T00:00:00Z")
    assert (fourth["files_read"], fourth["pages"]) == (7, [])
    new.unlink()
    fifth = index(rocwheel, dist)
    assert "2.10.0" not in (dist / "simple/torch/index.html").read_text() and fifth["files_read"] == 0
    for file in dist.glob("rocm_entry-*"):
        file.unlink()
    sixth = index(rocwheel, dist)
    assert {page["change"] for page in sixth["pages"]} == {"changed", "removed"}
    assert not (dist / "simple/rocm-entry").exists()


def test_the_same_files_give_the_same_bytes(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    shutil.copytree(dist, other)
    for folder in (dist, other):
        index(rocwheel, folder, "--view", "python", "--view", "target", "--json-root")
        shutil.rmtree(folder / ".rocwheel")
    assert differences(snapshot(dist), snapshot(other)) == []


def test_what_cannot_be_in_an_index_is_refused_before_anything_is_written(rocwheel: Rocwheel, dist: Path) -> None:
    write_wheel(dist, "liar", "1.0", said="2.0")
    (dist / "broken-1.0-py3-none-any.whl").write_text("no archive")
    (dist / "misspelt.whl").write_text("")
    shutil.copy(dist / "rocm_entry-7.2.0-py3-none-any.whl", dist / "Rocm.Entry-7.2-py3-none-any.whl")
    before = snapshot(dist)
    said = rocwheel.run("index", "build", dist, expect=1)
    for words in ("liar-1.0", "version `2.0`", "broken-1.0", "misspelt.whl", "take them for the same file"):
        assert words in said.stderr, said.stderr
    assert differences(before, snapshot(dist)) == []
    index(rocwheel, dist, "--filter", "torch-*.whl", "rocm_*.whl")
    assert {path.name for path in (dist / "simple").iterdir() if path.is_dir()} == {
        "torch",
        "rocm-entry",
        "rocm-sdk-core",
    }


def test_withdrawn_files_and_reasons(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    reason = '</a><script>alert(1)</script> broken on gfx942 & "more"'
    table = dist / "index-status.toml"
    table.write_text(
        f"[[yanked]]\nproject = 'Rocm.Entry'\nversion = '7.2'\nreason = '{reason}'\n"
        "[project.old-style]\nstatus = 'deprecated'\nreason = 'use <b>new-style</b>'\n"
        "[project.torch]\nstatus = 'quarantined'\n"
    )
    index(rocwheel, dist)
    page = Links(dist / "simple/rocm-entry/index.html")
    assert [link.get("data-yanked") for link in page.links] == [None, reason]
    assert "script" not in page.tags and "b" not in Links(dist / "simple/old-style/index.html").tags
    assert Links(dist / "simple/torch/index.html").links == []
    address = (dist / "simple").as_uri() + "/"
    pip("download", "--quiet", "--index-url", address, "--no-deps", "--dest", tmp_path / "one", "rocm-entry")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["rocm_entry-7.1.0-py3-none-any.whl"]
    pinned = pip("download", "--index-url", address, "--no-deps", "--dest", tmp_path / "two", "rocm-entry==7.2.0")
    assert "broken on gfx942" in pinned.stderr
    with served(dist) as base:
        # uv reads the status from the page.
        run(
            sys.executable,
            "-c",
            "import json,sys,urllib.request as u; print(json.load(u.urlopen(sys.argv[1]))['project-status'])",
            f"{base}/simple/old-style/index.v1_json",
        ).prints("deprecated")
    table.write_text("[[yanked]]\nproject = 'rocm-entri'\nversion = '7.2'\n")
    rocwheel.run("index", "build", dist, expect=1).says("`yanked` names `rocm-entri 7.2`, which is not in the index")
    table.write_text("[[yanked]]\nprojekt = 'x'\n")
    assert "index-status.toml" in rocwheel.run("index", "build", dist, expect=1).stderr


def test_a_structured_index_keeps_pages_of_others_and_its_other_projects(
    rocwheel: Rocwheel, dist: Path, tmp_path: Path
) -> None:
    root = tmp_path / "whl-next"
    for file in dist.iterdir():
        project = file.name.split("-")[0].replace("_", "-")
        (root / project).mkdir(parents=True, exist_ok=True)
        shutil.copy(file, root / project)
    (root / "torch/index.html").write_text("<h1>Links for torch</h1>")
    rocwheel.run("index", "build", root, expect=1).says(
        "torch/index.html` was not written by `rocwheel index build`", "--replace-pages"
    )
    assert (root / "torch/index.html").read_text() == "<h1>Links for torch</h1>"
    built = index(rocwheel, root, "--replace-pages")
    assert built["layout"] == "structured"
    links = Links(root / "torch/index.html").links
    assert [link["href"].partition("#")[0] for link in links] == ["torch-2.9.1%2Brocm7.2-py3-none-any.whl"]
    write_wheel(root / "torch", "torch", "2.11.0+rocm7.2")
    # A file of another project that nobody may look at.
    (root / "rocm-entry/rocm_entry-9-py3-none-any.whl").write_text("being uploaded")
    built = index(rocwheel, root, "--project", "Torch")
    assert {page["page"].split("/")[0] for page in built["pages"]} == {"torch", "chooser.html"}
    assert len(Links(root / "index.html").links) == 4, "the first page still names all projects"
    (root / "new-one").mkdir()
    write_wheel(root / "new-one", "new-one", "1")
    index(rocwheel, root, "--project", "new-one")
    assert [
        link["href"] for link in Links(root / "index.html").links
    ] == "new-one/ old-style/ rocm-entry/ rocm-sdk-core/ torch/".split()


def test_families_have_an_index_each(rocwheel: Rocwheel, tmp_path: Path) -> None:
    write_wheel(tmp_path / "d/gfx94X-dcgpu", "rocm-sdk-libraries-gfx94x-dcgpu", "7.2.0")
    write_wheel(tmp_path / "d/gfx110X-all", "rocm-sdk-libraries-gfx110x-all", "7.2.0")
    write_sdist(tmp_path / "d", "rocm", "7.2.0")
    built = index(rocwheel, tmp_path / "d")
    assert [one["folder"] for one in built["indexes"]] == ["gfx110X-all/simple", "gfx94X-dcgpu/simple"]
    pip(
        *("download", "--quiet", "--no-deps", "--index-url", (tmp_path / "d/gfx94X-dcgpu/simple").as_uri()),
        *("--dest", tmp_path / "got", "rocm-sdk-libraries-gfx94x-dcgpu"),
    )
    assert_every_link_is_true(tmp_path / "d")
    for place in (tmp_path / "d", (tmp_path / "d").as_uri()):
        assert "2 files: 0 errors" in rocwheel.run("index", "check", place).stderr
    said = rocwheel.run("index", "check", "file://elsewhere/d", expect=2).stderr
    assert "`file://elsewhere/d` is not the address of a folder" in said
    write_wheel(tmp_path / "d/a/b", "deep", "1")
    assert "more than one folder down" in rocwheel.run("index", "build", tmp_path / "d", expect=1).stderr


def test_json_pages_under_other_names_go_together(rocwheel: Rocwheel, dist: Path) -> None:
    index(rocwheel, dist)
    before = set(snapshot(dist))
    index(rocwheel, dist, "--json-root")
    assert (dist / "simple/v1_json/index.html").exists()
    index(rocwheel, dist)
    assert not list(dist.glob("simple/v1_json/**/*.html"))
    assert {path for path in snapshot(dist) if "v1_json/" in path and path.endswith(".html")} == set()
    assert {path for path in before if path.endswith(".html")} <= set(snapshot(dist))


def test_nothing_to_list(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert (
        "has no wheels and no source distributions"
        in rocwheel.run("index", "build", tmp_path / "empty", expect=1).stderr
    )
    assert list((tmp_path / "empty").rglob("*.html")) == []
    assert (
        f"error: there is no `{tmp_path}/missing`"
        in rocwheel.run("index", "build", tmp_path / "missing", expect=1).stderr
    )
    file = rocwheel.run("index", "build", dist / "old_style-1.0.tar.gz", expect=1).stderr
    assert "cannot read the folder" in file and f"hint: name the folder that has the file: `{dist}`" in file
    rocwheel.run("index", "build", dist, "--filter", "*.rpm", expect=1).says("whose names match `*.rpm`")
    before = snapshot(dist)
    said = rocwheel.run("index", "build", dist, "--dry-run")
    assert "would be written" in said.stderr and differences(before, snapshot(dist)) == []


def test_an_index_survives_being_killed(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """After SIGKILL at any moment every page is true, and the next run finishes the work."""
    folder = tmp_path / "dist"
    for number in range(60):
        write_wheel(folder, f"part-{number}", "1.0")
    clean = tmp_path / "clean"
    shutil.copytree(folder, clean)
    began = time.monotonic()
    index(rocwheel, clean)
    takes = time.monotonic() - began
    chosen = random.Random(20261123)
    for round_ in range(12):
        write_wheel(folder, "part-0", f"2.{round_}")
        write_wheel(clean, "part-0", f"2.{round_}")
        process = rocwheel.start("index", "build", folder, "--now", NOW)
        time.sleep(chosen.uniform(0, takes))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert_every_link_is_true(folder)
    index(rocwheel, folder)
    index(rocwheel, clean)
    pages = {name: text for name, text in snapshot(folder).items() if ".rocwheel" not in str(name)}
    assert (
        differences({name: text for name, text in snapshot(clean).items() if ".rocwheel" not in str(name)}, pages) == []
    )


def test_two_runs_at_once(rocwheel: Rocwheel, dist: Path) -> None:
    both = [rocwheel.start("index", "build", dist, "--now", NOW) for _ in range(2)]
    ends = [process.communicate()[1] for process in both]
    codes = sorted(process.returncode for process in both)
    assert codes in ([0, 0], [0, 4]), ends
    assert_every_link_is_true(dist)


def test_check_says_what_pip_stumbles_over(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    index(rocwheel, dist)
    wheel = dist / "rocm_entry-7.2.0-py3-none-any.whl"
    with served(dist) as address:
        root = f"{address}/simple/"
        assert "0 errors" in rocwheel.run("index", "check", root, "--files").stderr
        download = ["download", "--quiet", "--no-deps", "--index-url", root, "--dest", tmp_path / "got", "rocm-entry"]
        pip(*download)
        shutil.rmtree(tmp_path / "got")
        good = wheel.read_bytes()
        metadata = wheel.with_name(f"{wheel.name}.metadata")
        metadata.write_text(metadata.read_text() + "Requires-Dist: evil\n")
        assert "hash is not that of the page" in rocwheel.run("index", "check", root, expect=1).stdout
        pip(*download, expect=1)
        metadata.write_bytes(metadata.read_bytes().removesuffix(b"Requires-Dist: evil\n"))
        wheel.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
        assert "0 errors" in rocwheel.run("index", "check", root).stderr, "only --files reads files"
        assert "every installation fails" in rocwheel.run("index", "check", root, "--files", expect=1).stdout
        pip(*download, expect=1)
        wheel.write_bytes(good[:-1])
        assert "cut off" in rocwheel.run("index", "check", root, expect=1).stdout
        wheel.unlink()
        assert "answers 404" in rocwheel.run("index", "check", root, "--project", "rocm-entry", expect=1).stdout
        assert (
            "does not name `nothing`" in rocwheel.run("index", "check", root, "--project", "nothing", expect=1).stdout
        )


def test_check_reads_pages_as_installers_do(rocwheel: Rocwheel, dist: Path) -> None:
    index(rocwheel, dist)
    address = (dist / "simple").as_uri() + "/"
    folder = dist / "simple/rocm-entry"
    pages = {name: (folder / name).read_text() for name in ("index.html", "index.v1_html", "index.v1_json")}

    def check(name: str, old: str, new: str, expect: int = 1) -> str:
        assert re.search(old, pages[name]), pages[name]
        (folder / name).write_text(re.sub(old, new, pages[name]))
        said = rocwheel.run("index", "check", dist / "simple", expect=expect).stdout
        (folder / name).write_text(pages[name])
        return said

    for moment in ("", "2026-11-20"):
        said = check("index.v1_json", '"upload-time": ?"[^"]*"', f'"upload-time":"{moment}"')
        assert f"is `{moment}`: uv refuses the whole page" in said
    said = check("index.html", "<title>", "<base href='/files/'><title>")
    assert '`<base href="/files/">` is relative: pip and uv find no file' in said
    check("index.html", "<title>", f"<base href='{address}rocm-entry/'><title>", expect=0)


def test_check_takes_an_empty_requires_python_for_none(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist = tmp_path / "empty"
    write_wheel(dist, "six", "1.0", python="")
    index(rocwheel, dist)
    address = (dist / "simple").as_uri() + "/"
    assert "0 errors" in rocwheel.run("index", "check", dist / "simple").stderr
    pip("download", "--quiet", "--no-deps", "--index-url", address, "--dest", tmp_path / "got", "six")


def test_check_of_servers_that_mislead(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    index(rocwheel, dist)

    class Forbidding(Answers):
        """A bucket whose reader may not list it, with the types of a careless upload."""

        def send_error(self, code: int, *arguments: object, **more: object) -> None:
            super().send_error(403 if code == 404 else code, *arguments, **more)

        def end_headers(self) -> None:
            self.send_header("Cache-Control", "no-store")
            super().end_headers()

    with served(dist, Forbidding) as address:
        said = rocwheel.run("index", "check", f"{address}/simple/", expect=1)
        assert "a missing project answers 403: uv stops there" in said.stdout and "s3:ListBucket" in said.stdout
        assert "no-store" in said.stdout

    class Binary(Answers):
        def guess_type(self, _: str) -> str:
            return "application/octet-stream"

    with served(dist, Binary) as address:
        said = rocwheel.run("index", "check", f"{address}/simple/", expect=1)
        assert "is not an index: it is `application/octet-stream`" in said.stderr
        requirements = tmp_path / "in.txt"
        requirements.write_text("rocm-entry\n")
        uv("pip", "compile", "--quiet", "--index-url", f"{address}/simple/", requirements, expect=1)
    # A listing by a plain server is no index that can be trusted.
    bare = tmp_path / "bare/six"
    write_wheel(bare, "six", "1.0+local")
    with served(tmp_path / "bare") as address:
        rocwheel.run("index", "check", address, expect=1).prints("has no hash of SHA-2", "no METADATA beside")
    rocwheel.run("index", "check", "http://127.0.0.1:9/simple/", expect=1).says("is not an index: no answer")
