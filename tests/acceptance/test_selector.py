"""The two forms of the selector, and sets of which a part is missing, as pip and uv install
them."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import therock

import synthetic
from command import TOOLS, Rocwheel, run
from environment import Environment

VERSION = synthetic.VERSION


@pytest.fixture(params=["pip", "uv"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Environment]:
    """Makes one environment after the other for one installer, with one cache that stays warm."""
    made: list[Environment] = []

    def create() -> Environment:
        made.append(Environment.create(tmp_path / f"venv{len(made)}", request.param))
        return made[-1]

    return create


def install(
    environment: Environment, cache: Path, sources: list[Path], requirement: str, target: str
) -> dict[str, str]:
    """Installs on a machine whose GPU is `target`, with a cache, and says what is there then."""
    links = [part for source in sources for part in ("--find-links", source)]
    variables = {"ROCM_SDK_TARGET_FAMILY": target}
    if environment.installer == "pip":
        arguments = [environment.python, "-m", "pip", "install", "--cache-dir", cache]
    else:
        arguments = [TOOLS / "uv", "pip", "install", "--cache-dir", cache, "--python", environment.python]
    run(*arguments, "--no-index", *links, requirement, environment=variables)
    return environment.installed()


def expected(*more: str) -> dict[str, str]:
    return dict.fromkeys({"rocm", "rocm-sdk-core", "rocm-sdk-libraries", *more}, VERSION)


def test_a_wheel_chooses_the_same_with_any_cache(
    rocwheel: Rocwheel, artifacts: Path, fresh: Callable[[], Environment], tmp_path: Path
) -> None:
    output, cache = tmp_path / "out", tmp_path / "cache"
    rocwheel.package(artifacts, output, "--selector", "both")
    sdists, wheels = output / "dist", output / "dist-wheel"
    assert [path.name for path in wheels.iterdir()] == [f"rocm-{VERSION}-py3-none-any.whl"]
    assert (sdists / f"rocm-{VERSION}.tar.gz").is_file()

    # What the cache keeps of the sdist was built for the first machine.
    installed = install(fresh(), cache, [sdists], "rocm[libraries,device]", "gfx942")
    assert installed == expected("rocm-sdk-device-gfx942")
    environment, both = fresh(), [wheels, sdists]
    installed = install(environment, cache, both, "rocm[libraries,device-gfx1100]", "gfx942")
    assert installed == expected("rocm-sdk-device-gfx1100"), "what is asked for, whatever the machine has"
    assert environment.run("rocm-sdk", "version").stdout.strip() == VERSION
    environment.check()
    everything = install(environment, cache, both, "rocm[libraries,device-all]", "gfx942")
    assert everything == expected("rocm-sdk-device-gfx942", "rocm-sdk-device-gfx1100")


def test_a_wheel_alone_is_enough(
    rocwheel: Rocwheel, artifacts: Path, fresh: Callable[[], Environment], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    rocwheel.package(artifacts, output, "--selector", "wheel")
    assert not list((output / "dist").glob("*.tar.gz"))
    run(TOOLS / "twine", "check", "--strict", output / f"dist/rocm-{VERSION}-py3-none-any.whl")
    environment = fresh()
    installed = install(environment, tmp_path / "cache", [output / "dist"], "rocm[libraries,devel]", "gfx942")
    assert installed == expected("rocm-sdk-devel")
    assert Path(environment.run("rocm-sdk", "path", "--root").stdout.strip()).is_dir()
    environment.uninstall(*installed)
    assert environment.left_over() == set()


def test_what_is_whole_is_shipped_and_nothing_else_promised(
    rocwheel: Rocwheel, artifacts: Path, fresh: Callable[[], Environment], tmp_path: Path
) -> None:
    output = tmp_path / "out"
    shutil.rmtree(artifacts / "blas_lib_gfx1100")
    asked = ("--targets", "gfx942,gfx1100")
    rocwheel.package(artifacts, output, *asked, expect=1)
    said = rocwheel.package(artifacts, output, *asked, "--drop-incomplete", "--json", expect=3)
    document = json.loads(said.stdout)
    assert document["targets"] == ["gfx942"]
    (left_out,) = document["incomplete"]
    assert left_out["package"] == "rocm-sdk-device-gfx1100"
    assert (
        sorted(path.name.split("-")[0] for path in (output / "dist").iterdir())
        == "rocm rocm_sdk_core rocm_sdk_devel rocm_sdk_device_gfx942 rocm_sdk_libraries".split()
    )
    environment = fresh()
    installed = install(environment, tmp_path / "cache", [output / "dist"], "rocm[libraries,device]", "")
    assert installed == expected("rocm-sdk-device-gfx942")
    information = (environment.site / "rocm_sdk/_dist_info.py").read_text()
    assert "append('gfx942')" in information and "append('gfx1100')" not in information


def test_a_library_that_needs_what_is_not_there_goes_with_its_devices(
    rocwheel: Rocwheel, artifacts: Path, tmp_path: Path
) -> None:
    """Without the runtime's artifact the libraries would not load, and without core there is no
    set."""
    shutil.rmtree(artifacts / "core-hip_lib_generic")
    said = rocwheel.package(artifacts, tmp_path / "out", "--drop-incomplete", expect=3)
    assert "warning: `rocm-sdk-libraries` is not made: `libamdhip64.so.7` is needed by" in said.stderr
    names = sorted(path.name.split("-")[0] for path in (tmp_path / "out/dist").iterdir())
    assert names == ["rocm", "rocm_sdk_core", "rocm_sdk_devel"]


def test_packages_of_several_families_say_how_one_is_installed(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """The selectors of two families are in folders of their own, where `--find-links=…/dist` does
    not look."""
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    therock.legacy(artifacts)
    command = ("compat", "build_python_packages", "--artifact-dir", artifacts, "--dest-dir", tmp_path / "two sets")
    planned = rocwheel.run(*command, "--no-build-packages").stderr
    said = rocwheel.run(*command).stderr
    (line,) = [line for line in said.splitlines() if "has no package `rocm`" in line]
    assert line in planned.splitlines() and "`gfx94X-dcgpu`, `gfx110X-all`" in line, planned
    environment = Environment.create(tmp_path / "venv", "pip")
    variables = {"PIP_NO_INDEX": "1", "PATH": f"{environment.python.parent}:{os.environ['PATH']}"}
    alone = f"pip install 'rocm[libraries,devel]' --pre --find-links='{tmp_path / 'two sets/dist'}'"
    assert "No matching distribution found for rocm" in run("bash", "-c", alone, environment=variables, expect=1).stderr
    run("bash", "-c", line.split("`")[-2], environment=variables)
    assert {"rocm", "rocm-sdk-libraries-gfx94x-dcgpu", "rocm-sdk-devel"} <= environment.installed().keys()
    # One family is in the folder itself.
    one = ("package", "--artifacts", artifacts, "--output", tmp_path / "one", "--targets", "gfx110X-all")
    assert "has no package `rocm`" not in rocwheel.run(*one).stderr
