"""What a release of the tool consists of: built twice, installed, and run on an old system, in a
container, by uvx and pipx, and by people who follow the guides in a Debian that has nothing
else."""

import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from guides import script
from test_guides import dist as rocm_dist  # noqa: F401
from test_guides import write_project

import engines
import synthetic
from command import REPOSITORY, TOOLS, Rocwheel, download, run
from small_index import Servers

# Debian 11: the oldest release that mirrors carry.
OLD, OLD_GLIBC = "bullseye", "2.31"


def build(repository: Path, output: Path, target: Path) -> Path:
    """What `make dist` does, from a tree that need not be committed."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "SOURCE_DATE_EPOCH": "1700000000"}
    command = [repository / "scripts/dist", "--dirty", "--output", output]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-8000:]
    return output


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def outputs_in(folder: str, names: list[str], outputs: set[Path]) -> set[str]:
    """What of a folder a copy of the sources leaves behind."""
    return {name for name in names if Path(folder, name) in outputs or name == "__pycache__"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ROCWHEEL_DIST names one that scripts/dist has made."""
    made = os.environ.get("ROCWHEEL_DIST")
    return Path(made) if made else build(REPOSITORY, tmp_path_factory.mktemp("release") / "dist", REPOSITORY / "target")


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def source(dist: Path) -> Path:
    (source,) = (path for path in dist.glob("*.tar.gz") if "-linux-" not in path.name)
    return source


@pytest.fixture(scope="module")
def program(dist: Path) -> Path:
    """The archive of the program."""
    (archive,) = dist.glob("*-x86_64-unknown-linux-gnu.tar.gz")
    return archive


@pytest.fixture(scope="module")
def index(rocwheel: Rocwheel, dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an index that has the release, and what the guides install beside it."""
    folder = tmp_path_factory.mktemp("index")
    for path in [*dist.glob("*.whl"), *dist.glob("rocwheel-*.tar.gz")]:
        if "-linux-gnu" not in path.name:
            shutil.copy(path, folder)
    platform = ("--python-version", "3.12", "--platform", "manylinux_2_28_x86_64")
    download(folder, *platform, "gafime-rocm==0.4.7")
    download(folder, "setuptools==80.9.0", "wheel==0.48.0", "packaging==26.3", "pip==26.3")
    rocwheel.run("index", "build", folder)
    with Servers(rocwheel, tmp_path_factory.mktemp("servers")) as servers:
        yield servers.start("plain", folder) + "simple/"


def test_the_files_are_those_of_a_release(dist: Path, wheel: Path, source: Path, program: Path) -> None:
    names = {path.name for path in dist.iterdir()}
    assert names == {"SHA256SUMS", "rocwheel.cdx.json", wheel.name, source.name, program.name}
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    assert wheel.name.endswith("-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name in names if name.endswith(".data/scripts/rocwheel")], names
    assert [name for name in names if name.endswith("/licenses/LICENSE-MIT")], names
    assert [name for name in names if name.endswith(".dist-info/sboms/rocwheel.cdx.json")], names
    with tarfile.open(source) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
        times = {member.mtime for member in archive}
    assert {"Cargo.lock", "PKG-INFO", "data/targets.toml", "python/rocm/rocm_build.py"} <= members
    assert times == {1_700_000_000} or "ROCWHEEL_DIST" in os.environ
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, source)


def test_the_archive_has_the_program_of_the_wheel(wheel: Path, program: Path, tmp_path: Path) -> None:
    with tarfile.open(program) as archive:
        archive.extractall(tmp_path, filter="data")
        assert {(member.uid, member.uname) for member in archive} == {(0, "")}
    (folder,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".data/scripts/rocwheel"))
        assert archive.read(name) == (folder / "rocwheel").read_bytes()
    assert run(folder / "rocwheel", "--version").stdout.startswith("rocwheel ")
    assert ".TH rocwheel-audit 1" in (folder / "man/rocwheel-audit.1").read_text()
    run("bash", "-c", f"source {folder / 'completions/rocwheel.bash'} && complete -p rocwheel")


def test_the_bill_of_materials_is_one_and_has_every_crate(dist: Path) -> None:
    text = (dist / "rocwheel.cdx.json").read_text()
    validator = JsonStrictValidator(SchemaVersion.V1_5)
    assert validator.validate_str(text) is None
    bill = json.loads(text)
    assert str(REPOSITORY) not in text and str(Path.home()) not in text
    components = {component["name"]: component for component in bill["components"]}
    locked = tomllib.loads((REPOSITORY / "Cargo.lock").read_text())["package"]
    versions = {(package["name"], package["version"]) for package in locked}
    assert {(name, component["version"]) for name, component in components.items()} <= versions
    assert {"clap", "rustls", "rocwheel-audit"} <= set(components)
    # What only tests and builds need is not in the program.
    assert "insta" not in components
    assert all(component.get("licenses") for component in components.values())


def test_the_same_sources_give_the_same_bytes_in_another_folder(dist: Path, tmp_path: Path) -> None:
    clone = tmp_path / "elsewhere"
    outputs = {REPOSITORY / name for name in ("target", ".venv", "dist", ".demo", ".git")}
    shutil.copytree(REPOSITORY, clone, symlinks=True, ignore=lambda folder, names: outputs_in(folder, names, outputs))
    again = build(clone, tmp_path / "dist", tmp_path / "target")
    assert digests(dist) == digests(again)


def test_it_works_on_an_old_system_as_here(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    artifacts = synthetic.write_artifacts(tmp_path / "artifacts", synthetic.Compiled.make(tmp_path))
    rocwheel.run("package", "--artifacts", artifacts, "--output", tmp_path / "here")
    script = f"""
        set -euo pipefail
        ldd --version | sed -n 1p
        python3 -m venv /opt/tool
        /opt/tool/bin/python -m pip install --quiet --no-index --find-links {dist} rocwheel
        cd {tmp_path}
        /opt/tool/bin/rocwheel --version
        /opt/tool/bin/rocwheel package --artifacts artifacts --output /opt/set
        /opt/tool/bin/rocwheel audit /opt/set/dist/*.whl
        cd /opt/set && sha256sum dist/*
    """
    in_root = [REPOSITORY / "scripts/in-root", OLD, "--share", dist, "--share", tmp_path, "--"]
    result = run(*in_root, "bash", "-c", script)
    assert result.stdout.splitlines()[0].endswith(f" {OLD_GLIBC}"), result.stdout
    there = dict(reversed(line.split("  ")) for line in result.stdout.splitlines() if "  dist/" in line)
    here = {f"dist/{name}": digest for name, digest in digests(tmp_path / "here/dist").items()}
    assert there == here


def test_the_archive_builds_without_a_network_and_without_a_registry(source: Path, tmp_path: Path) -> None:
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("rocwheel-*/")
    # What Cargo has fetched for the build is enough.
    vendored = run("cargo", "vendor", "--locked", "--offline", cwd=unpacked)
    (unpacked / ".cargo").mkdir()
    (unpacked / ".cargo/config.toml").write_text(vendored.stdout)
    elsewhere = {"CARGO_HOME": str(tmp_path / "cargo"), "CARGO_TARGET_DIR": str(tmp_path / "target")}
    check = ["cargo", "check", "--locked", "--offline", "--package", "rocwheel"]
    run(*check, cwd=unpacked, environment={**elsewhere, "CARGO_NET_OFFLINE": "true"})
    assert not (tmp_path / "cargo/registry").exists()


@pytest.mark.parametrize("runner", ["uvx", "pipx"])
def test_it_runs_without_being_installed(index: str, wheel: Path, tmp_path: Path, runner: str) -> None:
    home = {"HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "cache"), "PIPX_HOME": str(tmp_path / "pipx")}
    home |= {"UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    command = [TOOLS / "uvx"] if runner == "uvx" else [TOOLS / "pipx", "run"]
    said = run(*command, "rocwheel", "audit", wheel, environment=home, cwd=tmp_path)
    assert f"rocwheel {wheel.name.split('-')[1]} " in said.stdout and " 0 errors" in said.stdout, said


def follow(page: str, index: str, folder: Path, packages: tuple[str, ...] = (), **variables: object) -> str:
    """Follows a guide in a Debian that has Python and the packages; its index is the only one."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    (work / "follow.sh").write_text(script(page, work))
    given = {"PIP_INDEX_URL": index, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    options: list[list[object]] = [["--package", name] for name in packages]
    options += [["--share", path] for path in (work, *variables.values()) if isinstance(path, Path)]
    root = [REPOSITORY / "scripts/in-root", "bookworm", *itertools.chain(*options), "--"]
    steps = f"cp -r {work} /root/guide; cd /root/guide; bash follow.sh"
    return run(*root, "env", *(f"{name}={value}" for name, value in given.items()), "bash", "-euc", steps).stdout


def test_a_publisher_follows_the_guide(index: str, tmp_path: Path) -> None:
    said = follow("first-wheel.md", index, tmp_path)
    assert "RW007 too-new" in said and " 0 errors, 0 warnings, " in said.splitlines()[-1], said[-3000:]


def test_an_author_of_a_framework_follows_the_guide(index: str, rocm_dist: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "work").mkdir()
    write_project(tmp_path / "work", rocm_dist)
    said = follow("framework-authors.md", index, tmp_path, ("gcc", "libc6-dev", "cmake", "make"), DIST=rocm_dist)
    assert "42" in said.split()


def test_the_image_runs_in_podman(rocwheel: Rocwheel, dist: Path, tmp_path: Path) -> None:
    """On a Debian root instead of Docker's Python, which not every machine can get."""
    version = rocwheel.run("--version").stdout
    work = tmp_path / "work"
    (work / "dist").mkdir(parents=True)
    (wheel,) = dist.glob("*.whl")
    shutil.copy(wheel, work / "dist")
    with engines.podman(tmp_path / "podman") as podman:
        podman.import_root(engines.root("bookworm"), "debian")
        options = ("--engine", " ".join(podman.words), "--tag", "rocwheel")
        run(REPOSITORY / "scripts/image", *options, dist, "--", "--build-arg", "BASE=localhost/debian")
        container = ["run", "--rm", "--network", "none", *podman.options, "--volume", f"{work}:/work", "rocwheel"]
        assert podman.run(*container, "rocwheel", "--version").stdout == version
        assert "Usage: rocwheel" in podman.run(*container).stdout
        # What GitLab does with an image: a shell, and the lines of the job.
        podman.run(*container, "sh", "-ec", "rocwheel audit dist --sarif rocwheel.sarif")
        assert (work / "rocwheel.sarif").stat().st_size > 0
        labels = json.loads(podman.run("image", "inspect", "rocwheel").stdout)[0]["Labels"]
        assert labels["org.opencontainers.image.version"] == version.split()[1]
