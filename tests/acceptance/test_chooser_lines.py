"""The lines of `chooser.html`: they bring the packages of the GPU that they name, and no package of
the index comes from another one."""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from browser import Browser
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from test_chooser import (
    NOW,
    OWN,
    OWN_TAG,
    clean_environment,
    fragment,
    installed,
    lines,
    quiet,
    shell_words,
    text,
    write_release,
    write_wheel,
)

from command import UV, Rocwheel, run

__all__ = ["quiet"]

SCRIPTS = Path(__file__).resolve().parents[2] / "crates/publish/pages/src/chooser"
SYSTEM = "linux-x86_64"
OURS = f"{OWN_TAG}-{OWN_TAG}-manylinux_2_28_x86_64"
STRANGER = "Keywords: stranger"
# For each ROCm, the GPUs that have packages; the newest lacks one.
RELEASES = {"7.1.0": ("2.9.1", ("gfx942", "gfx1100")), "7.2.0": ("2.10.0", ("gfx942",))}
NEWEST = {"gfx942": "7.2.0", "gfx1100": "7.1.0"}
PACKAGES = ("torch", "torchvision", "apex", "vllm", "rocm")


def write_set(folder: Path, foreign: str) -> None:
    """Packages that are built on torch and have no extras of their own."""
    for rocm, (torch, targets) in RELEASES.items():
        write_release(folder, rocm, torch, targets)
        own = f"Requires-Dist: torch=={torch}+rocm{rocm}"
        write_wheel(folder, "apex", f"1.0+rocm{rocm}", OURS, own, 'Requires-Dist: nothing; python_version < "3"')
        vision = f"Requires-Dist: torchvision==0.2.0+rocm{rocm}"
        more = [f"Requires-Dist: {foreign}"] if foreign else []
        write_wheel(folder, "vllm", f"0.11+rocm{rocm}", OURS, "Requires-Dist: torch", vision, *more)


def write_strangers(folder: Path) -> None:
    """What anybody can register on another index: the same version with a build tag, a higher
    version, and on some indexes a local version."""
    write_wheel(folder, "helper", "1.5", "py3-none-any", "Requires-Dist: torch>=2", "Requires-Dist: rocm")
    write_wheel(folder, "helper", "2.0", "py3-none-any", "Requires-Dist: torch>=2", "Requires-Dist: rocm")
    for rocm, (torch, targets) in RELEASES.items():
        local = f"{torch}+rocm{rocm}"
        versions = {"rocm": rocm, "rocm-sdk-core": rocm, "rocm-sdk-libraries": rocm, "torch": local}
        versions |= {"torchvision": f"0.2.0+rocm{rocm}", "apex": f"1.0+rocm{rocm}", "vllm": f"0.11+rocm{rocm}"}
        for target in targets:
            versions |= {f"rocm-sdk-device-{target}": rocm, f"amd-torch-device-{target}": local}
        for name, version in versions.items():
            for tag in ("1-py3-none-any", "99-py3-none-manylinux_2_28_x86_64"):
                write_wheel(folder, name, version, tag, STRANGER)
            write_wheel(folder, name, "99.0", "py3-none-any", STRANGER)


@dataclass
class Indexes:
    """An index that has all that is required, one that lacks `helper`, and the public one."""

    closed: str
    open: str
    other: str


@pytest.fixture(scope="module")
def indexes(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Indexes:
    top = tmp_path_factory.mktemp("indexes")
    write_set(top / "closed", "")
    write_set(top / "open", "helper<2")
    write_strangers(top / "other")
    for name in ("closed", "open", "other"):
        rocwheel.run("index", "build", top / name, "--now", NOW)
    return Indexes(*(f"{(top / name).as_uri()}/" for name in ("closed", "open", "other")))


def install(copied: str, installer: str, index: str, other: str, folder: Path) -> Path:
    """Does with the lines what the page tells; the answer is the folder of the packages. `other` is
    the index that people have without saying so."""
    environment = folder / "venv"
    run(UV, "venv", "--quiet", "--python", sys.executable, environment, environment=clean_environment())
    variables = clean_environment(
        PIP_PYTHON=str(environment / "bin/python"),
        PIP_INDEX_URL=f"{other}simple/",
        UV_DEFAULT_INDEX=f"{other}simple/",
        UV_INDEX=f"{other}simple/",
        UV_INDEX_STRATEGY="unsafe-best-match",
        UV_PROJECT_ENVIRONMENT=str(environment),
        VIRTUAL_ENV=str(environment),
    )
    if installer == "requirements":
        (folder / "requirements.txt").write_text(copied)
        (told,) = re.findall("^# (.*)$", copied, re.M) or ["pip install --requirement requirements.txt"]
        copied = told
    elif installer == "docker":
        copied = "\n".join(copied.partition("RUN ")[2].split("\nRUN ")).replace("file:///srv/packages/", index)
    elif installer == "uv-project":
        (folder / "pyproject.toml").write_text(copied)
        copied = f"uv sync --python {shlex.quote(sys.executable)}"
    done = subprocess.run(["bash", "-euc", copied], env=variables, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{copied}\n{done.stdout}\n{done.stderr}"
    (packages,) = (environment / "lib").glob("python*/site-packages")
    return packages


def expected(package: str, gpu: str, helper: bool) -> set[str]:
    rocm = NEWEST[gpu]
    torch = f"{RELEASES[rocm][0]}+rocm{rocm}"
    found = {f"rocm-{rocm}", f"rocm-sdk-core-{rocm}", f"rocm-sdk-libraries-{rocm}", f"rocm-sdk-device-{gpu}-{rocm}"}
    if package == "rocm":
        return found
    found |= {f"torch-{torch}", f"amd-torch-device-{gpu}-{torch}"}
    found |= {f"torchvision-0.2.0+rocm{rocm}"} if package in ("torchvision", "vllm") else set()
    found |= {f"apex-1.0+rocm{rocm}"} if package == "apex" else set()
    return found | ({f"vllm-0.11+rocm{rocm}"} if package == "vllm" else set()) | ({"helper-1.5"} if helper else set())


CASES = [
    *itertools.product(PACKAGES, ("gfx942", "gfx1100"), ("pip", "uv")),
    *itertools.product(("vllm",), ("gfx942",), ("requirements", "docker", "find-links", "uv-project")),
]


@pytest.mark.parametrize("kind", ["closed", "open"])
@pytest.mark.parametrize(("package", "gpu", "installer"), CASES)
def test_each_line_brings_the_gpu_and_nothing_of_strangers(
    browser: Browser, indexes: Indexes, kind: str, package: str, gpu: str, installer: str, tmp_path: Path
) -> None:
    index = {"closed": indexes.closed, "open": indexes.open}[kind]
    choice = {"package": package, "gpu": gpu, "python": OWN, "system": SYSTEM, "installer": installer}
    browser.open(f"{index}chooser.html" + fragment(**choice))
    copied = lines(browser)
    assert "extra-index-url" not in copied and "best-match" not in copied
    needs_helper = kind == "open" and package == "vllm"
    assert ("Not in this index: helper." in text(browser, "notes")) == needs_helper
    packages = install(copied, installer, index, indexes.other, tmp_path)
    found = installed(packages)
    assert {name for name in found if not name.startswith("pip-")} == expected(package, gpu, needs_helper)
    strangers = [path.parent.name for path in packages.glob("*/METADATA") if STRANGER in path.read_text()]
    assert strangers == []


def test_strangers_win_where_pip_looks_in_two_indexes(indexes: Indexes, tmp_path: Path) -> None:
    """What the test above would find: a pin does not keep two indexes apart."""
    line = (
        f"pip install --no-deps --index-url {indexes.open}simple/ --extra-index-url {indexes.other}simple/ rocm==7.1.0"
    )
    packages = install(line, "pip", indexes.open, indexes.other, tmp_path)
    assert STRANGER in (packages / "rocm-7.1.0.dist-info/METADATA").read_text()


def test_the_second_command_does_not_follow_a_failure(browser: Browser, indexes: Indexes, tmp_path: Path) -> None:
    """Without the packages of the first one, it could take them from another index."""
    choice = {"package": "vllm", "gpu": "gfx942", "python": OWN, "system": SYSTEM}
    browser.open(f"{indexes.open}chooser.html" + fragment(**choice))
    copied = lines(browser).replace(indexes.open, "file:///nowhere/")
    variables = clean_environment(PIP_TARGET=str(tmp_path / "target"), PIP_INDEX_URL=f"{indexes.other}simple/")
    done = subprocess.run(["bash", "-c", copied], env=variables, capture_output=True, text=True)
    assert done.returncode != 0 and done.stderr.count("ERROR: No matching distribution") == 1
    assert not (tmp_path / "target").exists()


def test_windows_has_a_line_for_each_command(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    write_wheel(tmp_path, "torch", "1.0+rocm7.1", "py3-none-win_amd64", "Requires-Dist: sympy; sys_platform == 'win32'")
    page = page_of(rocwheel, tmp_path)
    choice = {"package": "torch", "python": OWN, "system": "windows-x86_64"}
    told = ("pip install --no-deps --requirement requirements.txt", "pip install torch==1.0+rocm7.1")
    pip = (f"pip install --no-deps --index-url {tmp_path.as_uri()}/simple/ torch==1.0+rocm7.1", told[1])
    for installer, expected in (("pip", list(pip)), ("requirements", [f"# {line}" for line in told])):
        browser.open(page + fragment(**choice, installer=installer))
        assert lines(browser).splitlines()[:2] == expected
        assert "only after the first has succeeded" in text(browser, "notes")


def page_of(rocwheel: Rocwheel, folder: Path) -> str:
    rocwheel.run("index", "build", folder, "--now", NOW)
    return f"{folder.as_uri()}/chooser.html"


GPU_EXTRA = "Provides-Extra: device-gfx942"
NO_LINES = {
    "a package that others need has nothing for the GPU": (
        {"torch": ["Provides-Extra: device-gfx1100"], "apex": ["Requires-Dist: torch"]},
        "torch 1.0+rocm7.1 has no packages for MI300A/MI300X CDNA (gfx942).",
    ),
    "a part that another one promises is missing": (
        {
            "torch": [GPU_EXTRA, 'Requires-Dist: torch-gfx942==1.0+rocm7.1; extra == "device-gfx942"'],
            "apex": ["Requires-Dist: torch"],
        },
        "torch 1.0+rocm7.1 promises “device-gfx942”, but torch-gfx942 is not in the index.",
    ),
    "the index is for another GPU": (
        {"apex": ["Requires-Dist: rocm-sdk-libraries-gfx1100"], "rocm-sdk-libraries-gfx1100": []},
        "apex 1.0+rocm7.1 brings rocm-sdk-libraries-gfx1100, which is not for MI300A/MI300X CDNA (gfx942).",
    ),
    "ROCm is in another index": (
        {"apex": ["Requires-Dist: rocm[libraries]==7.1.0", GPU_EXTRA]},
        "apex 1.0+rocm7.1 requires rocm==7.1.0, which is not in the index. A package of that name from another index"
        " may be anything.",
    ),
    "a version is missing": (
        {"apex": ["Requires-Dist: torch>=2", GPU_EXTRA], "torch": []},
        f"apex 1.0+rocm7.1 requires torch>=2, which the index does not have for Python {OWN} on Linux.",
    ),
}


@pytest.mark.parametrize("case", NO_LINES)
def test_no_lines_that_lack_something(rocwheel: Rocwheel, browser: Browser, case: str, tmp_path: Path) -> None:
    packages, reason = NO_LINES[case]
    for name, metadata in packages.items():
        write_wheel(tmp_path, name, "1.0+rocm7.1", "py3-none-manylinux_2_28_x86_64", *metadata)
    write_wheel(tmp_path, "other", "1.0", "py3-none-any", GPU_EXTRA)
    page = page_of(rocwheel, tmp_path)
    browser.open(page + fragment(package="apex", gpu="gfx942", python=OWN, system=SYSTEM))
    assert browser.run("return document.getElementById('lines').hidden")
    assert text(browser, "hole-text") == reason


def test_a_gpu_that_packages_do_not_know_is_no_promise(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    write_wheel(tmp_path, "torch", "1.0", "py3-none-any", GPU_EXTRA)
    write_wheel(tmp_path, "fat", "1.0", "py3-none-any")
    page = page_of(rocwheel, tmp_path)
    browser.open(page + fragment(package="fat", gpu="gfx942", python=OWN, system=SYSTEM))
    assert "fat==1.0" in lines(browser)
    assert "cannot tell whether it has code for MI300A/MI300X CDNA (gfx942)" in text(browser, "notes")


def test_a_gpu_is_asked_for_where_only_a_requirement_is_divided(browser: Browser, indexes: Indexes) -> None:
    browser.open(f"{indexes.closed}chooser.html" + fragment(package="torchvision", python=OWN, system=SYSTEM))
    assert browser.run("return document.getElementById('lines').hidden") and "Choose a GPU" in text(browser, "ask")
    rows = browser.run("return [...document.querySelectorAll('#by-gpu tbody th')].map((one) => one.innerText)")
    assert [re.search(r"gfx\w+", row)[0] for row in rows] == ["gfx1100", "gfx942"]


def test_a_companion_is_the_one_for_the_chosen_version(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    """Two branches of torch in one night, each with its torchvision."""
    for torch, vision in (("2.9.1", "0.24.0"), ("2.10.0", "0.25.0")):
        write_wheel(tmp_path, "torch", f"{torch}+rocm7.1", OURS)
        write_wheel(tmp_path, "torchvision", f"{vision}+rocm7.1", OURS, f"Requires-Dist: torch=={torch}+rocm7.1")
    page = page_of(rocwheel, tmp_path)
    choice = {"package": "torch", "version": "2.9.1+rocm7.1", "python": OWN, "system": SYSTEM, "with": "torchvision"}
    browser.open(page + fragment(**choice))
    assert shell_words(lines(browser))[-2:] == ["torch==2.9.1+rocm7.1", "torchvision==0.24.0+rocm7.1"]


def test_the_rocm_of_the_heading_is_installed(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    """Installers compare `rocm10.0` and `rocm7.2` as texts, and `apex` takes any torch."""
    for rocm in ("7.2", "10.0"):
        write_wheel(tmp_path / "set", "torch", f"2.9.1+rocm{rocm}", OURS, "Requires-Dist: typing-extensions")
        write_wheel(tmp_path / "set", "apex", f"1.0+rocm{rocm}", OURS, "Requires-Dist: torch==2.9.1")
    for version in ("4.1", "4.2"):
        write_wheel(tmp_path / "set", "typing-extensions", version, "py3-none-any")
    page = page_of(rocwheel, tmp_path / "set")
    for installer in ("pip", "uv"):
        browser.open(page + fragment(package="apex", python=OWN, system=SYSTEM, installer=installer))
        assert "ROCm 10.0" in text(browser, "summary")
        folder = tmp_path / installer
        folder.mkdir()
        packages = install(lines(browser), installer, "", "file:///nowhere/", folder)
        assert {"apex-1.0+rocm10.0", "torch-2.9.1+rocm10.0", "typing-extensions-4.2"} <= installed(packages)


def evaluate(browser: Browser, expression: str, rows: list) -> list:
    normal = 'const normal = (name) => name.toLowerCase().replace(/[-_.]+/g, "-");'
    source = (SCRIPTS / "requirements.js").read_text()
    browser.post("/url", url="about:blank")
    return browser.run(f"{normal}\n{source}\nreturn arguments[0].map((row) => {expression});", rows)


VERSIONS = (
    "0.9 1 1.0 1.0.0 1.0.1 1.0a1 1.0.b2 1.0rc1 1.0.post1 1.0-1 1.0.dev3 1.0a1.dev2 1.0.post1.dev4 1.0+rocm7.1"
    " 1.0+rocm7.10 1.0+7 1.0.1+abc.5 1.1 1.10 2.0 1!0.5 10.1.0a20261120 2.10.0+rocm7.14.0a20261003"
).split()
SPECIFIERS = (
    "==1.0 ==1.0.* ==1.* !=1.0 !=1.0.* >=1.0 >1.0 <1.0 <=1.0 <1.0rc1 >1.0.post1 ~=1.0 ~=1.0.0 ~=1.0.1 ==1.0+rocm7.1 >=1.0,<2"
    " ==1!0.5 >=1.0a1 <=1.0.post1 >1.0a1 ==2.10.0 ==2.10.0+rocm7.14.0a20261003 !=1.0+rocm7.10 >=1.0.dev1,!=1.0.1"
).split()
MARKERS = {
    "python_version >= '3.9'": True,
    "python_version < '3.10' or sys_platform == 'linux'": True,
    "python_version < '3.10' and sys_platform == 'linux' or platform_machine == 'x86_64'": True,
    "python_version < '3.10' and (sys_platform == 'linux' or platform_machine == 'x86_64')": False,
    "'3.12' <= python_version": True,
    "'linux' in sys_platform": True,
    "sys_platform not in 'win32 darwin'": True,
    "platform_system == 'Windows' or os_name == 'nt'": False,
    'extra == "device_gfx942"': True,
    "extra == 'other' and python_version > '3'": False,
    "platform_python_implementation != 'PyPy' and implementation_name == \"cpython\"": True,
}


def test_versions_and_markers_mean_what_packaging_says(browser: Browser) -> None:
    rows = list(itertools.product(VERSIONS, SPECIFIERS))
    # An empty list of pre-releases would be judged by other rules.
    told = [SpecifierSet(specifier, prereleases=True).contains(Version(version)) for version, specifier in rows]
    found = evaluate(browser, "satisfies(row[0], row[1])", [list(row) for row in rows])
    assert [(row, one) for row, one, right in zip(rows, found, told, strict=True) if one != right] == []
    ordered = sorted(VERSIONS, key=Version)
    pairs = list(itertools.pairwise(ordered))
    found = evaluate(browser, "comparePublic(versionOf(row[0]), versionOf(row[1]))", [list(pair) for pair in pairs])
    told = [Version(Version(one).public) < Version(Version(other).public) for one, other in pairs]
    assert [number < 0 for number in found] == told
    system = '{platform: "linux", machine: "x86_64"}'
    expression = f'applies(row, environmentOf("3.12", {system}), ["device-gfx942"])'
    assert evaluate(browser, expression, list(MARKERS)) == list(MARKERS.values())
    environment = {"python_version": "3.12", "sys_platform": "linux", "platform_machine": "x86_64", "os_name": "posix"}
    environment |= {"platform_system": "Linux", "platform_python_implementation": "CPython"}
    environment |= {"implementation_name": "cpython", "extra": "device-gfx942"}
    assert [Marker(marker).evaluate(environment) for marker in MARKERS] == list(MARKERS.values())
    # What is not known is not a reason to overlook a package.
    unknown = ["python_full_version < '3.12.4'", "platform_release == 'x'", "strange", "(", "'a' == "]
    assert evaluate(browser, expression, unknown) == [True] * len(unknown)
    assert Requirement("torch-gfx942; extra == 'device-gfx942'").marker is not None
