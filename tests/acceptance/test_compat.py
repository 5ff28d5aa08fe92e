"""`rocwheel compat build_python_packages` against what today's script makes of the same artifacts.

`snapshots/therock-*.json` hold what ROCm/TheRock's build_python_packages.py (commit 89553ce3746e)
made of the artifacts of therock.py, those for Windows under a Python that says it runs there:
names, files, links of the devel tree, search paths, requirements, scripts and generated lines. Each
difference has to be a deviation that is listed here with its reason, and each deviation has to
occur.
"""

import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
import therock
from elftools.elf.elffile import ELFFile

from command import Rocwheel

HERE = Path(__file__).resolve().parent
FAMILIES = {
    "kpack": ("--linux-amdgpu-families", "gfx94X-dcgpu;gfx1100", "--windows-amdgpu-families", "gfx1100"),
    "legacy": ("--linux-amdgpu-families", "", "--windows-amdgpu-families", ""),
    "windows": ("--linux-amdgpu-families", "gfx94X-dcgpu;gfx1100", "--windows-amdgpu-families", "gfx1100;gfx1151"),
}

# What differs on purpose: the kinds of packages it is in, a pattern for the lines, and the reason.
DEVIATIONS = {
    "kpack": [
        ("one more file for our own tests and launchers", r"\w+ file \+ \w+/_contents\.json"),
        (
            "libraries, devel and profiler require core",
            r"rocm_(profiler|sdk_(devel|libraries\w*)) requires \+ rocm-sdk-core==.*",
        ),
        ("scripts only for programs that are there", r"rocm_(sdk_core|profiler) script - .*"),
        ("links into other artifacts become stubs", r"rocm_sdk_core file \+ _rocm_sdk_core/bin/amdclang"),
        ("init makes the module of the devel tree", r"rocm_sdk_devel devel - _rocm_sdk_devel/__init__\.py"),
        (
            "each device package owns one module, none owns that of the libraries",
            r"rocm_sdk_device_\w+ file [+-] _rocm_sdk_libraries/(__init__|_device_\w+)\.py",
        ),
        ("and it is in the devel tree", r"rocm_sdk_device_\w+ link \+ _device_\w+\.py .*"),
        ("the lowest manylinux tag that the symbols allow", r"\w+ tag [+-] .*"),
        ("search paths are those that are needed, without repetitions", r"\w+ rpath [+-] .*"),
        ("sdists build with what they bring", r"rocm file [+-] (MANIFEST\.in|setup\.(cfg|py)|rocm_build\.py)"),
        ("the module rocm_sdk is ours", r"rocm file [+-] src/rocm_sdk/.*"),
        ("it knows a package of an open change", r"[\w/-]+ generated \+ ALL_PACKAGES\.pop\('hpc', None\)"),
    ]
}
DEVIATIONS["legacy"] = [
    *(one for one in DEVIATIONS["kpack"] if "device package" not in one[0] and "in the devel tree" not in one[0]),
    ("import packages of families can be imported", r"rocm_sdk_libraries_\w+ file [+-] _?rocm_sdk_libraries_.*"),
    (
        "what is for a family has it as default",
        r"rocm_sdk_(devel|libraries\w*) generated [+-] (DEFAULT|AVAILABLE)_TARGET_FAMIL.*",
    ),
    ("the default is the first by number", r"rocm_(sdk_core|profiler) generated [+-] DEFAULT_TARGET_FAMILY = .*"),
    ("there are no device packages to promise", r"[\w/-]+ generated \+ ALL_PACKAGES\.pop\('device', None\)"),
    ("and so no extras for them", r"[\w/-]*rocm extra - device.*"),
]
LINUX_ONLY = ("become stubs", "manylinux tag", "search paths")
DEVIATIONS["windows"] = [
    *(one for one in DEVIATIONS["kpack"] if not any(words in one[0] for words in LINUX_ONLY)),
    ("there are no profilers to promise", r"[\w/-]+ generated \+ ALL_PACKAGES\.pop\('profiler', None\)"),
    ("and so no extra for them", r"rocm extra - profiler rocm-profiler==.*"),
]


def generated(text: str) -> list[str]:
    """The assignments at the end of `_dist_info.py`, with their place."""
    lines = text.splitlines()
    begin = max(at for at, line in enumerate(lines) if line.startswith("__version__ ="))
    return [f"{at:02} {line}" for at, line in enumerate(lines[begin:])]


def sections(requires: str) -> list[str]:
    """`requires.txt` as `extra requirement` lines."""
    found, section = [], ""
    for line in filter(None, requires.splitlines()):
        if line.startswith("["):
            section = line.strip("[]")
        else:
            found.append(f"{section} {line}".strip())
    return found


def describe_wheel(path: Path) -> list[str]:
    lines = [f"tag {path.stem.split('-')[-1]}"]
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".dist-info/METADATA"):
                head = archive.read(name).decode().split("\n\n")[0].splitlines()
                lines += [f"requires {line.split(': ')[1]}" for line in head if line.startswith("Requires-Dist: ")]
            elif name.endswith(".dist-info/entry_points.txt"):
                scripts = archive.read(name).decode().splitlines()
                lines += [f"script {line.split('=')[0].strip()}" for line in scripts if "=" in line]
            if ".dist-info/" in name:
                continue
            lines.append(f"file {name}")
            content = archive.read(name)
            if name.endswith("/_dist_info.py"):
                lines += [f"generated {line[3:]}" for line in generated(content.decode())]
            elif name.endswith("/_devel.tar"):
                with tarfile.open(fileobj=io.BytesIO(content)) as tar:
                    for member in tar:
                        end = f" -> {member.linkname}" if member.issym() else "/" if member.isdir() else ""
                        lines.append(f"devel {member.name}{end}")
            elif name.endswith(("/.devel_links/gfx942.json", "/.devel_links/gfx1151.json")):
                lines += [f"link {one['relpath']} {one['target']}" for one in json.loads(content)["links"]]
            elif content.startswith(b"\x7fELF"):
                dynamic = ELFFile(io.BytesIO(content)).get_section_by_name(".dynamic")
                tags = list(dynamic.iter_tags()) if dynamic else []
                lines += [
                    f"rpath {name} {tag.entry.d_tag} {tag.rpath}" for tag in tags if tag.entry.d_tag == "DT_RPATH"
                ]
                lines += [f"rpath {name} DT_RUNPATH" for tag in tags if tag.entry.d_tag == "DT_RUNPATH"]
    return lines


def describe_sdist(path: Path) -> list[str]:
    lines = []
    with tarfile.open(path) as tar:
        for member in filter(tarfile.TarInfo.isfile, tar):
            name = member.name.partition("/")[2]
            lines.append(f"file {name}")
            text = tar.extractfile(member).read().decode()
            if name.endswith("/_dist_info.py"):
                lines += [f"generated {line[3:]}" for line in generated(text)]
            elif name.endswith("/requires.txt"):
                lines += [f"extra {line}" for line in sections(text)]
    return lines


def describe(dist: Path) -> dict[str, list[str]]:
    """Everything about a set that the two tools can be compared by."""
    found = {}
    for path in sorted(dist.rglob("*")):
        if path.suffix in (".whl", ".gz"):
            lines = describe_wheel(path) if path.suffix == ".whl" else describe_sdist(path)
            found[str(path.relative_to(dist).parent / path.name.split("-")[0])] = sorted(lines)
    return found


def differences(today: dict[str, list[str]], here: dict[str, list[str]]) -> list[str]:
    lines = []
    for package in sorted(today.keys() | here.keys()):
        old, new = set(today.get(package, ["package"])), set(here.get(package, ["package"]))
        for sign, only in (("-", old - new), ("+", new - old)):
            for line in sorted(only):
                part, _, rest = line.partition(" ")
                lines.append(f"{package} {part} {sign} {rest}")
    return lines


@pytest.mark.parametrize("kind", sorted(therock.BUILDS))
def test_it_differs_from_today_only_where_it_is_said(rocwheel: Rocwheel, kind: str, tmp_path: Path) -> None:
    artifacts, output = tmp_path / "artifacts", tmp_path / "out"
    artifacts.mkdir()
    therock.BUILDS[kind](artifacts)
    script = ("compat", "build_python_packages", "--artifact-dir", artifacts, "--dest-dir", output)
    rocwheel.run(*script, "--version", therock.VERSION, *FAMILIES[kind])
    today = json.loads((HERE / f"snapshots/therock-{kind}.json").read_text())
    unexplained, met = [], set()
    for line in differences(today, describe(output / "dist")):
        reasons = [reason for reason, pattern in DEVIATIONS[kind] if re.fullmatch(rf"([\w-]+/)?{pattern}", line)]
        met.update(reasons[:1])
        if not reasons:
            unexplained.append(line)
    assert unexplained == []
    assert {reason for reason, _ in DEVIATIONS[kind]} == met, "a deviation that is no more"
