"""`rocwheel test smoke` on installed packages that are made here. Real frameworks are in the long
run."""

import base64
import hashlib
import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_wheels import install

from command import Result, Rocwheel
from environment import create_venv
from trees import put

REQUIRES = ("rocm-sdk-core==7.1.0", "rocm-sdk-libraries==7.1.0; extra == 'libraries'")

# A torch that computes nothing: it says what it is, and has as many GPUs as a variable says.
TORCH = """
import os
__version__ = "2.12.0+rocm7.1"
class version:
    hip = "7.1"
    cuda = None
class __config__:
    @staticmethod
    def show():
        return "BLAS_INFO=open"
class Properties:
    gcnArchName = "gfx942:sramecc+:xnack-"
class cuda:
    @staticmethod
    def device_count():
        return int(os.environ.get("FAKE_GPUS", "0"))
    @staticmethod
    def is_available():
        return cuda.device_count() > 0
    @staticmethod
    def get_device_properties(index):
        return Properties
    @staticmethod
    def get_device_name(index):
        return "A GPU"
    @staticmethod
    def get_arch_list():
        return ["gfx942"]
class Ones:
    def sum(self):
        return self
    def item(self):
        return 3.0
def ones(*shape, device=None):
    return Ones()
"""


@dataclass
class Site:
    """An environment whose packages are written by hand."""

    folder: Path
    rocwheel: Rocwheel

    @property
    def python(self) -> Path:
        return self.folder / "venv/bin/python"

    @property
    def packages(self) -> Path:
        (path,) = (self.folder / "venv/lib").glob("python*/site-packages")
        return path

    def install(self, name: str, version: str, files: dict[str, bytes], requires: tuple[str, ...] = ()) -> None:
        install(self.packages, name, version, files, requires)

    def smoke(self, *arguments: object, expect: int = 0, **environment: str) -> tuple[dict[str, str], dict, Result]:
        output = self.folder / "results"
        before = set(output.iterdir()) if output.exists() else set()
        words = ("test", "smoke", "--json", "--python", self.python, "--output", output, *arguments)
        result = self.rocwheel.run(*words, expect=expect, cwd=self.folder, environment=environment)
        (folder,) = set(output.iterdir()) - before
        events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
        outcomes = {event["id"]: event["outcome"] for event in events if event["event"] == "attempt"}
        return outcomes, json.loads(result.stdout), result


@pytest.fixture
def site(rocwheel: Rocwheel, tmp_path: Path) -> Site:
    create_venv(tmp_path / "venv")
    return Site(tmp_path, rocwheel)


def newest_python() -> str:
    """The newest Python of this machine: what its library tells of installed packages changes."""
    known = sorted(Path.home().glob(".pyenv/versions/3.1?.*/bin/python"), key=lambda path: path.parts[-3])
    return str(known[-1]) if known else sys.executable


@pytest.fixture
def bare_site(rocwheel: Rocwheel, tmp_path: Path) -> Site:
    """An environment of the newest Python without pip, as uv makes it."""
    subprocess.run([newest_python(), "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    return Site(tmp_path, rocwheel)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("library")
    (folder / "a.c").write_text("int small(void) { return 1; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "a.c", "-o", "a.so"], cwd=folder, check=True)
    return (folder / "a.so").read_bytes()


def test_nothing_installed_is_no_pass(site: Site):
    outcomes, summary, _ = site.smoke(expect=1)
    assert outcomes == {"installed": "error"}
    message = summary["failures"][0]["message"]
    assert message.startswith(f"`{site.python}` has none of `torch`, `torchvision`"), message
    outcomes, _, _ = site.smoke("torch", "rocm", expect=1)
    assert outcomes["torch.installed"] == "error"
    assert outcomes["rocm.installed"] == "error"
    wrong = site.rocwheel.run("test", "smoke", "--python", site.python, "tensorflow", expect=2, cwd=site.folder)
    assert "there are no tests of `tensorflow`" in wrong.stderr and "`torchvision`" in wrong.stderr


def test_without_a_gpu_what_needs_one_is_not_run(site: Site):
    """False green T6: a report without a GPU succeeds."""
    site.install("torch", "2.12.0+rocm7.1", {"torch/__init__.py": TORCH.encode()})
    outcomes, summary, _ = site.smoke(expect=1)
    assert outcomes["torch.import"] == "passed"
    assert outcomes["torch.matmul"] == "not_run"
    assert summary["complete"] is False
    why = [row["message"] for row in summary["failures"] if row["id"] == "torch.matmul"]
    assert why == ["torch 2.12.0+rocm7.1 is for HIP 7.1 and sees no GPU"]
    # The stand-in computes nothing, so the computations on the CPU fail also where a GPU may miss.
    site.smoke("--allow-no-gpu", expect=1)


def test_computations_are_selected_by_name(site: Site):
    site.install("torch", "2.12.0+rocm7.1", {"torch/__init__.py": TORCH.encode()})
    found = {name.split("[")[0] for name in site.smoke("-k", "MATMUL and not cpu", expect=1)[0]}
    assert found == {"torch.matmul"}
    assert set(site.smoke("torch", "-k", "import and not load", expect=0)[0]) == {"torch.import"}
    none = site.rocwheel.run("test", "smoke", "--python", site.python, "-k", "nonsense", expect=2, cwd=site.folder)
    assert "`-k nonsense` selects none of" in none.stderr
    script = ("compat", "run_pytorch_smoke_tests", "--", "-k", "import", "--log-cli-level=INFO", "-v")
    said = site.rocwheel.run(*script, cwd=site.folder, environment={"VIRTUAL_ENV": str(site.folder / "venv")}).stderr
    assert "`--log-cli-level=INFO -v` has no effect" in said and "test smoke torch -k import" in said, said


def test_each_gpu_is_tested_alone(site: Site):
    torch = TORCH + "\nprint('VISIBLE', os.environ.get('HIP_VISIBLE_DEVICES'))\n"
    site.install("torch", "2.12.0+rocm7.1", {"torch/__init__.py": torch.encode()})
    outcomes, summary, _ = site.smoke(expect=1, FAKE_GPUS="2", HIP_VISIBLE_DEVICES="5,3")
    assert outcomes["torch.device[gpu0]"] == outcomes["torch.device[gpu1]"] == "passed"
    events = [json.loads(line) for line in Path(summary["events"]).read_text().splitlines()]
    assert events[0]["gpus"]["gpu1"] == {"product": "A GPU", "target": "gfx942"}
    failed = {event["id"]: event for event in events if event["event"] == "attempt" and event["outcome"] == "failed"}
    assert "VISIBLE 3" in failed["torch.matmul[gpu1]"]["output"]
    assert failed["torch.matmul[gpu1]"]["gpu"] == "gpu1"
    outcomes, _, _ = site.smoke("--amdgpu-family", "gfx1100", expect=1, FAKE_GPUS="1")
    assert outcomes["torch.device"] == "not_run"


CODE = 'b"\\x7fELF".ljust(18) + (224).to_bytes(2, "little")'
TRITON = f"""
import os, sys, types
__version__ = "3.9.0"
class JIT:
    def __init__(self, function):
        self.__name__ = function.__name__
jit = JIT
def compile(source, target):
    print(source.kernel.__name__, target, os.listdir(os.environ["TRITON_CACHE_DIR"]))
    if target[1] == "gfx906":
        raise ValueError("unsupported target")
    code = bytes(18) if target[1] == "gfx900" else {CODE}
    return types.SimpleNamespace(asm={{"hsaco": code}})
"""
COMPILER = """
class ASTSource:
    def __init__(self, fn, signature, constexprs):
        self.kernel = fn
        assert signature.keys() > constexprs.keys()
"""


TARGET = "import collections\nGPUTarget = collections.namedtuple('GPUTarget', 'backend arch warp_size')\n"
DRIVER = "class driver:\n    @classmethod\n    def set_active(cls, one):\n        cls.active = one\n"
JIT = f"""
import types
from triton.runtime import driver
class JITFunction:
    def __init__(self, fn):
        self.fn = fn
    def run(self, *values, warmup, **options):
        assert warmup and [value.dtype for value in values] == ["torch.float16", "torch.float32"], values
        if driver.active.get_current_target().arch == "gfx906":
            raise ValueError("unsupported target")
        return types.SimpleNamespace(asm={{"hsaco": {CODE}}})
"""
# Its host code is torch's, as far as a launch needs it.
ATTENTION = """
import os, torch
from einops import rearrange
from triton.runtime.jit import JITFunction
assert os.environ["FLASH_ATTENTION_TRITON_AMD_ENABLE"] == "TRUE"
@torch.compile(mode="any")
def helper(a: torch.Tensor): pass
@JITFunction
def kernel(): pass
class flash_attn_gpu:
    @staticmethod
    def fwd(q, k, v, out, *rest):
        assert q.stride() == (32768, 256, 64, 1) and q.stride(1) == 256
        sums = torch.zeros((2, 4, 128), device=q.device, dtype=torch.float32)
        kernel.run(q, sums, warmup=False)
        return torch.empty_like(q), sums, None, None
    @staticmethod
    def bwd(grad, *values):
        BACKWARD
"""


@pytest.mark.parametrize(
    ("backward", "target", "why"),
    [
        ("kernel.run(grad, values[4], warmup=False)", "gfx942", None),
        (
            "kernel.run(grad, values[4], warmup=False)",
            "gfx906",
            "`kernel` is not compiled for gfx906: unsupported target",
        ),
        ("pass", "gfx942", "backward has launched no kernel of triton"),
    ],
)
def test_what_flash_attention_launches_is_compiled(site: Site, backward: str, target: str, why: str | None):
    """Beside stand-ins for torch and einops, which are not installed; triton has to be."""
    own = {"__init__": '__version__ = "2.8.3"\n', "flash_attn_interface": ATTENTION.replace("BACKWARD", backward)}
    site.install("flash_attn", "2.8.3", {f"flash_attn/{name}.py": text.encode() for name, text in own.items()})
    outcomes, _, _ = site.smoke("flash_attn", "--compile-for", target, expect=1)
    assert outcomes["triton.installed"] == "error"
    files = {"__init__": '__version__ = "3.9.0"\n', "backends/__init__": "", "backends/compiler": TARGET}
    files |= {"runtime/__init__": DRIVER, "runtime/jit": JIT}
    site.install("triton", "3.9.0", {f"triton/{name}.py": text.encode() for name, text in files.items()})
    outcomes, summary, _ = site.smoke("flash_attn", "--compile-for", target, expect=1 if why else 0)
    assert outcomes == {f"flash_attn.compile[{target}]": "failed" if why else "passed"}
    assert not why or summary["failures"][0]["message"].endswith(why), summary


def test_kernels_are_compiled_for_gpus_that_are_not_here(site: Site):
    """Nothing needs a GPU, so that nothing is left out, and an earlier result does not count."""
    files = {"__init__": TRITON, "language": "constexpr = None\n", "compiler": COMPILER, "backends/__init__": ""}
    files["backends/compiler"] = "def GPUTarget(*values):\n    return values\n"
    site.install("triton", "3.9.0", {f"triton/{name}.py": text.encode() for name, text in files.items()})
    outcomes, summary, _ = site.smoke("--compile-for", "gfx942,gfx1100")
    assert outcomes == {"triton.compile[gfx1100]": "passed", "triton.compile[gfx942]": "passed"}
    assert summary["complete"] is True
    outcomes, summary, _ = site.smoke("triton", "--compile-for", "gfx942,gfx906,gfx900", expect=1)
    assert [outcomes[f"triton.compile[{name}]"] for name in ("gfx942", "gfx906", "gfx900")] == [
        *("passed", "failed", "failed")
    ]
    messages = {row["id"].partition("[")[2]: row["message"] for row in summary["failures"]}
    assert messages["gfx906]"].endswith("`scaled_sum` is not compiled for gfx906: unsupported target"), messages
    assert messages["gfx900]"].endswith("scaled_sum is no code for AMD's GPUs"), messages
    wrong = site.rocwheel.run("test", "smoke", "--python", site.python, "torch", "--compile-for", "gfx942", expect=2)
    assert "`triton`" in wrong.stderr, wrong.stderr


def test_a_missing_library_fails(site: Site, library: bytes):
    """False green T4: absent libraries are a note of `rocm-sdk test`."""
    core = {"_rocm_sdk_core/lib/libsmall.so.1": library, "_rocm_sdk_core/lib/libbroken.so.1": b"no library"}
    site.install("rocm-sdk-core", "7.1.0", core)
    site.install("rocm-sdk-libraries", "7.1.0", {"_rocm_sdk_libraries/lib/libother.so.2": library})
    site.install("rocm", "7.1.0", {"rocm_sdk.py": b""}, REQUIRES)
    outcomes, _, _ = site.smoke(expect=1)
    assert outcomes["rocm.load[libsmall.so.1]"] == "passed"
    assert outcomes["rocm.load[libbroken.so.1]"] == "failed"
    assert (outcomes["rocm.requirements"], outcomes["rocm.files"]) == ("passed", "passed")
    assert outcomes["rocm.memory"] == "not_run"
    (site.packages / "_rocm_sdk_libraries/lib/libother.so.2").unlink()
    outcomes, summary, _ = site.smoke(expect=1)
    assert outcomes["rocm.load[libother.so.2]"] == "failed"
    assert outcomes["rocm.files"] == "failed"
    assert any("libother.so.2 is missing" in row["message"] for row in summary["failures"])


def test_a_new_python_without_pip_sees_what_is_missing(bare_site: Site, library: bytes):
    """`Distribution.files` of Python 3.12 has no files that are missing, and `packaging` is not
    there."""
    site = bare_site
    site.install("rocm-sdk-core", "7.1.0", {"_rocm_sdk_core/lib/libsmall.so.1": library})
    site.install("rocm-sdk-other", "7.1.0", {"_rocm_sdk_other/lib/libsmall.so.1": b"no library"})
    site.install("rocm", "7.1.0", {"rocm_sdk.py": b""}, REQUIRES)
    outcomes, _, _ = site.smoke("--allow-no-gpu", expect=1)
    loads = {name.rpartition("/site-packages/")[2]: end for name, end in outcomes.items() if "rocm.load[" in name}
    assert loads == {"_rocm_sdk_core/lib/libsmall.so.1]": "passed", "_rocm_sdk_other/lib/libsmall.so.1]": "failed"}
    assert outcomes["rocm.requirements"] == "passed"
    (site.packages / "_rocm_sdk_core/lib/libsmall.so.1").unlink()
    outcomes, summary, _ = site.smoke(expect=1)
    assert outcomes["rocm.files"] == "failed"
    assert any("libsmall.so.1 is missing" in row["message"] for row in summary["failures"])
    site.install("frame", "1", {"frame.py": b""}, ("rocm[libraries]==7.1.0",))
    outcomes, _, _ = site.smoke(expect=1)
    assert outcomes["rocm.requirements"] == "failed"


def test_a_package_that_ends_the_process_has_not_passed(site: Site):
    site.install("torch", "2.12.0", {"torch/__init__.py": b"import os\nos._exit(0)\n"})
    outcomes, summary, _ = site.smoke("torch", expect=1)
    assert outcomes["torch.import"] == outcomes["torch.cpu_matmul"] == "crashed"
    messages = {one["id"]: one["message"] for one in summary["failures"]}
    assert messages["torch.import"] == "it exited with code 0 before its end"


def test_a_package_that_is_required_and_absent_fails(site: Site, library: bytes):
    site.install("rocm-sdk-core", "7.1.0", {"_rocm_sdk_core/lib/libsmall.so.1": library})
    site.install("rocm", "7.1.0", {"rocm_sdk.py": b""}, REQUIRES)
    outcomes, _, _ = site.smoke("--allow-no-gpu", expect=3)
    assert outcomes["rocm.requirements"] == "passed", "nobody asked for the extra"
    site.install("frame", "1", {"frame.py": b""}, ("rocm[libraries]==7.1.0",))
    outcomes, summary, _ = site.smoke(expect=1)
    assert outcomes["rocm.requirements"] == "failed"
    assert any("rocm-sdk-libraries==7.1.0" in row["message"] for row in summary["failures"])


def test_a_torch_that_dies_says_nothing_of_time(site: Site):
    site.install("torch", "2.12.0", {"torch/__init__.py": b"import os\nos.abort()\n"})
    _, summary, _ = site.smoke("torch", expect=1)
    messages = {one["id"]: one["message"] for one in summary["failures"]}
    assert messages["torch.import"] == "it was ended by signal 6 (SIGABRT)"
    died = "the process was ended by signal 6 (SIGABRT) and printed nothing"
    assert messages["gpus"] == f"the GPUs cannot be listed: {died}"


def test_a_crash_and_a_hang_cost_one_computation(site: Site):
    crash = TORCH + "\nimport sys, time\n"
    crash += "if 'torch.cpu_lapack' in sys.argv:\n    os.abort()\n"
    crash += "if 'torch.cpu_matmul' in sys.argv:\n    time.sleep(600)\n"
    site.install("torch", "2.12.0", {"torch/__init__.py": crash.encode()})
    outcomes, _, _ = site.smoke("--timeout", 3, expect=1)
    assert outcomes["torch.cpu_lapack"] == "crashed"
    assert outcomes["torch.cpu_matmul"] == "timed_out"
    assert outcomes["torch.import"] == "passed"


def test_only_what_is_installed_is_verified(site: Site, tmp_path: Path):
    site.install("torch", "2.12.0", {"torch/__init__.py": TORCH.encode()})
    wheel = tmp_path / "torch-2.11.0-py3-none-any.whl"
    wheel.write_bytes(b"another")
    words = ("test", "smoke", "--python", site.python, "--wheel", wheel)
    assert "version 2.12.0" in site.rocwheel.run(*words, expect=2, cwd=site.folder).stderr


def write_torch(folder: Path, tag: str, source: str) -> Path:
    """A wheel whose RECORD has the hash of its module."""
    folder.mkdir(parents=True)
    path = folder / f"torch-2.12.0-{tag}.whl"
    info = "torch-2.12.0.dist-info"
    digest = base64.urlsafe_b64encode(hashlib.sha256(source.encode()).digest()).rstrip(b"=").decode()
    members = {
        "torch/__init__.py": source,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.12.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
        f"{info}/RECORD": f"torch/__init__.py,sha256={digest},{len(source)}\n{info}/RECORD,,\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_a_wheel_for_another_python_was_not_tested(site: Site, tmp_path: Path):
    """Both have the name and version of what is installed, in folders as jobs are downloaded."""
    site.install("torch", "2.12.0", {"torch/__init__.py": TORCH.encode()})
    tested = write_torch(tmp_path / "dist/job-1", "cp311-cp311-linux_x86_64", TORCH)
    other = write_torch(tmp_path / "dist/job-2", "cp312-cp312-linux_x86_64", TORCH + "\n")
    _, summary, _ = site.smoke("--wheel", tmp_path / "dist", expect=1)
    first = json.loads((site.folder / summary["events"]).read_text().splitlines()[0])
    assert first["wheels"] == {tested.name: hashlib.sha256(tested.read_bytes()).hexdigest()}
    words = ("test", "smoke", "--python", site.python, "--wheel")
    said = site.rocwheel.run(*words, other, expect=2, cwd=site.folder).stderr
    assert "is not what is installed: `torch/__init__.py` differs" in said
    site.rocwheel.run(*words, other.parent, expect=2, cwd=site.folder).says("none of the wheels in")
    (tmp_path / "empty").mkdir()
    assert "has no wheels" in site.rocwheel.run(*words, tmp_path / "empty", expect=2, cwd=site.folder).stderr


def test_a_container_gets_this_program_and_the_devices(rocwheel: Rocwheel, tmp_path: Path):
    """The engine is a stand-in that prints its words; real ones are in the tests of builds."""
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin/docker"
    put(docker, f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/words\nexit ${{CODE:-0}}\n", 0o755)
    path = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    inside = ("--python", "/opt/venv/bin/python")
    words = ("test", "smoke", "torch", "--in", "example/image:1", *inside, "--engine-option=--shm-size=1g")
    rocwheel.run(*words, cwd=tmp_path, environment=path)
    given = (tmp_path / "words").read_text().splitlines()
    assert given[:2] == ["run", "--rm"]
    image = given.index("example/image:1")
    assert given[image - 2 : image] == ["--entrypoint", "/rocwheel"]
    assert "--shm-size=1g" in given[:image]
    assert f"{tmp_path / 'test-results'}:/rocwheel-results:rw" in given
    options = ["--output", "/rocwheel-results", "--timeout", "300", "--retries", "0", *inside]
    assert given[-len(options) :] == options
    for code, expect in ((1, 1), (3, 3), (125, 1)):
        said = rocwheel.run(*words, cwd=tmp_path, environment={**path, "CODE": str(code)}, expect=expect).stderr
    assert "docker could not start a container of `example/image:1` (code 125)" in said
    assert "`docker run --rm example/image:1 true` has to work" in said
