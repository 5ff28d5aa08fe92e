"""`rocwheel doctor` and Python environments of all kinds: those that share packages with another
Python, whose Python is gone, whose files cannot be read, and whose packages another tool
installs."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from delta_stream import write_wheel
from small_wheels import install

from command import Rocwheel, run, unprivileged
from doctor_trees import VERSION, Machine, answered, diagnose, make_healthy_machine, make_machine, named
from environment import create_venv
from trees import put

PACKAGES = "lib/python3.12/site-packages"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_healthy_machine(tmp_path)


def look(rocwheel: Rocwheel, *words: object, **variables: str) -> dict:
    """What doctor says of this machine; the exit code depends on its GPU."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    command = [rocwheel.binary, "--json", "doctor", *map(str, words)]
    said = subprocess.run(command, capture_output=True, text=True, env={**kept, **variables}, timeout=60)
    assert said.stdout, said.stderr
    return json.loads(said.stdout)


def versions(report: dict) -> dict[str, str]:
    return {one["name"]: one["version"] for one in report["python"]["packages"]}


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A virtual environment, the Python that it was made from, and the packages of a user."""
    base, venv, home = tmp_path / "base", tmp_path / "venv", tmp_path / "home"
    for folder in (base / "bin", base / PACKAGES, venv / "bin", venv / PACKAGES, home / ".local" / PACKAGES):
        folder.mkdir(parents=True)
    (base / "bin/python3.12").touch()
    (venv / "bin/python").symlink_to(base / "bin/python3.12")
    install(venv / PACKAGES, "torch", "2.9.0+rocm7.0")
    install(base / PACKAGES, "torch", "2.8.0+rocm6.4")
    install(base / PACKAGES, "triton", "3.4.0")
    install(base / PACKAGES, "rocm", VERSION)
    install(home / ".local" / PACKAGES, "triton", "3.5.0")
    (venv / "pyvenv.cfg").write_text(f"home = {base}/bin\ninclude-system-site-packages = true\n")
    return tmp_path


def test_packages_of_the_system_are_seen_if_the_environment_shares_them(rocwheel: Rocwheel, shared: Path) -> None:
    """In Python's order: those of the environment, of the user, and of the Python below."""
    home = {"HOME": str(shared / "home")}
    venv = shared / "venv"
    for words in (("--venv", venv), ("--python", venv / "bin/python"), ("--venv", venv / PACKAGES)):
        report = look(rocwheel, *words, **home)
        assert versions(report) == {"torch": "2.9.0+rocm7.0", "triton": "3.5.0", "rocm": VERSION}
        assert report["python"]["path"] == str(venv / PACKAGES)
        assert report["python"]["beside"] == [str(shared / "home/.local" / PACKAGES), str(shared / "base" / PACKAGES)]
    assert versions(look(rocwheel, "--venv", venv, **home, PYTHONNOUSERSITE="1"))["triton"] == "3.4.0"
    base = {"PYTHONUSERBASE": str(shared / "elsewhere")}
    assert versions(look(rocwheel, "--venv", venv, **home, **base))["triton"] == "3.4.0"
    (venv / "pyvenv.cfg").write_text(f"home = {shared}/base/bin\ninclude-system-site-packages = false\n")
    assert versions(look(rocwheel, "--venv", venv, **home)) == {"torch": "2.9.0+rocm7.0"}


def test_versions_that_are_mixed_across_folders_are_mixed(rocwheel: Rocwheel, machine: Machine) -> None:
    """The base of the environment is a path of the copied machine."""
    machine.write(
        f"opt/python/{PACKAGES}/rocm_sdk_core-7.0.0.dist-info/METADATA", "Name: rocm-sdk-core\nVersion: 7.0.0\n"
    )
    machine.write(f"opt/python/{PACKAGES}/rocm_sdk_core-7.0.0.dist-info/RECORD")
    machine.package("rocm-sdk-core", "7.1.0", **{"_rocm_sdk_core/__init__.py": ""})
    settings = "home = /opt/python/bin\ninclude-system-site-packages = true\n"
    (machine.venv / "pyvenv.cfg").write_text(settings)
    assert "mixed-versions" not in named(diagnose(rocwheel, machine)), "that of the environment hides the other"
    shutil.rmtree(machine.site / "rocm_sdk_core-7.1.0.dist-info")
    shutil.rmtree(machine.site / "_rocm_sdk_core")
    found = named(diagnose(rocwheel, machine, expect=1))["mixed-versions"]
    assert {"path": "rocm_sdk_core-7.0.0.dist-info", "value": "7.0.0"} in found["evidence"]


def test_a_python_outside_of_an_environment_sees_all_its_folders(rocwheel: Rocwheel, shared: Path) -> None:
    home = {"HOME": str(shared / "home")}
    report = look(rocwheel, "--python", shared / "base/bin/python3.12", **home)
    assert versions(report) == {"torch": "2.8.0+rocm6.4", "triton": "3.5.0", "rocm": VERSION}
    (shared / "base/conda-meta").mkdir()
    assert versions(look(rocwheel, CONDA_PREFIX=str(shared / "base"), **home)) == versions(report)


@pytest.mark.parametrize("gone", [True, False])
def test_an_environment_whose_python_went_away_is_named(rocwheel: Rocwheel, shared: Path, gone: bool) -> None:
    venv, base = shared / "venv", shared / "base/bin"
    assert "environment-python" not in named(look(rocwheel, "--venv", venv))
    (base / "python3.12").rename(base / "python3.13")
    if not gone:
        (venv / "bin/python").unlink()
        (venv / "bin/python").symlink_to(base / "python3.13")
    for words in (("--venv", venv), ("--python", venv / "bin/python")):
        found = named(look(rocwheel, *words))["environment-python"]
        assert ("does not exist" if gone else "is Python 3.13") in found["meaning"]
        assert found["command"] == f"python3.12 -m venv --upgrade {venv}"
    with (venv / "pyvenv.cfg").open("a") as file:
        file.write("uv = 0.9.7\n")
    command = named(look(rocwheel, "--venv", venv))["environment-python"]["command"]
    assert command == f"uv venv --allow-existing --python 3.12 {venv}"


def test_a_link_into_nothing_is_no_program(rocwheel: Rocwheel, tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to("/nowhere/python3")
    said = rocwheel.run("doctor", "--python", tmp_path / "python", expect=2)
    assert "it is a link to `/nowhere/python3`, which does not exist" in said.stderr
    rocwheel.run("doctor", "--python", "/etc/passwd", expect=1).says("`/etc/passwd` has no folder of Python packages")


def mixed(site: Path) -> None:
    for name in ("rocm", "rocm_sdk_libraries"):
        install(site, name, "7.1.0")
    install(site, "rocm_sdk_core", "7.0.0")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("venv", "{venv}/bin/python -m pip install {index} rocm-sdk-core==7.1.0"),
        ("active", "pip install {index} rocm-sdk-core==7.1.0"),
        ("without pip", "pip --python {venv} install {index} rocm-sdk-core==7.1.0"),
        ("uv", "uv pip install --python {venv} {index} rocm-sdk-core==7.1.0"),
        ("active uv", "uv pip install {index} rocm-sdk-core==7.1.0"),
        ("pipx", "pipx runpip venv install {index} rocm-sdk-core==7.1.0"),
    ],
)
def test_a_command_changes_the_environment_that_was_looked_at(
    rocwheel: Rocwheel, tmp_path: Path, kind: str, expected: str
) -> None:
    venv = tmp_path / "venv"
    mixed(venv / PACKAGES)
    (venv / "pyvenv.cfg").write_text("home = /usr/bin\n" + ("uv = 0.9.7\n" if "uv" in kind else ""))
    if kind in ("venv", "active"):
        install(venv / PACKAGES, "pip", "25.0")
    if kind == "pipx":
        (venv / "pipx_metadata.json").write_text("{}")
    variables = {"VIRTUAL_ENV": str(venv)} if "active" in kind else {}
    index = "https://example.com/simple"
    found = named(look(rocwheel, "--venv", venv, "--index", index, **variables))["mixed-versions"]
    assert found["command"] == expected.format(venv=venv, index=f"--index-url {index}")
    variables["PIP_INDEX_URL"] = index
    found = named(look(rocwheel, "--venv", venv, **variables))["mixed-versions"]
    assert found["command"] == expected.format(venv=venv, index="").replace("  ", " "), "pip has an index"


def test_packages_that_a_distribution_manages_need_a_word(rocwheel: Rocwheel, tmp_path: Path) -> None:
    site = tmp_path / PACKAGES
    mixed(site)
    (site.parent / "EXTERNALLY-MANAGED").write_text("[externally-managed]\n")
    found = named(look(rocwheel, "--venv", tmp_path, "--index", "https://example.com/simple"))["mixed-versions"]
    assert (
        found["command"]
        == "pip install --break-system-packages --index-url https://example.com/simple rocm-sdk-core==7.1.0"
    )


def test_indexes_of_uv_are_read(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.variables["HOME"] = "/home/me"
    text = '[[index]]\nname = "rocm"\nurl = "https://me:secret@example.com/gfx942/simple"\nexplicit = true\n'
    for path in ("home/me/.config/uv/uv.toml", "etc/xdg/uv/uv.toml", "etc/uv/uv.toml"):
        machine.write(path, text)
        found = named(diagnose(rocwheel, machine))["other-index"]
        assert found["evidence"] == [{"path": f"/{path}", "value": "https://example.com/gfx942/simple"}]
        assert found["command"] is None
        (machine.root / path).unlink()
    machine.write("srv/uv.toml", 'index-url = "https://example.com/gfx90a/simple"\n')
    machine.write("home/me/.config/uv/uv.toml", text)
    machine.variables["UV_CONFIG_FILE"] = "/srv/uv.toml"
    found = named(diagnose(rocwheel, machine))["other-index"]
    assert "gfx90a" in found["meaning"], "UV_CONFIG_FILE replaces the others"
    del machine.variables["UV_CONFIG_FILE"]
    machine.variables["UV_NO_CONFIG"] = "1"
    assert "other-index" not in named(diagnose(rocwheel, machine))
    del machine.variables["UV_NO_CONFIG"]
    machine.write("home/me/.config/uv/uv.toml", "[[index]\n")
    found = named(diagnose(rocwheel, machine, expect=1))["not-read"]
    assert found["evidence"][0]["path"] == "/home/me/.config/uv/uv.toml"


@pytest.mark.parametrize("path", ["torch", "torch/lib/libtorch_hip.so", "torch-2.9.1+rocm7.1.0.dist-info/RECORD"])
def test_packages_that_the_user_may_not_read_are_named(public: Path, path: str) -> None:
    machine = make_healthy_machine(public)
    machine.finish()
    hidden = machine.site / path
    mode = hidden.stat().st_mode
    hidden.chmod(0)
    command = [*unprivileged(), public / "rocwheel", "--json", "doctor", "--root", machine.root, "--venv", machine.venv]
    found = named(json.loads(run(*command, expect=1, cwd="/").stdout))["packages-denied"]
    hidden.chmod(mode)
    assert found["evidence"] == [{"path": str(hidden), "value": "EACCES: Permission denied"}]
    assert found["command"].startswith("sudo chmod -R a+rX ") and found["needs"] == ["root"]


def test_a_damaged_list_of_files_is_no_good_answer(rocwheel: Rocwheel, machine: Machine) -> None:
    (record,) = machine.site.glob("torch-*.dist-info/RECORD")
    record.write_bytes(b'\0\xff"\x80\n')
    assert "torch" in named(diagnose(rocwheel, machine, expect=1))["record-damaged"]["meaning"]


@pytest.mark.parametrize("content", ["", "Version: 7.2.0\n", None])
def test_a_package_without_metadata_is_no_good_answer(
    rocwheel: Rocwheel, machine: Machine, tmp_path: Path, content: str | None
) -> None:
    """Its version, which may be another one than that of the others, is not known."""
    only = make_machine(tmp_path / "only")
    only.package("rocm-sdk-core")
    for one in (machine, only):
        (metadata,) = one.site.glob("rocm_sdk_core-*.dist-info/METADATA")
        metadata.unlink()
        if content is not None:
            metadata.write_text(content)
        found = named(diagnose(rocwheel, one, expect=1))["not-read"]
        assert found["evidence"][0]["path"] == str(metadata) and "of rocm-sdk-core is" in found["meaning"]
    # An uninstallation may leave the folder.
    for file in metadata.parent.iterdir():
        file.unlink()
    assert list(named(diagnose(rocwheel, only))) == ["no-gpu"]


def test_an_environment_that_is_gone_is_not_called_unset(rocwheel: Rocwheel, shared: Path) -> None:
    found = named(look(rocwheel, VIRTUAL_ENV="/nonex"))["no-python"]
    assert found["evidence"] == [{"path": "VIRTUAL_ENV", "value": "/nonex, which is not a folder"}]
    report = look(rocwheel, VIRTUAL_ENV="/nonex", CONDA_PREFIX=str(shared / "venv"))
    assert report["python"]["path"] == str(shared / "venv" / PACKAGES)


def test_the_python_of_a_folder_is_known_or_not(rocwheel: Rocwheel, tmp_path: Path) -> None:
    target = tmp_path / "target"
    install(target, "torch", "2.9.0")
    assert look(rocwheel, "--venv", target)["python"]["version"] is None
    said = subprocess.run([rocwheel.binary, "doctor", "--venv", target], capture_output=True, text=True)
    assert "of an unknown version in" in said.stdout, said
    # An environment without packages has a Python too.
    report = diagnose(rocwheel, make_machine(tmp_path))
    assert (report["python"]["version"], report["python"]["count"]) == ("3.12", 0)


def test_a_named_pipe_is_not_waited_for(rocwheel: Rocwheel, machine: Machine) -> None:
    (metadata,) = machine.site.glob("torch-*.dist-info/METADATA")
    metadata.unlink()
    os.mkfifo(metadata)
    machine.finish()
    command = ("--json", "doctor", "--root", machine.root, "--venv", machine.venv)
    found = named(json.loads(rocwheel.run(*command, expect=1, timeout=30).stdout))["not-read"]
    assert found["evidence"] == [{"path": str(metadata), "value": "it is not a regular file"}]
    assert "not a regular file" in rocwheel.run("audit", machine.venv, expect=1, timeout=30).stderr


def executable(path: Path, text: str = "") -> Path:
    return put(path, text, 0o755)


def two_pythons(place: Path) -> None:
    """As managers of versions keep them, each with its torch."""
    for version, torch in (("3.11.7", "2.8.0"), ("3.12.1", "2.9.0")):
        name = f"python{version.rpartition('.')[0]}"
        executable(place / version / "bin" / name)
        (place / version / "bin/python3").symlink_to(name)
        install(place / version / f"lib/{name}/site-packages", "torch", torch)


def pyenv(home: Path) -> Path:
    """A pyenv with two Pythons, and the folder of its scripts."""
    root = home / ".pyenv"
    two_pythons(root / "versions")
    (root / "version").write_text("3.11.7\n")
    lines = f'#!/usr/bin/env bash\nexport PYENV_ROOT="{root}"\nexec "{root}/libexec/pyenv" exec "$program" "$@"\n'
    return executable(root / "shims/python3", lines).parent


def asdf(home: Path) -> Path:
    two_pythons(home / ".asdf/installs/python")
    (home / ".tool-versions").write_text("python 3.11.7\n")
    script = '#!/usr/bin/env bash\n# asdf-plugin: python 3.12.1\nexec asdf exec "python3" "$@"\n'
    return executable(home / ".asdf/shims/python3", script).parent


def mise(home: Path) -> Path:
    asdf(home)
    installs = home / ".local/share/mise/installs"
    installs.parent.mkdir(parents=True)
    (home / ".asdf/installs").rename(installs)
    (home / ".tool-versions").unlink()
    settings = home / ".config/mise/config.toml"
    put(settings, '[tools]\npython = "3.11.7"\n')
    shims = home / ".local/share/mise/shims"
    shims.mkdir()
    (shims / "python3").symlink_to(executable(home / "bin/mise", "\x7fELF"))
    return shims


@pytest.mark.parametrize(
    ("manager", "file", "text"),
    [
        (pyenv, ".python-version", "3.12\n"),
        (asdf, ".tool-versions", "nodejs 20.1.0\npython 3.12.1\n"),
        (mise, "mise.toml", '[tools]\npython = "3.12"\n'),
    ],
)
def test_a_manager_of_versions_is_looked_through(
    rocwheel: Rocwheel, tmp_path: Path, manager: Callable[[Path], Path], file: str, text: str
) -> None:
    """By its files: the programs of this test would do nothing."""
    shims = manager(tmp_path)
    project = tmp_path / "project/inner"
    project.mkdir(parents=True)
    variables = {"HOME": str(tmp_path), "PATH": str(shims)}

    def looked_at() -> dict:
        command = [rocwheel.binary, "--json", "doctor"]
        said = subprocess.run(command, capture_output=True, text=True, env=variables, cwd=project, timeout=60)
        assert said.stdout, said.stderr
        return json.loads(said.stdout)

    report = looked_at()
    assert versions(report) == {"torch": "2.8.0"} and report["python"]["chosen_by"].startswith(manager.__name__)
    (project.parent / file).write_text(text)
    report = looked_at()
    assert versions(report) == {"torch": "2.9.0"} and report["python"]["version"] == "3.12"
    assert report["python"]["chosen_by"] == f"{manager.__name__}, by `{project.parent / file}`"
    (project / file).write_text(text.replace("3.12", "3.99"))
    report = looked_at()
    assert report["python"] is None
    (missing,) = [one for one in report["not_looked_at"] if one["what"] == "the Python packages"]
    assert "3.99" in missing["why"] and "is not installed" in missing["why"] and "--venv" in missing["decides"]
    assert "nothing wrong was found" not in report["verdict"]


def test_a_command_names_the_pip_of_a_python_that_was_chosen(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """`pip` on PATH may be another Python's."""
    pyenv(tmp_path)
    prefix = tmp_path / ".pyenv/versions/3.12.1"
    mixed(prefix / PACKAGES)
    report = look(rocwheel, "--python", prefix / "bin/python3", "--index", "https://example.com/simple")
    command = named(report)["mixed-versions"]["command"]
    assert command == f"{prefix}/bin/python3 -m pip install --index-url https://example.com/simple rocm-sdk-core==7.1.0"


def test_the_report_ends_with_what_was_not_looked_at(rocwheel: Rocwheel, machine: Machine) -> None:
    """Each has a reason and what would decide it, and the exit code stays."""

    def ends(*words: object) -> list[str]:
        machine.finish()
        said = rocwheel.run("doctor", "--root", machine.root, *words)
        lines = said.stdout.splitlines()
        at = next(number for number, line in enumerate(lines) if line.endswith("1 GPU can be used"))
        return ["\n".join(lines[at:]).replace("\n" + " " * len("not looked at: "), " ")]

    assert ends("--venv", machine.venv) == ["nothing wrong was found; 1 GPU can be used"]
    (text,) = ends()
    assert text.startswith("nothing wrong in what was looked at; 1 GPU can be used\nnot looked at: the Python packages")
    assert "`--venv DIR` or `--python FILE` names them" in text
    (machine.root / "proc/self/limits").unlink()
    for path in machine.site.glob("torch/lib/rocblas/library/*"):
        path.unlink()
    (record,) = machine.site.glob("torch-*/RECORD")
    record.write_text("".join(line for line in record.open() if "rocblas" not in line))
    (text,) = ends("--venv", machine.venv)
    assert "not looked at: the limit of locked memory" in text
    assert "not looked at: the kernels of torch (the names of its files do not tell" in text
    machine.package("torchcodec", "0.8.0", **{"torchcodec/libtorchcodec.so": "no ELF"})
    assert "not looked at: what torchcodec is built for" in ends("--venv", machine.venv)[0]


def test_typed_commands_end_in_an_environment_that_is_well(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """pip is the judge, with an index that `rocwheel index build` has written."""
    machine = make_machine(tmp_path, "gfx1100")
    venv = tmp_path / "typed"
    create_venv(venv)
    dist, old = tmp_path / "dist", tmp_path / "old"
    torch = {"torch/__init__.py": "", "torch/version.py": "hip = '7.1'\ncuda = None\n"}
    kernels = "torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat"
    vision = {"torchvision/__init__.py": "", "torchvision/version.py": "cuda = '12.8'\n", "torchvision/_C.so": "x"}
    for folder, name, version, files in (
        (dist, "rocm", VERSION, {"rocm_sdk/__init__.py": ""}),
        (dist, "rocm-sdk-core", VERSION, {"_rocm_sdk_core/__init__.py": ""}),
        (old, "rocm-sdk-core", "7.0.2", {"_rocm_sdk_core/__init__.py": ""}),
        (dist, "torch", "2.9.1+rocm7.1.0", {**torch, kernels: "kernels"}),
        (dist, "torchvision", "0.24.0+rocm7.1.0", {"torchvision/__init__.py": ""}),
        (old, "torchvision", "0.24.0", vision),
        (dist, "triton-rocm", "3.5.1", {"triton/__init__.py": "# ROCm\n", "triton/backends/amd/driver.py": ""}),
        (old, "triton", "3.5.1", {"triton/__init__.py": "# CUDA\n", "triton/backends/nvidia/driver.py": ""}),
    ):
        members = {path: text.encode() for path, text in files.items()}
        write_wheel(folder, version, members, name.replace("-", "_"))
    rocwheel.run("index", "build", dist)
    pip = [venv / "bin/python", "-m", "pip", "--isolated", "--disable-pip-version-check"]
    first = ["rocm", "torch==2.9.1+rocm7.1.0", "triton-rocm", "rocm-sdk-core==7.0.2", "torchvision===0.24.0", "triton"]
    find = ["--no-index", "--find-links", old, "--find-links", dist]
    run(*pip, "install", "--no-deps", *find, *first)
    machine.venv = venv
    found = set(named(diagnose(rocwheel, machine, "--index", dist, expect=1)))
    assert found == {"mixed-versions", "other-build", "one-file-two-packages"}
    environment = {**os.environ, "PATH": f"{venv}/bin:{os.environ['PATH']}", "PIP_CONFIG_FILE": "/dev/null"}
    for _ in range(4):
        _, report = answered(rocwheel, machine, "--index", dist)
        commands = [finding["command"] for finding in report["findings"] if finding["command"]]
        if not commands:
            break
        typed = subprocess.run(["sh", "-c", commands[0]], capture_output=True, text=True, env=environment)
        assert typed.returncode == 0, (commands[0], typed.stderr)
    assert report["findings"] == [] and report["verdict"] == "nothing wrong was found; 1 GPU can be used"
