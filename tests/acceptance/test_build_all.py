"""`rocwheel build all` on repositories made here: checkout by pins, conversion, builds in order,
smoke tests."""

import io
import json
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import therock

from command import REPOSITORY, UV, Rocwheel, run, unprivileged, with_uv
from environment import create_venv
from packages import metadata
from recipes import recipe
from small_index import write_wheel

# Where Debian has what other ROCms have in lib/cmake/hip.
DEBIAN = "lib/x86_64-linux-gnu/cmake/hip"
IDENTITY = ["-c", "user.name=Owner", "-c", "user.email=owner@example.org", "-c", "protocol.file.allow=always"]

SETUP = """\
import os, sys
from setuptools import setup
if PACKAGE == "torch" and "--cmake-only" in sys.argv:
    # As CMake goes on without a ROCm that it does not find, and says so.
    places = [os.environ["ROCM_PATH"] + "/lib/cmake/hip", os.environ.get("CMAKE_MODULE_PATH", "")]
    found = any(os.path.exists(place + "/FindHIP.cmake") for place in places)
    print("--   USE_ROCM              :", "ON" if found else "OFF")
    # That FindHIP.cmake looks for clang beside it. It would be missed by the first GPU file.
    clang = os.environ.get("HIP_CLANG_PATH", os.environ["ROCM_PATH"] + "/bin")
    assert "CMAKE_MODULE_PATH" not in os.environ or os.path.exists(clang + "/clang"), clang
    # With ROCM_PATH, that clang no longer looks for device libraries in a folder of its own.
    assert "CMAKE_MODULE_PATH" not in os.environ or os.environ["HIP_DEVICE_LIB_PATH"] == "clang-22/amdgcn/bitcode"
for flag in ("--cpp_ext", "--cuda_ext", "--cmake", "--cmake-only"):
    if flag in sys.argv:
        sys.argv.remove(flag)
# apex 1.8 goes by these, and not by the flags.
if PACKAGE == "apex":
    assert os.environ["APEX_BUILD_CPP_OPS"] and os.environ["APEX_BUILD_CUDA_OPS"]
# As PyTorch's own setup.py takes it.
extra = os.environ.get("PYTORCH_EXTRA_INSTALL_REQUIREMENTS", "")
required = [text.strip() for text in extra.split("|")] if extra else []
setup(name=NAME, version=VERSION, packages=[PACKAGE], package_data={PACKAGE: ["**/*"]}, install_requires=required)
"""
VERSIONS = {
    "torch": "os.environ['PYTORCH_BUILD_VERSION']",
    "triton": "'3.5.0' + os.environ['TRITON_WHEEL_VERSION_SUFFIX']",
}
INIT = {
    "torch": "try:\n    from . import _rocm_init\nexcept ImportError:\n    pass\nelse:\n    _rocm_init.initialize()\n"
    "class cuda:\n    is_available = staticmethod(lambda: False)\n",
    "torchvision": "import torch\n__version__ = 'there'\n",
}


def git(folder: Path, *arguments: object) -> str:
    return run(
        "git", "-C", folder, *IDENTITY, *arguments, environment={"GIT_CONFIG_GLOBAL": "/dev/null"}
    ).stdout.strip()


def framework(origins: Path, folder: str, package: str, branch: str) -> tuple[str, str]:
    """A repository of something that looks like a framework, with two commits; gives both."""
    tree = origins / folder
    (tree / package).mkdir(parents=True)
    version = VERSIONS.get(package, "os.environ['BUILD_VERSION']")
    text = SETUP.replace("NAME", repr(package)).replace("VERSION", version).replace("PACKAGE", repr(package))
    (tree / "setup.py").write_text(text)
    (tree / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    )
    (tree / "version.txt").write_text("0.24.0a0\n" if package != "torch" else "2.9.1\n")
    (tree / "requirements.txt").write_text("setuptools\nwheel\n")
    (tree / package / "__init__.py").write_text(INIT.get(package, "__version__ = 'there'\n"))
    # Wheels of frameworks are not small, and the recipes know that.
    (tree / package / "code.bin").write_bytes(random.Random(folder).randbytes(150_000))
    git(origins, "init", "--quiet", f"--initial-branch={branch}", folder)
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "first")
    first = git(tree, "rev-parse", "HEAD")
    (tree / package / "newer.txt").write_text("not pinned\n")
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--message", "second")
    return first, git(tree, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Origins, a table that leads to them, and something that looks like an installed ROCm."""
    world = tmp_path_factory.mktemp("world")
    origins = world / "origins"
    origins.mkdir()
    names = {"vision": "torchvision", "audio": "torchaudio", "apex": "apex", "triton": "triton"}
    pins = {package: framework(origins, folder, package, "nightly")[0] for folder, package in names.items()}
    framework(origins, "pytorch", "torch", "release/2.9")
    torch = origins / "pytorch"
    (torch / "tools/amd_build").mkdir(parents=True)
    settings = "includes = ['torch/*']\nignores = []\ndef is_hip_clang():\n    return True\n"
    (torch / "tools/amd_build/build_amd.py").write_text(settings)
    (torch / "torch/utils/hipify").mkdir(parents=True)
    tables = "import collections\nNAMES = collections.OrderedDict([('cudaMalloc', 'hipMalloc')])\n"
    (torch / "torch/utils/hipify/cuda_to_hip_mappings.py").write_text(f"{tables}CUDA_TO_HIP_MAPPINGS = [NAMES]\n")
    (torch / "torch/utils/hipify/version.py").write_text("__version__ = '2.0.0'\n")
    (torch / "torch/csrc").mkdir()
    (torch / "torch/csrc/a.h").write_text(" cudaMalloc(1);\n")
    (torch / ".ci/docker/ci_commit_pins").mkdir(parents=True)
    (torch / ".ci/docker/ci_commit_pins/triton.txt").write_text(pins["triton"] + "\n")
    rows = [("torchvision", "vision"), ("torchaudio", "audio"), ("apex", "apex")]
    related = [f"ubuntu|pytorch|{name}|nightly|{pins[name]}|{origins / folder}\n" for name, folder in rows]
    (torch / "related_commits").write_text("".join(related))
    git(torch, "add", "--all")
    git(torch, "commit", "--quiet", "--message", "pins")
    table = (REPOSITORY / "data/sources.toml").read_text()
    for address, folder in (
        *(("pytorch/pytorch", "pytorch"), ("ROCm/pytorch", "pytorch"), ("pytorch/audio", "audio")),
        *(("pytorch/vision", "vision"), ("ROCm/triton", "triton"), ("ROCm/apex", "apex")),
    ):
        table = table.replace(f"https://github.com/{address}.git", str(origins / folder))
    (world / "sources.toml").write_text(table)
    for folder in ("bin", ".info", "lib/rocm_sysdeps", "lib/host-math", DEBIAN):
        (world / "rocm" / folder).mkdir(parents=True)
    (world / "rocm" / DEBIAN / "FindHIP.cmake").touch()
    (world / "rocm/.info/version").write_text("7.2.0\n")
    clang = '[ "$1" = -print-resource-dir ] && echo clang-22 || echo no targets'
    for path, line in (("rocm/bin/hipconfig", f"echo {world}/llvm/bin"), ("llvm/bin/clang", clang)):
        (world / path).parent.mkdir(parents=True, exist_ok=True)
        (world / path).write_text(f"#!/bin/sh\n{line}\n")
        (world / path).chmod(0o755)
    (world / "pins.json").write_text(json.dumps(pins))
    return world


def options(world: Path, output: Path) -> list[object]:
    common = ["--source-table", world / "sources.toml", "--rocm-sdk", f"prefix={world / 'rocm'}", "--no-preflight"]
    return [*common, "--gpu-targets", "gfx942", "--output", output]


def test_one_command_from_git_to_smoke_tests(rocwheel: Rocwheel, world: Path, tmp_path: Path) -> None:
    command = ["build", "all", "apex", "--torch", "2.9.1", *options(world, tmp_path / "out")]
    rocwheel.run(*command, "--dry-run").says(
        "would check out torch: release/2.9 of", "would check out triton: the pin in"
    )
    assert not (tmp_path / "out").exists()
    rocwheel.run(*command, environment=with_uv()).says("no device libraries in `clang-22/amdgcn/bitcode`")
    pins = json.loads((world / "pins.json").read_text())
    trees = tmp_path / "out/.rocwheel/jobs/sources/2.9"
    for folder, name in (
        *(("pytorch_vision", "torchvision"), ("pytorch_audio", "torchaudio")),
        *(("apex", "apex"), ("triton", "triton")),
    ):
        assert git(trees / folder, "rev-parse", "THEROCK_UPSTREAM_DIFFBASE^{commit}") == pins[name]
    wheels = {path.name.split("-")[0]: path for path in (tmp_path / "out").glob("*.whl")}
    assert {name: path.name.split("-")[1] for name, path in wheels.items()} == {
        "triton": "3.5.0+rocm7.2.0",
        "torch": "2.9.1+rocm7.2.0",
        "torchvision": "0.24.0a0+rocm7.2.0",
        "torchaudio": "0.24.0a0+rocm7.2.0",
        "apex": "0.24.0a0+rocm7.2.0",
    }
    with zipfile.ZipFile(wheels["torch"]) as archive:
        assert archive.read("torch/csrc/a.h") == b" hipMalloc(1);\n"
        # An installed ROCm is no package that could be required, or looked for when torch is
        # imported.
        required = [line for line in metadata(wheels["torch"]).splitlines() if line.startswith("Requires-Dist")]
        assert required == ["Requires-Dist: triton==3.5.0+rocm7.2.0"]
        assert "torch/_rocm_init.py" not in archive.namelist()
    # Its own setup.py names no requirement, as that of 2.11.
    assert "Requires-Dist: torch" in metadata(wheels["torchaudio"]).splitlines()
    assert "torchvision/newer.txt" not in zipfile.ZipFile(wheels["torchvision"]).namelist()
    stated = json.loads((tmp_path / "out" / f"{wheels['torchvision'].name}.provenance.json").read_text())
    sources, *others = stated["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert sources["digest"]["gitCommit"] == pins["torchvision"] and "uri" not in sources
    assert {wheels["torch"].name, wheels["triton"].name} <= {one["name"] for one in others}
    # Nothing is built or checked out again, although the builds have left files in the trees.
    again = rocwheel.run(*command, environment=with_uv())
    assert again.stdout.count("unchanged") == 5 and "checked out" not in again.stderr, again


def test_what_torch_pins_is_built_without_torch(rocwheel: Rocwheel, world: Path, tmp_path: Path) -> None:
    """For the commit of triton it is enough to have torch's own files: no history, no submodules,
    no conversion."""
    command = ["build", "triton", "--line", "2.9", *options(world, tmp_path / "out")]
    rocwheel.run(*command, "--dry-run").says("would check out torch: release/2.9 of", "pytorch-pins")
    rocwheel.run(*command, environment=with_uv())
    assert [path.name.split("-")[0] for path in (tmp_path / "out").glob("*.whl")] == ["triton"]
    pins = json.loads((world / "pins.json").read_text())
    trees = tmp_path / "out/.rocwheel/jobs/sources/2.9"
    assert git(trees / "triton", "rev-parse", "THEROCK_UPSTREAM_DIFFBASE^{commit}") == pins["triton"]
    assert not (trees / "pytorch").exists()
    assert (trees / "pytorch-pins/torch/csrc/a.h").read_text() == " cudaMalloc(1);\n"
    assert git(trees / "pytorch-pins", "rev-list", "--count", "HEAD") == "1"
    # A commit that is named needs no torch.
    named = ["--ref", f"triton={pins['triton']}", "--source-root", tmp_path / "trees"]
    rocwheel.run(*command[:2], *command[4:], *named, "--only", "sources", environment=with_uv())
    assert sorted(path.name for path in (tmp_path / "trees").iterdir()) == ["triton"]


def test_sources_that_cannot_be_had_are_said_before_anything_is_built(
    rocwheel: Rocwheel, world: Path, tmp_path: Path
) -> None:
    common = ["build", "torch", *options(world, tmp_path / "out"), "--source-root", tmp_path / "trees"]
    for more, code, words in (
        (["--no-checkout"], 2, "there are no sources of torch"),
        (["--line", "1.0"], 2, "the lines are nightly, 2.15"),
        (["--ref", "torch=none"], 1, "none"),
        (["--ref", "triton=main"], 2, "triton is not checked out"),
        (["--origin", str(tmp_path / "nowhere")], 1, "nowhere"),
        (["--no-checkout", "--line", "2.9"], 2, "cannot be used with"),
        (["--repair", "grft"], 2, "graft"),
        (["--source", "2.9.1"], 1, "has no branch, tag or commit `v2.9.1`"),
    ):
        finished = subprocess.run(
            [str(word) for word in (rocwheel.binary, *common, *more)], capture_output=True, text=True, check=False
        )
        assert finished.returncode == code and words in finished.stderr, (more, finished)
        assert not list((tmp_path / "out").glob("*.whl")) and not (tmp_path / "trees/pytorch").exists(), more
    # A checkout of another line moves, one that is there and not asked for anything stays.
    arguments = ["build", "torch", *options(world, tmp_path / "out"), "--source-root", tmp_path / "trees"]
    stopped = [*arguments, "--line", "2.9", "--only", "sources", "--feature", "flash-attention=off"]
    assert "torch: release/2.9" in rocwheel.run(*stopped, environment=with_uv()).stderr
    tree = tmp_path / "trees/pytorch"
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "mine")
    mine = git(tree, "rev-parse", "HEAD")
    said = rocwheel.run(
        *arguments, "--only", "sources", "--feature", "flash-attention=off", environment=with_uv()
    ).stderr
    assert git(tree, "rev-parse", "HEAD") == mine and "checked out" not in said, said


@pytest.fixture(scope="module")
def rocm_packages(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ROCm as Python packages, with the system libraries that TheRock brings; of the libraries that
    torch opens, three."""
    folder = tmp_path_factory.mktemp("rocm")
    therock.kpack(folder / "artifacts")
    therock.Build(folder / "artifacts").file("core-hip_dev_generic", "lib/cmake/hip/FindHIP.cmake")
    name = "librocm_sysdeps_liblzma.so.5"
    therock.Build(folder / "artifacts").library("sysdeps_lib_generic", f"lib/rocm_sysdeps/lib/{name}", name)
    rocwheel.run("package", "--artifacts", folder / "artifacts", "--output", folder / "packages")
    return folder / "packages/dist"


def test_torch_requires_and_opens_the_packages_it_was_built_with(
    rocwheel: Rocwheel, world: Path, rocm_packages: Path, tmp_path: Path
) -> None:
    sdk = ["--rocm-sdk", f"directory={rocm_packages}"]
    create_venv(tmp_path / "mine")
    python = tmp_path / "mine/bin/python"
    command = [
        *("build", "triton", "torch", "--torch", "2.9.1", *options(world, tmp_path / "out"), "--into"),
        tmp_path / "mine",
    ]
    command[command.index("--rocm-sdk") + 1] = sdk[1]
    rocwheel.run(*command, "--rocm-lock", "minor", environment=with_uv())
    # The user's own environment has torch, what it requires, and ROCm.
    run(python, "-c", "import torch; print(torch.__file__)").prints(str(tmp_path / "mine"))
    (wheel,) = (tmp_path / "out").glob("torch-*.whl")
    required = [line for line in metadata(wheel).splitlines() if line.startswith("Requires-Dist")]
    assert required == ["Requires-Dist: rocm[libraries]==10.1.*", f"Requires-Dist: triton==3.5.0+rocm{therock.VERSION}"]
    with zipfile.ZipFile(wheel) as archive:
        init = archive.read("torch/_rocm_init.py").decode()
    assert "check_version='10.1.*'" in init
    assert "preload_shortnames=['amd_comgr', 'amdhip64', 'rocm_sysdeps_liblzma']" in init, init
    opened = run(python, "-c", "import torch; print(open('/proc/self/maps').read())").stdout
    assert "libamdhip64.so.7" in opened and "librocm_sysdeps_liblzma.so.5" in opened
    # A second run installs what is missing there again, and a rebuilt wheel takes the place of the
    # first.
    run(python, "-m", "pip", "uninstall", "--yes", "torch")
    rocwheel.run(*command, "--rocm-lock", "minor", environment=with_uv())
    run(python, "-c", "import torch")


RECIPE = recipe(
    "demo",
    """
work-on = "copy"

[[step]]
name = "wheel"
run = ["${python}", "-c", "import shutil; shutil.copytree('wheels', 'dist')"]
""",
)


def write_pages(root: Path, files: Iterable[Path]) -> str:
    """A package index of these files; gives its address."""
    for file in files:
        name = re.split(r"-\d", file.name)[0].lower().replace("_", "-")
        (root / name).mkdir(parents=True, exist_ok=True)
        with (root / name / "index.html").open("a") as page:
            page.write(f'<a href="{file.as_uri()}">{file.name}</a>\n')
    return f"{root.as_uri()}/"


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_no_other_index_wins_a_name_that_the_index_of_rocm_has(
    rocwheel: Rocwheel, rocm_packages: Path, tmp_path: Path, installer: str
) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/demo.toml").write_text(RECIPE)
    requires = ["Requires-Dist: rocm[libraries]>=1", "Requires-Dist: helper"]
    write_wheel(tmp_path / "sources/wheels", "demo", "1.0", *requires)
    # The usual index has what only it has, and higher versions of what is ROCm's: one that the
    # wheel names, and one that only ROCm's own packages name.
    others = [write_wheel(tmp_path / "other", name, "999") for name in ("helper", "rocm", "rocm_sdk_core")]
    usual = write_pages(tmp_path / "usual", others)
    address = write_pages(tmp_path / "rocm", rocm_packages.iterdir())
    create_venv(tmp_path / "mine")
    command = ["build", "demo", "--recipes", tmp_path / "recipes", "--source", tmp_path / "sources"]
    options = ["--gpu-targets", "gfx942", "--output", tmp_path / "out", "--no-preflight", "--no-audit"]
    command += [*options, "--rocm-sdk", f"index={address}", "--into", tmp_path / "mine"]
    if installer == "pip":
        command.append("--no-uv")
    environment = {**with_uv(), "PIP_INDEX_URL": usual, "UV_DEFAULT_INDEX": usual}
    rocwheel.run(*command, environment=environment)
    listed = run(tmp_path / "mine/bin/python", "-m", "pip", "list", "--format", "json").stdout
    versions = {package["name"].replace("_", "-"): package["version"] for package in json.loads(listed)}
    assert versions["helper"] == "999" and versions["demo"] == "1.0"
    assert {versions[name] for name in ("rocm", "rocm-sdk-core", "rocm-sdk-libraries")} == {therock.VERSION}, versions


def test_rocm_alone_is_installed_with_the_word_of_the_scripts(
    rocwheel: Rocwheel, rocm_packages: Path, tmp_path: Path
) -> None:
    sdk = ["--rocm-sdk", f"directory={rocm_packages}"]
    rocwheel.run("build", "install-rocm", *sdk, expect=2).says("--into .venv")
    refused = rocwheel.run("build", "install-rocm", *sdk, "--into", tmp_path / "none", expect=2)
    assert "is not a Python environment" in refused.stderr and not (tmp_path / "none").exists()
    create_venv(tmp_path / "mine")
    rocwheel.run("build", "install-rocm", *sdk, "--into", tmp_path / "mine", cwd=tmp_path)
    assert run(tmp_path / "mine/bin/rocm-sdk", "version").stdout.strip() == therock.VERSION
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("")
    refused = rocwheel.run("build", "install-rocm", *sdk, "--into", tmp_path / "other", expect=2).stderr
    assert "is not a Python environment" in refused and "`python3 -m venv .venv`" in refused, refused
    # One of conda, or a container's Python, has no `pyvenv.cfg`. That of a distribution is its own.
    environment = {"PIP_BREAK_SYSTEM_PACKAGES": "1"}
    planned = ["build", "install-rocm", *sdk, "--dry-run", "--into", "/usr"]
    refused = rocwheel.run(*planned, expect=2).stderr
    assert "the packages of `/usr` are its distribution's" in refused and next(iter(environment)) in refused, refused
    rocwheel.run(*planned, environment=environment)
    rocwheel.run(*planned[:-1], sys.base_prefix, environment=environment)
    create_venv(tmp_path / "whole")
    python = (tmp_path / "whole/bin/python").rename(tmp_path / "whole/bin/python3")
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    (packages.parent / "EXTERNALLY-MANAGED").write_text("")
    whole = ["build", "install-rocm", *sdk, "--into", tmp_path / "whole"]
    rocwheel.run(*whole, expect=2, cwd=tmp_path)
    rocwheel.run(*whole, environment=environment, cwd=tmp_path)
    assert run(tmp_path / "whole/bin/rocm-sdk", "version").stdout.strip() == therock.VERSION
    environment = {"VIRTUAL_ENV": "", "CONDA_PREFIX": str(tmp_path / "mine")}
    planned = ["compat", "build_prod_wheels", "install-rocm", "--find-links", rocm_packages, "--dry-run"]
    said = rocwheel.run(*planned, environment=environment)
    assert f"--into {tmp_path / 'mine'}" in said.stdout + said.stderr, said
    rocwheel.run(
        "build", "install-rocm", "--rocm-sdk", "prefix=/usr", "--into", tmp_path / "mine", "--rocm", "7.2", expect=2
    ).says("has no packages")


def test_an_environment_that_cannot_be_written_is_refused_before_anything_is_fetched(public: Path) -> None:
    python = "/usr/bin/python3"
    run(python, "-m", "venv", "--without-pip", public / "env")
    packages = run(public / "env/bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout
    packages = Path(packages.strip())
    packages.chmod(0o555)
    (public / "home").mkdir(mode=0o777)
    (public / "home").chmod(0o777)
    flash = ("flash-attn", "--source", "2.8.3", "--torch", "2.8", "--rocm", "6.4", "--backend", "triton")
    rocm = ("install-rocm", "--rocm-sdk", "index=http://127.0.0.1:9/")
    for words in (flash, rocm):
        command = [public / "rocwheel", "build", *words, "--into", public / "env"]
        environment = {"HOME": str(public / "home"), "PATH": "/usr/bin"}
        command = [*unprivileged(), *map(str, command)]
        refused = run(*command, environment=environment, cwd=public / "home", expect=2).stderr
        assert f"nothing can be installed into `{packages}`: " in refused and "-m venv .venv`" in refused, refused
        assert not list((public / "home").iterdir())
    packages.chmod(0o755)


def test_sources_are_installed_in_place_into_the_environment_that_is_named(
    rocwheel: Rocwheel, world: Path, tmp_path: Path
) -> None:
    create_venv(tmp_path / "mine")
    python = tmp_path / "mine/bin/python"
    trees = tmp_path / "trees"
    command = [
        *("build", "torch", "--develop", "--torch", "2.9.1", *options(world, tmp_path / "out"), "--source-root"),
        trees,
    ]
    rocwheel.run(*command, "--feature", "flash-attention=off", "--into", tmp_path / "mine", environment=with_uv())
    said = run(python, "-c", "import torch; print(torch.__file__)").stdout
    assert said.strip() == str(trees / "pytorch/torch/__init__.py")


def test_torch_is_built_with_the_sanitizer_of_its_rocm(rocwheel: Rocwheel, world: Path, tmp_path: Path) -> None:
    """gcc's runtime stands for that of a ROCm: the process of the check has it first."""
    rocm, tree = shutil.copytree(world / "rocm", tmp_path / "rocm"), tmp_path / "pytorch"
    shutil.copytree(world / "origins/pytorch", tree)
    wanted = "assert (os.environ['USE_ASAN'], os.environ['LDFLAGS'].split()[0]) == ('1', '-shared-libasan')\n"
    (tree / "setup.py").write_text("import os\n" + wanted + (tree / "setup.py").read_text())
    with (tree / "torch/__init__.py").open("a") as file:
        file.write("assert 'libclang_rt.asan' in open('/proc/self/maps').read()\n")
    command = [
        "compat",
        "build_prod_wheels",
        "build",
        "--asan",
        "--pytorch-dir",
        tree,
        "--output-dir",
        tmp_path / "out",
    ]
    refused = rocwheel.run(*command, "--install-rocm", "--index-url", "http://127.0.0.1:9/", expect=2)
    assert "packages without the sanitizer may be there" in refused.stderr
    planned = rocwheel.run(
        *command, "--install-rocm", "--find-links", world / "rocm", "--dry-run", environment=with_uv()
    )
    assert "--gpu-targets gfx942:xnack+ --feature asan=on" in planned.stdout + planned.stderr, planned
    command = [
        "build",
        "torch",
        "--source",
        tree,
        "--torch",
        "2.9.1",
        "--feature",
        "asan=on",
        "--gpu-targets",
        "gfx942",
    ]
    command += ["--rocm-sdk", f"prefix={rocm}", "--no-preflight", "--no-audit", "--output", tmp_path / "out"]
    refused = rocwheel.run(*command, environment=with_uv(), expect=1).stderr
    assert "lib/llvm/bin/clang++` does not run" in refused, refused
    assert "give a ROCm that was built with the address sanitizer" in refused, refused
    runtime = tmp_path / "rocm/lib/llvm/lib/libclang_rt.asan-x86_64.so"
    runtime.parent.mkdir(parents=True)
    shutil.copy(run("gcc", "-print-file-name=libasan.so").stdout.strip(), runtime)
    compiler = tmp_path / "rocm/lib/llvm/bin/clang++"
    compiler.parent.mkdir()
    compiler.write_text(f"#!/bin/sh\necho {runtime}\n")
    compiler.chmod(0o755)
    rocwheel.run(*command, environment=with_uv())
    assert list((tmp_path / "out").glob("torch-*.whl"))


def test_the_compiler_is_asked_for_the_targets_before_anything_is_compiled(
    rocwheel: Rocwheel, world: Path, tmp_path: Path
) -> None:
    clang = Path(shutil.which("clang-19") or "")
    shutil.copytree(world / "rocm", tmp_path / "rocm")
    for folder in ("rocm/lib/llvm/bin", "named"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "named/clang").symlink_to(clang)
    command: list[object] = ["build", "torch", "--source-table", world / "sources.toml", "--no-preflight"]
    command += ["--rocm-sdk", f"prefix={tmp_path / 'rocm'}", "--feature", "flash-attention=off", "--torch", "2.9.1"]
    command += ["--output", tmp_path / "out"]
    wanted = [*command, "--gpu-targets", "gfx942,gfx950"]
    by_variable = with_uv() | {"HIP_CLANG_PATH": str(tmp_path / "named")}
    rocwheel.run(*wanted, expect=1, environment=by_variable).says("named/clang` does not know gfx950")
    (tmp_path / "rocm/lib/llvm/bin/clang").symlink_to(clang)
    rocwheel.run(*wanted, expect=1, environment=with_uv()).says("does not know gfx950", "`--gpu-targets gfx942`")
    assert not list((tmp_path / "out").glob("*.whl"))
    rocwheel.run(*command, "--gpu-targets", "gfx942", environment=with_uv())
    assert list((tmp_path / "out").glob("torch-*.whl"))


def test_a_torch_without_rocm_is_not_built(rocwheel: Rocwheel, world: Path, tmp_path: Path) -> None:
    """PyTorch's CMake goes on without a ROCm, and hours later there would be a wheel without it."""
    shutil.copytree(world / "rocm", tmp_path / "rocm")
    (tmp_path / "rocm" / DEBIAN / "FindHIP.cmake").unlink()
    command: list[object] = ["build", "torch", "--torch", "2.9.1", *options(world, tmp_path / "out")]
    command[command.index("--rocm-sdk") + 1] = f"prefix={tmp_path / 'rocm'}"
    refused = rocwheel.run(*command, "--feature", "flash-attention=off", expect=1, environment=with_uv())
    refused.says("step `configure` of torch", "lib/cmake/hip/FindHIP.cmake")
    assert not list((tmp_path / "out").glob("*.whl"))


def test_the_table_of_targets_agrees_with_a_compiler() -> None:
    said = run("clang-19", "--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus").stderr
    known = {word for word in said.split() if word.startswith("gfx")}
    rows = tomllib.loads((REPOSITORY / "data/targets.toml").read_text())["target"]
    # The others are only told of by files, and nothing is built for them. SPIR-V is no processor.
    rows = [row for row in rows if "product" in row and not row.get("portable")]
    assert {row["name"] for row in rows if row.get("llvm", 0) <= 19} == {row["name"] for row in rows} & known


SELECTOR = """
import os
from setuptools import setup
open("rocm_family.py", "w").write(f"FAMILY = {os.environ['ROCM_SDK_TARGET_FAMILY']!r}\\n")
setup(name="rocm", version="7.1.0", py_modules=["rocm_family"], extras_require={"libraries": [], "devel": []})
"""


@pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.long)])
def test_rocm_is_built_anew_for_each_environment(rocwheel: Rocwheel, installer: str, tmp_path: Path) -> None:
    """What a cache has of the package `rocm` was made for another GPU, and stays there for whoever
    uses it."""
    (tmp_path / "dist").mkdir()
    with tarfile.open(tmp_path / "dist/rocm-7.1.0.tar.gz", "w:gz") as archive:
        for name, text in (("setup.py", SELECTOR), ("PKG-INFO", "Metadata-Version: 2.1\nName: rocm\nVersion: 7.1.0\n")):
            member = tarfile.TarInfo(f"rocm-7.1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    cache = {"PIP_CACHE_DIR": str(tmp_path / "cache"), "UV_CACHE_DIR": str(tmp_path / "cache")}
    path = with_uv() if installer == "uv" else {}
    # A cache that has it already.
    sdk = ["--find-links", tmp_path / "dist"]
    create_venv(tmp_path / "first")
    tool = [UV, "pip"] if installer == "uv" else [tmp_path / "first/bin/python", "-m", "pip"]
    python = ["--python", tmp_path / "first/bin/python"] if installer == "uv" else []
    run(*tool, "install", *python, *sdk, "rocm", environment={**cache, "ROCM_SDK_TARGET_FAMILY": "one"})
    before = set((tmp_path / "cache").rglob("rocm-*.whl"))
    assert before
    for family in ("two", "three"):
        create_venv(tmp_path / family)
        more = [] if installer == "uv" else ["--no-uv"]
        rocwheel.run(
            *(
                *("build", "install-rocm", "--rocm-sdk", f"directory={tmp_path / 'dist'}", "--into"),
                *(tmp_path / family, *more),
            ),
            environment={**cache, **path, "ROCM_SDK_TARGET_FAMILY": family},
            cwd=tmp_path,
        )
        said = run(tmp_path / family / "bin/python", "-c", "import rocm_family; print(rocm_family.FAMILY)").stdout
        assert said.strip() == family
    assert all(found.exists() for found in before)
