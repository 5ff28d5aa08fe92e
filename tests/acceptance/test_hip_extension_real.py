"""The example of a HIP extension: one command compiles, repairs, splits, installs and calls it, on
ROCm packages of ours."""

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import engines
from command import REPOSITORY, TOOLS, UV, Rocwheel, download, run
from engines import Engine
from environment import Environment
from packages import PackageSet

EXAMPLE = REPOSITORY / "examples/hip-extension"
TARGETS = ("gfx90a", "gfx942", "gfx1100", "gfx1201")


@pytest.fixture(scope="module")
def built(rocwheel: Rocwheel, package_set: PackageSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheels of the example, built by its own recipe from a copy of its sources."""
    folder = tmp_path_factory.mktemp("hip")
    shutil.copytree(EXAMPLE, folder / "source")
    arguments = ("build", "hip-extension", "--recipes", EXAMPLE / "recipes", "--source", folder / "source")
    sdk = ("--rocm-sdk", f"directory={package_set.dist}")
    # Debian's HIP is older than kpack and cannot read code that was split off; the audit says so.
    options = (*arguments, *sdk, "--gpu-targets", ";".join(TARGETS), "--output", folder / "out", "--keep", "--no-audit")
    environment = {"PATH": f"{UV.parent}:/usr/local/bin:/usr/bin:/bin", "UV_CACHE_DIR": str(folder / "cache")}
    rocwheel.run(*options, environment=environment)
    return folder / "out"


@pytest.fixture(scope="module")
def manylinux(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Docker with an image that has what cibuildwheel asks of one, made from Debian: the manylinux
    images are in a registry, which not every machine reaches."""
    with engines.docker(tmp_path_factory.mktemp("docker")) as engine:
        engine.import_root(
            engines.root("bookworm", "clang-19", "clang-tools-19", "lld-19", "llvm-19", "python3-build", "python3-dev"),
            "debian",
        )
        # cibuildwheel runs its own lines of Python with that of 3.9.
        pythons = """python3 -m venv --system-site-packages /opt/python/cp311-cp311
            ln -s cp311-cp311 /opt/python/cp39-cp39"""
        engine.derive("debian", "manylinux", pythons)
        yield engine


def test_cibuildwheel_makes_a_wheel(
    rocwheel: Rocwheel, tool: Path, manylinux: Engine, package_set: PackageSet, tmp_path: Path
) -> None:
    """With the lines of docs/ci.md, and an index for everything: the container has no network."""
    index = shutil.copytree(package_set.dist, tmp_path / "index", copy_function=os.link)
    shutil.copy(tool, index)
    download(index, "setuptools==80.9.0")
    rocwheel.run("index", "build", index)
    # cibuildwheel mounts the machine there.
    address = f"file:///host{index}/simple/"
    project = shutil.copytree(EXAMPLE, tmp_path / "project")
    (lines,) = re.findall(
        r"^```toml\n(\[tool\.cibuildwheel\.linux\]\n.*?)^```", (REPOSITORY / "docs/ci.md").read_text(), re.M | re.S
    )
    with (project / "pyproject.toml").open("a") as options:
        options.write(lines.replace("INDEX_OF_ROCM", address))
    settings = {
        "CIBW_BUILD": "cp311-manylinux_x86_64",
        "CIBW_MANYLINUX_X86_64_IMAGE": "manylinux",
        # abi3audit, for which cibuildwheel fetches virtualenv from GitHub.
        "CIBW_AUDIT_COMMAND": "",
        "CIBW_ENVIRONMENT": f"PIP_INDEX_URL={address} PIP_NO_CACHE_DIR=1 HIP_TARGETS=gfx1100",
    }
    environment = {**manylinux.environment, **settings, "PATH": "/usr/bin:/bin"}
    words = (TOOLS / "cibuildwheel", "--platform", "linux", "--output-dir", tmp_path / "wheelhouse")
    run(*words, cwd=project, environment=environment)
    (repaired,) = (tmp_path / "wheelhouse").iterdir()
    assert "-cp38-abi3-manylinux_" in repaired.name
    user = Environment.create(tmp_path / "user", "uv")
    user.install(package_set.dist, str(repaired))
    code = "import hip_extension\ntry: print(hip_extension.device_count())\nexcept RuntimeError as error: print(error)"
    said = user.run(user.python, "-c", code).stdout
    assert "HIP error 10" in said or said.strip().isdigit(), said


def statement(wheel: Path) -> dict:
    return json.loads(wheel.with_name(f"{wheel.name}.provenance.json").read_text())


def test_one_command_makes_a_wheel_for_each_target(rocwheel: Rocwheel, built: Path, package_set: PackageSet) -> None:
    wheels = sorted(built.glob("*.whl"))
    devices = [wheel for wheel in wheels if "_device_" in wheel.name]
    (host,) = [wheel for wheel in wheels if wheel not in devices]
    assert "-cp38-abi3-manylinux_" in host.name, host
    assert {wheel.name.split("-")[0].rpartition("_")[2] for wheel in devices} == set(TARGETS)
    said = rocwheel.json("kernels", host, *devices)
    assert {code["target"] for code in said["targets"]} == set(TARGETS)
    with zipfile.ZipFile(host) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        metadata = archive.read(name).decode()
    assert "Requires-Dist: rocm==" in metadata and "Provides-Extra: device-gfx942" in metadata, metadata
    rocwheel.run("audit", host, "--with", package_set.dist, expect=1).prints("RW021")
    (log,) = built.glob(".rocwheel/jobs/*/logs/*-check-call.log")
    # Called where nothing but the result and what it requires is installed. There may be a GPU.
    assert "HIP error 10" in log.read_text() or "[3.0, 6.0]" in log.read_text()


def test_every_file_says_where_it_comes_from(built: Path, package_set: PackageSet) -> None:
    wheels = sorted(built.glob("*.whl"))
    assert len(wheels) == 5
    for wheel in wheels:
        stated = statement(wheel)
        assert stated["_type"] == "https://in-toto.io/Statement/v1"
        assert stated["predicateType"] == "https://slsa.dev/provenance/v1"
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        assert stated["subject"] == [{"name": wheel.name, "digest": {"sha256": digest}}]
        definition = stated["predicate"]["buildDefinition"]
        assert definition["externalParameters"]["recipe"] == "hip-extension"
        assert definition["externalParameters"]["repair"] == "rocm"
        assert definition["externalParameters"]["cell"]["targets"] == list(TARGETS)
        dependencies = {one["name"]: one for one in definition["resolvedDependencies"]}
        assert len(dependencies["hip-extension"]["digest"]["rocwheelTree"]) == 64
        assert dependencies["rocm"]["uri"].startswith("pkg:pypi/rocm@")
        assert dependencies["setuptools"]["uri"].startswith("pkg:pypi/setuptools@")
        assert len(stated["predicate"]["runDetails"]["byproducts"]) == 4
        assert "/tmp" not in json.dumps(stated) and str(package_set.dist) not in json.dumps(stated)


def test_pages_are_made_of_what_is_there(rocwheel: Rocwheel, built: Path, tmp_path: Path) -> None:
    """Release notes, packages, coverage and checksums; a second run changes nothing, and changed
    wheels are noticed."""
    (tmp_path / "README.md").write_text(
        "# Mine\n<!-- rocwheel coverage: begin -->\n<!-- rocwheel coverage: end -->\nrest\n"
    )
    options = ("release", "pages", "--wheels", built, "--output", tmp_path, "--tag", "v1", "--repo", "owner/name")
    options = (*options, "--readme", tmp_path / "README.md", "--history", tmp_path / "history.md")
    rocwheel.run(*options)
    pages = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(pages) == {*("release-notes.md", "packages.md", "coverage.md", "SHA256SUMS", "README.md", "history.md")}
    again = rocwheel.json(*options)
    assert {page["status"] for page in again["pages"]} == {"unchanged"}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == pages
    assert b"hip-extension" in pages["release-notes.md"] and b"gfx90a, gfx942, gfx1100, gfx1201" in pages["packages.md"]
    assert b"https://github.com/owner/name/releases/download/v1/hip_extension-1.0%2Brocm" in pages["packages.md"]
    assert (
        pages["README.md"].startswith(b"# Mine\n")
        and b"In no version of the matrix: apex, flash-attn" in pages["README.md"]
    )
    run("sha256sum", "--check", "--strict", tmp_path / "SHA256SUMS", cwd=built)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in built.glob("hip_extension-*"):
        shutil.copy(path, copy)
    (wheel,) = copy.glob("*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"x")
    said = rocwheel.run("release", "pages", "--wheels", copy, "--dry-run", expect=1).stderr
    assert "it is about another" in said and "was changed after it was built" in said, said
