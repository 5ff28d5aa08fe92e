"""The installed set: the functions for frameworks, the command line, and `rocm-sdk test`, intact
and damaged."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import make_distribution
from fixtures import (
    SELECTOR,
    TEMPLATE,
    VERSION,
    Environment,
    Wheel,
    clean_environment,
    compile_library,
    contents,
    make_topology,
    pure_files,
    run,
    tail,
    tool,
)
from update_golden import GOLDEN


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory, distribution: Path) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("pristine") / "venv", distribution, "uv")
    environment.install("rocm[libraries,device-gfx942]")
    return environment


@pytest.fixture
def environment(pristine: Environment) -> Iterator[Environment]:
    """The installed set, which a test may damage: site-packages is restored afterwards."""
    kept = pristine.directory / "kept"
    shutil.copytree(pristine.site, kept, symlinks=True)
    yield pristine
    use_gpus(pristine)
    site = pristine.site
    shutil.rmtree(site)
    kept.rename(site)


def use_gpus(environment: Environment, *versions: int) -> None:
    """Makes the installed code see GPUs with these `gfx_target_version`s."""
    topology = environment.wheels.parent / "topology"
    shutil.rmtree(topology)
    make_topology(topology, *versions)


def test_find_libraries_answers_in_order(pristine: Environment) -> None:
    code = "import rocm_sdk; print(*rocm_sdk.find_libraries('rocblas', 'amdhip64'), rocm_sdk.__version__)"
    site = pristine.site
    expected = f"{site}/_rocm_sdk_libraries/lib/librocblas.so.4 {site}/_rocm_sdk_core/lib/libamdhip64.so.6 {VERSION}\n"
    assert pristine.execute(code).stdout == expected


def test_the_shortest_name_is_found(environment: Environment) -> None:
    library = environment.site / "_rocm_sdk_core" / "lib" / "libamdhip64.so.6"
    for name in ("libamdhip64.so.6.4.0", "libamdhip64.so.5.9", "libamdhip64.so.6.debug"):
        shutil.copy(library, library.with_name(name))
    code = "import rocm_sdk; print(rocm_sdk.find_libraries('amdhip64')[0].name)"
    assert environment.execute(code).stdout == "libamdhip64.so.6\n"


def test_a_library_that_cannot_be_found_says_why(environment: Environment) -> None:
    def error(name: str) -> str:
        code = f"import rocm_sdk; rocm_sdk.find_libraries({name!r})"
        return environment.execute(code, check=False).stderr.splitlines()[-1]

    assert error("nonsense") == "ModuleNotFoundError: Unknown rocm library 'nonsense'"
    assert error("rocdecode").startswith(
        "FileNotFoundError: The library 'rocdecode' is not in this distribution: rocm-sdk-core 6.4.0 in "
    )
    assert environment.execute("import rocm_sdk; print(rocm_sdk.find_libraries('rocfft'))").stdout == "[]\n"
    (environment.site / "_rocm_sdk_core" / "lib" / "libamdhip64.so.6").unlink()
    assert error("amdhip64").endswith("Repair it with: pip install --force-reinstall --no-deps 'rocm-sdk-core==6.4.0'")
    # The remains of a package of TheRock: a folder without its package (C4, C10).
    (environment.site / "_rocm_sdk_libraries" / "__init__.py").unlink()
    assert error("hipblas") == (
        "ModuleNotFoundError: rocm-sdk-libraries is not installed. Install it with: pip install 'rocm[libraries]==6.4.0'"
    )
    shutil.rmtree(environment.site / "_rocm_sdk_libraries")
    assert "pip install 'rocm[libraries]==6.4.0'" in error("miopen")


def test_preloading_by_argument_and_by_variable(pristine: Environment) -> None:
    code = """
import rocm_sdk
rocm_sdk.initialize_process(preload_shortnames=['amdhip64'], check_version='6.*', later_option=1)
print(sorted(rocm_sdk._ALL_CDLLS), open('/proc/self/maps').read().count('librocblas'))
"""
    assert pristine.execute(code).stdout == "['amdhip64'] 0\n"
    printed = pristine.execute(code, ROCM_SDK_PRELOAD_LIBRARIES=" rocblas ;,; ").stdout
    assert printed.startswith("['amdhip64', 'rocblas'] ") and not printed.endswith(" 0\n")
    failed = pristine.execute(code, check=False, ROCM_SDK_PRELOAD_LIBRARIES="nonsense").stderr
    assert "RuntimeError: Cannot preload the libraries that ROCM_SDK_PRELOAD_LIBRARIES=nonsense asks for" in failed


@pytest.mark.parametrize(
    ("expected", "matches"),
    [
        ("'6.4.0'", True),
        ("'6.*'", True),
        ("'6'", False),
        ("'6x4.0'", False),
        ("re.compile('6[.]4')", True),
        ("re.compile('7')", False),
    ],
)
def test_the_version_a_program_was_compiled_against(pristine: Environment, expected: str, matches: bool) -> None:
    code = f"import re, rocm_sdk; rocm_sdk.initialize_process(check_version={expected}, fail_on_version_mismatch=True)"
    errors = pristine.execute(code, check=False).stderr
    assert ("RuntimeError: The program was compiled against a ROCm version matching" not in errors) == matches
    # A command that is typed as printed, or none: of an expression pip makes no version.
    version = expected.strip("'")
    command = f" with: pip install 'rocm=={version}'"
    assert (command in errors) == (not matches and expected.startswith("'")) and "<version>" not in errors
    errors = pristine.execute(code.replace("True", "False")).stderr
    assert ("UserWarning: The program was compiled against" not in errors) == matches


def test_the_command_line(pristine: Environment) -> None:
    assert pristine.rocm_sdk("version").stdout == f"{VERSION}\n"
    assert pristine.rocm_sdk("targets").stdout == "gfx1100;gfx942\n"
    missing = pristine.rocm_sdk("path", "--cmake", check=False)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == (
        "ERROR: rocm-sdk-devel is not installed. Install it with: pip install 'rocm[devel]==6.4.0'\n"
    )
    # Whatever GPUs the machine has, the packages are those of one ROCm.
    diagnosis = json.loads(pristine.rocm_sdk("doctor", "--json", check=False).stdout)
    assert diagnosis["verdict"] and not {"RD053", "RD060", "RD063"} & {one["code"] for one in diagnosis["findings"]}
    assert pristine.rocm_sdk("path", check=False).returncode == 2
    assert pristine.rocm_sdk(check=False).returncode == 2


def test_the_programs_are_exchanged_for_the_process(pristine: Environment) -> None:
    result = run([pristine.directory / "bin" / "rocminfo", "--x"], check=False)
    core = pristine.site / "_rocm_sdk_core"
    assert (result.returncode, result.stdout) == (1, f"ROCk {core}/bin/rocminfo --x\n")
    gone = pristine.execute("from rocm_sdk_core._cli import roc_obj", check=False).stderr
    assert "ImportError: cannot import name 'roc_obj'" in gone


def test_a_program_that_is_missing_says_so(environment: Environment) -> None:
    program = environment.site / "_rocm_sdk_core" / "bin" / "rocminfo"
    program.unlink()
    result = environment.execute("from rocm_sdk_core._cli import rocminfo; rocminfo()", check=False)
    assert (result.returncode, result.stderr) == (127, f"rocminfo: cannot run `{program}`: No such file or directory\n")


def test_a_complete_installation_passes(pristine: Environment) -> None:
    result = pristine.rocm_sdk("test", "--verify")
    print(result.stdout)
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "ok    rocm-sdk-libraries lib/librocblas.so.4: 3 objects" in lines
    assert "ok    rocminfo: bin/rocminfo" in lines
    assert "skip  rocm-sdk-libraries lib/libclang_rt.so: sanitizer runtime" in lines
    assert "skip  hipcc: needs no-such-compiler, neither installed here nor on PATH" in lines
    assert any(line.startswith("skip  offload-arch: needs a GPU") for line in lines)
    assert "ok    rocm_sdk.find_libraries: finds 2: amdhip64, rocblas" in lines
    counts = next(line for line in lines if " checks: " in line)
    passed = sum(line.startswith("ok ") for line in lines)
    assert counts == f"{passed + 5} checks: {passed} passed, 0 failed, 5 skipped"
    assert pristine.rocm_sdk("test", "-q").stdout.count("\n  ok ") == 0


def failures(environment: Environment, *arguments: str) -> str:
    """The failures of `rocm-sdk test`, with their continuation lines."""
    result = environment.rocm_sdk("test", "-q", *arguments, check=False)
    assert result.returncode == 1, result.stdout + result.stderr
    return result.stdout


def test_a_library_from_outside_the_environment_is_a_failure(environment: Environment, tmp_path: Path) -> None:
    """TheRock's current test passes in this case: the library loads, but with the ROCm of the
    system."""
    outside = compile_library(tmp_path / "system" / "libhsa-runtime64.so.1", "int hsa(void) { return 2; }")
    core = environment.site / "_rocm_sdk_core" / "lib"
    (core / "libamdhip64.so.6").unlink()
    compile_library(
        core / "libamdhip64.so.6",
        "int hsa(void); int hip(void) { return hsa(); }",
        str(outside),
        f"-Wl,--disable-new-dtags,-rpath,{outside.parent}",
    )
    shown = failures(environment)
    assert f"FAIL  rocm-sdk-core lib/libamdhip64.so.6: loads from outside the environment: {outside}" in shown
    assert f"FAIL  rocm-sdk-libraries lib/librocblas.so.4: loads from outside the environment: {outside}" in shown


def test_a_library_that_does_not_load_is_a_failure(environment: Environment) -> None:
    core = environment.site / "_rocm_sdk_core" / "lib"
    (core / "libhsa-runtime64.so.1").unlink()
    compile_library(
        core / "libhsa-runtime64.so.1",
        "#include <stdlib.h>\nint hsa(void) { return 1; } __attribute__((constructor)) static void die(void) { abort(); }",
    )
    assert "lib/libhsa-runtime64.so.1: loading it ended the process by SIGABRT" in failures(environment)
    (core / "libhsa-runtime64.so.1").unlink()
    shown = failures(environment)
    assert "lib/libhsa-runtime64.so.1: the file is missing" in shown
    assert "lib/libamdhip64.so.6: libhsa-runtime64.so.1: cannot open shared object file" in shown
    assert "FAIL  rocm-sdk-core: _rocm_sdk_core/lib/libhsa-runtime64.so.1 is missing" in shown


def test_changed_files_are_failures(environment: Environment) -> None:
    kernel = environment.site / "_rocm_sdk_libraries" / "lib" / "rocblas" / "library" / "K_gfx942.co"
    kernel.unlink()
    kernel.write_bytes(b"gfx943")
    assert environment.rocm_sdk("test").returncode == 0, "the size is the same"
    assert f"{kernel.name} was changed: its hash is another" in failures(environment, "--verify")
    kernel.write_bytes(b"gfx9430")
    assert "K_gfx942.co has 7 bytes instead of 6" in failures(environment)


def test_a_program_that_says_something_else_is_a_failure(environment: Environment) -> None:
    program = environment.site / "_rocm_sdk_core" / "bin" / "hipconfig"
    for script, problem in (
        ("echo no", "did not say 'HIP version:'\n          no"),
        ("exit 3", "ended with status 3, not 0"),
    ):
        program.unlink()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        assert f"FAIL  hipconfig: {problem}" in failures(environment)


def test_a_program_with_a_system_library_is_a_failure(environment: Environment, tmp_path: Path) -> None:
    outside = compile_library(tmp_path / "system" / "libelf.so.1", "int elf(void) { return 1; }")
    program = environment.site / "_rocm_sdk_core" / "bin" / "rocminfo"
    program.unlink()
    source = '#include <stdio.h>\nint elf(void); int main(void) { puts("ROCk"); return elf(); }'
    run(["cc", "-o", program, "-x", "c", "-", "-x", "none", outside, f"-Wl,-rpath,{outside.parent}"], input=source)
    assert f"FAIL  rocminfo: loads from outside the environment: {outside}" in failures(environment)


def test_versions_that_disagree_are_failures(environment: Environment) -> None:
    manifest = environment.site / "_rocm_sdk_core" / "share" / "therock" / "therock_manifest.json"
    manifest.unlink()
    manifest.write_text('{"rocm_package_version": "6.3.0"}')
    libraries = environment.site / f"rocm_sdk_libraries-{VERSION}.dist-info"
    metadata = libraries / "METADATA"
    text = metadata.read_text().replace(f"Version: {VERSION}", "Version: 6.3.0")
    metadata.unlink()
    metadata.write_text(text)
    shown = failures(environment)
    assert "FAIL  therock_manifest.json" not in shown, "the manifest tells what was built"
    assert "note  made from ROCm 6.3.0, and published as 6.4.0" in shown
    assert (
        "FAIL  rocm-sdk-libraries 6.3.0: rocm is 6.4.0. Install its version with: pip install 'rocm-sdk-libraries==6.4.0'"
        in shown
    )


COMMAND = "pip install 'rocm-sdk-device-gfx1100==6.4.0'"


def test_the_wrong_kernels_are_said_everywhere(environment: Environment) -> None:
    use_gpus(environment, 110000)
    advice = (
        "This machine has a gfx1100 GPU, but no kernels for it are installed (only those for gfx942). "
        f"Install them with: {COMMAND}"
    )
    assert f"FAIL  gfx1100: {advice}" in failures(environment)
    version = environment.rocm_sdk("version")
    assert (version.stdout, version.stderr) == (f"{VERSION}\n", f"WARNING: {advice}\n")
    code = "import rocm_sdk; rocm_sdk.initialize_process(); rocm_sdk.initialize_process()"
    assert environment.execute(code).stderr.count(f"UserWarning: {advice}") == 1
    # And the command fixes it.
    environment.install(COMMAND.removeprefix("pip install ").strip("'"))
    assert environment.rocm_sdk("test").returncode == 0
    assert environment.execute(code).stderr == ""
    environment.uninstall("rocm-sdk-device-gfx1100")


def test_a_gpu_nothing_was_made_for(environment: Environment) -> None:
    use_gpus(environment, 80003)
    shown = failures(environment)
    assert "ROCm 6.4.0 has no package for gfx803 (available: gfx1100, gfx942)." in shown
    assert "Install them with" not in shown


def test_one_served_gpu_is_enough(environment: Environment) -> None:
    use_gpus(environment, 100306, 90402)
    result = environment.rocm_sdk("test")
    assert "ok    gfx942: its kernels are installed" in result.stdout
    assert "note  This machine has a gfx1036 GPU" in result.stdout
    assert environment.rocm_sdk("version").stderr == ""


def test_kernels_of_another_version(environment: Environment) -> None:
    use_gpus(environment, 90402)
    info = environment.site / f"rocm_sdk_device_gfx942-{VERSION}.dist-info" / "METADATA"
    for version, wrong in (("6.4.0.post1", False), ("6.3.0", True)):
        text = info.read_text().splitlines()
        info.unlink()
        info.write_text("\n".join(line if not line.startswith("Version:") else f"Version: {version}" for line in text))
        assert ("are of version 6.3.0 and the rest of ROCm is 6.4.0" in environment.rocm_sdk("version").stderr) == wrong


def test_devel_is_expanded_and_preferred(environment: Environment) -> None:
    environment.install("rocm[devel]")
    before = environment.execute("from rocm_sdk_core._cli import rocminfo; rocminfo()", check=False).stdout
    assert "_rocm_sdk_core/bin/rocminfo" in before, "this one does not ask for the devel tree"
    tool = environment.execute("from rocm_sdk_core._cli import hipconfig; hipconfig()").stdout
    assert tool == f"HIP version: 6.4 from {environment.site}/_rocm_sdk_devel/bin/hipconfig\n"
    for option, folder in (("--root", ""), ("--bin", "/bin"), ("--cmake", "/lib/cmake")):
        assert environment.rocm_sdk("path", option).stdout == f"{environment.site}/_rocm_sdk_devel{folder}\n"
    result = environment.rocm_sdk("test", "--verify")
    assert "ok    lib/cmake: 1 packages" in result.stdout
    environment.uninstall("rocm-sdk-devel")


def test_a_fat_distribution_knows_its_targets(environment: Environment) -> None:
    use_gpus(environment, 110001)
    with open(environment.site / "rocm_sdk" / "_dist_info.py", "a") as file:
        file.write("AVAILABLE_TARGET_FAMILIES.clear()\nALL_PACKAGES.pop('device', None)\n")
    assert "gfx1101 GPU, but this ROCm has kernels only for gfx1100, gfx942." in failures(environment)


def test_targets_without_a_list_in_core_are_those_that_rocm_offers(environment: Environment) -> None:
    """Builds whose artifacts have no `dist_info.json`."""
    use_gpus(environment, 110000)
    assert environment.rocm_sdk("targets").stdout == "gfx1100;gfx942\n"
    (environment.site / "_rocm_sdk_core/share/therock/dist_info.json").unlink()
    with open(environment.site / "rocm_sdk" / "_dist_info.py", "a") as file:
        file.write("AVAILABLE_TARGET_FAMILIES[:] = ['gfx90a', 'gfx950']\n")
    assert environment.rocm_sdk("targets").stdout == "gfx90a;gfx950\n"


def test_the_extra_device_follows_the_gpu(tmp_path: Path, binaries: Path) -> None:
    wheels = make_distribution(tmp_path / "with-gpu", binaries, 90402)
    environment = Environment(tmp_path / "venv", wheels, "uv")
    environment.install("rocm[device]")
    assert "rocm_sdk_device_gfx942" in environment.installed()
    assert "ok    gfx942: its kernels are installed" in environment.rocm_sdk("test").stdout


def test_profilers_find_their_parts(environment: Environment, tmp_path: Path) -> None:
    lines = tail("gfx1100", "gfx942", logical="profiler")
    profiler = Wheel("rocm-profiler", files=pure_files("rocm_profiler", lines), requires=["rocm-sdk-core==6.4.0"])
    program = b'#!/bin/sh\necho "$LD_LIBRARY_PATH|$PYTHONPATH|$1"\n'
    profiler.files.update({"_rocm_profiler/__init__.py": b"", "_rocm_profiler/bin/rocprof-sys-run": program})
    profiler.executables = {"_rocm_profiler/bin/rocprof-sys-run"}
    tools = [tool("rocprof-sys-run", "bin/rocprof-sys-run")]
    profiler.files["rocm_profiler/_contents.json"] = contents("rocm-profiler", "_rocm_profiler", [], tools)
    profiler.scripts = {"rocprof-sys-run": "rocm_profiler._cli:rocprof_sys_run"}
    environment.install(str(profiler.write(tmp_path)))
    script = environment.directory / "bin" / "rocprof-sys-run"
    shown = run([script, "x"], env=environment.variables(LD_LIBRARY_PATH="/before")).stdout
    site = environment.site
    libraries = f"{site}/_rocm_profiler/lib:{site}/_rocm_sdk_core/lib/rocm_sysdeps/lib:/before"
    assert shown == f"{libraries}|{site}/_rocm_profiler/libexec/rocprofiler-compute|x\n"
    assert "ok    rocprof-sys-run" in environment.rocm_sdk("test").stdout
    environment.uninstall("rocm-profiler")


def test_libraries_made_per_family(tmp_path: Path) -> None:
    """The shape in which each family of GPUs has its own libraries."""
    site = tmp_path / "site"
    shutil.copytree(SELECTOR / "src" / "rocm_sdk", site / "rocm_sdk", ignore=shutil.ignore_patterns("__pycache__"))
    lines = (GOLDEN / "per-family" / "tail.py").read_text()
    topology = make_topology(tmp_path / "gpus", 110002)
    information = site / "rocm_sdk" / "_dist_info.py"
    information.write_text(TEMPLATE.read_text() + lines + f"KFD_TOPOLOGY = {str(topology)!r}\n")
    code = "import rocm_sdk; rocm_sdk.initialize_process(); print(rocm_sdk.find_libraries('hipblas')[0])"

    def ask(**more: str) -> str:
        variables = clean_environment(PYTHONPATH=str(site), **more)
        result = run([sys.executable, "-c", code], check=False, env=variables)
        return result.stdout + result.stderr

    assert "rocm-sdk-libraries-gfx110X-all is not installed" in ask()
    for family in ("gfx94X_dcgpu", "gfx110X_all"):
        folder = site / f"_rocm_sdk_libraries_{family}"
        (folder / "lib").mkdir(parents=True)
        (folder / "__init__.py").touch()
        (folder / "lib" / "libhipblas.so.3").touch()
        shown = ask()
        assert f"{folder}/lib/libhipblas.so.3\n" in shown
        # The first one is for another GPU: better than none for programs that only link, but it is
        # reported.
        is_wrong = "pip install 'rocm-sdk-libraries-gfx110X-all==7.0.0'" in shown
        assert is_wrong == (family == "gfx94X_dcgpu"), shown
    assert "_rocm_sdk_libraries_gfx110X_all" in ask(ROCM_SDK_TARGET_FAMILY="nonsense")
