"""`rocwheel data`: what is known of ROCm, a user's rows, and what is missing."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from command import REPOSITORY, Rocwheel, run

TARGET = """\
[[target]]
name = "gfx1300"
product = "A card of next year"
families = ["dgpu-all", "gfx130X-all"]
package = "gfx12"
"""
LIBRARY = """\
[[library]]
soname = "librocnew.so"
distribution = "rocm-sdk-libraries"
directory = "_rocm_sdk_libraries/lib"
shortname = "rocnew"
dll = "rocnew*.dll"
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.toml"
    path.write_text(TARGET + LIBRARY)
    return path


def shown(rocwheel: Rocwheel, *arguments: object) -> list[dict]:
    return rocwheel.json("data", "show", *arguments)["rows"]


def test_rows_are_shown_as_they_are_written(rocwheel: Rocwheel) -> None:
    """What is printed is TOML, and the same as in the file."""
    target = tomllib.loads(rocwheel.run("data", "show", "gfx942").stdout)["target"][0]
    written = tomllib.loads((REPOSITORY / "data/targets.toml").read_text())["target"]
    assert target == next(row for row in written if row["name"] == "gfx942")
    assert [row["key"] for row in shown(rocwheel, "librccl.so.1.0")] == ["librccl.so"]
    assert [row["key"] for row in shown(rocwheel, "librocm_sysdeps_z.so.1")] == ["librocm_sysdeps_*.so"]
    tables = rocwheel.json("data", "list")["tables"]
    assert next(table["rows"] for table in tables if table["table"] == "target") == len(written)
    listed = rocwheel.json("data", "list", "target")["rows"]
    assert [row["fields"] for row in listed] == written
    rocwheel.run("data", "show", "gfx1152x", expect=2).says("no table has a row `gfx1152x`", "did you mean `gfx1152`?")
    assert "did you mean `target`?" in rocwheel.run("data", "list", "targets", expect=2).stderr


def test_a_target_is_one_file(rocwheel: Rocwheel, rows: Path) -> None:
    """From outside: nothing but a row is written, and every command knows the target."""
    unknown = rocwheel.run("compat", "expand_amdgpu_families", "--amdgpu-families", "gfx1300", expect=2)
    assert "unknown GPU target or family `gfx1300`" in unknown.stderr
    for family in ("gfx1300", "gfx130X-all"):
        arguments = ("expand_amdgpu_families", "--amdgpu-families", family)
        known = rocwheel.run("--data-file", rows, "compat", *arguments)
        assert known.stdout.strip() == "gfx1300"
    configuration = rows.with_name("rocwheel.toml")
    configuration.write_text(f'data-file = ["{rows.name}"]\n')
    (row,) = shown(rocwheel, "gfx1300", "--config", configuration)
    assert row["from"] == [str(rows)] and row["fields"]["product"] == "A card of next year"


def test_a_library_is_one_file(rocwheel: Rocwheel, rows: Path, artifacts: Path, tmp_path: Path) -> None:
    """Packages made with a user's row list the library; without it they are as they always were."""

    def list_of_libraries(*options: object) -> str:
        output = tmp_path / ("with" if options else "without")
        rocwheel.package(artifacts, output, "--version", "7.0.0", *options)
        (sdist,) = (output / "dist").glob("rocm-*.tar.gz")
        return run("tar", "-xzOf", sdist, "--wildcards", "*/src/rocm_sdk/_dist_info.py").stdout

    template = (REPOSITORY / "python/rocm/src/rocm_sdk/_dist_info.py").read_text()
    assert list_of_libraries().startswith(template)
    changed = list_of_libraries("--data-file", rows)
    entry = 'LibraryEntry("rocnew", "libraries", "librocnew.so*", "rocnew*.dll")'
    assert entry in changed and changed.replace(f"        {entry},\n", "").startswith(template)
    program = changed + "\nprint(ALL_LIBRARIES['rocnew'].matches('lib/librocnew.so.1'))\n"
    assert run("python3", "-c", program).stdout == "True\n"


def test_rows_that_cannot_be_are_refused(rocwheel: Rocwheel, tmp_path: Path) -> None:
    path = tmp_path / "rows.toml"
    path.write_text('[[library]]\nsohname = "liba.so"\n')
    rocwheel.run("data", "list", "--data-file", path, expect=2).says("has no `soname`", "rocwheel data list library")
    path.write_text('[[target]]\nname = "gfx1300"\nfamily = "x"\n')
    assert "unknown field `family`" in rocwheel.run("data", "list", "--data-file", path, expect=2).stderr
    path.write_text(TARGET)
    rocwheel.run("build", "torch", "--data-file", path, expect=2).says("say `--executor here`")


def checkout(folder: Path) -> Path:
    """The files of TheRock that say what there is, written by hand."""
    (folder / "cmake").mkdir(parents=True)
    (folder / "cmake/therock_amdgpu_targets.cmake").write_text(
        'therock_add_amdgpu_target(gfx942 "MI300A/MI300X CDNA" FAMILY dcgpu-all gfx94X-all gfx94X-dcgpu)\n'
        'therock_add_amdgpu_target(gfx1300 "New" FAMILY dgpu-all gfx130X-all\n  EXCLUDE_TARGET_PROJECTS\n    rccl # no\n)\n'
        'therock_add_amdgpu_target(spirv-of-tomorrow "SPIR-V" FAMILY gpu-any)\n'
    )
    (folder / "BUILD_TOPOLOGY.toml").write_text('[artifacts.blas]\n[artifacts.rocnew]\nsplit_databases = ["rocblas"]\n')
    rows = tomllib.loads((REPOSITORY / "data/artifacts.toml").read_text())["artifact"]
    names = {
        package: "".join(f'    "{row["name"]}",\n' for row in rows if row.get("package") == package)
        for package in ("core", "libraries", "profiler", "devel")
    }
    script = f'addl_artifact_names=[\n{names.pop("devel")}    "elfio",  # moved\n]\n'
    for package, of in names.items():
        script += f"\n\ndef {package}_artifact_filter(an):\n    return an.name in [\n{of}]\n"
    (folder / "build_tools").mkdir()
    (folder / "build_tools/build_python_packages.py").write_text(script)
    python = folder / "build_tools/packaging/python/templates/rocm/src/rocm_sdk"
    python.mkdir(parents=True)
    (python / "_dist_info.py").write_text('LibraryEntry("rocnew", "libraries", "librocnew.so*", "")\n')
    return folder


def test_what_a_checkout_has_is_rows_to_add(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """What is printed fills what is missing."""
    folder = checkout(tmp_path / "therock")
    missing = rocwheel.run("data", "check", "--therock", folder, expect=1)
    names = ["gfx1300", "spirv-of-tomorrow", "rocnew", "elfio", "librocnew.so"]
    assert re.findall(r'^(?:name|soname) = "(.*)"', missing.stdout, re.M) == names
    assert 'name = "elfio"\npackage = "devel"\n' in missing.stdout
    path = tmp_path / "rows.toml"
    path.write_text(missing.stdout)
    filled = rocwheel.run("data", "check", "--therock", folder, "--data-file", path)
    assert filled.stdout == "" and "lack nothing" in filled.stderr
    rocwheel.run("data", "check", "--therock", tmp_path, expect=1).says("is not a checkout of TheRock")


def test_several_checkouts_and_those_that_show_nothing(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """An open change repeats what its line has; a file in which nothing is found is an error."""
    one, other = checkout(tmp_path / "one"), checkout(tmp_path / "other")
    with (other / "BUILD_TOPOLOGY.toml").open("a") as topology:
        topology.write("[artifacts.rocother]\n")
    missing = rocwheel.json("data", "check", "--therock", one, other, expect=1)["missing"]
    assert [(row["key"], row["found_in"].split("/")[-2]) for row in missing if row["table"] == "artifact"] == [
        ("rocnew", "one"),
        ("elfio", "build_tools"),
        ("rocother", "other"),
    ]
    for path, what in [
        ("cmake/therock_amdgpu_targets.cmake", "GPU target"),
        ("BUILD_TOPOLOGY.toml", "artifact"),
        ("build_tools/build_python_packages.py", "artifact of a package"),
        ("build_tools/packaging/python/templates/rocm/src/rocm_sdk/_dist_info.py", "library"),
    ]:
        text = (one / path).read_text()
        (one / path).write_text("# moved\n")
        refused = rocwheel.run("data", "check", "--therock", other, one, expect=1)
        assert f"found no {what} in `{one / path}`" in refused.stderr and refused.stdout == ""
        (one / path).write_text(text)


def deb(folder: Path, package: str, files: dict[str, Path], maintainer: str) -> None:
    """A package as dpkg makes it."""
    tree = folder / package
    for path, content in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content.read_bytes())
    (tree / "DEBIAN").mkdir(parents=True)
    fields = f"Package: {package}\nVersion: 1.0-1\nArchitecture: amd64\nMaintainer: {maintainer}\nDescription: x\n"
    (tree / "DEBIAN/control").write_text(fields)
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, folder], check=True, capture_output=True)


def test_what_packages_have_is_rows_to_add(rocwheel: Rocwheel, tmp_path: Path) -> None:
    folder = tmp_path / "debs"
    folder.mkdir()
    content = tmp_path / "content"
    content.write_text("x")
    deb(folder, "libfoo1", {"usr/lib/x86_64-linux-gnu/libfoo.so.1": content}, "Somebody <a@b>")
    deb(folder, "librccl1", {"usr/lib/x86_64-linux-gnu/librccl.so.1": content}, "ROCm Team <a@b>")
    assert rocwheel.run("data", "check", "--debian", folder).stdout == ""
    deb(folder, "librocnew1", {"usr/lib/x86_64-linux-gnu/librocnew.so.1": content}, "ROCm Team <a@b>")
    deb(folder, "rocblas", {"opt/rocm-9.0/lib/rocblas/library/Kernels_gfx1300.co": content}, "AMD <a@b>")
    missing = rocwheel.run("data", "check", "--debian", folder, "--json", expect=1)
    rows = [(gap["table"], gap["key"]) for gap in json.loads(missing.stdout)["missing"]]
    assert rows == [("artifact", "librocnew1"), ("library", "librocnew.so"), ("target", "gfx1300")]
    # A SONAME that its file's name does not say, and a kernel database that no rule knows.
    library = tmp_path / "built.so"
    soname = "-Wl,-soname,librocrenamed.so.7"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", soname, "-o", library], check=True)
    files = {"lib/librccl.so.9": library, "share/rocnew/db/gfx942_304.kdb": content}
    deb(folder, "rccl", {f"opt/rocm-9.0/{path}": file for path, file in files.items()}, "AMD <a@b>")
    missing = rocwheel.run("data", "check", "--debian", folder, "--json", expect=1)
    more = [(gap["table"], gap["key"]) for gap in json.loads(missing.stdout)["missing"]]
    assert sorted(set(more) - set(rows)) == [("database", "rocnew"), ("library", "librocrenamed.so")]
    assert "has no .deb files" in rocwheel.run("data", "check", "--debian", tmp_path, expect=1).stderr


@pytest.mark.long
def test_the_commit_of_therock_that_we_test_with_has_nothing_new(rocwheel: Rocwheel) -> None:
    folder = Path(run(REPOSITORY / "scripts/fetch-therock").stdout.strip())
    checked = rocwheel.run("data", "check", "--therock", folder)
    assert checked.stdout == ""
    # A target that it has and that we are made to forget is found again.
    cmake = (folder / "cmake/therock_amdgpu_targets.cmake").read_text()
    assert len(re.findall(r"^therock_add_amdgpu_target\(gfx", cmake, re.M)) > 20


@pytest.mark.long
def test_packages_of_debian_have_nothing_new(rocwheel: Rocwheel, debs: list[Path]) -> None:
    checked = rocwheel.run("data", "check", "--debian", debs[0].parent)
    assert checked.stdout == ""


@pytest.mark.long
@pytest.mark.parametrize(("ziglang", "llvm"), [("0.15.2", 20), ("0.16.0", 21)])
def test_the_table_of_targets_agrees_with_llvm(ziglang: str, llvm: int, tmp_path: Path) -> None:
    """Asked of compilers: the clangs that PyPI's ziglang has. The release in Debian is asked in
    test_build_all.py."""
    run(REPOSITORY / ".venv/bin/uv", "pip", "install", "--quiet", "--target", tmp_path, f"ziglang=={ziglang}")
    zig = tmp_path / "ziglang/zig"
    assert f"clang version {llvm}." in run(zig, "cc", "--version").stdout
    (tmp_path / "empty.c").write_text("")

    def is_known(target: str) -> bool:
        command = [zig, "clang", "--target=amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib", "-c", "empty.c"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0

    assert not is_known("gfx9999")
    rows = tomllib.loads((REPOSITORY / "data/targets.toml").read_text())["target"]
    built_for = [row for row in rows if "product" in row]
    assert len(built_for) > 20
    for row in built_for:
        assert is_known(row["name"]) == (row.get("llvm", 0) <= llvm), row["name"]
