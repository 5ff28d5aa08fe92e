"""Frameworks compiled in containers: Debian's own sources of torchvision and torchaudio against its
CPU torch, and MAGMA's recipe with Debian's hipcc. With them the wheel of flash-attn, beside the
torch and triton of Debian."""

import json
import os
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import magma_tree
import pytest

import engines
from command import REPOSITORY, Result, Rocwheel, download, run
from engines import Engine

TORCH = "rocwheel/torch:1"
HIP = "rocwheel/hip:1"
OLD = "rocwheel/old:1"
# Debian's torch, its headers, and what the extensions are compiled with.
FOR_TORCH = [
    *(
        "python3-torch",
        "libtorch-dev",
        "python3-dev",
        "python3-setuptools",
        "python3-wheel",
        "python3-numpy",
        "python3-pil",
    ),
    *("g++", "ccache", "cmake", "ninja-build", "git", "pybind11-dev", "libjpeg-dev", "libpng-dev"),
]
# Where trixie's clang 17 has them.
DEVICE_LIBRARIES = "/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode"
FOR_HIP = ["hipcc", "make", "g++", "librocblas-dev", "libhipblas-dev", "libhipsparse-dev"]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engines.docker(tmp_path_factory.mktemp("docker")) as engine:
        yield engine


@pytest.fixture(scope="module")
def torch(engine: Engine) -> str:
    engine.import_root(engines.root("trixie", *FOR_TORCH), TORCH)
    return TORCH


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    run(REPOSITORY / "scripts/fetch-sources", folder)
    return folder


def in_image(engine: Engine, image: str, folder: Path, script: str) -> str:
    mount = f"type=bind,source={folder},target={folder},readonly"
    return engine.run(
        "run", "--rm", "--network", "none", "--mount", mount, "--entrypoint", "sh", image, "-ec", script
    ).stdout


@pytest.mark.parametrize(("name", "version", "needs"), [
    ("vision", "0.21.0", ["torchvision/_C.so", "torchvision/image.so"]),
    ("audio", "2.6.0a0", ["torchaudio/lib/libtorchaudio.so", "torchaudio/lib/_torchaudio.so"]),
])  # fmt: skip
def test_an_extension_of_torch_is_compiled(
    rocwheel: Rocwheel,
    engine: Engine,
    torch: str,
    sources: Path,
    tmp_path: Path,
    name: str,
    version: str,
    needs: list[str],
) -> None:
    """The backend `cpu` of the recipe, against the torch of the image. A build that is stopped goes
    on, and its compiler cache is kept for other builds, of which each is given nothing but the
    cache.
    """
    cache = tmp_path / "cache"
    surroundings = {
        **engine.environment,
        "CCACHE_DIR": str(cache),
        # Headers of FFmpeg would be fetched as it is built.
        "USE_FFMPEG": "0",
    }

    def build(output: Path, *more: object, expect: int = 0) -> Result:
        return rocwheel.run(
            *("build", f"torch{name}", "--backend", "cpu", "--torch", "2.6.0", "--python", "3.13", "--system-packages"),
            *("--source", sources / name, "--output", output, "--network", "host", "--no-uv", *engine.arguments(torch)),
            *("--compiler-cache", "ccache", *more),
            environment=surroundings,
            expect=expect,
        )

    # Everything is installed after that, and something compiled.
    assert "stopped in wheel" in build(tmp_path, "--time-limit", "90s", expect=3).stdout
    assert not list(tmp_path.glob("*.whl"))
    build(tmp_path)
    wheel = tmp_path / f"torch{name}-{version}+cpu-cp313-cp313-linux_x86_64.whl"
    members = zipfile.ZipFile(wheel).namelist()
    assert [need for need in needs if need not in members] == []
    script = f"""python3 -m venv --system-site-packages /tmp/venv
        /tmp/venv/bin/pip install --quiet --no-index --no-deps {wheel}
        cd /tmp; /tmp/venv/bin/python -c 'import torch{name}; print(torch{name}.__version__)'"""
    assert in_image(engine, torch, tmp_path, script).split()[-1] == f"{version}+cpu"
    if name == "audio":
        # Its build goes through CMake, which knows what calls the compiler. What CMake tries out
        # beforehand is not cached.
        build(tmp_path / "again")
        (log,) = (tmp_path / "again").glob(".rocwheel/jobs/*/logs/*-cache-statistics.log")
        statistics = log.read_text()
        hits, calls = map(int, re.search(r"Hits: +(\d+) / +(\d+)", statistics).groups())
        assert calls >= 20 and hits >= 0.9 * calls, statistics


def test_smoke_tests_of_the_torch_in_an_image(rocwheel: Rocwheel, engine: Engine, torch: str, tmp_path: Path) -> None:
    """Without a GPU the computations of the processor pass, the others are not run, and the record
    is in a file of the caller's."""
    words = ("test", "smoke", "torch", "--in", torch, "--engine", engine.name, "--engine-option=--network=none")
    rocwheel.run(*words, cwd=tmp_path, environment=engine.environment, expect=1)
    rocwheel.run(*words, "--allow-no-gpu", cwd=tmp_path, environment=engine.environment, expect=3)
    (first, second) = sorted(tmp_path.glob("test-results/*/events.jsonl"))
    for path in (first, second):
        assert path.stat().st_uid == os.geteuid()
        events = [json.loads(line) for line in path.read_text().splitlines()]
        found = {event["id"]: event["outcome"] for event in events if event["event"] == "attempt"}
        assert found["torch.cpu_lapack"] == found["torch.cpu_autograd"] == "passed", found
        assert found["torch.matmul"] == "not_run"
        assert events[-1]["event"] == "end"
    assert engine.running() == []


def test_flash_attn_beside_torch(rocwheel: Rocwheel, engine: Engine, torch: str, sdist: Path, tmp_path: Path) -> None:
    """The wheel's Triton backend is imported beside the image's torch and a triton, which it needs
    as it is imported."""
    rocwheel.run(
        *("build", "flash-attn", "--backend", "triton", "--rocm", "6.1", "--torch", "2.6", "--source", sdist),
        *("--output", tmp_path, "--network", "host", *engine.arguments(torch)),
        environment=engine.environment,
    )
    needed = ["triton==3.4.0", "einops"]
    system = ("--python-version", "3.13", "--platform", "manylinux_2_28_x86_64")
    download(tmp_path / "needed", *system, *needed)
    script = f"""python3 -m venv --system-site-packages /tmp/venv
        /tmp/venv/bin/pip install --quiet --no-index --no-deps {tmp_path}/needed/*.whl {tmp_path}/*.whl
        cd /tmp; FLASH_ATTENTION_TRITON_AMD_ENABLE=TRUE /tmp/venv/bin/python -c '
import torch, flash_attn, flash_attn.bert_padding as padding
print(flash_attn.__version__, padding.index_first_axis(torch.ones(3, 2), torch.tensor([0, 2])).shape[0])'"""
    assert in_image(engine, torch, tmp_path, script).split()[-2:] == ["2.8.3", "2"]


def magma_checkout(folder: Path) -> str:
    """A repository with MAGMA's make interface; its commit."""
    git = ("git", "-C", folder, "-c", "user.name=x", "-c", "user.email=x@example.invalid")
    run("git", "init", "--quiet", magma_tree.write(folder))
    run(*git, "add", ".")
    run(*git, "commit", "--quiet", "--message", "MAGMA's interface")
    return run(*git, "rev-parse", "HEAD").stdout.strip()


@pytest.fixture(scope="module")
def image_for_magma(engine: Engine) -> str:
    """Debian's hipcc under the name of the image that PyTorch builds MAGMA in, with its variables
    and without Fortran."""
    engine.import_root(engines.root("trixie", *FOR_HIP), HIP)
    script = "ln -s /usr /opt/rocm && mkdir /usr/.info && echo 6.3.0-1 >/usr/.info/version"
    variables = {
        "PYTORCH_ROCM_ARCH": "gfx90a;gfx1100",
        "HIP_DEVICE_LIB_PATH": DEVICE_LIBRARIES,
        "MKLROOT": "/opt/intel",
    }
    image = "pytorch/almalinux-builder:rocm6.3"
    engine.derive(HIP, image, script, **variables)
    return image


def test_magma_becomes_a_tarball(rocwheel: Rocwheel, engine: Engine, image_for_magma: str, tmp_path: Path) -> None:
    """The document's own line: `DOCKER_CMD=… rocwheel build magma-rocm63`. Fortran is installed
    into the image, kernels are generated, compiled for the image's GPU targets and no others,
    linked with hipBLAS, and packed as PyTorch's script does.
    """
    revision = magma_checkout(tmp_path / "magma")
    # This engine has no network but the machine's, and the disk may be smaller than the whole MAGMA
    # asks for.
    (tmp_path / "rocwheel.toml").write_text('[build]\nnetwork = "host"\nno-preflight = true\n')
    surroundings = {**engine.environment, "DOCKER_CMD": " ".join(engine.words)}
    said = rocwheel.run("build", "magma-rocm63", cwd=tmp_path, environment=surroundings).stderr
    assert f"in a new layer on the image `{image_for_magma}`" in said, said
    path = tmp_path / f"output/linux-64/magma-rocm63-{revision}-1.tar.bz2"
    with tarfile.open(path) as tarball:
        assert (
            sorted(member.name for member in tarball if member.isfile())
            == "include/magma.h info/licenses/COPYRIGHT info/recipe/build.sh lib/libmagma.so".split()
        )
        tarball.extractall(tmp_path / "unpacked", filter="data")
    library = tmp_path / "unpacked/lib/libmagma.so"
    rocwheel.run("kernels", library, "--expect", "gfx90a,gfx1100")
    assert "/opt/intel/lib" in run("readelf", "--dynamic", library).stdout
    assert "make lib/libmagma.so" in (tmp_path / "unpacked/info/recipe/build.sh").read_text()


@pytest.mark.usefixtures("image_for_magma")
def test_other_gpu_targets_of_magma_are_found(rocwheel: Rocwheel, engine: Engine, tmp_path: Path) -> None:
    """With a recipe that lets MAGMA's Makefile add its own targets, the check of the library
    fails."""
    magma_checkout(tmp_path / "magma")
    recipe = (REPOSITORY / "recipes/magma.toml").read_text()
    step = re.search(r'\[\[step\]\]\nname = "only-these-targets"\n.*\n', recipe)[0]
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/magma.toml").write_text(recipe.replace(step, ""))
    rocwheel.run(
        *("build", "magma-rocm63", "--recipes", tmp_path / "recipes", "--gpu-targets", "gfx90a", "--network", "host"),
        "--no-preflight",
        cwd=tmp_path,
        environment={**engine.environment, "DOCKER_CMD": " ".join(engine.words)},
        expect=1,
    ).says("there is code for gfx900, gfx906, gfx908 too")


def test_a_system_that_is_too_old_is_said(rocwheel: Rocwheel, engine: Engine, sdist: Path, tmp_path: Path) -> None:
    """This program as it is built here, in Debian 11."""
    engine.import_root(engines.root("bullseye"), OLD)
    rocwheel.run(
        *("build", "flash-attn", "--backend", "triton", "--rocm", "6.1", "--torch", "2.6", "--source", sdist),
        *("--output", tmp_path, *engine.arguments(OLD)),
        environment=engine.environment,
        expect=1,
    ).says("is too old for this program, which needs glibc 2.")
