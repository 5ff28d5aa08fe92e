"""Probes of tools on machines that lack something: a driver, an interpreter, the right clang."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures import PYTHON_FOLDER, contents, pure_files, tail, tool

HIPCC = """#!/bin/sh
# What Debian builds into its hipcc: lib/llvm-97/bin
echo "HIP version: 7.2.4, clang of ${HIP_CLANG_PATH}, headers of ${ROCM_PATH}, bitcode of ${HIP_DEVICE_LIB_PATH}"
test -x "${HIP_CLANG_PATH}/clang++"
"""
AMD_SMI = """#!/bin/sh
echo "ERROR:root:Drivers not loaded (amdgpu, amd_hsmp, ionic, bnxt_en drivers not found in modules)" >&2
exit 255
"""
CHECK = """
import sys
from pathlib import Path
from rocm_sdk.tests._report import Report
from rocm_sdk.tests.tools import check_tools
check_tools(Report(quiet=False), Path(sys.argv[1]))
"""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with a hipcc and an amd-smi, as of Debian's ROCm 7.2.4."""
    site = tmp_path / "site"
    shutil.copytree(PYTHON_FOLDER / "rocm" / "src" / "rocm_sdk", site / "rocm_sdk")
    information = site / "rocm_sdk" / "_dist_info.py"
    information.write_text(information.read_text() + tail(topology=tmp_path / "none"))
    for name, content in pure_files("rocm_sdk_core", tail(topology=tmp_path / "none", logical="core")).items():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_bytes(content if isinstance(content, bytes) else content.read_bytes())
    tools: list[object] = [
        {**tool("hipcc", "bin/hipcc", expect="HIP version", needs=["perl"]), "compiler": True},
        tool("amd-smi", "bin/amd-smi", expect="AMD-SMI", no_driver="Drivers not loaded"),
        tool("rocm-smi", "bin/amd-smi", expect="AMD-SMI", no_driver="another text"),
    ]
    (site / "rocm_sdk_core" / "_contents.json").write_bytes(contents("rocm-sdk-core", "_rocm_sdk_core", [], tools))
    tree = site / "_rocm_sdk_core"
    script(tree / "bin" / "hipcc", HIPCC)
    script(tree / "bin" / "amd-smi", AMD_SMI)
    (tree / "lib" / "llvm" / "amdgcn" / "bitcode").mkdir(parents=True)
    return site


def run(site: Path, code: str, *arguments: str, path: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path, "PYTHONPATH": str(site), **variables}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=site.parent)


def hipcc(site: Path, path: str, **variables: str) -> str:
    return run(site, "from rocm_sdk_core._cli import hipcc; hipcc()", path=path, **variables).stdout.strip()


def path_with(folder: Path, *programs: str) -> str:
    """A PATH with some of this machine's programs and nothing else."""
    folder.mkdir(exist_ok=True)
    for name in ("sh", "env", *programs):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    return str(folder)


def test_without_driver_amd_smi_is_a_skip_that_says_so(site: Path) -> None:
    result = run(site, CHECK, str(site), path=os.defpath)
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "skip  amd-smi: says that the GPU driver is not loaded" in lines, result.stdout + result.stderr
    assert "FAIL  rocm-smi: ended with status 255, not 0" in lines


def test_hipcc_without_its_clang_names_the_version(site: Path, tmp_path: Path) -> None:
    path = path_with(tmp_path / "bin", "perl")
    script(tmp_path / "bin" / "clang++-15", "#!/bin/sh\n")
    lines = run(site, CHECK, str(site), path=path).stdout
    assert "skip  hipcc: needs clang 97, neither in these packages nor on this machine" in lines
    assert hipcc(site, path) == "HIP version: 7.2.4, clang of , headers of , bitcode of"


def test_hipcc_takes_the_clang_of_the_packages_first(site: Path, tmp_path: Path) -> None:
    path = path_with(tmp_path / "bin", "perl")
    script(tmp_path / "bin" / "clang++-97", "#!/bin/sh\n")
    ours = script(site / "_rocm_sdk_core" / "lib" / "llvm" / "bin" / "clang++", "#!/bin/sh\n")
    assert hipcc(site, path) == f"HIP version: 7.2.4, clang of {ours.parent}, headers of , bitcode of"


def test_hipcc_takes_the_system_s_clang_of_its_version(site: Path, tmp_path: Path) -> None:
    system = script(tmp_path / "llvm-97" / "bin" / "clang++", "#!/bin/sh\n")
    path = path_with(tmp_path / "bin", "perl")
    (tmp_path / "bin" / "clang++-97").symlink_to(system)
    root = site / "_rocm_sdk_core"
    ours = f"headers of {root}, bitcode of {root / 'lib' / 'llvm' / 'amdgcn' / 'bitcode'}"
    assert hipcc(site, path) == f"HIP version: 7.2.4, clang of {system.parent}, {ours}"
    assert "ok    hipcc" in run(site, CHECK, str(site), path=path).stdout
    chosen = script(tmp_path / "mine" / "clang++", "#!/bin/sh\n").parent
    mine = hipcc(site, path, HIP_CLANG_PATH=str(chosen))
    assert mine == f"HIP version: 7.2.4, clang of {chosen}, {ours}"
    mine = hipcc(site, path, ROCM_PATH="/other", HIP_DEVICE_LIB_PATH="/bitcode")
    assert mine == f"HIP version: 7.2.4, clang of {system.parent}, headers of /other, bitcode of /bitcode"


def test_a_script_finds_the_clang_that_it_names(site: Path, tmp_path: Path) -> None:
    path = path_with(tmp_path / "bin", "perl")
    clang = script(tmp_path / "bin" / "clang++-96", "#!/bin/sh\n")
    tree = site / "_rocm_sdk_core" / "bin"
    (tree / "hipcc").write_text('#!/bin/sh\necho "${HIP_CLANG_PATH}"\n')
    (tree / "hipcc.pl").write_text('$HIPCC="$HIP_CLANG_PATH/clang++-96" . $execExtension;\n')
    assert hipcc(site, path) == str(clang.parent)


def test_a_compiled_tool_needs_no_interpreter(site: Path, tmp_path: Path) -> None:
    path = path_with(tmp_path / "bin")
    system = script(tmp_path / "llvm-97" / "bin" / "clang++", "#!/bin/sh\n")
    (tmp_path / "bin" / "clang++-97").symlink_to(system)
    assert "skip  hipcc: needs perl" in run(site, CHECK, str(site), path=path).stdout
    program = site / "_rocm_sdk_core" / "bin" / "hipcc"
    source = 'const char *wanted = "lib/llvm-97/bin"; int puts(const char *); int main() { puts("HIP version"); }'
    subprocess.run(["cc", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
    # Without an optimiser the text stays in the program.
    assert "ok    hipcc" in run(site, CHECK, str(site), path=path).stdout
