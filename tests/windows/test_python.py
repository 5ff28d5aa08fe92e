"""What users run, with CPython for Windows: the packages that rocwheel.exe has made for Windows,
installed by pip there, and the commands of rocwheel.exe that look at a Python."""

import json
from pathlib import Path

import pytest
import therock
from small_wheels import pack
from windows_python import WindowsPython, on_windows

from command import Rocwheel, run

CORE, LIBRARIES = "_rocm_sdk_core/bin", "_rocm_sdk_libraries/bin"


def test_it_is_python_on_windows(python: WindowsPython) -> None:
    facts = python.answers(
        "import json, os, platform, sys, sysconfig; print(json.dumps([os.name, sys.platform, sysconfig.get_platform(), "
        "platform.python_implementation(), sys.prefix]))"
    )
    assert facts == ["nt", "win32", "win-amd64", "CPython", on_windows(python.folder)]


def test_the_command_of_the_selector(python: WindowsPython) -> None:
    """As a module and as the program that pip has written."""
    for run_it in (
        lambda *words: python.run("-m", "rocm_sdk", *words),
        lambda *words: python.script("rocm-sdk", *words),
    ):
        assert run_it("version").stdout == f"{therock.VERSION}\n"
        assert run_it("targets").stdout == "gfx942;gfx1100\n"
        assert run_it("path", "--cmake").stdout == on_windows(python.packages / "_rocm_sdk_devel/lib/cmake") + "\n"
    python.run("-m", "rocm_sdk", "init", "--verify")
    tree, site = python.packages / "_rocm_sdk_devel", python.packages
    # Devel's import libraries, and the same files as the other packages'.
    assert (tree / "lib/rocblas.lib").is_file() and (tree / "lib/amdhip64.lib").is_file()
    for path, package in {"bin/rocblas.dll": "libraries", "bin/rocblas/library/K_gfx1151.co": "libraries"}.items():
        assert (tree / path).samefile(site / f"_rocm_sdk_{package}" / path)


LOADED = """
import ctypes, json, os
{first}
def loads(name):
    try:
        library = ctypes.CDLL(os.path.join(r"{site}", "_rocm_sdk_libraries", "bin", name))
        return getattr(library, "f_" + name.replace(".", "_"))()
    except OSError:
        return None
print(json.dumps([loads("rocblas.dll"), loads("hipblas.dll")]))
"""


def test_libraries_of_other_packages_are_found(python: WindowsPython) -> None:
    """rocblas.dll needs amdhip64_7.dll, which is in another package: without `initialize_process`
    Windows does not find it."""
    prepare = 'import rocm_sdk; rocm_sdk.initialize_process(preload_shortnames=["amd_comgr", "amdhip64", "hipblas"], '
    prepare += f'check_version="{therock.VERSION.rsplit(".", 1)[0]}.*")'
    site = on_windows(python.packages)
    assert python.answers(LOADED.format(first="", site=site)) == [None, None]
    sums = [sum(map(ord, f"bin/{name}.dll")) for name in ("rocblas", "hipblas")]
    assert python.answers(LOADED.format(first=prepare, site=site), environment={"PYTHONWARNINGS": "error"}) == sums
    asked = (
        'import json, rocm_sdk; print(json.dumps([*map(str, rocm_sdk.find_libraries("rocblas", "rccl", "amdhip64"))]))'
    )
    assert python.answers(asked) == [
        on_windows(python.packages / LIBRARIES / "rocblas.dll"),
        on_windows(python.packages / CORE / "amdhip64_7.dll"),
    ], "there is no rccl on Windows"


def test_programs_are_started_and_their_status_is_ours(python: WindowsPython) -> None:
    """Windows has no exec, so the launcher waits. The programs are of nothing but a number; Linux
    keeps eight bits of it."""
    for name, path in {"hipcc": "bin/hipcc.exe", "hipInfo": "bin/hipInfo.exe"}.items():
        python.script(name, "--version", expect=sum(map(ord, path)) & 0xFF)


def test_the_installed_packages_test_themselves(python: WindowsPython) -> None:
    """Every file is there and every library loads. Only what the compilers should say fails: these
    say nothing."""
    said = python.script("rocm-sdk", "test", "--verify", expect=1).stdout
    failed = [line.split()[1] for line in said.splitlines() if line.startswith("  FAIL")]
    assert failed == ["amdclang:", "amdclang++:"], said
    libraries = said.partition("\nlibraries\n")[2].partition("\n\n")[0].splitlines()
    assert len(libraries) == 6 and all(line.startswith("  ok    rocm-sdk-") for line in libraries), said
    assert "needs a GPU, and none is looked for on Windows" in said, said


def test_the_doctor_of_the_packages(python: WindowsPython) -> None:
    said = json.loads(python.script("rocm-sdk", "doctor", "--json").stdout)
    assert said["findings"] == [] and said["verdict"] == "nothing wrong in what was looked at"
    assert said["not_looked_at"][0]["what"].startswith("the GPUs, ")
    python.script("rocm-sdk", "doctor", "--need-gpu", expect=1).prints("Whether a GPU can be used cannot be answered")


@pytest.fixture(scope="module")
def environment(python: WindowsPython, dist: Path) -> Path:
    """A virtual environment that uv for Windows has made, with other packages than its Python."""
    uv = [*python.starter, python.packages / "bin/uv.exe"]
    place = python.folder.with_name("venv")
    run(*uv, "venv", "--quiet", "--no-config", "--offline", "--python", python.program, place)
    where = ("--offline", "--no-cache", "--no-index", "--link-mode", "copy", "--find-links", dist)
    run(*uv, "pip", "install", "--quiet", "--no-config", "--python", place, *where, "rocm[libraries]")
    return place


def look(windows: Rocwheel, folder: Path, *words: object, expect: int = 0, **variables: str) -> dict:
    return json.loads(windows.run("doctor", *words, "--json", cwd=folder, environment=variables, expect=expect).stdout)


def test_doctor_sees_the_packages(windows: Rocwheel, python: WindowsPython, environment: Path) -> None:
    """Of a Python, of a folder of packages, of the Python on PATH, and of environments."""
    folder = python.folder.parent
    (folder / "empty").mkdir()
    base = [
        look(windows, folder, "--python", python.program),
        look(windows, folder, "--venv", python.packages),
        look(windows, folder / "empty", WINEPATH=on_windows(python.folder)),
    ]
    inside = [
        look(windows, folder, "--venv", environment),
        look(windows, folder, "--python", environment / "Scripts/python.exe"),
        look(windows, folder, VIRTUAL_ENV=on_windows(environment)),
    ]
    for documents, place, count in ((base, python.packages, 5), (inside, environment / "Lib/site-packages", 3)):
        for document in documents:
            assert document["python"]["path"] == on_windows(place)
            assert document["python"]["version"] == "3.12"
            packages = document["python"]["packages"]
            assert len(packages) == count and {one["version"] for one in packages} == {therock.VERSION}
            assert document["findings"] == [] and document["gpus"] == []
            (unseen,) = document["not_looked_at"]
            assert (
                unseen["why"].startswith("on Windows") and "nothing wrong in what was looked at" in document["verdict"]
            )
    look(windows, folder, "--venv", environment, "--need-gpu", expect=1)
    said = windows.run("doctor", "--venv", environment, cwd=folder).stdout
    assert "Windows; that of Windows" in said, said


def test_what_doctor_and_audit_say_to_a_missing_file(
    windows: Rocwheel, python: WindowsPython, environment: Path
) -> None:
    """The commands are for this environment, and for the shells of Windows."""
    folder, place = python.folder.parent, environment / "Lib/site-packages"
    windows.run("audit", environment, cwd=folder)
    windows.run("audit", python.packages, "--python", "3.12", cwd=folder)
    windows.run("audit", environment, "--python", "3.13", cwd=folder, expect=2).says("is of Python 3.12")
    library = place / CORE / "amdhip64_7.dll"
    library.rename(folder / "away.dll")
    try:
        (finding,) = look(windows, folder, "--venv", environment, expect=1)["findings"]
        assert finding["name"] == "files-missing"
        start = f"uv pip install --python {on_windows(environment)} "
        assert (finding["command"] or finding["template"]).startswith(start), finding
        document = json.loads(windows.run("audit", environment, "--json", cwd=folder, expect=1).stdout)
        assert {"RW016", "RW029"} <= {one["code"] for one in document["findings"]}, document["findings"]
    finally:
        (folder / "away.dll").rename(library)


def test_a_fat_wheel(windows: Rocwheel, python: WindowsPython, dist: Path, tmp_path: Path) -> None:
    """An extension module that needs ROCm's libraries: Python imports it with the libraries in the
    wheel, and not without."""
    function = therock.function_in("rocblas.dll")
    code = "typedef void *word; extern __declspec(dllimport) word PyModule_Create2(word, int);\n"
    code += f"extern __declspec(dllimport) int {function}(void);\n"
    # PyModuleDef: its head, name, documentation and size.
    code += 'static word definition[13] = {(word)1, 0, 0, 0, 0, "_native", 0, (word)-1};\n'
    code += f"word PyInit__native(void) {{ return {function}() ? PyModule_Create2(definition, 1013) : 0; }}\n"
    needs = ("rocblas.dll", "python312.dll:PyModule_Create2")
    module = therock.link_for_windows(tmp_path / "_native.pyd", code, needs, ("PyInit__native",)).read_bytes()
    members = {"demo/__init__.py": "from . import _native\n", "demo/_native.cp312-win_amd64.pyd": module}
    wheel = pack(tmp_path, "demo", "1.0", members, tag="cp312-cp312-win_amd64")
    tree = tmp_path / "rocm (x86)"
    windows.run("artifact", "flatten", dist.parents[1] / "build", "--output", tree, cwd=tmp_path)
    repair = ("repair", "--mode", "fat", "--rocm", tree, "--rocm-version", "10.1.0", "--output", "fat", wheel.name)
    windows.run(*repair, cwd=tmp_path)
    (fat,) = (tmp_path / "fat").iterdir()
    windows.run("audit", fat, cwd=tmp_path)
    for made, target in ((wheel, "thin"), (fat, "whole")):
        python.run("-m", "pip", "install", "--quiet", "--no-index", "--target", tmp_path / target, made)
    for target, code, expected in (("thin", 1, "DLL load failed"), ("whole", 0, "demo._native")):
        variables = {"PYTHONPATH": on_windows(tmp_path / target)}
        said = python.run("-c", "import demo; print(demo._native)", expect=code, environment=variables)
        assert expected in said.stdout + said.stderr, said


def test_the_smoke_test(windows: Rocwheel, python: WindowsPython, environment: Path, tmp_path: Path) -> None:
    """Without torch: requirements, files, and that each library loads. What needs a GPU does not
    run, nor what needs `packaging`, which the environment of uv does not have."""
    words = ("test", "smoke", "--output", "results", "--json")
    for more, variables, passed, not_run in (
        (["--python", python.program], {}, 14, 1),
        ([], {"VIRTUAL_ENV": on_windows(environment)}, 7, 2),
    ):
        said = windows.run(*words, "--allow-no-gpu", *more, cwd=tmp_path, environment=variables, expect=3)
        assert json.loads(said.stdout)["counts"] == {"passed": passed, "not_run": not_run}, said.stdout
    windows.run(*words, "--python", python.program, cwd=tmp_path, expect=1)
    (environment / "Lib/site-packages" / CORE / "amdhip64_7.dll").write_bytes(b"MZ")
    said = windows.run(*words, "--allow-no-gpu", "--python", environment / "Scripts/python.exe", cwd=tmp_path, expect=1)
    assert json.loads(said.stdout)["counts"]["failed"] >= 2
