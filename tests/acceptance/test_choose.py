"""`choose`: from a GPU to lines that install. Each situation is made after a thread in which people
asked for it; pip and uv install the lines that are printed, in fresh environments."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from urllib.parse import quote

import choose_indexes as made
import pytest
from browser import Browser
from choose_indexes import pair, write, write_pair
from packaging.pylock import Pylock
from pypi_simple import PyPISimple
from small_wheels import core_metadata, pack
from test_chooser import ACCESSIBLE, NOW, OWN, clean_environment, installed
from test_chooser_lines import STRANGER, install
from test_index import served

from command import TOOLS, UV, Result, Rocwheel, download, run
from doctor_trees import Machine, make_machine
from trees import put


@dataclass
class Situation:
    thread: str
    make: Callable[[Path, Path], None]
    arguments: str
    verdict: str
    # Of a yes `name-version` of the packages; of a no what the output says.
    expected: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{self.thread}: {self.arguments}".replace(" ", "-")


NIGHT = pair("2.10.0a1", "7.2.0a1", "gfx1151") | {"torchvision-0.25.0a1+rocm7.2.0a1"}

SITUATIONS = [
    Situation("TheRock 7564", made.a_card, "torch --gpu Radeon_780M", "yes", pair("2.9.1", "7.1.0", "gfx1103")),
    Situation("TheRock 7839", made.a_card, "rocm --gpu gfx1150", "yes", {
        "rocm-7.1.0", "rocm-sdk-core-7.1.0", "rocm-sdk-libraries-7.1.0", "rocm-sdk-device-gfx1150-7.1.0"}),
    Situation("TheRock 1079", made.other_code, "torch --gpu gfx1100", "no", {"has code for gfx942, and none for gfx1100"}),
    Situation("TheRock 1079", made.foreign_part, "torch --gpu gfx1100", "no", {"has code for gfx942, and none for gfx1100"}),
    Situation("TheRock 1079", made.empty_part, "torch --gpu gfx1100", "cannot-tell", set()),
    Situation("comfyui-rocm 34", made.nights, "torch torchvision --gpu gfx1151", "yes", NIGHT),
    Situation("comfyui-rocm 28", made.newer_rocm, "rocm torch --gpu gfx1100", "yes", pair("2.9.1", "7.1.0", "gfx1100")),
    Situation("TheRock 4746", made.missing_part, "torch --gpu gfx1100", "yes", pair("2.9.1", "7.1.0", "gfx1100")),
    Situation("TheRock 4746", made.missing_part, "torch --gpu gfx1100 --torch 2.10", "no", {
        "amd-torch-device-gfx1100", "there is, with other versions than torch==2.10.*: torch[device-gfx1100]==2.9.1"}),
    Situation("TheRock 4824", made.no_parts, "torch --gpu gfx1100", "no", {"device-gfx1100"}),
    Situation("nix-strix-halo 102", made.old_python, "torch --gpu gfx1151 --python 3.14", "no", {
        "there is, with Python 3.13: torch[device-gfx1151]==2.9.1+rocm7.1.0", "--python 3.13"}),
    Situation("vllm 44660", made.cuda_abi3, "vllm --gpu gfx942 --python 3.13", "no", {"cp313", "there is, with Python 3.12"}),
    Situation("vllm 36703", made.cuda_only, "vllm --gpu gfx942", "no", {
        "`vllm` would come from the public index, as a build for CUDA", "nvidia-cublas-cu12==12.8"}),
    Situation("TheRock 2344", made.needs_filelock, "torch --gpu gfx942 --public-index no", "no", {"filelock"}),
    Situation("TheRock 2344", made.needs_filelock, "torch --gpu gfx942", "yes",
        pair("2.9.1", "7.1.0", "gfx942") | {"filelock-3.20"}),
    Situation("TheRock 3046", made.other_family, "torch --gpu gfx1100", "no", {
        "`rocm-sdk-libraries-gfx94x-dcgpu==7.1.0` is for another GPU than gfx1100"}),
    Situation("TheRock 3046", made.own_family, "torch --gpu gfx1100", "yes", {
        "torch-2.9.1+rocm7.1", "rocm-sdk-libraries-gfx110x-all-7.1.0"}),
    Situation("TheRock 1940", lambda own, _: write_pair(own, "2.9.1", "7.1.0", ("gfx1151",)), "torch --gpu gfx1150",
        "no", {"has no packages for gfx1150", "with code for gfx1151", "HSA_OVERRIDE_GFX_VERSION=11.5.1"}),
    Situation("TheRock 3818", lambda own, _: write_pair(own, "2.9.1", "7.1.0", ("gfx1100",)), "torch --gpu gfx90c",
        "no", {"has no packages for gfx90c"}),
    Situation("rocm-install-on-linux 233", made.new_glibc, "torch --gpu gfx942 --system debian12", "no", {"torch"}),
    Situation("rocm-install-on-linux 233", made.new_glibc, "torch --gpu gfx942 --system ubuntu24.04", "yes", set()),
    Situation("lilbee 630", made.cpu_build, "llama-cpp --gpu gfx1100", "cannot-tell", {"llama-cpp-1.0+rocm7.1"}),
    Situation("uv 2683", made.strangers, "torch --gpu gfx1100", "yes", pair("2.9.1", "7.1.0", "gfx1100") | {"helper-1.0"}),
    Situation("TheRock 4824 and a stranger", made.registered_part, "torch --gpu gfx1100", "no", {"may be anybody's"}),
    Situation("TheRock 1525", made.windows, "torch --gpu gfx1100 --python 3.12 --system windows", "yes", set()),
    Situation("TheRock 1525", made.windows, "torch --gpu gfx1100 --python 3.13 --system windows", "no", {"Python 3.12"}),
    Situation("TheRock 7372", made.generic, "rocm --gpu RX_9070", "yes", {
        "rocm-7.2.0", "rocm-sdk-core-7.2.0", "rocm-sdk-libraries-7.2.0", "rocm-sdk-device-gfx1201-7.2.0",
        "rocm-sdk-device-gfx12-generic-7.2.0"}),
    Situation("pytorch's index", made.pytorch, "torch --gpu gfx1100 --rocm 6.4", "yes", {"torch-2.9.0+rocm6.4"}),
    Situation("pytorch 184430", made.pytorch, "torch --gpu gfx900", "no", {"none for gfx900"}),
    Situation("a withdrawn version", made.withdrawn, "torch --gpu gfx1100", "yes", pair("2.9.1", "7.1.0", "gfx1100")),
    Situation("uv 2683", made.closed_strangers, "torch --gpu gfx1100", "yes", pair("2.9.1", "7.1.0", "gfx1100")),
    Situation("two cards", made.two_cards, "torch --gpu MI300X --gpu 7900XTX", "yes",
        pair("2.9.1", "7.1.0", "gfx942", "gfx1100")),
    Situation("code in some packages alone", made.half, "torch torchvision --gpu gfx1100", "cannot-tell",
        pair("2.9.1", "7.1.0", "gfx1100") | {"torchvision-0.24+rocm7.1.0"}),
    Situation("a loop of requirements", made.a_loop, "torch --gpu gfx1100", "yes", {
        "torch-2.9.1+rocm7.1", "torchvision-0.2+rocm7.1"}),
]  # fmt: skip


@dataclass
class Case:
    rocwheel: Rocwheel
    own: Path
    public: Path

    def make(self, make: Callable[[Path, Path], None]) -> None:
        write(self.public, "nothing", "1.0", tag="py3-none-any")
        make(self.own, self.public)
        for folder in (self.own, self.public):
            self.rocwheel.run("index", "build", folder, "--now", NOW)

    @property
    def index(self) -> str:
        return f"{self.own.as_uri()}/simple/"

    def choose(self, arguments: str, *more: object, expect: int = 0, path: str = "") -> Result:
        words = [word.replace("_", " ") for word in arguments.split()]
        if "--public-index" not in words:
            words += ["--public-index", f"{self.public.as_uri()}/simple/"]
        if "--system" not in words:
            words += ["--system", "debian12"]
        if "--python" not in [*words, *more]:
            words += ["--python", sys.executable]
        if "--index" not in words:
            words += ["--index", self.index]
        path = path or f"{TOOLS}:{os.environ['PATH']}"
        return self.rocwheel.run("choose", *words, *more, environment={"PATH": path}, expect=expect)


@pytest.fixture
def case(rocwheel: Rocwheel, tmp_path: Path) -> Case:
    return Case(rocwheel, tmp_path / "own", tmp_path / "public")


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
def test_a_situation(case: Case, situation: Situation, tmp_path: Path) -> None:
    case.make(situation.make)
    expect = {"yes": 0, "no": 1, "cannot-tell": 3}[situation.verdict]
    said = json.loads(case.choose(situation.arguments, "--json", expect=expect).stdout)
    assert said["verdict"] == situation.verdict, said
    if situation.verdict == "no":
        assert said["lines"] == [] and said["members"] == []
        text = case.choose(situation.arguments, expect=1).stdout
        assert text.startswith("no: ") and all(words in text for words in situation.expected), text
        return
    lines = {line["installer"]: line for line in said["lines"]}
    assert lines["pip"]["checked_by"] and lines["uv"]["checked_by"], said["lines"]
    if not situation.expected:
        return
    chosen = {f"{member['name']}-{member['version']}" for member in said["members"]}
    assert chosen == situation.expected
    for installer in ("pip", "uv"):
        (tmp_path / installer).mkdir()
        found = install(lines[installer]["text"], installer, "", f"{case.public.as_uri()}/", tmp_path / installer)
        names = {name.lower() for name in installed(found)}
        assert {name for name in names if not name.startswith("pip-")} == situation.expected
        assert not [path for path in found.glob("*/METADATA") if STRANGER in path.read_text()]


def test_every_form_installs_the_same(case: Case, tmp_path: Path) -> None:
    """With strangers in the public index, and an index of the user's that would like to win."""
    case.make(made.strangers)
    said = json.loads(case.choose("torch --gpu gfx1100", "--json").stdout)
    wanted = {f"{member['name']}-{member['version']}" for member in said["members"]}
    lines = {line["installer"]: line for line in said["lines"]}
    assert lines["dockerfile"]["text"] is None and "container" in lines["dockerfile"]["problem"]
    for installer in ("uv-project", "requirements", "pylock"):
        assert lines[installer]["checked_by"], lines[installer]
        folder = tmp_path / installer
        folder.mkdir()
        text = case.choose("torch --gpu gfx1100", "--installer", installer).stdout
        if installer == "pylock":
            lock = Pylock.from_dict(tomllib.loads(text))
            assert {f"{package.name}-{package.version}" for package in lock.packages} == wanted
            (folder / "pylock.toml").write_text(text)
            text = lines["pylock"]["then"]
        found = install(text, installer, "", f"{case.public.as_uri()}/", folder)
        names = {name for name in installed(found) if not name.startswith(("pip-", "my-project"))}
        assert names == wanted, installer
        assert not [path for path in found.glob("*/METADATA") if STRANGER in path.read_text()]


def test_the_answer_has_its_evidence(case: Case) -> None:
    case.make(made.missing_part)
    said = json.loads(case.choose("torch --gpu gfx1100", "--json").stdout)
    assert said["kernels"] == ["gfx1100: by the tables in amd-torch-device-gfx1100, rocm-sdk-device-gfx1100"]
    assert said["resolved_by"] == "uv" and said["download"] > 0 and said["installed"] > said["download"] / 3
    (newer,) = [one for one in said["not_taken"] if one["name"] == "torch"]
    assert newer["version"] == "2.10.0+rocm7.2.0" and "amd-torch-device-gfx1100==2.10.0+rocm7.2.0" in newer["reason"]
    text = case.choose("torch --gpu gfx1100").stdout
    for words in ("yes: torch[device-gfx1100]==2.9.1+rocm7.1.0", "AMD RX 7900 XTX (gfx1100)", "not taken: torch 2.10.0",
                  "not looked at: whether a kernel runs", "resolved again by pip install --dry-run"):  # fmt: skip
        assert words in text, text


def test_the_memory_that_code_takes(case: Case) -> None:
    """That of each GPU alone: the bytes of its members in the ZIP archives of the set."""
    case.make(made.two_cards)
    said = json.loads(case.choose("torch --gpu gfx942 --gpu gfx1100", "--json").stdout)
    expected = dict.fromkeys(("gfx942", "gfx1100"), 0)
    for wheel in (case.own / member["file"] for member in said["members"]):
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                for gpu in expected:
                    expected[gpu] += member.file_size if member.filename.endswith(f"_{gpu}.hsaco") else 0
    assert said["gpu_code"] == expected and min(expected.values()) > 0
    text = case.choose("torch --gpu gfx942 --gpu gfx1100").stdout
    assert f"memory of gfx942 for this code: {expected['gfx942']} B when all of it is loaded" in text, text


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (made.nights, "torch torchvision --gpu gfx1151"),
        (made.strangers, "torch --gpu gfx1100"),
        (made.generic, "rocm --gpu RX_9070"),
    ],
)
def test_another_pip_installs_the_same(
    case: Case, tmp_path: Path, make: Callable[[Path, Path], None], arguments: str
) -> None:
    """The pip that comes with Python, which is older than the one that checked the lines."""
    case.make(make)
    with served(case.own) as address:
        said = json.loads(case.choose(f"{arguments} --index {address}/simple/", "--json").stdout)
        wanted = {f"{member['name']}-{member['version']}" for member in said["members"]}
        lines = {line["installer"]: line for line in said["lines"]}
        for installer in ("pip", "requirements"):
            folder = tmp_path / installer
            folder.mkdir()
            run(sys.executable, "-m", "venv", folder / "venv")
            (folder / "requirements.txt").write_text(lines["requirements"]["text"])
            words = lines["pip"]["text"] if installer == "pip" else lines["requirements"]["then"]
            path = f"{folder}/venv/bin:{os.environ['PATH']}"
            assert "pip 26" not in run(folder / "venv/bin/pip", "--version").stdout
            done = subprocess.run(
                ["bash", "-euc", words], cwd=folder, env={"PATH": path, "PIP_CONFIG_FILE": os.devnull}, check=False
            )
            assert done.returncode == 0
            (packages,) = (folder / "venv/lib").glob("python*/site-packages")
            names = {name.lower() for name in installed(packages)}
            assert {name for name in names if not name.startswith(("pip-", "setuptools-"))} == wanted, installer
        # The lock has what the index tells another reader of it.
        lock = Pylock.from_dict(tomllib.loads(lines["pylock"]["text"]))
        client = PyPISimple(f"{address}/simple/")
        for package in lock.packages:
            page = client.get_project_page(package.name) if package.name != "helper" else None
            hashes = {file.filename: file.digests["sha256"] for file in page.packages} if page else {}
            for wheel in package.wheels if page else ():
                assert hashes[wheel.filename] == wheel.hashes["sha256"]


def test_doubts_and_what_is_there_are_told(case: Case, tmp_path: Path) -> None:
    """In the first line, and for the environment that is named."""
    case.make(made.half)
    text = case.choose("torch torchvision --gpu gfx1100", expect=3).stdout
    first = "cannot tell: torch[device-gfx1100]==2.9.1+rocm7.1.0 torchvision==0.24+rocm7.1.0"
    assert text.startswith(first) and "already" not in text
    assert text.splitlines()[0].endswith(": no code for gfx1100 was seen in torchvision, only in other packages")
    python = tmp_path / "venv/bin/python"
    clean = clean_environment()
    run(UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", environment=clean)
    own = ["--no-deps", "--index-url", case.index, "--python", python, "rocm-sdk-core", "rocm-sdk-libraries"]
    run(UV, "pip", "install", *own, environment=clean)
    here = f"torch --gpu gfx1100 --system glibc{platform.libc_ver()[1]}"
    said = json.loads(case.choose(here, "--python", python, "--json").stdout)
    assert said["present"] == ["rocm-sdk-core", "rocm-sdk-libraries"]
    sizes = {member["name"]: member["size"] for member in said["members"]}
    assert said["left"] == said["download"] - sizes["rocm-sdk-core"] - sizes["rocm-sdk-libraries"]
    # This Python says nothing of another system.
    said = json.loads(case.choose("torch --gpu gfx1100 --system glibc2.28", "--python", python, "--json").stdout)
    assert said["present"] is None and said["left"] is None


def test_without_hashes_uv_computes_them(case: Case) -> None:
    """pytorch 164347: an index that other programs wrote."""
    case.make(made.a_card)
    for page in [page for page in (case.own / "simple").rglob("*") if page.is_file()]:
        if page.name != "index.html":
            page.unlink()
        elif page.parent.name != "simple":
            wheels = case.own.glob(f"{page.parent.name.replace('-', '_')}-*.whl")
            links = [f'<a href="../../{quote(path.name)}">{path.name}</a><br>' for path in wheels]
            page.write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    for beside in case.own.glob("*.metadata"):
        beside.unlink()
    said = json.loads(case.choose("torch --gpu gfx1103", "--json").stdout)
    lines = {line["installer"]: line for line in said["lines"]}
    assert lines["pip"]["checked_by"] and lines["uv"]["checked_by"]
    hashes = {hash for member in said["members"] for hash in member["sha256"]}
    assert hashes == {hashlib.sha256(path.read_bytes()).hexdigest() for path in case.own.glob("*gfx1103*.whl")} | {
        hashlib.sha256(path.read_bytes()).hexdigest()
        for name in ("rocm", "rocm_sdk_core", "rocm_sdk_libraries", "torch")
        for path in case.own.glob(f"{name}-*.whl")
    }
    assert lines["requirements"]["checked_by"] and lines["pylock"]["checked_by"]


def test_pip_answers_where_there_is_no_uv(case: Case, tmp_path: Path) -> None:
    case.make(made.a_card)
    programs = tmp_path / "programs"
    put(programs / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n', 0o755)
    said = json.loads(case.choose("torch --gpu gfx1103", "--json", path=f"{programs}:/bin").stdout)
    assert said["resolved_by"] == "pip" and said["verdict"] == "yes"
    lines = {line["installer"]: line for line in said["lines"]}
    assert lines["pip"]["checked_by"] and lines["requirements"]["checked_by"] and lines["uv"]["text"] is None
    # Neither of the two.
    (programs / "python3").write_text(f'#!/bin/sh\ncase "$*" in *pip*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    alone = case.choose("torch --gpu gfx1103", "--python", programs / "python3", expect=2, path=str(programs))
    assert "neither uv nor pip is there" in alone.stderr and alone.stdout == ""


def test_a_glibc_that_uv_has_no_name_for(case: Case, tmp_path: Path) -> None:
    """Its names end at 2.40, and what it refuses for that may be there."""
    case.make(made.newest_glibc)
    arguments = "torch --gpu gfx942 --system"
    said = json.loads(case.choose(f"{arguments} glibc2.44", "--json").stdout)
    assert (said["verdict"], said["resolved_by"]) == ("yes", "pip"), said
    assert case.choose(f"{arguments} glibc2.43", expect=1).stdout.startswith("no: ")
    put(tmp_path / "python3", f'#!/bin/sh\ncase "$*" in *pip*) exit 1;; esac\nexec {sys.executable} "$@"\n', 0o755)
    put(tmp_path / "uv", f'#!/bin/sh\nexec {UV} "$@"\n', 0o755)
    alone = case.choose(f"{arguments} glibc2.44", "--python", tmp_path / "python3", expect=3, path=str(tmp_path))
    assert "cannot tell" in alone.stderr and "install pip" in alone.stderr and alone.stdout == ""


def test_a_pip_that_does_not_choose_for_another_python(case: Case, tmp_path: Path) -> None:
    """pip 23.2 holds its own Python against what a package requires, not that of its option."""
    download(tmp_path, "pip==23.2.1")
    with zipfile.ZipFile(tmp_path / "pip-23.2.1-py3-none-any.whl") as wheel:
        wheel.extractall(tmp_path / "pip")
    put(tmp_path / "programs/python3", f'#!/bin/sh\nPYTHONPATH={tmp_path}/pip exec {sys.executable} "$@"\n', 0o755)
    metadata = core_metadata("torch", "2.9.1+rocm7.1", python=">=3.14")
    case.make(lambda own, _: pack(own, "torch", "2.9.1+rocm7.1", {"torch.py": ""}, metadata=metadata))
    arguments = ("torch --gpu gfx1103", "--python", "3.14")
    said = case.choose(*arguments, path=f"{tmp_path}/programs:/bin", expect=1)
    assert "requires a different Python" in said.stderr and "install uv, or a newer pip" in said.stderr
    assert said.stdout == ""


def test_the_holes_of_an_index(case: Case) -> None:
    """What its owner sees before people cannot install it."""
    case.make(made.two_cards)
    words = ("--table", "--python", sys.executable)
    said = json.loads(case.choose("torch", *words, "--json").stdout)
    found = {cell["gpu"]: (cell["set"][0], cell["published"][:10], len(cell["missing"])) for cell in said["cells"]}
    date = NOW[:10]
    assert found == {
        "gfx942": ("torch[device-gfx942]==2.10.0+rocm7.2.0", date, 0),
        "gfx1100": ("torch[device-gfx1100]==2.9.1+rocm7.1.0", date, 1),
    }
    text = case.choose("torch --gpu gfx1100 --gpu gfx1201", *words, expect=1).stdout
    for words in ("gfx1201  " + OWN, "none", "missing for gfx1201 with Python", "has no packages for gfx1201"):
        assert words in text, text


def test_the_nights_of_an_index(case: Case, browser: Browser, tmp_path: Path) -> None:
    """comfyui-rocm 34: which of three nights are complete, in JSON, Markdown and a page."""
    case.make(made.nights)
    page, markdown = tmp_path / "complete.html", tmp_path / "complete.md"
    words = ("--table", "--python", sys.executable, "--nights", "9", "--html", page, "--markdown", markdown)
    said = json.loads(case.choose("torch torchvision --gpu gfx1151 --gpu gfx1201", *words, "--json", expect=1).stdout)
    cells = {(cell["package"], cell["gpu"]): cell for cell in said["cells"]}
    torch = cells["torch", "gfx1151"]
    assert torch["set"] == ["torch[device-gfx1151]==2.10.0a3+rocm7.2.0a3", "rocm[device-gfx1151]==7.2.0a3"]
    complete = {night["version"]: night["missing"] for night in torch["nights"]}
    assert complete.pop("2.10.0a2+rocm7.2.0a2").startswith("there is no version of amd-torch-device-gfx1151")
    assert complete == {"2.10.0a3+rocm7.2.0a3": None, "2.10.0a1+rocm7.2.0a1": None} and torch["missing"] == []
    # The newest torchvision needs the torch without a part; uv's own answer is the older one.
    vision = cells["torchvision", "gfx1151"]
    assert vision["set"][0] == "torchvision==0.25.0a1+rocm7.2.0a1" and "0.25.0a2" in vision["missing"][0]
    none = cells["torch", "gfx1201"]
    assert none["set"] == [] and all("has no packages for gfx1201" in night["missing"] for night in none["nights"])
    text = case.choose("torch --gpu gfx1201", "--table", "--nights", "1", expect=1).stdout
    assert "torch: 2 older versions were not looked at" in text, text
    rows = [line for line in markdown.read_text().splitlines() if line.startswith("| torch |")]
    assert len(rows) == 2 and f"2.10.0a3+rocm7.2.0a3 {NOW[:10]} (2 of 3)" in rows[0] and "| none |" in rows[1]
    browser.resize(360)
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.open(page.as_uri())
        found = browser.run(ACCESSIBLE)
        assert (found["problems"], found["wide"]) == ([], 0)
    assert "has no packages for gfx1201" in browser.run("return document.body.innerText")


class Login(SimpleHTTPRequestHandler):
    """Every page is a form, with status 200."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html><body><form action='/login'>Who are you?</form><a href='/help'>Help</a></body></html>")


class Forbidden(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(403)


@pytest.mark.parametrize(
    ("handler", "words"),
    [(Login, "as the page of a login has"), (Forbidden, "the server answers 403")],
    ids=["login", "403"],
)
def test_a_page_that_is_no_index(
    case: Case, tmp_path: Path, handler: type[SimpleHTTPRequestHandler], words: str
) -> None:
    case.make(made.a_card)
    with served(tmp_path, handler) as address:
        said = case.choose(f"torch --gpu gfx1103 --index {address}/simple/", expect=1)
    assert words in said.stderr and "hint: " in said.stderr and said.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("torch --gpu RTX_5090", "no GPU `RTX 5090` is known"),
        ("torch --gpu gfx4711", "no GPU `gfx4711` is known"),
        ("torch --gpu Pro", "`Pro` fits several GPUs"),
        ("torch --gpu gfx1103 --system hannah-montana-linux", "the system `hannah-montana-linux` is not known"),
        ("torch --gpu gfx1103 --python three", "`three` is not a version of Python"),
        ("torch>= --gpu gfx1103", "is no requirement"),
        ("torch --gpu gfx1103 --index /nowhere", "`/nowhere` has no index"),
    ],
)
def test_a_wrong_question(case: Case, arguments: str, words: str) -> None:
    case.make(made.a_card)
    said = case.choose(arguments, expect=2)
    assert words in said.stderr and said.stdout == ""


def test_wrong_metadata_and_no_server(case: Case) -> None:
    case.make(made.a_card)
    said = case.choose("torch --gpu gfx1103 --index http://127.0.0.1:9/simple/", expect=1)
    assert "127.0.0.1:9" in said.stderr and said.stdout == ""
    for beside in case.own.glob("torch-*.metadata"):
        beside.write_text(beside.read_text().replace("Name: torch", "Name: torchx"))
    said = case.choose("torch --gpu gfx1103", expect=1)
    assert "METADATA" in said.stderr or "hash" in said.stderr.lower(), said.stderr
    assert said.stdout == ""


@pytest.mark.parametrize("resolver", ["uv", "pip"])
@pytest.mark.parametrize(("status", "expect", "words"), [
    (404, 1, "rocm-sdk-core"),
    (403, 1, "the server answers 403 for `rocm-sdk-core`"),
    (401, 1, "401"),
    (500, 4, "rocm-sdk-core"),
])  # fmt: skip
def test_a_page_that_cannot_be_read_is_not_missing(
    case: Case, tmp_path: Path, resolver: str, status: int, expect: int, words: str
) -> None:
    case.make(made.a_card)

    class Refusing(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if "/simple/rocm-sdk-core/" in self.path:
                self.send_error(status)
            else:
                super().do_GET()

    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    path = f"{programs}:/bin" if resolver == "pip" else ""
    with served(case.own, Refusing) as address:
        arguments = f"torch --gpu gfx1103 --public-index no --index {address}/simple/"
        said = case.choose(arguments, expect=expect, path=path)
    assert words in said.stdout + said.stderr, said
    # Only what is missing, or may be, is a no.
    assert said.stdout.startswith("no: ") == (status in (403, 404)), said


def test_a_server_without_ranges(case: Case) -> None:
    """What is in the wheels is then not known, and the answer says so."""
    case.make(made.a_card)
    with served(case.own) as address:
        said = json.loads(case.choose(f"torch --gpu gfx1103 --index {address}/simple/", "--json").stdout)
    assert said["kernels"] == ["gfx1103: by the name alone of amd-torch-device-gfx1103, rocm-sdk-device-gfx1103"]
    assert said["installed"] is None and said["gpu_code"] == {"gfx1103": None}
    assert any("request for a range" in one for one in said["not_looked_at"])
    docker = {line["installer"]: line for line in said["lines"]}["dockerfile"]
    assert docker["text"].startswith(f"FROM python:{OWN}-slim\nRUN pip install") and docker["checked_by"]


def doctor(case: Case, machine: Machine, *words: object, expect: int = 0) -> dict:
    machine.finish()
    arguments = ("doctor", "--root", machine.root, "--venv", machine.venv, *words)
    path = f"{TOOLS}:{os.environ['PATH']}"
    said = run(case.rocwheel.binary, "--json", *arguments, environment={"PATH": path}, expect=expect)
    return json.loads(said.stdout)


@pytest.mark.parametrize("has_torch", [False, True])
def test_the_doctor_prints_the_line(case: Case, tmp_path: Path, has_torch: bool) -> None:
    """TheRock 7564: on the machine with the GPU, for an index that is named."""
    case.make(made.missing_part)
    machine = make_machine(tmp_path / "machine", "gfx1100")
    machine.write("etc/os-release", 'ID=debian\nVERSION_ID="13"\n')
    if has_torch:
        machine.package("torch", "2.9.1", requires=("nvidia-cublas-cu12",), **{"torch/__init__.py": ""})
    (machine.venv / "lib/python3.12").rename(machine.venv / f"lib/python{OWN}")
    expect = int(has_torch)
    report = doctor(case, machine, "--index", case.own, expect=expect)
    line = report["install"]["command"]
    assert report["install"]["verdict"] == "yes" and report["install"]["checked_by"] == "pip install --dry-run"
    commands = {finding["name"]: finding["command"] for finding in report["findings"]}
    if has_torch:
        assert commands["cuda-torch"] == line.replace("install", "install --force-reinstall", 1)
    found = install(line, "pip", "", f"{case.public.as_uri()}/", tmp_path)
    names = {name.lower() for name in installed(found) if not name.startswith("pip-")}
    assert names == pair("2.9.1", "7.1.0", "gfx1100")
    # Without an index nothing is asked, and one that cannot be reached is no line.
    assert doctor(case, machine, expect=expect)["install"] is None
    unreachable = doctor(case, machine, "--index", "http://127.0.0.1:9/simple", expect=expect)
    assert unreachable["install"] is None and "127.0.0.1:9" in unreachable["not_looked_at"][0]["why"]
    assert not unreachable["verdict"].startswith("nothing wrong was found")


def test_the_doctor_prints_no_line_for_what_is_not_there(case: Case, tmp_path: Path) -> None:
    case.make(made.other_code)
    machine = make_machine(tmp_path / "machine", "gfx1100")
    machine.write("etc/os-release", 'ID=debian\nVERSION_ID="13"\n')
    machine.package("torch", "2.9.1", requires=("nvidia-cublas-cu12",), **{"torch/__init__.py": ""})
    (machine.venv / "lib/python3.12").rename(machine.venv / f"lib/python{OWN}")
    report = doctor(case, machine, "--index", case.own, expect=1)
    assert report["install"]["command"] is None and "none for gfx1100" in report["install"]["reason"]
    (finding,) = [finding for finding in report["findings"] if finding["name"] == "cuda-torch"]
    assert finding["command"] is None and finding["template"] is None
