"""Builds in containers of real engines, which these tests start themselves with one small image
each."""

import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster

import engines
from command import NOBODY, Result, Rocwheel, download, own_suite, run, with_uv
from engines import Engine
from recipes import recipe

IMAGE = "rocwheel/python:1"
NAME = "flash_attn-2.8.3+rocm7.2torch2.9triton-py3-none-any.whl"
FLASH = ["build", "flash-attn", "--backend", "triton", "--rocm", "7.2", "--torch", "2.9"]
# What its recipe installs, and any Python can use.
WHEELS = ["setuptools==75.8.0", "wheel", "packaging", "psutil", "ninja"]

RECIPE = recipe(
    "waits",
    """
[[step]]
name = "wait"
run = ["sh", "-c", "id -u; sleep ${environment.WAITS}"]

[[step]]
name = "stage"
copy = { from = "${source}/README", to = "${stage}/share", pick = "one" }

[output.tarball]
path = "NAME.tar.bz2"
from = "${stage}"
members = ["share"]
holds = ["share/README"]
""",
    "cpu",
    version="1",
    wheel=False,
)


# A recipe of its own image, whose variables it gets, and of a package that the image lacks.
OWN_RECIPE = recipe(
    "greets",
    """
layers = ["rocm"]
in-container = true
named-by-rocm = "greets-rocm"

[image-packages]
apt = ["hello"]

[[targets]]
default = ["gfx1100"]

[[environment]]
default = { MKLROOT = "/opt/nowhere" }

[[step]]
name = "greet"
run = ["sh", "-c", "mkdir -p ${stage}/share; (hello; id -u; echo $PYTORCH_ROCM_ARCH $MKLROOT) >${stage}/share/said"]

[output.tarball]
path = "linux-64/greets-rocm${rocm.compact}.tar.bz2"
from = "${stage}"
members = ["share"]
holds = ["share/said"]
""",
    version="1",
    wheel=False,
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Podman runs everything in the long run only: the container lane of CI is a small one."""
    if "engine" in metafunc.fixturenames:
        is_long = metafunc.config.getoption("--set") == "all"
        by_podman = metafunc.function not in BY_DOCKER and (is_long or metafunc.function in BY_BOTH)
        names = ["docker", "podman"] if by_podman else ["docker"]
        metafunc.parametrize("engine", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with getattr(engines, request.param)(tmp_path_factory.mktemp(request.param)) as engine:
        engine.import_root(engines.root(own_suite()), IMAGE)
        yield engine


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What flash-attn's build installs, as files: from here on there is no network."""
    folder = tmp_path_factory.mktemp("wheels")
    download(folder, *WHEELS)
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def built_here(rocwheel: Rocwheel, sdist: Path, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The same wheel, built without a container."""
    output = tmp_path_factory.mktemp("here")
    rocwheel.run(*FLASH, "--source", sdist, "--output", output, environment={**with_uv(), **offline(wheels)})
    return (output / NAME).read_bytes()


def offline(wheels: Path) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "UV_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "UV_FIND_LINKS": str(wheels)}


def recipes(folder: Path) -> list[object]:
    """Options for recipes of ours that wait as long as they are told to."""
    (folder / "recipes").mkdir()
    (folder / "sources").mkdir()
    (folder / "sources/README").write_text("read me\n")
    for name in ("waits", "waits-too"):
        text = RECIPE.replace('"waits"', f'"{name}"').replace("NAME", name)
        (folder / f"recipes/{name}.toml").write_text(text)
    both = [option for name in ("waits", "waits-too") for option in ("--source", f"{name}={folder}/sources")]
    return ["--recipes", folder / "recipes", *both]


def test_flash_attn_is_built_without_a_network(
    rocwheel: Rocwheel, engine: Engine, sdist: Path, wheels: Path, built_here: bytes, tmp_path: Path
) -> None:
    """The same bytes as here, in files of whoever asked for it, and not again."""
    options = [*FLASH, "--source", sdist, *engine.arguments(IMAGE)]
    surroundings = {**engine.environment, **offline(wheels), "ROCWHEEL_CACHE": str(tmp_path / "cache")}
    output = tmp_path / "out"
    said = rocwheel.run(*options, "--output", output, "-v", environment=surroundings)
    assert said.stderr.count("started in") == 1
    assert (output / NAME).read_bytes() == built_here
    assert {path.lstat().st_uid for path in output.rglob("*")} == {os.geteuid()}
    rocwheel.run(*options, "--output", output, environment=surroundings).prints("unchanged")
    assert engine.running() == []
    job = tomllib.loads(next((output / ".rocwheel/jobs").glob("*/job.toml")).read_text())
    assert job["image"]["name"] == IMAGE
    assert job["image"]["digest"].startswith("sha256:")


@pytest.mark.long
def test_the_cells_of_a_plan_share_a_container(
    rocwheel: Rocwheel, engine: Engine, sdist: Path, wheels: Path, tmp_path: Path
) -> None:
    """Two torches, one image: the container starts once, and each cell has its state as
    elsewhere."""
    surroundings = {**engine.environment, **offline(wheels)}
    options = [*FLASH[:-1], "2.9,2.10", "--source", sdist, *engine.arguments(IMAGE), "--output", tmp_path / "out", "-v"]
    said = rocwheel.run(*options, environment=surroundings)
    assert said.stderr.count("started in") == 1
    names = {NAME, NAME.replace("torch2.9", "torch2.10")}
    assert {path.name for path in (tmp_path / "out").glob("*.whl")} == names
    status = rocwheel.json("build", "status", tmp_path / "out")
    assert [(cell["state"], cell["starts"]) for cell in status["cells"]] == [("built", 1)] * 2
    assert engine.running() == []


def test_what_an_image_lacks_is_said(rocwheel: Rocwheel, engine: Engine, sdist: Path, tmp_path: Path) -> None:
    """An image that is not there, one without the Python, one in which nothing runs."""
    options = [*FLASH, "--source", sdist, "--output", tmp_path / "out"]
    surroundings = {**engine.environment, "PIP_NO_INDEX": "1"}

    def fails(*more: object, expect: int = 1) -> str:
        return rocwheel.run(*options, *more, environment=surroundings, expect=expect).stderr

    said = fails(*engine.arguments("rocwheel/pyton:1"))
    assert "there is no image `rocwheel/pyton:1` here" in said
    assert "did you mean `rocwheel/python:1`?" in said
    assert "--pull missing" in said
    assert "pytorch/manylinux2_28-builder:cpu" in fails(*engine.arguments("x")[:4])
    assert "there is no Python 3.7" in fails(*engine.arguments(IMAGE), "--python", "3.7")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/bin").mkdir()
    run("tar", "--create", "--file", tmp_path / "empty.tar", "--directory", tmp_path / "empty", ".")
    engine.import_root(tmp_path / "empty.tar", "rocwheel/empty:1")
    assert "the image has no shell" in fails(*engine.arguments("rocwheel/empty:1"))
    assert "--no-such-option" in fails(*engine.arguments(IMAGE), "--engine-option=--no-such-option")
    assert "says `" in fails("--executor", engine.name, "--engine", "/bin/echo", "--image", IMAGE)
    assert "jobs run here" in fails("--image", IMAGE, expect=2)
    assert engine.running() == []


def test_jobs_of_an_image_run_in_one_container(rocwheel: Rocwheel, engine: Engine, tmp_path: Path) -> None:
    """A job file is for its image, and is run elsewhere only by somebody who says that this is
    one."""
    ours = recipes(tmp_path)
    surroundings = {**engine.environment, "WAITS": "0"}
    options = ["build", "waits", "waits-too", *ours, *engine.arguments(IMAGE), "--output", tmp_path / "out", "-v"]
    said = rocwheel.run(*options, environment=surroundings)
    assert said.stderr.count("started in") == 1
    assert (tmp_path / "out/waits.tar.bz2").is_file()
    assert (tmp_path / "out/waits-too.tar.bz2").is_file()
    job = tmp_path / "job.toml"
    one = ["build", "waits", "--recipes", tmp_path / "recipes", "--source", tmp_path / "sources"]
    rocwheel.run(*one, *engine.arguments(IMAGE), "--write-job", job, environment=surroundings)
    run_job = ["build", "--job", job, "--output", tmp_path / "out"]
    assert "is for the image" in rocwheel.run(*run_job, environment=surroundings, expect=2).stderr
    executor = engine.arguments(IMAGE)[:4] + [f"--engine-option={option}" for option in engine.options]
    assert "unchanged" in rocwheel.run(*run_job, *executor, environment=surroundings).stdout


def test_a_recipe_is_built_in_its_own_image(rocwheel: Rocwheel, engine: Engine, tmp_path: Path) -> None:
    """No option says so: the image is the table's, DOCKER_CMD names the engine, a package that the
    image lacks is installed once, by root, and the image's variables say the GPU targets and where
    MKL is.
    """
    image = "rocwheel/greets:rocm6.3"
    script = "mkdir -p /opt/rocm/bin /opt/rocm/.info && echo 6.3.1-5 >/opt/rocm/.info/version"
    engine.derive(IMAGE, image, script, PYTORCH_ROCM_ARCH="gfx90a;gfx942", MKLROOT="/opt/intel")
    for path, text in [
        ("recipes/greets.toml", OWN_RECIPE),
        ("greets/README", "read me"),
        ("images.toml", 'schema = 1\n[[image]]\nname = "rocwheel/greets:rocmROCM"\nrocm = ">=6.3"\n'),
        (
            "rocwheel.toml",
            f'[build]\nrecipes = "recipes"\nimages = "images.toml"\nnetwork = "host"\nengine-option = {engine.options}\n',
        ),
    ]:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    surroundings = {**engine.environment, "DOCKER_CMD": " ".join(engine.words)}

    def build(*options: str) -> Result:
        return rocwheel.run("build", "greets-rocm63", *options, cwd=tmp_path, environment=surroundings)

    planned = json.loads(build("--dry-run", "--json").stdout)["recipes"]
    container = {"engine": " ".join(engine.words), "image": image, "pull": "missing"}
    assert [recipe["container"] for recipe in planned] == [container]
    assert planned[0]["image-packages"] == {"apt": ["hello"]}
    assert f"image {image}" in build("--dry-run").stderr
    here = json.loads(build("--dry-run", "--json", "--executor", "here").stdout)["recipes"]
    assert "container" not in here[0]

    build().says("installing hello (apt)")
    with tarfile.open(tmp_path / "output/linux-64/greets-rocm63.tar.bz2") as tarball:
        lines = tarball.extractfile("share/said").read().decode().splitlines()
    assert lines == ["Hello, world!", str(os.geteuid()), "gfx90a;gfx942 /opt/intel"]
    # The layer is there, whatever else of the job is new.
    again = build("--output", "again", "--gpu-targets", "gfx90a")
    assert "installing" not in again.stderr
    assert engine.run("ps", "--all", "--quiet").stdout.split() == []


def test_a_container_ends_with_the_work(rocwheel: Rocwheel, engine: Engine, tmp_path: Path) -> None:
    """A limit, Ctrl-C, the death of the program and the death of the container: nothing runs on,
    and the next run goes on."""
    one = ["build", "waits", *recipes(tmp_path)[:2], "--source", tmp_path / "sources", *engine.arguments(IMAGE)]
    options = [*one, "--output", tmp_path / "out"]
    slow = {**engine.environment, "WAITS": "600"}
    logs = tmp_path / "out/.rocwheel/jobs"

    said = rocwheel.run(*options, "--time-limit", "4s", environment=slow, expect=3)
    # On a busy machine it does not come to the step that waits.
    assert "stopped in " in said.stdout
    assert engine.running() == []

    def started() -> subprocess.Popen[str]:
        for log in logs.glob("*/logs/*-wait.log"):
            log.unlink()
        process = rocwheel.start(*options, env={**os.environ, **slow})
        for _ in range(600):
            if any(log.read_text().rstrip().endswith(str(os.geteuid())) for log in logs.glob("*/logs/*-wait.log")):
                return process
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        raise AssertionError("the step did not begin")

    def gone() -> None:
        for _ in range(200):
            if not engine.running():
                return
            time.sleep(0.1)
        raise AssertionError(engine.run("ps").stdout)

    process = started()
    process.send_signal(signal.SIGINT)
    assert (process.wait(60), engine.running()) == (130, [])

    process = started()
    process.kill()
    process.wait()
    gone()

    process = started()
    engine.run("kill", *engine.running())
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1, said
    assert "has ended while it built" in said
    gone()
    rocwheel.run(*options, environment={**engine.environment, "WAITS": "0"})
    assert (tmp_path / "out/waits.tar.bz2").is_file()


@pytest.mark.long
def test_tasks_of_slurm_run_in_containers(
    rocwheel: Rocwheel, engine: Engine, sdist: Path, wheels: Path, built_here: bytes, tmp_path: Path
) -> None:
    """Each cell of a plan in a container on its node; what is cancelled leaves no container
    behind."""
    in_containers = ["--executor", "slurm", "--task-executor", *engine.arguments(IMAGE)[1:]]
    with Cluster(tmp_path / "cluster", nodes=2) as cluster:
        surroundings = {**cluster.environment, **engine.environment}
        flash = [*FLASH, "--source", sdist, *in_containers, "--output", tmp_path / "out", "--wait"]
        rocwheel.run(*flash, environment={**surroundings, **offline(wheels)})
        assert (tmp_path / "out" / NAME).read_bytes() == built_here
        status = rocwheel.json("build", "status", tmp_path / "out")
        assert [(cell["state"], cell["starts"]) for cell in status["cells"]] == [("built", 1)]
        assert engine.running() == []

        one = ["build", "waits", *recipes(tmp_path)[:2], "--source", tmp_path / "sources", *in_containers]
        rocwheel.run(*one, "--output", tmp_path / "slow", environment={**surroundings, "WAITS": "600"})
        cluster.wait(lambda: engine.running() != [], "no container was started")
        rocwheel.run("build", "cancel", tmp_path / "slow", environment=surroundings).says("cancelled 1 cell")
        cluster.wait(lambda: engine.running() == [], "the container ran on")
        cluster.wait(lambda: not cluster.ask("squeue", "--noheader").strip(), "the queue was not empty")
    states = rocwheel.json("build", "status", tmp_path / "slow", expect=3)["cells"]
    assert [cell["state"] for cell in states] == ["interrupted"], states


def test_an_image_with_a_tag_for_the_cell_brings_its_options(
    rocwheel: Rocwheel, engine: Engine, tmp_path: Path
) -> None:
    """`--image rocm/pytorch` is the tag for ROCm and torch, and containers of its tags have the
    table's options."""
    known = "rocm/pytorch:rocm7.1.1_ubuntu24.04_py3.12_pytorch_release_2.9.1"
    # What is tagged has Debian's Python.
    name = known.replace("py3.12", "py3.11")
    engine.run("tag", IMAGE, name)
    ours = recipes(tmp_path)
    recipe = tmp_path / "recipes/waits.toml"
    seen = "cat /proc/self/status; echo groups: `id -G`"
    recipe.write_text(recipe.read_text().replace("sleep ${environment.WAITS}", seen))
    one = ["build", "waits", *ours[:2], "--source", tmp_path / "sources", "--rocm", "7.1", "--output", tmp_path / "out"]
    options = [*one, *engine.arguments("rocm/pytorch")]
    planned = rocwheel.run(*options, "--torch", "2.9", "--dry-run", environment=engine.environment)
    assert known in planned.stdout + planned.stderr
    rocwheel.run(*one, *engine.arguments(name), "--torch", "2.9", environment=engine.environment)
    (log,) = (tmp_path / "out").glob(".rocwheel/jobs/*/logs/*-wait.log")
    status = dict(line.split(":", 1) for line in log.read_text().splitlines() if ":" in line)
    assert int(status["Seccomp"]) == 0, "seccomp=unconfined"
    assert int(status["CapBnd"], 16) >> 19 & 1, "CAP_SYS_PTRACE"
    assert "44" in status["groups"].split(), "video"
    (job,) = (tmp_path / "out").glob(".rocwheel/jobs/*/job.toml")
    assert tomllib.loads(job.read_text())["image"]["name"] == name
    said = rocwheel.run(*options, "--torch", "2.5.1", environment=engine.environment, expect=2).stderr
    assert "no tag of `rocm/pytorch` is known for ROCm 7.1, torch 2.5.1" in said and known.split(":")[1] in said, said


@pytest.fixture
def home() -> Iterator[Path]:
    """The home of a user without rights, with a short path."""
    folder = Path(tempfile.mkdtemp(prefix="rocwheel-user-"))
    os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


def built_as_nobody(public: Path, home: Path, engine: Engine) -> str:
    """Who a step is in a container that a user without rights starts; what it writes is that
    user's."""
    ours = recipes(home)
    run("chown", "--recursive", NOBODY, *home.iterdir())
    options = [*("build", "waits", *ours[:2], "--source", home / "sources"), *engine.arguments(IMAGE)]
    surroundings = {**engine.environment, "WAITS": "0", "HOME": str(home), "ROCWHEEL_CACHE": str(home / "cache")}
    run(*engines.AS_NOBODY, public / "rocwheel", *options, "--output", home / "out", environment=surroundings, cwd=home)
    written = [home / "out", *(home / "out").rglob("*")]
    assert {path.lstat().st_uid for path in written} == {NOBODY}
    log = next(home.glob("out/.rocwheel/jobs/*/logs/*-wait.log"))
    return next(line for line in log.read_text().splitlines() if line.isdigit())


def test_files_belong_to_who_asked(public: Path, home: Path, engine: Engine) -> None:
    """A user without rights, who may use the daemon."""
    assert built_as_nobody(public, home, engine) == str(NOBODY)


def test_podman_without_rights(public: Path, home: Path) -> None:
    """A user who is nobody starts a Podman of their own: inside, the user is root, and only
    there."""
    with engines.rootless_podman(home) as engine:
        assert engine.run("info", "--format", "{{.Host.Security.Rootless}}", cwd=home).stdout.strip() == "true"
        engine.import_root(engines.root(own_suite()), IMAGE)
        assert built_as_nobody(public, home, engine) == "0"
        assert engine.running() == []


# What Podman runs in CI too, and what is about Docker's daemon.
BY_BOTH = (
    test_flash_attn_is_built_without_a_network,
    test_a_recipe_is_built_in_its_own_image,
    test_a_container_ends_with_the_work,
)
BY_DOCKER = (test_files_belong_to_who_asked,)
