"""The packages themselves: formats, metadata, tags, and what other tools say of them."""

import json
import re
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from importlib import resources
from pathlib import Path
from typing import BinaryIO

import pytest
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from command import TOOLS, run
from packages import PackageSet, metadata, record_problems


def test_the_expected_distributions_are_there(package_set: PackageSet) -> None:
    names = {wheel.name.split("-")[0] for wheel in package_set.wheels}
    assert {"rocm_sdk_core", "rocm_sdk_libraries", "rocm_sdk_devel"} <= names
    assert package_set.sdist.name == f"rocm-{package_set.manifest['rocm_package_version']}.tar.gz"
    assert {path.suffix for path in package_set.dist.iterdir()} <= {".whl", ".gz"}, "dist holds something else"


def test_every_member_reads_back_as_record_says(package_set: PackageSet) -> None:
    assert [problem for wheel in package_set.wheels for problem in record_problems(wheel)] == []


def test_python_reads_every_wheel(package_set: PackageSet) -> None:
    for wheel in package_set.wheels:
        said = run(sys.executable, "-m", "zipfile", "-t", wheel)
        assert "Done testing" in said.stdout and "bad" not in said.stdout, said.stdout


def test_twine_is_content(package_set: PackageSet) -> None:
    said = run(TOOLS / "twine", "check", "--strict", *package_set.wheels, package_set.sdist)
    assert said.stdout.count("PASSED") == len(package_set.wheels) + 1, said.stdout


def test_check_wheel_contents_is_content(package_set: PackageSet) -> None:
    # W002, equal files: real ROCm trees have them.
    run(TOOLS / "check-wheel-contents", "--no-config", "--ignore", "W002", *package_set.wheels)


def test_metadata_is_complete(package_set: PackageSet) -> None:
    version = package_set.manifest["rocm_package_version"]
    for wheel in package_set.wheels:
        fields = HeaderParser().parsestr(metadata(wheel))
        name = fields["Name"]
        assert fields["Version"] == version
        for field in ("Metadata-Version", "Summary", "License-Expression", "Requires-Python"):
            assert fields[field], f"{name} has no {field}"
        with zipfile.ZipFile(wheel) as archive:
            held = set(archive.namelist())
        (directory,) = {member.split("/")[0] for member in held if ".dist-info/" in member}
        for licence in fields.get_all("License-File", []):
            assert f"{directory}/licenses/{licence}" in held, f"{name} names {licence} and does not hold it"
        required = fields.get_all("Requires-Dist", [])
        if name != "rocm-sdk-core":
            needed = "rocm-sdk-libraries" if name.startswith("rocm-sdk-device-") else "rocm-sdk-core"
            assert f"{needed}=={version}" in [one.replace(" ", "") for one in required], (name, required)


def test_the_licences_of_bundled_libraries_are_in_the_wheel(package_set: PackageSet) -> None:
    fields = HeaderParser().parsestr(metadata(package_set.wheel("rocm_sdk_core")))
    licences = fields.get_all("License-File", [])
    for package in ("libdrm2", "libnuma1", "libelf1", "libxml2"):
        assert any(package in licence for licence in licences), (package, licences)


def test_the_sdist_says_that_requirements_are_dynamic(package_set: PackageSet) -> None:
    with tarfile.open(package_set.sdist) as archive:
        (name,) = [name for name in archive.getnames() if re.fullmatch(r"[^/]+/PKG-INFO", name)]
        info = archive.extractfile(name).read().decode()
    lines = info.splitlines()
    assert "Dynamic: Requires-Dist" in lines and "Dynamic: Provides-Extra" in lines


def test_the_manifest_names_every_source(package_set: PackageSet) -> None:
    text = json.dumps(package_set.manifest)
    for deb in package_set.debs:
        assert deb.name.split("_")[0] in text, f"{deb.name} is not in the manifest"
    assert re.search(r"\b[0-9a-f]{64}\b", text), "no checksum of any source"


# -- platform tags: auditwheel's own policy table is the judge
# -----------------------------------------------------------


def policies() -> list[dict]:
    text = resources.files("auditwheel.policy").joinpath("manylinux-policy.json").read_text()
    found = [one for one in json.loads(text) if re.fullmatch(r"manylinux_2_\d+", one["name"])]
    return sorted(found, key=lambda one: -one["priority"])


def needed_versions(content: BinaryIO) -> dict[str, set[str]]:
    """Version prefix → versions, for example GLIBC → {2.2.5, 2.36}, of one ELF file; empty for
    anything else."""
    needed: dict[str, set[str]] = {}
    try:
        elf = ELFFile(content)
    except ELFError:
        return needed
    if elf["e_machine"] != "EM_X86_64":
        return needed
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            for _, versions in section.iter_versions():
                for version in versions:
                    prefix, _, number = version.name.partition("_")
                    if prefix in ("GLIBC", "GLIBCXX", "CXXABI", "GCC"):
                        needed.setdefault(prefix, set()).add(number)
    return needed


def lowest_policy(site: Path) -> str:
    """The oldest manylinux platform that has every symbol version that the files below a directory
    need."""
    needed: dict[str, set[str]] = {}
    for path in site.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as content:
                if content.read(4) == b"\x7fELF":
                    for prefix, versions in needed_versions(content).items():
                        needed.setdefault(prefix, set()).update(versions)
    for policy in policies():
        allowed = policy["symbol_versions"]["x86_64"]
        if all(versions <= set(allowed.get(prefix, [])) for prefix, versions in needed.items()):
            return policy["name"]
    raise AssertionError(f"no policy has {needed}")


@pytest.mark.parametrize("distribution", ["rocm_sdk_core", "rocm_sdk_libraries"])
def test_the_platform_tag_is_what_the_symbols_need(package_set: PackageSet, distribution: str, tmp_path: Path) -> None:
    wheel = package_set.wheel(distribution)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    expected = lowest_policy(tmp_path)
    assert wheel.name.endswith(f"-py3-none-{expected}_x86_64.whl"), (wheel.name, expected)
