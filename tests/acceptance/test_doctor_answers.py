"""`rocwheel doctor` on machines where the first look gives a wrong answer, whose driver and
packages do not tell the truth, and on this machine, whichever it is: no GPU is needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import Rocwheel, run
from doctor_trees import RENDER, VERSION, Machine, answered, diagnose, make_healthy_machine, make_machine, named
from environment import create_venv
from trees import put


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_healthy_machine(tmp_path)


def findings(rocwheel: Rocwheel, machine: Machine) -> dict[str, dict]:
    """The findings, whatever the exit code: these machines have others, too."""
    return named(answered(rocwheel, machine)[1])


def add_second_card(machine: Machine) -> None:
    machine.gpu(2, "gfx1100", location_id=1536, drm_render_minor=129)
    machine.write("sys/class/iommu/ivhd0/type", "")


def test_a_kernel_passes_addresses_through_without_being_told(rocwheel: Rocwheel, machine: Machine) -> None:
    add_second_card(machine)
    assert "iommu" in named(diagnose(rocwheel, machine))
    for card in ("0000:03:00.0", "0000:06:00.0"):
        machine.write(f"sys/bus/pci/devices/{card}/iommu_group/type", "identity\n")
    assert "iommu" not in named(diagnose(rocwheel, machine))
    machine.write("sys/bus/pci/devices/0000:06:00.0/iommu_group/type", "DMA-FQ\n")
    seen = named(diagnose(rocwheel, machine))["iommu"]["evidence"]
    assert {"path": "/sys/bus/pci/devices/0000:06:00.0/iommu_group/type", "value": "DMA-FQ"} in seen


def test_an_old_driver_reserves_nothing(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.pci("0000:0a:00.0", 0x6719, driver="radeon")
    found = named(diagnose(rocwheel, machine))
    assert "gpu-reserved" not in found and found["display-driver"]["command"] is None
    assert "The driver radeon runs the GPU 0000:0a:00.0" in found["display-driver"]["meaning"]


@pytest.mark.parametrize("driver", ["vfio-pci", "radeon", "amdgpu"])
def test_a_gpu_that_cannot_compute_is_not_the_one_that_is_needed(
    rocwheel: Rocwheel, tmp_path: Path, driver: str
) -> None:
    machine = make_machine(tmp_path)
    machine.package("something", **{"something.py": ""})
    machine.pci("0000:0a:00.0", 0x744C, driver=driver)
    machine.write("sys/module/amdgpu/initstate", "live\n")
    report = diagnose(rocwheel, machine, "--need-gpu", expect=1)
    assert "no AMD GPU can be used here" in report["verdict"]


def test_wsl_does_not_show_the_gpu_that_is_needed(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.write("proc/version", "Linux version 6.6.87.2-microsoft-standard-WSL2\n")
    machine.write("dev/dxg")
    machine.write("opt/rocm/lib/librocdxg.so.1")
    machine.variables["HSA_ENABLE_DXG_DETECTION"] = "1"
    diagnose(rocwheel, machine)
    assert "not-read" in named(diagnose(rocwheel, machine, "--need-gpu", expect=1))


@pytest.mark.parametrize(
    ("gone", "driver", "finding", "verdict"),
    [
        (["sys/module"], "amdgpu of the kernel", None, "1 GPU can be used"),
        (["sys/module", "dev/kfd"], "amdgpu of the kernel", "no-device-file", "no AMD GPU can be used here"),
        (["sys"], "no file tells whether amdgpu is loaded", "not-read", "it is not known whether a GPU can be used"),
    ],
    ids=["modules", "modules and device", "sys"],
)
def test_a_copy_that_lacks_files_says_one_thing(
    rocwheel: Rocwheel, machine: Machine, gone: list[str], driver: str, finding: str | None, verdict: str
) -> None:
    machine.finish()
    for path in gone:
        run("rm", "-r", machine.root / path)
    words = ("doctor", "--root", machine.root, "--venv", machine.venv)
    said = rocwheel.run(*words, expect=int(finding is not None)).stdout
    said = " ".join(said.split())
    assert driver in said and verdict in said and (finding or "nothing wrong was found") in said
    assert "amdgpu is not loaded" not in said


@pytest.mark.parametrize(
    ("files", "words", "command"),
    [
        ([], "There is no /dev/dxg: WSL 1, or a driver of Windows that does not offer the GPU.", "wsl.exe --update"),
        (["dev/dxg"], "No package has it: it is built from the sources of librocdxg", None),
        (["dev/dxg", "opt/rocm/lib/librocdxg.so.1"], "HSA_ENABLE_DXG_DETECTION is not 1.",
         "export HSA_ENABLE_DXG_DETECTION=1"),
    ],
    ids=["no device", "no library", "no variable"],
)  # fmt: skip
def test_what_wsl_lacks_is_named(
    rocwheel: Rocwheel, machine: Machine, files: list[str], words: str, command: str | None
) -> None:
    machine.write("proc/version", "Linux version 6.6.87.2-microsoft-standard-WSL2\n")
    for path in files:
        machine.write(path)
    found = named(diagnose(rocwheel, machine, expect=0 if len(files) == 2 else 1))["wsl-libraries"]
    assert words in found["meaning"] and found["command"] == command


def test_a_container_in_wsl_is_started_again(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.write("proc/version", "Linux version 6.6.87.2-microsoft-standard-WSL2\n")
    machine.write(".dockerenv")
    found = named(diagnose(rocwheel, machine, expect=1))["wsl-libraries"]
    assert "--device /dev/dxg" in found["template"] and found["command"] is None


def test_a_security_module_is_no_missing_group(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.note("dev/kfd", error="EACCES", mode="0660", owner=f"0:{RENDER}")
    for container in (False, True):
        if container:
            machine.write(".dockerenv")
        found = named(diagnose(rocwheel, machine, expect=1))
        assert "selinux" in found["device-fails"]["check"], found
        assert not {"device-denied", "container-group", "login-again"} & found.keys()


def test_groups_of_a_system_image_are_groups(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.user = "1000:1000"
    machine.write("etc/group", "root:x:0:\nme:x:1000:\n")
    machine.write("usr/lib/group", f"render:x:{RENDER}:\n")
    assert "usermod -aG render" in named(diagnose(rocwheel, machine, expect=1))["device-denied"]["command"]


@pytest.mark.parametrize(
    ("target", "value", "severity"),
    [("gfx90a", "9.4.2", "warning"), ("gfx1100", "11.0.1", "note"), ("gfx90a", "10.3.0", "error")],
)
def test_one_generation_is_not_one_family(
    rocwheel: Rocwheel, tmp_path: Path, target: str, value: str, severity: str
) -> None:
    machine = make_machine(tmp_path, target)
    machine.package("something", **{"something.py": ""})
    machine.variables["HSA_OVERRIDE_GFX_VERSION"] = value
    report = diagnose(rocwheel, machine, expect=1 if severity == "error" else 0)
    assert named(report)["override-wrong"]["severity"] == severity


def test_an_override_is_wrong_and_not_the_packages(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.variables["HSA_OVERRIDE_GFX_VERSION"] = "10.3.0"
    found = named(diagnose(rocwheel, machine, expect=1))
    assert set(found) == {"override-wrong"} and found["override-wrong"]["severity"] == "error"
    assert found["override-wrong"]["command"] == "unset HSA_OVERRIDE_GFX_VERSION"


def test_masks_count_the_gpus_that_open(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.gpu(1, "gfx1100", location_id=2048, drm_render_minor=130, device=False)
    machine.gpu(2, "gfx1036", location_id=4096, drm_render_minor=128)
    machine.gpu(3, "gfx1100", location_id=1536, drm_render_minor=129)
    report = diagnose(rocwheel, machine, expect=1)
    assert named(report)["integrated-first"]["command"] == "export ROCR_VISIBLE_DEVICES=1"


def test_another_environment_with_a_longer_name_is_another_one(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.variables["ROCM_PATH"] = f"{machine.venv}/lib/python3.12/site-packages/_rocm_sdk_devel"
    assert "rocm-path" not in named(diagnose(rocwheel, machine))
    machine.variables["ROCM_PATH"] = f"{machine.venv}-old/lib/python3.12/site-packages/_rocm_sdk_devel"
    assert "rocm-path" in named(diagnose(rocwheel, machine))


def test_an_environment_in_the_copy_has_the_paths_of_the_machine(rocwheel: Rocwheel, tmp_path: Path) -> None:
    machine = make_machine(tmp_path, "gfx1100")
    machine.venv.rename(tmp_path / "root/venv")
    machine.venv = tmp_path / "root/venv"
    machine.rocm("gfx1100")
    machine.variables["ROCM_PATH"] = "/venv/lib/python3.12/site-packages/_rocm_sdk_devel"
    assert "rocm-path" not in named(diagnose(rocwheel, machine))
    machine.write("venv/conda-meta/history")
    machine.write("venv/lib/libstdc++.so.6.0.29")
    machine.write("usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.33")
    assert "/venv/lib/libstdc++.so.6.0.29" in json.dumps(named(diagnose(rocwheel, machine))["old-cxx-library"])


def test_the_triton_that_torch_needs_is_not_uninstalled(rocwheel: Rocwheel, machine: Machine) -> None:
    """PyTorch's own wheels for ROCm: both bring the runtime."""
    requires = ("pytorch-triton-rocm==3.5.1; platform_system == 'Linux'", f"rocm[libraries]=={VERSION}")
    machine.package(
        "torch", "2.9.1+rocm6.4", requires=requires[:1], **{"torch/lib/libamdhip64.so": "1", "torch/__init__.py": ""}
    )
    machine.package("pytorch-triton-rocm", "3.5.1", **{"triton/backends/amd/lib/libamdhip64.so": "1"})
    assert "two-copies" not in findings(rocwheel, machine)
    machine.package("rocm-sdk-core", **{"_rocm_sdk_core/lib/libamd_smi.so.26": "one"})
    machine.package("amdsmi", "26.0.2", **{"amdsmi/__init__.py": "", "amdsmi/libamd_smi.so": "other"})
    machine.package("vllm", "0.12.0", requires=("amdsmi (>=6)",), **{"vllm/__init__.py": ""})
    found = findings(rocwheel, machine)
    assert found["two-copies"]["command"] is None


def test_a_torch_whose_libraries_are_the_systems_is_asked_itself(rocwheel: Rocwheel, machine: Machine) -> None:
    """Debian's python3-torch-rocm has its libraries in /usr/lib and a plain version."""
    text = "__version__ = '2.6.0'\ncuda: Optional[str] = {}\nhip: Optional[str] = {}\n"
    machine.package("torch", "2.6.0", **{"torch/__init__.py": "", "torch/version.py": text.format(None, "'5.7.31921'")})
    for file in [*machine.site.glob("torch-2.9*/*"), *machine.site.glob("torch/lib/*.so")]:
        file.unlink()
    assert not {"cpu-torch", "cuda-torch"} & findings(rocwheel, machine).keys()
    for hip, cuda, name in ((None, None, "cpu-torch"), (None, "'12.8'", "cuda-torch")):
        machine.package("torch", "2.6.0", **{"torch/__init__.py": "", "torch/version.py": text.format(cuda, hip)})
        assert "torch/version.py" in json.dumps(named(diagnose(rocwheel, machine, expect=1))[name])


def test_the_setting_of_an_index_is_removed_where_it_is(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.variables["HOME"] = "/home/me"
    text = "[install]\nextra-index-url =\n    https://example.com/simple\n    https://example.com/gfx942/simple\n"
    for path, command in {
        "home/me/.config/pip/pip.conf": "pip config --user unset install.extra-index-url",
        "etc/pip.conf": "pip config --global unset install.extra-index-url",
        "home/me/.pip/pip.conf": None,
    }.items():
        machine.write(path, text)
        found = named(diagnose(rocwheel, machine))["other-index"]
        assert (found["command"], found["evidence"][0]["path"]) == (command, f"/{path}")
        (machine.root / path).unlink()


@pytest.mark.parametrize("is_environment", [True, False])
def test_a_virtual_environment_has_no_packages_of_the_user(
    rocwheel: Rocwheel, tmp_path: Path, is_environment: bool
) -> None:
    packages = "lib/python3.11/site-packages"
    users = tmp_path / "home/.local" / packages
    metadata = users / "torch-2.9.0.dist-info/METADATA"
    for folder in (tmp_path / "base/bin", tmp_path / "venv/bin", tmp_path / "venv" / packages, metadata.parent):
        folder.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0+rocm7.0\n")
    (metadata.parent / "RECORD").touch()
    (tmp_path / "base/bin/python3.11").touch()
    program = tmp_path / "venv/bin/python"
    program.symlink_to(tmp_path / "base/bin/python3.11")
    if is_environment:
        (tmp_path / "venv/pyvenv.cfg").touch()
    home = {"HOME": str(tmp_path / "home")}
    # The exit code depends on this machine's GPU.
    process = rocwheel.start("doctor", "--python", program, "--json", env=home)
    output, _ = process.communicate(timeout=60)
    python = json.loads(output)["python"]
    assert python["path"] == str(tmp_path / "venv" / packages if is_environment else users)


def test_what_rocm_was_built_from(rocwheel: Rocwheel, machine: Machine) -> None:
    """In the form of TheRock's generate_therock_manifest.py, in a wheel and in `/opt/rocm`."""
    assert diagnose(rocwheel, machine)["rocm"] == []
    pin = {"submodule_name": "llvm-project", "submodule_path": "compiler/amd-llvm", "pin_sha": "0bace19", "patches": []}
    pin["submodule_url"] = "https://github.com/ROCm/llvm-project.git"
    text = json.dumps({"the_rock_commit": "89553ce", "rocm_package_version": VERSION, "submodules": [pin]})
    name = "share/therock/therock_manifest.json"
    machine.package("rocm-sdk-core", **{"_rocm_sdk_core/__init__.py": "", f"_rocm_sdk_core/{name}": text})
    machine.write(f"opt/rocm/{name}", "{")
    report = diagnose(rocwheel, machine)
    (own,) = report["rocm"]
    assert (own["manifest"], own["version"]) == (f"{machine.site}/_rocm_sdk_core/{name}", VERSION)
    assert own["commit"] == "89553ce" and own["pins"] == [
        {"name": "llvm-project", "url": pin["submodule_url"], "commit": "0bace19", "patches": []}
    ]
    (other,) = report["not_looked_at"]
    assert f"/opt/rocm/{name}" in other["what"] and "EOF" in other["why"]
    machine.write(f"opt/rocm/{name}", "\0")
    assert diagnose(rocwheel, machine)["not_looked_at"][0]["why"] == "is not text"


def lie(machine: Machine, path: str, kind: str) -> None:
    file = machine.root / path
    if kind in ("EIO", "EACCES"):
        machine.note(path, error=kind)
        return
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "large":
        file.write_bytes(b"simd_count 1\n" * 800_000)
    elif kind == "bytes":
        file.write_bytes(b"simd_count \xff\xfe\n")
    elif kind == "loop":
        file.symlink_to(file.name)
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_text(kind)


@pytest.mark.parametrize(
    "kind", ["EIO", "EACCES", "folder", "large", "bytes", "loop", "pipe", "", "simd_count -1\n", "x\n"]
)
@pytest.mark.parametrize("file", ["properties", "gpu_id"])
def test_a_driver_that_lies_is_never_well(rocwheel: Rocwheel, machine: Machine, file: str, kind: str) -> None:
    lie(machine, f"sys/class/kfd/kfd/topology/nodes/1/{file}", kind)
    report = diagnose(rocwheel, machine, expect=1)
    unknown = [finding for finding in report["findings"] if finding["severity"] == "unknown"]
    assert unknown and report["verdict"].startswith("not well"), report
    assert any(f"nodes/1/{file}" in seen["path"] for finding in unknown for seen in finding["evidence"])


@pytest.mark.parametrize(
    "changed",
    [{"gfx_target_version": 900100}, {"simd_count": 0}, {"gfx_target_version": 2**64 - 1}, {"simd_per_cu": 0}],
)
def test_numbers_that_cannot_be_are_no_gpu_that_works(rocwheel: Rocwheel, machine: Machine, changed: dict) -> None:
    machine.gpu(1, "gfx1100", **changed)
    code, report = answered(rocwheel, machine)
    if "simd_per_cu" in changed:
        assert code == 0
    else:
        assert code == 1 and "contradiction" in named(report), report


def test_a_packages_folder_that_cannot_be_read_is_said(rocwheel: Rocwheel, machine: Machine) -> None:
    (machine.site / "torch-2.9.1+rocm7.1.0.dist-info/METADATA").write_bytes(b"\xff\xfe\x00" * 100)
    (machine.site / "rocm_sdk_core-7.1.0.dist-info/RECORD").write_text('"unclosed\n')
    code, report = answered(rocwheel, machine)
    assert code in (0, 1) and report["verdict"], report


def names_of(report: dict) -> set[str]:
    return {finding["name"] for finding in report["findings"]}


def test_this_machine_is_looked_at(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """No GPU is needed for the test: whatever this machine has, the report is whole, and nothing
    was written."""
    command = [rocwheel.binary, "--json", "doctor", "--python", sys.executable]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    report = json.loads(finished.stdout)
    assert report["python"]["count"] > 5 and report["verdict"], report
    assert finished.returncode == (1 if report["counts"]["errors"] + report["counts"]["unknown"] else 0)
    assert not list(tmp_path.iterdir())


def test_the_python_on_the_path_is_looked_at(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """In images of containers no environment is active."""

    def findings(path: Path) -> tuple[set[str], dict]:
        environment = {"PATH": str(path), "VIRTUAL_ENV": "", "CONDA_PREFIX": ""}
        report = rocwheel.json("doctor", environment=environment, cwd=tmp_path)
        return names_of(report), report

    create_venv(tmp_path / "image")
    names, report = findings(tmp_path / "image" / "bin")
    assert "no-python" not in names
    assert report["python"]["path"].startswith(str(tmp_path / "image"))
    # pyenv puts scripts on the path, which choose a Python when they are started.
    scripts = tmp_path / "shims"
    put(scripts / "python3", "#!/bin/sh\nexit 1\n", 0o755)
    assert "no-python" in findings(scripts)[0]
