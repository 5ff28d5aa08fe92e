"""Every command of rocwheel in the pages for users, typed as it stands there.

A page is followed from top to bottom in a folder that has what its text speaks of. What a command
needs that not every machine has (GitHub, a cluster, a bucket, TheRock's servers, hours) has a test
of its own, which is named here.
"""

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import small_wheels
import therock
from choose_indexes import write, write_pair
from test_documentation import PAGES, blocks

import doctor_trees
import hip_wheels
import linked_wheels
import synthetic
from command import REPOSITORY, Rocwheel
from trees import put

TESTS = Path(__file__).parent
GPU_WHEEL = "demo_hip-1.2-cp312-cp312-linux_x86_64.whl"
WINDOWS_WHEEL = "demo_dll-1.2-py3-none-win_amd64.whl"
# What stands in the pages for something of the reader's, and what may not be written to here.
MEANT = {
    "X-py3-none-win_amd64.whl": WINDOWS_WHEEL,
    "X.whl": GPU_WHEEL,
    " x.whl": " one/x-1.0-py3-none-any.whl",
    " /srv/": " srv/",
    "/shared/": "shared/",
    "C:/b/": "b/",
    "https://example.org/whl/nightly/": "srv/whl/nightly",
    "https://example.org/whl/": "dist",
    " /opt/rocm": " {here}/opt/rocm",
    "prefix=/opt/rocm": "prefix={here}/opt/rocm",
    "--python 3.14 ": "",
    "/tmp/out": "out",
    " diff 11 12 ": " diff 1 2 ",
    " bisect 11 42 ": " bisect 1 3 ",
    "--to 11 ": "--to 1 ",
}


@dataclass(frozen=True)
class Stock:
    """What the pages speak of, made once."""

    rocwheel: Rocwheel
    artifacts: Path
    gpu: hip_wheels.Compiled
    debs: list[Path]
    folder: Path

    def packages(self, folder: Path, version: str = synthetic.VERSION) -> None:
        """ROCm of that version as packages."""
        made = self.folder / version
        if not made.is_dir():
            self.rocwheel.package(self.artifacts, made, "--version", version)
        shutil.copytree(made / "dist", folder, dirs_exist_ok=True)

    def wheel(self, path: Path, requires: tuple[str, ...] = ()) -> None:
        """A wheel of that file name with a HIP library."""
        name, version, python, abi, platform = path.stem.split("-")
        library = (self.gpu.folder / "wide.so").read_bytes()
        linked_wheels.write_wheel(
            path.parent,
            {f"{name}/__init__.py": b"", f"{name}/lib/libdemo.so": library},
            platform=platform,
            name=name,
            version=version,
            python=f"{python}-{abi}",
            requires=requires,
        )


@dataclass(frozen=True)
class Place:
    """A folder in which a page is followed, and what can be put into it."""

    stock: Stock
    here: Path


@dataclass(frozen=True)
class Page:
    """How a page is followed: what its text speaks of, the exit codes that are not 0, and the tests
    that run what is not run here. Commands are named by how they begin behind `rocwheel`."""

    prepare: Callable[[Place], None] | None = None
    code: dict[str, int] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)


def script(path: Path, *lines: str) -> None:
    put(path, "\n".join(["#!/bin/sh", *lines, ""]), 0o755)


def environment(folder: Path) -> None:
    """A virtual environment with one package."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(small_wheels.write_wheel(folder / "wheels", "small", "1.0")) as archive:
        archive.extractall(site)


def wheels_of_a_project(place: Place) -> None:
    place.stock.wheel(place.here / GPU_WHEEL)
    place.stock.packages(place.here / "dist")
    workflows = place.here / ".github/workflows"
    workflows.mkdir(parents=True)
    (workflows / "ci.yml").write_text(
        "jobs:\n  build:\n    steps:\n      - run: python build_tools/build_python_packages.py --artifact-dir=a --dest-dir=b\n"
    )


def debian(place: Place) -> None:
    for folder in (place.here, place.here / "debs"):
        folder.mkdir(exist_ok=True)
        for deb in place.stock.debs:
            (folder / deb.name).symlink_to(deb)


def releases(place: Place) -> None:
    small_wheels.write_wheel(
        place.here / "wheels", "flash_attn", "2.8.3", "torch==2.14.*", tag="cp312-cp312-linux_x86_64"
    )
    (place.here / "README.md").write_text(
        "# Wheels\n<!-- rocwheel coverage: begin -->\n<!-- rocwheel coverage: end -->\n"
    )
    (place.here / "HISTORY.md").write_text("# v1.2\n")


def compared(place: Place) -> None:
    for folder, version in (("dist-old", "7.1.0"), ("dist-new", "7.1.1"), ("OLD", "7.1.0"), ("NEW", "7.1.1")):
        place.stock.packages(place.here / folder, version)


def read_me(place: Place) -> None:
    for prepare in (wheels_of_a_project, debian, releases, compared):
        prepare(place)
    environment(place.here / ".venv")
    place.stock.packages(place.here, "7.2.4")


def chosen(place: Place) -> None:
    write_pair(place.here / "dist", "2.9.1", "7.1.0", ("gfx1100", "gfx1151"))
    write(place.here / "dist", "torchvision", "0.24+rocm7.1.0", "torch==2.9.1+rocm7.1.0")
    place.stock.rocwheel.run("index", "build", place.here / "dist")


def audited(place: Place) -> None:
    wheels_of_a_project(place)
    environment(place.here / ".venv")
    small_wheels.write_wheel(place.here / "wheels", "numpy", "2.3.0")
    small_wheels.write_wheel(place.here / "dist", "other", "1.0")
    place.stock.rocwheel.run("index", "build", place.here / "dist")
    (place.here / "opt/rocm/lib").mkdir(parents=True)
    place.stock.wheel(place.here / "gafime_rocm-0.4.7-cp312-cp312-manylinux_2_28_x86_64.whl")


def gpu_code(place: Place) -> None:
    place.stock.wheel(place.here / GPU_WHEEL)
    for name in (
        "gafime_rocm-0.4.7-cp312-cp312-manylinux_2_28_x86_64.whl",
        "jax_rocm7_plugin-0.12.0-cp312-cp312-manylinux_2_27_x86_64.whl",
        "onnxruntime_rocm-1.22.2.post3-cp312-cp312-manylinux_2_34_x86_64.whl",
    ):
        place.stock.wheel(place.here / name)
    shutil.copytree(place.stock.artifacts, place.here / "artifacts", symlinks=True)
    for path in ("librocrand.so.1", "BEFORE/lib.so"):
        (place.here / path).parent.mkdir(exist_ok=True)
        shutil.copy(place.stock.gpu.folder / "wide.so", place.here / path)
    place.stock.rocwheel.run("split", place.here / "BEFORE/lib.so", "--output", place.here / "AFTER")


def edited(place: Place) -> None:
    place.stock.wheel(place.here / "torch-2.9.0-cp312-cp312-manylinux_2_28_x86_64.whl")
    small_wheels.write_wheel(place.here / "one", "x", "1.0")
    place.stock.packages(place.here, "7.0.0rc2")


def installed_rocm(stock: Stock, folder: Path) -> None:
    """What TheRock installs: all artifacts in one tree."""
    stock.rocwheel.run("artifact", "flatten", stock.artifacts, "--output", folder)


def packaged(place: Place) -> None:
    debian(place)
    for folder in ("opt/rocm", "root/opt/rocm-7.2.4"):
        installed_rocm(place.stock, place.here / folder)
    archive = place.here / "therock-dist-linux-7.1.0.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", place.here / "opt/rocm", "."], check=True)
    place.stock.packages(place.here / "yesterday")
    place.stock.packages(place.here / "night", "7.2.0a20261124")
    key = place.here / "release-key"
    place.stock.rocwheel.run("release", "key", "new", key)
    stream = ("--to", place.here / "srv/whl", "--stream", "nightly", "--signing-key", key)
    place.stock.rocwheel.run("release", "publish", place.here / "night", *stream)


def streams(place: Place) -> None:
    place.stock.packages(place.here / "dist", "7.2.0")
    stream = ("--to", place.here / "srv/whl", "--stream", "nightly")
    for number in (1, 2, 3):
        place.stock.packages(place.here / f"dist{number}", f"7.1.{number}")
        place.stock.rocwheel.run("release", "publish", place.here / f"dist{number}", *stream)
    script(
        place.here / "install-and-test", 'curl -s "$PIP_INDEX_URL/rocm-sdk-core/" | grep -q 7.1.2 && exit 1', "exit 0"
    )
    (place.here / "copy-of-the-stream").symlink_to("srv/whl/nightly")


def delta(place: Place) -> None:
    place.stock.packages(place.here / "dist", "7.2.0")
    place.stock.packages(place.here / "wheels", "7.1.0")


def promoted(place: Place) -> None:
    place.stock.packages(place.here / "DIST", "7.12.0rc1")
    place.stock.rocwheel.run("release", "key", "new", place.here / "release-key")
    place.stock.rocwheel.run(
        "release", "publish", place.here / "DIST", "--to", place.here / "srv/whl", "--stream", "staging"
    )
    script(place.here / "install-and-test", "exit 0")
    (place.here / "verdicts").mkdir()


def indexed(place: Place) -> None:
    place.stock.packages(place.here / "dist")
    for product, project in (("core", "rocm-core"), ("pytorch", "torch")):
        index = place.here / "SITE/rocm" / product / "whl-next"
        small_wheels.write_wheel(index / project, project, "2.9.0")
        place.stock.rocwheel.run("index", "build", index)


def hipified(place: Place) -> None:
    for folder in ("pytorch/torch/utils/hipify", "site-packages/torch/utils/hipify"):
        (place.here / folder).mkdir(parents=True)
        tables = "CUDA_TO_HIP_MAPPINGS = [{'cudaMalloc': 'hipMalloc'}]\n"
        (place.here / folder / "cuda_to_hip_mappings.py").write_text(tables)
    for folder in ("pytorch/aten", "vision/csrc", "ext/csrc"):
        put(place.here / folder / "ops.cu", "void f() { cudaMalloc(0, 1); cudaNewThing(); }\n")


def suites(place: Place) -> None:
    (place.here / "tests").mkdir()
    (place.here / "tests/test_small.py").write_text(
        "import pytest\n\n@pytest.mark.gpu\ndef test_one():\n    assert True\n"
    )
    (place.here / "tests/pytest.ini").write_text("[pytest]\nmarkers = gpu: needs a GPU\n")
    said = [{"name": "matmul", "unit": "us", "value": 12.5}]
    for name in ("check-a", "check-b", "bench-old", "bench-new"):
        script(place.here / name, f"echo '{json.dumps(said)}'")
    (place.here / "bench.py").write_text(f"print({json.dumps(said)!r})\n")
    (place.here / "results.json").write_text(json.dumps(said))
    for folder in ("old", "new"):
        environment(place.here / folder)
    row = '[[test]]\nid = "test_torch.py::TestTorch::test_print"\nkind = "skip"\nreason = "prints"\n'
    (place.here / "known-failures.toml").write_text(row)
    case = '<testsuite name="s" tests="1"><testcase classname="c" name="n" time="1"/></testsuite>\n'
    for name in ("a.xml", "b.xml", "junit.xml"):
        (place.here / name).write_text(case.replace('"s"', f'"{name}"'))
    gtest = {
        "tests": 1,
        "failures": 0,
        "name": "AllTests",
        "testsuites": [
            {
                "name": "A",
                "tests": 1,
                "testsuite": [{"name": "B", "status": "RUN", "result": "COMPLETED", "time": "0.1s", "classname": "A"}],
            }
        ],
    }
    (place.here / "gtest.json").write_text(json.dumps(gtest))
    for folder in (".", "shard-1", "shard-2"):
        put(place.here / folder / ".test_durations", json.dumps({f"{folder}/t.py::test": 1.5}))
    (place.here / "test-times.json").write_text(
        json.dumps({"linux-noble-rocm-py3.12-mi300": {"default": {"test_nn": 3.0}}})
    )
    (place.here / "dist").mkdir()
    place.stock.wheel(place.here / "dist/torch-2.9.0-cp312-cp312-linux_x86_64.whl")
    shutil.copytree(place.here / "tests", place.here / "test-reports")
    shutil.copy(place.here / "a.xml", place.here / "test-reports")


def sick(place: Place) -> None:
    chosen(place)
    for folder in (".venv", "venv"):
        environment(place.here / folder)
    machine = doctor_trees.make_healthy_machine(place.here / "machine")
    machine.finish()
    shutil.copytree(machine.root, place.here / "copy", symlinks=True)
    shutil.copytree(machine.venv, place.here / "copy/venv", symlinks=True)
    (place.here / "variables").write_text("HOME=/root\n")


def on_windows(place: Place) -> None:
    therock.kpack(place.here / "linux")
    therock.windows(place.here / "windows")
    small_wheels.write_wheel(place.here, "demo_dll", "1.2", tag="py3-none-win_amd64")


def prefixes(place: Place) -> None:
    for version in ("7.1", "7.2"):
        installed_rocm(place.stock, place.here / f"opt/rocm-{version}")
    releases(place)


HERE = "test_documented_commands.py::test_the_commands_of_a_page"  # on another page
CONTAINERS = {
    "build torch --executor": "test_containers.py::test_a_recipe_is_built_in_its_own_image",
    "build torchvision --backend cpu --torch 2.14 --executor": "test_containers.py::test_what_an_image_lacks_is_said",
    "build --job job.toml --executor": "test_containers.py::test_jobs_of_an_image_run_in_one_container",
}
MAGMA = "test_magma_real.py::test_the_tarball_is_as_the_document_says"
SOURCES = "test_documents.py::test_the_quickstart_ends_with_a_torch_that_can_be_imported"
PATCHES = "test_source.py::test_a_patch_survives_a_checkout_from_scratch"
PLANS = "test_build_plan.py::test_a_killed_matrix_goes_on"
PYTORCH = "test_suite_programs.py::test_pytorchs_own_tests_survive_a_crash_and_a_hang"
FETCH = "test_artifact_buckets.py::test_the_documents_lines_do_what_they_say"
GUIDE = "test_guides.py::test_the_guide_of_frameworks_can_be_followed"
FIRST_WHEEL = {"": "test_guides.py::test_the_first_wheel_can_be_followed"}
BUILT = {
    "build --job": CONTAINERS["build --job job.toml --executor"],
    "build status": PLANS,
    "build logs": PLANS,
    "build cancel": "test_build_plan.py::test_twelve_cells_on_slurm",
    "build plan": PLANS,
    "build all": "test_build_all.py::test_one_command_from_git_to_smoke_tests",
    "build torchaudio": "test_rocm7_real.py",
    "build torchvision": "test_rocm7_real.py",
    "source checkout": SOURCES,
    "kernels": HERE,
    "repair": "test_repair.py",
    "release publish": "test_release_publish.py",
}
FOLLOWED: dict[str, Page] = {
    "README.md": Page(read_me, {"audit X.whl": 1}, {"fuse": HERE}),
    "audit.md": Page(
        audited,
        {
            "audit X.whl --why": 0,
            "audit X.whl --library-path": 1,
            "audit X.whl": 1,
            "audit gafime": 1,
            "audit wheelhouse --with index": 1,
        },
    ),
    "buckets.md": Page(
        elsewhere={
            "release upload": "test_index_bucket.py::test_a_tarball_goes_where_the_magma_page_sends_it",
            "index build": "test_index_bucket.py::test_a_bucket_becomes_an_index",
        }
    ),
    # The environment of a run by hand is not here.
    "build.md": Page(prefixes, {"test smoke triton": 1}, BUILT),
    "choose.md": Page(chosen),
    "ci.md": Page(wheels_of_a_project),
    "configuration.md": Page(),
    "containers.md": Page(elsewhere=CONTAINERS),
    "data.md": Page(elsewhere={"data check": "test_data.py::test_what_a_checkout_has_is_rows_to_add"}),
    "delta.md": Page(delta),
    "demo.md": Page(debian, elsewhere={"kernels": HERE}),
    "deviations.md": Page(),
    "diff.md": Page(compared, {"diff dist-old dist-new --accept": 2}),
    "doctor.md": Page(sick, {"doctor --need-gpu": 1}),
    "edit.md": Page(edited),
    "fetch.md": Page(elsewhere={"": FETCH}),
    "findings.md": Page(),
    "first-wheel.md": Page(elsewhere=FIRST_WHEEL),
    "framework-authors.md": Page(elsewhere={"": GUIDE}),
    "github-actions.md": Page(),
    "gpu-code.md": Page(gpu_code),
    "hipify.md": Page(hipified, {"source hipify vision --check": 1}),
    "index-servers.md": Page(releases),
    "index.md": Page(
        indexed,
        elsewhere={
            "index build pages --from-github": "test_index_github.py::test_pip_and_uv_install_from_releases",
            "index build pages --from-index": (
                "test_foreign_index.py::test_lists_of_a_plain_server_become_an_index_with_hashes"
            ),
        },
    ),
    "mirror.md": Page(elsewhere={"": "test_mirror.py::test_a_mirror_is_closed_and_installs_without_a_network"}),
    "package.md": Page(packaged),
    "promote.md": Page(promoted),
    "publish.md": Page(
        releases, elsewhere={"release github": "test_release_github.py::test_a_release_gets_what_it_lacks"}
    ),
    "recipes.md": Page(),
    "repair.md": Page(wheels_of_a_project),
    "slurm.md": Page(elsewhere={"build": "test_build_plan.py::test_twelve_cells_on_slurm"}),
    "source.md": Page(elsewhere={"source checkout": SOURCES, "source manifest": SOURCES, "source patches": PATCHES}),
    "split-wheels.md": Page(gpu_code),
    "streams.md": Page(streams),
    "testing.md": Page(
        suites,
        {"test lists known-failures.toml --": 1},
        {
            "test smoke --in": "test_smoke.py::test_a_container_gets_this_program_and_the_devices",
            "test smoke": "test_smoke.py::test_without_a_gpu_what_needs_one_is_not_run",
            "test suite --pytorch-dir pytorch --as": "test_suite_programs.py::test_pytorchs_own_runner_tells_every_test",
            "test suite --pytorch-dir": PYTORCH,
            "test suite /opt": "test_suite_programs.py::test_a_program_of_googletest_is_read_while_it_runs",
            "test suite build/": "test_suite_programs.py::test_a_folder_of_ctest",
            "test report artifacts --shards": "test_test_report.py::test_what_did_not_run_has_not_passed",
            "test bench --history history --pytorch-dir": (
                "test_bench.py::test_operator_benchmarks_of_pytorch_are_run"
            ),
            "test shards test-results/RUN": "test_test_report.py::test_shards_have_all_tests",
            "test report test-results --verdict": "test_test_report.py::test_a_verdict_is_signed_and_about_the_wheel",
        },
    ),
    "windows.md": Page(
        on_windows,
        elsewhere={
            "source checkout": SOURCES,
            "build torch": BUILT["build all"],
            "repair --mode fat": "test_windows.py",
            "test suite --pytorch-dir": PYTORCH,
        },
    ),
}


def page_of(name: str) -> Path:
    return REPOSITORY / ("." if name == "README.md" else "docs") / name


def typed(page: Path) -> Iterator[str]:
    """The commands of the blocks of a page, as somebody types them; an ellipsis is no command."""
    for block in blocks(page):
        for line in re.sub(r" *\\\n *", " ", block).splitlines():
            command = re.match(r"(?:[-+$] *)?((?:[A-Z_]+=\S+ )?rocwheel .*|printf [^|]*$|mkdir .*)", line)
            if command and "…" not in command[1].partition(" #")[0]:
                yield command[1]


def beginning(command: str, table: dict[str, object]) -> object | None:
    words = command.partition("rocwheel ")[2]
    return next((value for start, value in table.items() if words.startswith(start)), None)


def followed() -> Iterator[object]:
    """The pages with commands; those that import Debian's packages more than once take long."""
    for page in PAGES:
        if page.parent.name == "hip-extension" or page.name == "benchmarks.md":
            continue
        if any("rocwheel " in command for command in typed(page)):
            yield pytest.param(page.name, marks=[pytest.mark.long] if page.name in ("demo.md", "package.md") else [])


def meant(command: str, here: Path) -> str:
    """What a reader types for a command of a page. Builds are planned and not made."""
    for text, own in MEANT.items():
        command = command.replace(text, own.format(here=here))
    if re.search(r"rocwheel build (?!status|logs|cancel|plan|--job)", command) and not re.search(
        "--(write-|dry-run)", command
    ):
        command = f"{command.partition(' # ')[0]} --dry-run"
    return command


def test_what_is_run_elsewhere_is_run() -> None:
    """Every test that is named exists, and every entry is about a command that is in its page."""
    named = {(name, start): test for name, page in FOLLOWED.items() for start, test in page.elsewhere.items()}
    for (name, start), test in named.items():
        file, _, function = test.partition("::")
        assert not function or f"def {function}(" in (TESTS / file).read_text(), test
        commands = list(typed(page_of(name)))
        assert any(beginning(command, {start: test}) for command in commands), (name, start)


@pytest.fixture(scope="module")
def stock(
    rocwheel: Rocwheel, compiled: synthetic.Compiled, debs: list[Path], tmp_path_factory: pytest.TempPathFactory
) -> Stock:
    folder = tmp_path_factory.mktemp("stock")
    artifacts = synthetic.write_artifacts(folder / "artifacts", compiled)
    return Stock(rocwheel, artifacts, hip_wheels.Compiled.make(folder / "gpu"), debs, folder)


@pytest.mark.parametrize("name", list(followed()))
def test_the_commands_of_a_page(rocwheel: Rocwheel, stock: Stock, name: str, tmp_path: Path) -> None:
    page = FOLLOWED[name]
    here = tmp_path / "here"
    here.mkdir()
    if page.prepare:
        page.prepare(Place(stock, here))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/rocwheel").symlink_to(rocwheel.binary)
    variables = {
        "PATH": f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": str(tmp_path),
        "PROFILE": str(tmp_path / "profile"),
        "fpath": str(tmp_path / "bin"),
        "ROCWHEEL_CACHE": str(tmp_path / "cache"),
    }
    wrong = []
    for command in typed(page_of(name)):
        if beginning(command, page.elsewhere):
            continue
        done = subprocess.run(
            ["bash", "-c", meant(command, here)],
            cwd=here,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        expected = beginning(command, page.code) or 0
        if done.returncode != expected:
            said = (done.stdout + done.stderr)[-700:]
            wrong.append(f"{command}\nexit code {done.returncode}, expected {expected}\n{said}")
    assert not wrong, "\n\n".join(wrong)
