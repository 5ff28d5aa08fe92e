"""`rocwheel repair` on real libraries and wheels. Part of `--set all`."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from auditwheel.architecture import Architecture
from auditwheel.elfutils import elf_find_versioned_symbols
from auditwheel.libc import Libc
from auditwheel.policy import WheelPolicies
from elftools.elf.elffile import ELFFile

from command import SCRIPTS, TOOLS, Rocwheel, run
from environment import Environment
from linked_wheels import INIT, check_record, extension, library, unpack, write_wheel
from packages import PackageSet, fetch_wheels

# Python's own memory is not the program's: a child that only waits says what the program took.
MEASURE = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = Path(os.environ.get("ROCWHEEL_REAL_WHEELS") or tmp_path_factory.mktemp("wheels"))
    return sorted(fetch_wheels(folder).glob("*.whl"))


def their_floor(file: Path) -> str:
    """What auditwheel says of the symbols of one file."""
    policies = WheelPolicies(libc=Libc.GLIBC, arch=Architecture.x86_64)
    versions: dict[str, set[str]] = {}
    with file.open("rb") as opened:
        for library, version in elf_find_versioned_symbols(ELFFile(opened)):
            versions.setdefault(library, set()).add(version)
    return policies.versioned_symbols_policy(versions).name


def test_the_floor_of_every_file_is_auditwheels(rocwheel: Rocwheel, wheels: list[Path], tmp_path: Path) -> None:
    compared = 0
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.namelist():
                data = archive.read(member)
                # Programs and libraries for x86-64.
                if data[:4] != b"\x7fELF" or data[18:20] != b"\x3e\x00" or data[16] not in (2, 3):
                    continue
                file = tmp_path / "file.so"
                file.write_bytes(data)
                alone = write_wheel(tmp_path / "alone", {"demo/file.so": data}, packed=False)
                said = rocwheel.run("repair", alone, "--dry-run", "--json", "--mode", "graft", "--exclude", "*").stdout
                ours = json.loads(said)["wheels"][0]["plan"]["tags"]["floor"]
                assert ours == their_floor(file), f"{member} of {wheel.name}"
                compared += 1
    assert compared > 50


def test_a_repaired_wheel_loads_in_a_clean_debian(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Debian 13 without anything of this machine: the libraries come from the wheel, the rest is on
    the policy's list."""
    inner = library(tmp_path / "lib", "inner", "inner", "int inner(void) { return 40; }")
    outer = "extern int inner(void); int outer(void) { return inner() + 2; }"
    library(tmp_path / "lib", "outer", "outer", outer, inner)
    module = extension(tmp_path, "outer", f"-L{tmp_path}/lib", "-louter", f"-Wl,-rpath-link,{tmp_path}/lib")
    members = {"demo/__init__.py": INIT.encode(), "demo/_ext.so": module.read_bytes()}
    wheel = write_wheel(tmp_path, members, python="py3-none")
    repair = ("repair", wheel, "--lib-path", tmp_path / "lib", "--output")
    rocwheel.run(*repair, tmp_path / "repaired")
    rocwheel.run(*repair, tmp_path / "stripped", "--strip")
    (repaired,) = (tmp_path / "repaired").glob("*.whl")
    rocwheel.run("edit", repaired, "--version", "7+edited", "--output", tmp_path / "edited")
    for name in ("repaired", "stripped", "edited"):
        folder = tmp_path / name
        (result,) = folder.glob("*.whl")
        check_record(result)
        script = f"""
"$UV" pip install --quiet --no-cache --python /tmp/venv/bin/python --no-index --find-links {folder} --no-deps demo
/tmp/venv/bin/python -c "import demo; assert demo.answer() == 42; print(*demo.mapped(), sep='\\n')"
"""
        said = the_python_of("trixie", script, folder)
        assert sum("/site-packages/demo.libs/" in line for line in said) == 2
        # All else is what the interpreter itself loads.
        outside = [line for line in said if "site-packages" not in line]
        assert outside and all(line.startswith("/usr/") for line in outside), outside
        assert not [line for line in outside if "inner" in line or "outer" in line]
    sizes = {name: next((tmp_path / name).glob("*.whl")).stat().st_size for name in ("repaired", "stripped")}
    assert sizes["stripped"] < sizes["repaired"], sizes


def test_a_library_of_llvms_size_takes_little_memory(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """The machine's own LLVM, more than 100 MB, becomes part of a wheel."""
    llvm = next(iter(sorted(Path("/usr/lib").glob("x86_64-linux-gnu/libLLVM*.so*"))), None)
    assert llvm is not None, "libLLVM is needed for this test: scripts/setup installs llvm-19"
    module = extension(tmp_path, "LLVMIsMultithreaded", llvm)
    wheel = write_wheel(tmp_path, {"demo/__init__.py": INIT.encode(), "demo/_ext.so": module.read_bytes()})
    command = [rocwheel.binary, "repair", wheel, "-o", tmp_path / "out", "--quiet"]
    measured = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, command)], capture_output=True, text=True, check=True
    )
    assert int(measured.stdout) < 150 << 20
    (result,) = (tmp_path / "out").glob("*.whl")
    check_record(result)
    theirs = tmp_path / "theirs"
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    run(sys.executable, "-m", "auditwheel", "repair", "-w", theirs, wheel, environment={"PATH": path})
    assert [path.name for path in theirs.iterdir()] == [result.name]
    assert result.stat().st_size <= next(theirs.iterdir()).stat().st_size
    fresh = Environment.create(tmp_path / "venv", "uv")
    fresh.install(tmp_path / "out", "--no-deps", "demo")
    said = fresh.run("python", "-c", "import demo; print(demo.answer()); print(*demo.mapped(), sep='\\n')").stdout
    assert said.startswith("1\n") and "/site-packages/demo.libs/libLLVM" in said


def the_python_of(root: str, script: str, *shared: Path) -> list[str]:
    """What a script says in a clean Debian root, where `$UV` is uv and a fresh environment is in
    /tmp/venv."""
    begin = f"set -e\nUV={TOOLS}/uv\npython3 -m venv --without-pip /tmp/venv\n"
    folders = [word for folder in (*shared, TOOLS) for word in ("--share", folder)]
    return run(SCRIPTS / "in-root", root, *folders, "--", "bash", "-c", begin + script).stdout.splitlines()


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_wheel_for_rocm_finds_the_real_one(
    rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path, installer: str
) -> None:
    """Linked against Debian's HIP runtime, with the build machine's path in it, and installed
    beside the packages of it."""
    core = unpack(package_set.wheel("rocm_sdk_core"), tmp_path / "core")
    (runtime,) = (core / "_rocm_sdk_core/lib").glob("libamdhip64.so.*")
    # Without a GPU it answers 100, no device, or 101, which is no device either.
    link = [runtime, "-Wl,-rpath,/opt/rocm/lib", "-Wl,--allow-shlib-undefined"]
    module = extension(tmp_path, "hipDeviceSynchronize", *link)
    members = {"demo/__init__.py": INIT.encode(), "demo/_ext.so": module.read_bytes()}
    wheel = write_wheel(tmp_path, members, python="py3-none")
    output = tmp_path / "out"
    rocwheel.run("repair", wheel, "-o", output, "--with", package_set.dist)
    (result,) = output.glob("*.whl")
    check_record(result)
    for path in package_set.dist.iterdir():
        (output / path.name).symlink_to(path)
    script = "import demo; print(demo.answer()); print(*demo.mapped(), sep='\\n')"
    fresh = Environment.create(tmp_path / "venv", installer)
    fresh.install(output, "--no-deps", "demo", "rocm-sdk-core")
    said = fresh.run("python", "-c", script).stdout.splitlines()
    assert said[0] in ("100", "101") and any(f"/_rocm_sdk_core/lib/{runtime.name}" in line for line in said), said
    # Where glibc is newer, and refuses libraries that want an executable stack, as Debian's runtime
    # does.
    install = '"$UV" pip install --quiet --no-cache --python /tmp/venv/bin/python --no-index --no-deps'
    inside = f'{install} --find-links {output} demo rocm-sdk-core\n/tmp/venv/bin/python -c "{script}"'
    said = the_python_of("trixie", inside, output, package_set.dist)
    assert said[0] in ("100", "101") and any(f"/_rocm_sdk_core/lib/{runtime.name}" in line for line in said), said


def test_an_executable_stack_goes_and_newer_systems_load_the_wheel(rocwheel: Rocwheel, tmp_path: Path) -> None:
    flags = ["-Wl,-z,execstack"]
    source = library(tmp_path / "lib", "outer", "outer", "int outer(void) { return 42; }", *flags)
    module = extension(tmp_path, "outer", source, *flags)
    members = {"demo/__init__.py": INIT.encode(), "demo/_ext.so": module.read_bytes()}
    wheel = write_wheel(tmp_path, members, python="py3-none")
    said = rocwheel.run("repair", wheel, "-o", tmp_path / "out", "--lib-path", tmp_path / "lib").stdout
    assert said.count("no longer asks for an executable stack") == 2
    load = "import demo; print(demo.answer())"
    for folder, expected in ((tmp_path, "cannot enable executable stack"), (tmp_path / "out", "42")):
        (wheel,) = folder.glob("*.whl")
        inside = f"""cd /tmp && python3 -m zipfile -e {wheel} here && cd here
        LD_LIBRARY_PATH={tmp_path}/lib python3 -c "{load}" 2>&1 || true"""
        assert expected in the_python_of("trixie", inside, tmp_path)[-1]
