"""`chooser.html`: people choose in a browser, and the lines that they copy install packages."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import DOWN, SPACE, TAB, Browser
from packaging.pylock import Pylock
from small_wheels import core_metadata, pack

from command import TOOLS, UV, Rocwheel, run
from small_index import Servers
from trees import put

OWN = f"3.{sys.version_info.minor}"
OWN_TAG = f"cp3{sys.version_info.minor}"
TARGETS = ("gfx942", "gfx1100")
NOW = "2026-11-20T01:02:03Z"


def write_wheel(folder: Path, name: str, version: str, tag: str, *metadata: str) -> Path:
    """A wheel that installers accept, whatever its tag says."""
    text = core_metadata(name, version, python=">=3.8").rstrip("\n")
    members = {f"{name.replace('-', '_')}.py": f'VERSION = "{version}"\n'}
    return pack(folder, name, version, members, tag=tag, metadata="\n".join([text, *metadata, "", ""]))


def write_release(folder: Path, rocm: str, torch: str, targets: tuple[str, ...] = TARGETS) -> None:
    """ROCm and torch as AMD divides them by GPU. `targets` have packages; all of `TARGETS` are
    promised."""
    linux = "py3-none-manylinux_2_28_x86_64"
    version = f"{torch}+rocm{rocm}"

    def device(name: str, own: str) -> list[str]:
        extras = [f"Provides-Extra: device-{target}" for target in TARGETS]
        return extras + [f'Requires-Dist: {name}-{target}=={own}; extra == "device-{target}"' for target in TARGETS]

    write_wheel(folder, "rocm-sdk-core", rocm, linux)
    write_wheel(folder, "rocm-sdk-libraries", rocm, linux)
    core = f"Requires-Dist: rocm-sdk-core=={rocm}"
    libraries = f'Requires-Dist: rocm-sdk-libraries=={rocm}; extra == "libraries"'
    whole = ["Provides-Extra: libraries", core, libraries, *device("rocm-sdk-device", rocm)]
    write_wheel(folder, "rocm", rocm, "py3-none-any", *whole)
    for target in targets:
        write_wheel(folder, f"rocm-sdk-device-{target}", rocm, linux)
        write_wheel(folder, f"amd-torch-device-{target}", version, linux)
    need = f"Requires-Dist: rocm[libraries]=={rocm}"
    for python in {"cp311", "cp312", "cp313", OWN_TAG}:
        tag = f"{python}-{python}-manylinux_2_28_x86_64"
        write_wheel(folder, "torch", version, tag, need, *device("amd-torch-device", version))
        write_wheel(folder, "torchvision", f"0.2.0+rocm{rocm}", tag, f"Requires-Dist: torch=={version}")
    # Windows has one Python only.
    windows = "cp312-cp312-win_amd64"
    write_wheel(folder, "torch", version, windows, need, *device("amd-torch-device", version))


def divided_release(flat: Path, place: Callable[[str], Path]) -> None:
    """A release with a folder for each project, in the folder that is its place."""
    write_release(flat, "7.1.0", "2.9.1")
    for wheel in flat.iterdir():
        project = wheel.name.split("-")[0].replace("_", "-")
        put(place(project) / project / wheel.name, wheel.read_bytes())


@dataclass
class Site:
    root: Path
    address: str
    file: str


@pytest.fixture(scope="module")
def site(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("it's an index") / "dist"
    write_release(root, "7.1.0", "2.9.1")
    write_release(root, "7.2.0", "2.10.0", targets=("gfx942",))
    rocwheel.run("index", "build", root, "--now", NOW)
    with Servers(rocwheel, tmp_path_factory.mktemp("servers")) as servers:
        yield Site(root, servers.start("plain", root), f"{root.as_uri()}/")


@pytest.fixture(autouse=True)
def quiet(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test may leave an error in the console."""
    yield
    if "browser" in request.fixturenames:
        opened = request.getfixturevalue("browser")
        assert [line for line in opened.console() if "favicon" not in line] == []


def fragment(**choice: str) -> str:
    return "#" + "&".join(f"{name}={value.replace('+', '%2B')}" for name, value in choice.items())


def lines(browser: Browser) -> str:
    assert not browser.run("return document.getElementById('lines').hidden"), text(browser, "hole-text")
    return text(browser, "code")


def shell_words(command: str) -> list[str]:
    return shlex.split(command.replace("\\\n", " "))


def text(browser: Browser, name: str) -> str:
    return browser.run("return document.getElementById(arguments[0]).textContent", name)


def focused(browser: Browser) -> dict:
    return browser.run(
        "const one = document.activeElement;"
        "return {id: one.id, name: one.name ?? '', value: one.value ?? '', tag: one.tagName,"
        " outline: getComputedStyle(one.closest('.option') ?? one).outlineStyle}"
    )


def tab_to(browser: Browser, name: str) -> None:
    for _ in range(40):
        browser.type(TAB)
        found = focused(browser)
        if name in (found["id"], found["name"]):
            return
    raise AssertionError(f"no way by keyboard to {name}")


def test_a_keyboard_is_enough(browser: Browser, site: Site) -> None:
    browser.resize(1440)
    browser.open(site.address + "chooser.html")
    assert "Choose a GPU" in text(browser, "ask")
    tab_to(browser, "gpu-search")
    browser.type(*"7900")
    shown = browser.run(
        "return [...document.querySelectorAll('#gpus label')].filter((one) => !one.hidden).map((one) => one.innerText)"
    )
    assert len(shown) == 1 and "7900 XTX" in shown[0] and "gfx1100" in shown[0]
    tab_to(browser, "gpu")
    assert focused(browser)["outline"] == "solid"
    browser.type(SPACE)
    tab_to(browser, "rocm")
    browser.type(*"7.1.0")
    tab_to(browser, "python")
    while focused(browser)["value"] != OWN:
        browser.type(DOWN)
    tab_to(browser, "installer")
    browser.type(DOWN)
    assert focused(browser)["value"] == "uv"
    assert lines(browser).split() == [
        *("uv", "pip", "install", "\\", "--index", f"{site.address}simple/", "\\"),
        *("--default-index", f"{site.address}simple/", "\\", "--index-strategy", "first-index", "\\"),
        *("'torch[device-gfx1100]==2.9.1+rocm7.1.0'", "\\", "'rocm[device-gfx1100]==7.1.0'"),
    ]
    # The choice is in the address, for colleagues.
    shared = browser.run("return location.href")
    told = lines(browser)
    browser.open(shared)
    assert lines(browser) == told


def test_a_hole_is_seen_and_said(browser: Browser, site: Site) -> None:
    page = site.file + "chooser.html"
    chosen = {"package": "torch", "python": "3.12", "system": "linux-x86_64"}
    browser.open(page + fragment(**chosen, gpu="gfx1100", version="2.10.0+rocm7.2.0"))
    assert text(browser, "hole-text") == (
        "torch 2.10.0+rocm7.2.0 promises “device-gfx1100”, but amd-torch-device-gfx1100 is not in the index."
    )
    assert browser.run("return document.getElementById('lines').hidden")
    (other,) = browser.run("return [...document.querySelectorAll('#nearest button')].map((one) => one.innerText)")
    assert other == "Choose torch 2.9.1+rocm7.1.0"
    browser.run("document.querySelector('#nearest button').click()")
    assert "torch[device-gfx1100]==2.9.1+rocm7.1.0" in lines(browser)
    # Without a version, the newest that fits is taken, and not one that lacks something.
    browser.open(page + fragment(**chosen, gpu="gfx1100"))
    assert "2.9.1+rocm7.1.0" in lines(browser)
    browser.open(page + fragment(**chosen, gpu="gfx942"))
    assert "2.10.0+rocm7.2.0" in lines(browser)
    assert "amd-torch-device-gfx1100 is not in the index" in text(browser, "holes")
    cells = browser.run(
        "return [...document.querySelectorAll('#by-version tbody tr')].map((row) =>"
        " [...row.cells].map((cell) => cell.className.split(' ')[0] + ' ' + cell.innerText.split('\\n')[0]))"
    )
    assert all(cell.startswith("hole 1/2") for cell in cells[0][1:])
    assert all(cell.startswith("there 2/2") for cell in cells[1][1:])
    browser.open(page + fragment(package="torch", gpu="gfx942", python="3.13", system="windows-x86_64"))
    assert text(browser, "hole-text") == (
        "There is no torch 2.10.0+rocm7.2.0 for Python 3.13 on Windows. It exists for Python 3.12."
    )
    browser.open(page + fragment(package="torch", gpu="gfx1010", python="3.12", system="linux-x86_64"))
    assert "has no packages for" in text(browser, "hole-text") and "gfx1010" in text(browser, "hole-text")


def clean_environment(**more: str) -> dict[str, str]:
    taken = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    quiet = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1", "UV_NO_CONFIG": "1", "UV_NO_CACHE": "1"}
    return {**taken, **quiet, "PATH": f"{TOOLS}:{os.environ['PATH']}", **more}


def installed(target: Path) -> set[str]:
    return {re.sub(r"_", "-", folder.name.removesuffix(".dist-info")) for folder in target.glob("*.dist-info")}


RELEASE = {
    "torch-2.9.1+rocm7.1.0",
    "amd-torch-device-gfx1100-2.9.1+rocm7.1.0",
    "rocm-7.1.0",
    "rocm-sdk-core-7.1.0",
    "rocm-sdk-libraries-7.1.0",
    "rocm-sdk-device-gfx1100-7.1.0",
}
CHOICE = {"package": "torch", "gpu": "gfx1100", "rocm": "7.1.0", "python": OWN, "system": "linux-x86_64"}


def lines_with_hashes(browser: Browser) -> str:
    """They are there when the pages of the index were read."""
    for _ in range(100):
        if not browser.run("return document.getElementById('lines').hidden"):
            break
        time.sleep(0.05)
    return lines(browser)


@pytest.mark.parametrize("kind", ["http", "file"])
@pytest.mark.parametrize("installer", ["pip", "uv", "requirements", "docker", "find-links", "hashes", "pylock"])
def test_the_lines_install(browser: Browser, site: Site, installer: str, kind: str, tmp_path: Path) -> None:
    page = {"http": site.address, "file": site.file}[kind] + "chooser.html"
    browser.open(page + fragment(**CHOICE, installer=installer, **{"with": "torchvision"}))
    if kind == "file" and installer in ("hashes", "pylock"):
        assert "from a server only" in text(browser, "hole-text")
        assert browser.run("return document.getElementById('lines').hidden")
        return
    copied = lines_with_hashes(browser)
    target = tmp_path / "target"
    environment = clean_environment(PIP_TARGET=str(target))
    if installer == "requirements":
        (tmp_path / "requirements.txt").write_text(copied)
        copied = "pip install --requirement requirements.txt"
    elif installer == "hashes":
        (tmp_path / "requirements.txt").write_text(copied)
        assert copied.count("--hash=sha256:") == 7
        (copied,) = re.findall("^# (.*)$", copied, re.M)
    elif installer == "pylock":
        Pylock.from_dict(tomllib.loads(copied)).validate()
        (tmp_path / "pylock.toml").write_text(copied)
        (copied,) = re.findall("uv pip install .*pylock.toml", text(browser, "notes"))
        copied += f" --target {shlex.quote(str(target))}"
    elif installer == "docker":
        (start,) = re.findall(r"^FROM (.*)$", copied, re.M)
        assert start == f"python:{OWN}-slim"
        copied = copied.partition("RUN ")[2]
        # What COPY would do in the container.
        copied = copied.replace("file:///srv/packages/", site.file)
    elif installer == "uv":
        copied += f" --target {shlex.quote(str(target))}"
    subprocess.run(["bash", "-euc", copied], check=True, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert installed(target) == RELEASE | {"torchvision-0.2.0+rocm7.1.0"}


@pytest.mark.parametrize("kind", ["http", "file"])
def test_the_project_of_uv_locks_and_installs(browser: Browser, site: Site, kind: str, tmp_path: Path) -> None:
    page = {"http": site.address, "file": site.file}[kind] + "chooser.html"
    browser.open(page + fragment(**CHOICE, installer="uv-project", **{"with": "torchvision"}))
    copied = lines(browser)
    assert copied.count("explicit = true") == 1
    (tmp_path / "pyproject.toml").write_text(copied)
    # Every package has to come from the named index: there is no other one.
    environment = clean_environment(UV_DEFAULT_INDEX="http://127.0.0.1:9/", UV_PYTHON=sys.executable)
    environment.pop("VIRTUAL_ENV", None)
    run(UV, "sync", environment=environment, cwd=tmp_path)
    (packages,) = (tmp_path / ".venv/lib").glob("python*/site-packages")
    assert installed(packages) == RELEASE | {"torchvision-0.2.0+rocm7.1.0"}


def test_pre_releases_beside_final_versions(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    """uv takes no pre-release that only another package pins, unless it is told to."""
    for rocm, torch in (("7.1.0", "2.9.0"), ("7.2.0a20261120", "2.10.0")):
        write_release(tmp_path / "dist", rocm, torch)
    rocwheel.run("index", "build", tmp_path / "dist", "--now", NOW)
    page = (tmp_path / "dist").as_uri() + "/chooser.html"
    choice = {**CHOICE, "rocm": "7.2.0a20261120"}
    for installer in ("pip", "uv"):
        browser.open(page + fragment(**choice, installer=installer))
        target = tmp_path / installer
        words = shell_words(lines(browser))
        words += ["--target", str(target)]
        run(*words, environment=clean_environment())
        assert {"torch-2.10.0+rocm7.2.0a20261120", "rocm-7.2.0a20261120"} <= installed(target)
    browser.open(page + fragment(**choice, installer="uv-project"))
    (tmp_path / "pyproject.toml").write_text(lines(browser))
    environment = clean_environment(UV_DEFAULT_INDEX="http://127.0.0.1:9/", UV_PYTHON=sys.executable)
    run(UV, "lock", environment=environment, cwd=tmp_path)
    assert "7.2.0a20261120" in (tmp_path / "uv.lock").read_text()
    # A final version needs no word.
    browser.open(page + fragment(**{**CHOICE, "rocm": "7.1.0"}))
    assert "--pre" not in lines(browser)


def test_a_link_cannot_choose_the_index(browser: Browser, site: Site) -> None:
    evil = fragment(**CHOICE, index="https://evil.invalid/", address="https://evil.invalid/", installer="'x")
    browser.open(site.address + "chooser.html" + evil)
    assert "evil" not in browser.run("return document.body.innerText") and site.address in lines(browser)
    set_address = (
        "const one = document.getElementById('address'); one.value = arguments[0];one.dispatchEvent(new Event('input'))"
    )
    browser.run(set_address, "https://example.invalid/it's;reboot?x#y")
    assert shell_words(lines(browser))[2:4] == ["--index-url", "https://example.invalid/it's;reboot/"]
    browser.run(set_address, "javascript:alert(1)")
    assert "not complete" in text(browser, "hole-text")


def test_texts_of_strangers_do_nothing(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    evil = "</script><script>window.hit = 1</script><img src=x onerror='window.hit=2'>"
    tag = f"{OWN_TAG}-{OWN_TAG}-linux_x86_64"
    extra = "Provides-Extra: device-gfx942'\"><img src=x onerror=window.hit=3>"
    write_wheel(tmp_path, "torch", "2.9.1", tag, extra, 'Requires-Dist: <b>x; extra == "<i>"')
    (tmp_path / "index-status.toml").write_text(
        f'[[yanked]]\nproject = "torch"\nversion = "2.9.1"\nreason = {json.dumps(evil)}\n'
        f'[project.torch]\nstatus = "deprecated"\nreason = {json.dumps(evil)}\n'
    )
    rocwheel.run("index", "build", tmp_path, "--now", NOW)
    page = tmp_path.as_uri() + "/chooser.html"
    browser.open(page + fragment(package="torch", version="2.9.1", python=OWN, system="linux-x86_64"))
    assert browser.run("return window.hit ?? null") is None
    assert evil in browser.run("return document.body.innerText")
    assert browser.run("return document.images.length") == 0


def test_without_scripts_there_is_a_table(browser: Browser, site: Site) -> None:
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(site.file + "chooser.html")
        source = browser.ask("GET", f"{browser.session}/source")
        (table,) = re.findall(r"<noscript>(.*?)</noscript>", source, re.S)
        browser.resize(360)
        wide = "return [...document.querySelectorAll('noscript td')].map((one) => one.getBoundingClientRect().right)"
        assert browser.run("return document.documentElement.scrollWidth") == 360 and max(browser.run(wide)) <= 360
        browser.run("document.querySelectorAll('noscript th').forEach((one) => { if (!one.scope) throw one; })")
        assert "<td>torch</td><td>2.10.0+rocm7.2.0</td><td>2</td>" in table
        shown = browser.run("return document.body.innerText")
        assert "2.10.0+rocm7.2.0" in shown and "Install" not in shown and "Theme" not in shown
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)


def test_changes_are_listed(browser: Browser, site: Site, tmp_path: Path) -> None:
    """A publisher hands them to the page; the data is what it hands over."""
    changes = {
        "since": "2026-11-19 <b>",
        "added": [["torch", "2.10.0+rocm7.2.0", 5], ["rocm", "7.2.0", 1]],
        "removed": [["torch", "2.8.0", 2]],
        "withdrawn": [],
    }
    page = (site.root / "chooser.html").read_text()
    assert page.count('"changes":null') == 1
    changed = tmp_path / "chooser.html"
    changed.write_text(page.replace('"changes":null', '"changes":' + json.dumps(changes).replace("<", "\\u003c")))
    browser.open(changed.as_uri())
    shown = browser.run("return document.getElementById('changes').innerText")
    assert shown.split("\n")[0] == "Since 2026-11-19 <b>" and "Withdrawn" not in shown
    assert "torch 2.10.0+rocm7.2.0 5 files" in shown and "rocm 7.2.0 1 file" in shown and "Removed" in shown
    browser.open(site.file + "chooser.html")
    assert browser.run("return document.getElementById('changes').hidden")


# What is asked of each page, as the rules of axe-core ask it: names, labels, contrast.
ACCESSIBLE = (Path(__file__).parent / "accessible.js").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_everybody_can_use_it(browser: Browser, site: Site, width: int, scheme: str) -> None:
    browser.resize(width)
    browser.prefer(scheme)
    states = [
        "",
        fragment(**CHOICE),
        fragment(**CHOICE, installer="uv-project"),
        fragment(**CHOICE, installer="pylock"),
        fragment(**{**CHOICE, "rocm": "7.2.0"}),
        fragment(package="torch", gpu="gfx942", python="3.13", system="windows-x86_64"),
    ]
    for state in states:
        browser.open(site.file + "chooser.html" + state)
        found = browser.run(ACCESSIBLE)
        assert (found["problems"], found["wide"]) == ([], 0), state
        assert found["least"] >= 4.5
        applied = browser.run("return getComputedStyle(document.documentElement).colorScheme")
        assert applied == scheme


def test_radeons_come_first_and_cards_are_found(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    targets = ("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1103", "gfx1151", "gfx1201")
    for target in targets:
        write_wheel(tmp_path, f"rocm-sdk-device-{target}", "7.1.0", "py3-none-any")
    rocwheel.run("index", "build", tmp_path, "--now", NOW)
    browser.resize(360)
    browser.open(f"{tmp_path.as_uri()}/chooser.html")
    offered = browser.run("return [...document.querySelectorAll('#gpus input')].map((one) => one.value)")
    assert offered[: len(targets)] == ["gfx1201", "gfx1100", "gfx1030", "gfx1151", "gfx1103", "gfx942", "gfx90a"]
    tab_to(browser, "gpu-search")
    browser.type(*"7900 gre")
    shown = browser.run(
        "return [...document.querySelectorAll('#gpus label')].filter((one) => !one.hidden)[0].innerText"
    )
    assert "AMD RX 7900 XTX: Radeon RX 7900 GRE" in shown and text(browser, "gpu-count") == "1 GPU"


def test_hashes_that_cannot_be_had(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    """A set that needs another index has no lock, and a page without hashes none either."""
    root = tmp_path / "dist"
    write_release(root, "7.1.0", "2.9.1")
    tag = f"{OWN_TAG}-{OWN_TAG}-manylinux_2_28_x86_64"
    write_wheel(root, "apex", "1.0+rocm7.1.0", tag, "Requires-Dist: rocm==7.1.0", "Requires-Dist: filelock")
    rocwheel.run("index", "build", root, "--now", NOW)
    with Servers(rocwheel, tmp_path) as servers:
        address = servers.start("plain", root)
        page = root / "simple/rocm-sdk-core/index.html"
        # A browser keeps an old page for a part of its age, if no header says otherwise.
        os.utime(page, (0, 0))
        choice = {**CHOICE, "package": "apex"}
        browser.open(address + "chooser.html" + fragment(**choice, installer="pylock"))
        assert "has no filelock" in text(browser, "hole-text")
        browser.open(address + "chooser.html" + fragment(**choice, installer="hashes"))
        assert "&& pip install" in lines_with_hashes(browser)
        page.write_text(re.sub("#sha256=[0-9a-f]*", "", page.read_text()))
        browser.open(address + "chooser.html?again" + fragment(**CHOICE, installer="pylock"))
        for _ in range(100):
            if text(browser, "hole-text"):
                break
            time.sleep(0.05)
        assert "has no hash of rocm_sdk_core-7.1.0" in text(browser, "hole-text")


def test_every_stop_of_the_keyboard_is_seen(browser: Browser, site: Site) -> None:
    browser.resize(768)
    browser.open(site.file + "chooser.html" + fragment(**CHOICE))
    stops = []
    for _ in range(80):
        browser.type(TAB)
        found = focused(browser)
        if found["tag"] == "BODY":
            break
        stops.append(found["id"] or found["name"])
        assert found["outline"] == "solid" or found["tag"] == "A", found
    assert {"theme", "gpu-search", "gpu", "package", "version", "python", "system", "installer", "copy"} <= set(stops)
    assert {"address", "search"} <= set(stops)


def test_the_theme_is_a_choice(browser: Browser, site: Site) -> None:
    browser.prefer("light")
    browser.open(site.address + "chooser.html")
    scheme = "return getComputedStyle(document.documentElement).colorScheme"
    seen = []
    for _ in range(3):
        browser.run("document.getElementById('theme').click()")
        seen.append((text(browser, "theme"), browser.run(scheme)))
    assert seen == [("Theme: light", "light"), ("Theme: dark", "dark"), ("Theme: auto", "light")]


def test_installers_do_not_see_the_page(rocwheel: Rocwheel, site: Site, tmp_path: Path) -> None:
    """The way to it is a button: a link would be a project or a file for programs."""
    first = (site.root / "simple/index.html").read_text()
    assert '<form action="../chooser.html"><button>' in first and first.count("<a ") == first.count("</a><br>")
    assert 'action="chooser.html"' in (site.root / "index.html").read_text()
    # The set has holes on purpose, which are all that is wrong.
    said = rocwheel.run("index", "check", site.root, "--files", expect=1)
    holes = [line for line in said.stdout.splitlines() if line.startswith("error")]
    assert all("of its own version, and the index has none" in line for line in holes)
    assert f"{len(holes)} errors, 0 warnings" in said.stderr
    again = rocwheel.json("index", "build", site.root, "--now", NOW)
    assert again["pages"] == [] and again["indexes"][0]["chooser"] == "chooser.html"
    page = (site.root / "chooser.html").read_bytes()
    assert b"<noscript>" in page and b"http-equiv" in page
    assert re.findall(rb'(?:src|href)="(?!#)', page) == []

    copy = tmp_path / "copy"
    shutil.copytree(site.root, copy)
    rocwheel.run("index", "build", copy, "--no-chooser", "--now", NOW)
    assert not (copy / "chooser.html").exists() and "<form" not in (copy / "index.html").read_text()
    (copy / "chooser.html").write_text("mine")
    rocwheel.run("index", "build", copy, "--no-chooser", "--now", NOW)
    assert (copy / "chooser.html").read_text() == "mine"
    rocwheel.run("index", "build", copy, "--now", NOW, expect=1).says("chooser.html` was not written by")


@pytest.mark.parametrize("kind", ["nginx", "caddy"])
def test_web_servers_serve_it(rocwheel: Rocwheel, browser: Browser, site: Site, kind: str, tmp_path: Path) -> None:
    # A configuration has no name with a quote.
    root = tmp_path / "dist"
    root.symlink_to(site.root)
    with Servers(rocwheel, tmp_path) as servers:
        address = servers.start(kind, root)
        browser.open(address)
        browser.run("document.querySelector('form button').click()")
        browser.open(browser.run("return location.href").rstrip("?") + fragment(**CHOICE))
        assert f"--index-url {address}simple/" in lines(browser)
        with urllib.request.urlopen(address + "chooser.html") as answer:
            assert answer.headers["Content-Type"].startswith("text/html")
            assert answer.headers["Cache-Control"] == "no-cache"


def test_a_run_for_one_project_renews_the_page(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    """Such a run looks at no other project: the page has the others as they were."""
    root = tmp_path / "whl-next"
    divided_release(tmp_path / "flat", lambda _: root)
    rocwheel.run("index", "build", root, "--now", NOW)
    assert "<form" in (root / "index.html").read_text()
    tag = f"{OWN_TAG}-{OWN_TAG}-manylinux_2_28_x86_64"
    write_wheel(root / "torch", "torch", "2.99.0+rocm7.1.0", tag, "Requires-Dist: rocm[libraries]==7.1.0")
    rocwheel.run("index", "build", root, "--project", "torch", "--now", NOW)
    renewed = (root / "chooser.html").read_bytes()
    choice = {"package": "torch", "gpu": "gfx1100", "python": OWN, "system": "linux-x86_64"}
    browser.open(f"{root.as_uri()}/chooser.html" + fragment(**choice, version="2.99.0+rocm7.1.0"))
    assert "torch==2.99.0+rocm7.1.0" in lines(browser)
    target = tmp_path / "target"
    run(*shell_words(lines(browser)), environment=clean_environment(PIP_TARGET=str(target)))
    assert installed(target) == {name for name in RELEASE if "torch" not in name} | {"torch-2.99.0+rocm7.1.0"}
    browser.open(f"{root.as_uri()}/chooser.html" + fragment(**CHOICE, version="2.9.1+rocm7.1.0"))
    assert "torch[device-gfx1100]==2.9.1+rocm7.1.0" in lines(browser)
    # A whole run finds nothing to change, also without the records.
    for _ in range(2):
        rocwheel.run("index", "build", root, "--now", NOW)
        assert (root / "chooser.html").read_bytes() == renewed
        shutil.rmtree(root / ".rocwheel")


def test_an_index_over_several_has_the_page(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    """Its products' own pages know what packages require."""
    site = tmp_path / "site"
    divided_release(
        tmp_path / "flat", lambda project: site / f"rocm/{'pytorch' if 'torch' in project else 'core'}/whl-next"
    )
    owners = ("core/whl-next", "pytorch/whl-next")
    for owner in owners:
        rocwheel.run("index", "build", site / "rocm" / owner, "--now", NOW)
    words = ("index", "build", site, "--aggregate", *owners)
    rocwheel.run(*words)
    page = site / "rocm/whl-next/chooser.html"
    assert '<form action="chooser.html">' in page.with_name("index.html").read_text()
    address = f"{page.parent.as_uri()}/"
    for installer in ("pip", "uv"):
        browser.open(address + "chooser.html" + fragment(**CHOICE, installer=installer))
        assert address in lines(browser)
        target = tmp_path / installer
        command = shell_words(lines(browser)) + (["--target", str(target)] if installer == "uv" else [])
        run(*command, environment=clean_environment(PIP_TARGET=str(target)))
        assert installed(target) == RELEASE
    before = page.read_bytes()
    rocwheel.run(*words, "--dry-run", "--no-chooser")
    assert page.read_bytes() == before
    rocwheel.run(*words, "--no-chooser")
    assert not page.exists() and "<form" not in page.with_name("index.html").read_text()
