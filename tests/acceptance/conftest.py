"""Acceptance tests: the built binary on real ROCm packages of this machine's own Debian release.

`--set runtime` (the default) takes the HIP runtime and rocRAND; `--set all` takes everything that
scripts/fetch-rocm knows.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser
from buckets import Bucket, forget, moto
from delta_stream import Stream, published_stream
from schemas import CheckedRocwheel

import synthetic
from command import CACHE, REPOSITORY, Rocwheel, own_suite
from environment import Environment
from packages import PackageSet, fetch_debs, fetch_wheels, make_package_set
from tool_wheel import write_tool_wheel

SOURCES = tomllib.loads((REPOSITORY / "data/sources.toml").read_text())
(SDIST,) = (archive for archive in SOURCES["archive"] if archive["version"] == "2.8.3")
SHA256 = SDIST["sha256"]

# In a GitHub job the program speaks to GitHub; these tests are about what it says to people.
for name in [name for name in os.environ if name.startswith("GITHUB_")]:
    del os.environ[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--set", choices=("runtime", "all"), default="runtime", help="which real packages are used")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: belongs to the long run only")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The trixie set is 600 MB of packages, the real wheels are 330 MB: they belong to the long run
    only."""
    return True if is_long(collection_path) and config.getoption("--set") == "runtime" else None


def is_long(path: Path) -> bool:
    return "trixie" in path.parts or path.name.endswith("_real.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long run has the long tests, and repeats of the others only what takes other input
    there."""
    everything = config.getoption("--set") == "all"
    takes_other_input = {"debs", "engine", "real"}

    def runs(item: pytest.Item) -> bool:
        if item.get_closest_marker("long"):
            return everything
        fixtures = set(getattr(item, "fixturenames", ()))
        return not everything or is_long(item.path) or bool(takes_other_input & fixtures)

    kept = [item for item in items if runs(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    # MAGMA alone takes longer than all other files together: it begins.
    items[:] = sorted(kept, key=lambda item: item.path.name != "test_magma_real.py")


@pytest.fixture(scope="session")
def rocwheel() -> Rocwheel:
    binary = Path(os.environ.get("ROCWHEEL_BINARY", REPOSITORY / "target/debug/rocwheel"))
    assert binary.is_file(), f"{binary} is not built: run `cargo build`, or name the binary in ROCWHEEL_BINARY"
    return CheckedRocwheel(binary.resolve())


@pytest.fixture(scope="session")
def tool(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the binary, alone in its folder, as pip installs it."""
    return write_tool_wheel(rocwheel, tmp_path_factory.mktemp("tool"))


@pytest.fixture(scope="session")
def debs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The real packages, fetched through the machine's own apt or taken from the cache."""
    return fetch_debs(own_suite(), tmp_path_factory.mktemp("debs"), request.config.getoption("--set"))


@pytest.fixture(scope="session")
def package_set(rocwheel: Rocwheel, debs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> PackageSet:
    """The real packages, imported and packaged once for all tests that only read the result."""
    return make_package_set(rocwheel, debs, tmp_path_factory.mktemp("set"))


@pytest.fixture(scope="session")
def least_loaded(request: pytest.FixtureRequest) -> int:
    """How many libraries of the set load at least."""
    return 30 if request.config.getoption("--set") == "all" else 24


@pytest.fixture(scope="session", params=["pip", "uv"])
def environment(
    request: pytest.FixtureRequest, package_set: PackageSet, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    """A fresh environment with the set installed by pip or by uv, from the local directory
    alone."""
    fresh = Environment.create(tmp_path_factory.mktemp(request.param) / "venv", request.param)
    fresh.install(package_set.dist, "rocm[libraries,devel]", *package_set.device_packages)
    return fresh


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> synthetic.Compiled:
    return synthetic.Compiled.make(tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def artifacts(compiled: synthetic.Compiled, tmp_path: Path) -> Path:
    """A small set of artifacts in TheRock's layout, made by code, that packages in well under a
    second."""
    return synthetic.write_artifacts(tmp_path / "artifacts", compiled)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def small_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real wheel of PyPI."""
    (wheel,) = fetch_wheels(tmp_path_factory.mktemp("wheel"), "gafime-rocm==0.4.7").glob("gafime_rocm-*.whl")
    return wheel


@pytest.fixture(scope="session")
def described(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """A stream whose wheels are described for `release get`."""
    return published_stream(rocwheel, tmp_path_factory.mktemp("delta"))


@pytest.fixture
def stream(described: Stream, tmp_path: Path) -> Stream:
    return described.copy(tmp_path)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server."""
    with moto(tmp_path_factory.mktemp("moto")) as endpoint:
        yield endpoint


@pytest.fixture
def bucket(server: str) -> Bucket:
    """A bucket `wheels`, and no other."""
    bucket = forget(server)
    bucket.ask("PUT", "")
    return bucket


@pytest.fixture
def public(rocwheel: Rocwheel) -> Path:
    """A directory that any user of the machine can enter, with the binary in it."""
    directory = Path(tempfile.mkdtemp(prefix="rocwheel-test-"))
    directory.chmod(0o777)
    shutil.copy(rocwheel.binary, directory / "rocwheel")
    yield directory
    subprocess.run(["chmod", "-R", "u+rwX", directory], check=True)
    shutil.rmtree(directory)


@pytest.fixture(scope="session")
def sdist() -> Path:
    """flash-attn 2.8.3 of PyPI, where `--source 2.8.3` looks for it too."""
    path = CACHE / "archives" / SHA256 / "flash_attn-2.8.3.tar.gz"
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        with urllib.request.urlopen(SDIST["url"]) as answer, partial.open("wb") as file:
            shutil.copyfileobj(answer, file)
        partial.rename(path)
    return path
