"""`rocwheel doctor` on copies of machines.

The cases are failures that users reported; the numbers are those of the table in
`shared/spec/testing.md` 5.14. Row 23 (a test that passes without libraries) belongs to `test`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command import Rocwheel
from doctor_trees import RENDER, VERSION, Machine, diagnose, make_cpx, make_healthy_machine, make_machine, named

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_healthy_machine(tmp_path)


def test_a_healthy_machine_has_no_findings(rocwheel: Rocwheel, machine: Machine) -> None:
    report = diagnose(rocwheel, machine)
    assert report["findings"] == []
    assert report["verdict"] == "nothing wrong was found; 1 GPU can be used"
    (gpu,) = report["gpus"]
    assert (gpu["address"], gpu["target"], gpu["compute_units"], gpu["hip_index"]) == ("0000:03:00.0", "gfx1100", 96, 0)
    # The number identifies the machine.
    assert "11673270660693242239" not in json.dumps(report) and f"{11673270660693242239:x}" not in json.dumps(report)


Change = Callable[[Machine], None]
CASES: dict[str, tuple[Change, str, str]] = {}


def case(row: str, finding: str, advice: str) -> Callable[[Change], Change]:
    """A failure, the finding that names it, and a piece of the command or of the check."""

    def add(change: Change) -> Change:
        CASES[f"{row} {change.__name__}"] = (change, finding, advice)
        return change

    return add


@case("1", "device-denied", "sudo usermod -aG render")
def not_in_the_group(machine: Machine) -> None:
    machine.user = "1000:1000"
    machine.write("etc/group", f"root:x:0:\nrender:x:{RENDER}:\nme:x:1000:\n")


@case("1b", "login-again", "newgrp render")
def not_logged_in_again(machine: Machine) -> None:
    machine.user = "1000:1000"


@case("2", "device-mode", "70-amdgpu.rules")
def kfd_for_root_only(machine: Machine) -> None:
    machine.remove("dev/kfd")
    machine.device("dev/kfd", mode="0600", owner="0:0")


@case("3", "container-group", "--group-add 105")
def other_gid_in_the_container(machine: Machine) -> None:
    machine.write(".dockerenv")
    machine.remove("dev/kfd")
    machine.device("dev/kfd", owner="0:105")


@case("4", "docker-desktop", "uname -r")
def docker_desktop(machine: Machine) -> None:
    machine.write(".dockerenv")
    machine.write("proc/version", "Linux version 6.10.14-linuxkit (root@buildkitsandbox)\n")
    for node in (0, 1):
        folder = f"sys/class/kfd/kfd/topology/nodes/{node}"
        for path in ("properties", "gpu_id"):
            machine.remove(f"{folder}/{path}")
    machine.note("sys/class/kfd/kfd/topology/nodes", error="ENOENT")
    machine.note("sys/bus/pci/devices", error="ENOENT")


@case("5", "rootless-container", "--group-add keep-groups")
def rootless_podman(machine: Machine) -> None:
    machine.write("run/.containerenv", 'engine="podman-4.3.1"\nrootless=1\n')
    machine.write("proc/self/uid_map", "         0       1000          1\n         1     100000      65536\n")
    machine.user = "1000:0"
    machine.remove("dev/kfd")
    machine.device("dev/kfd", owner="65534:65534")


@case("6", "apptainer-without-device", "apptainer exec --rocm")
def apptainer_without_binds(machine: Machine) -> None:
    machine.variables["APPTAINER_NAME"] = "rocm.sif"
    machine.remove("dev/kfd")


@case("7", "override-wrong", "unset HSA_OVERRIDE_GFX_VERSION")
def override_of_another_generation(machine: Machine) -> None:
    machine.variables["HSA_OVERRIDE_GFX_VERSION"] = "10.3.0"


@case("7b", "torch-without-kernels", "pip install --force-reinstall")
def torch_for_another_gpu(machine: Machine) -> None:
    machine.torch("gfx942", "gfx90a")
    (machine.site / "torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat").unlink()


@case("8", "files-missing", "rocm-sdk-device-gfx90a==7.1.0")
def device_wheel_without_its_files(machine: Machine) -> None:
    machine.gpu(1, "gfx90a")
    machine.rocm("gfx90a")
    machine.torch("gfx90a")
    (machine.site / "_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat").unlink()


@case("9", "target-not-offered", "--index-url")
def gpu_that_is_not_built(machine: Machine) -> None:
    machine.gpu(1, "gfx1152")


@case("10", "cpu-torch", "pip install --force-reinstall")
def cpu_torch(machine: Machine) -> None:
    machine.package("torch", "2.9.1+cpu", **{"torch/__init__.py": "", "torch/lib/libtorch_cpu.so": "no ELF"})
    remove_torch(machine)


@case("11", "library-path", "unset LD_LIBRARY_PATH")
def library_path_with_another_rocm(machine: Machine) -> None:
    machine.write("opt/rocm-6.4.0/lib/libamdhip64.so.6", "not read")
    machine.variables["LD_LIBRARY_PATH"] = "/opt/rocm-6.4.0/lib"


@case("12", "no-kernels", "rocm-sdk-device-gfx1100==7.1.0")
def no_device_wheel(machine: Machine) -> None:
    for file in machine.site.glob("**/*gfx1100*"):
        if file.is_file():
            file.unlink()
    for file in (machine.site / "rocm_sdk_device_gfx1100-7.1.0.dist-info").iterdir():
        file.unlink()
    machine.torch()


@case("13", "torch-needs-other-rocm", "rocm==7.2.0")
def torch_of_another_rocm(machine: Machine) -> None:
    machine.torch("gfx1100", requires=("rocm[libraries]==7.2.0",))


@case("14", "two-copies", "pip uninstall amdsmi")
def two_copies_of_amd_smi(machine: Machine) -> None:
    machine.package("rocm-sdk-core", **{"_rocm_sdk_core/lib/libamd_smi.so.26": "one"})
    machine.package("amdsmi", "26.0.2", **{"amdsmi/__init__.py": "", "amdsmi/libamd_smi.so": "other"})


@case("15", "mask-hides-all", "unset ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES")
def both_masks(machine: Machine) -> None:
    machine.gpu(2, "gfx1100", location_id=1536, drm_render_minor=129)
    machine.variables |= {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}


@case("16", "ordinal-disagrees", "unset GPU_DEVICE_ORDINAL")
def ordinal(machine: Machine) -> None:
    machine.gpu(2, "gfx1100", location_id=1536, drm_render_minor=129)
    machine.variables |= {"GPU_DEVICE_ORDINAL": "1", "HIP_VISIBLE_DEVICES": "0"}


@case("17", "no-compute-node", "dmesg")
def no_pcie_atomics(machine: Machine) -> None:
    machine.pci("0000:0a:00.0", 0x67DF)


@case("18", "known-bad-firmware", "amdgpu_firmware_info")
def firmware_that_may_be_bad(machine: Machine) -> None:
    machine.gpu(1, "gfx1151")
    machine.rocm("gfx1151", offered=("gfx1151",))
    machine.torch("gfx1151")


@case("18b", "known-bad-firmware", "")
def firmware_that_is_bad(machine: Machine) -> None:
    firmware_that_may_be_bad(machine)
    machine.write("sys/bus/pci/devices/0000:c2:00.0/fw_version/mes_fw_version", "0x00000083\n")


@case("20", "wsl-libraries", "rocminfo")
def wsl_without_bridge(machine: Machine) -> None:
    machine.write("proc/version", "Linux version 6.6.87.2-microsoft-standard-WSL2\n")
    machine.write("dev/dxg")


@case("20b", "wsl-libraries", "libhsa-runtime64-1")
def wsl_with_the_distributions_runtime(machine: Machine) -> None:
    wsl_without_bridge(machine)
    machine.write("opt/rocm/lib/librocdxg.so.1")
    machine.write("usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1")


@case("21", "integrated-first", "export ROCR_VISIBLE_DEVICES=1")
def integrated_gpu_first(machine: Machine) -> None:
    machine.gpu(1, "gfx1036", drm_render_minor=128)
    machine.gpu(2, "gfx1100", drm_render_minor=129)


@case("22", "cuda-torch", "pip install --force-reinstall")
def cuda_torch(machine: Machine) -> None:
    remove_torch(machine)
    machine.package("torch", "2.9.1", requires=("nvidia-cublas-cu12==12.8.4.1",), **{"torch/__init__.py": ""})


@case("24", "mixed-versions", "rocm-sdk-core==7.1.0")
def mixed_versions(machine: Machine) -> None:
    for file in (machine.site / "rocm_sdk_core-7.1.0.dist-info").iterdir():
        file.unlink()
    machine.package("rocm-sdk-core", "7.0.2", **{"_rocm_sdk_core/__init__.py": ""})


@case("-", "half-expanded", "rocm-sdk init")
def half_expanded(machine: Machine) -> None:
    machine.package("rocm-sdk-devel", **{"rocm_sdk_devel/__init__.py": "", "rocm_sdk_devel/_devel.tar": "tar"})
    for name in ("include/hip.h", "lib/x"):
        file = machine.site / "_rocm_sdk_devel" / name
        file.parent.mkdir(parents=True)
        file.write_text("")


@case("-", "files-unknown", "new environment")
def files_that_nobody_installed(machine: Machine) -> None:
    (machine.site / "_rocm_sdk_core/lib").mkdir()
    (machine.site / "_rocm_sdk_core/lib/libamdhip64.so.6").write_text("left over")


@case("-", "files-changed", "torch==2.9.1+rocm7.1.0")
def file_of_another_size(machine: Machine) -> None:
    (machine.site / "torch/version.py").write_text("hip = None # patched by hand\n")


@case("-", "driver-not-loaded", "sudo modprobe amdgpu")
def module_is_not_loaded(machine: Machine) -> None:
    docker_desktop(machine)
    machine.remove(".dockerenv")
    machine.notes = [note for note in machine.notes if "sys/bus/pci" not in note]
    (machine.root / "sys/bus/pci/devices/0000:03:00.0/driver").unlink()
    (machine.root / "sys/module/amdgpu/initstate").unlink()
    (machine.root / "sys/module/amdgpu").rmdir()


@case("-", "container-without-device", "docker run --device /dev/kfd")
def container_without_devices(machine: Machine) -> None:
    machine.write(".dockerenv")
    machine.remove("dev/kfd")


@case("-", "override-malformed", "unset HSA_OVERRIDE_GFX_VERSION")
def override_is_a_name(machine: Machine) -> None:
    machine.variables["HSA_OVERRIDE_GFX_VERSION"] = "gfx1100"


@case("-", "device-fails", "dmesg")
def the_driver_is_busy(machine: Machine) -> None:
    machine.note("dev/kfd", error="EBUSY")


@case("-", "rocm-path", "unset ROCM_PATH")
def rocm_path(machine: Machine) -> None:
    machine.variables["ROCM_PATH"] = "/opt/rocm"


@case("-", "masks-differ", "unset CUDA_VISIBLE_DEVICES")
def two_names_of_a_mask(machine: Machine) -> None:
    machine.gpu(2, "gfx1100", location_id=1536, drm_render_minor=129)
    machine.variables |= {"HIP_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0"}


@case("-", "preloaded", "unset LD_PRELOAD")
def preloaded_runtime(machine: Machine) -> None:
    machine.variables["LD_PRELOAD"] = "/opt/rocm/lib/libamdhip64.so.6"


@case("-", "shadowed", "unset PYTHONPATH")
def another_torch_comes_first(machine: Machine) -> None:
    machine.write("srv/sources/torch/__init__.py")
    machine.variables["PYTHONPATH"] = "/srv/sources"


@case("-", "linker-configuration", "")
def the_system_knows_another_rocm(machine: Machine) -> None:
    machine.write("etc/ld.so.conf.d/10-rocm.conf", "/opt/rocm-6.4.0/lib\n")


@case("-", "installed-twice", "torch==2.9.1+rocm7.1.0")
def a_package_is_there_twice(machine: Machine) -> None:
    machine.package("torch", "2.8.0+rocm6.4")


@case("-", "iommu", "iommu=pt")
def several_gpus_behind_an_iommu(machine: Machine) -> None:
    machine.gpu(2, "gfx1100", location_id=1536, drm_render_minor=129)
    machine.write("sys/class/iommu/ivhd0/name")
    machine.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n")


@case("-", "render-node-missing", "ls -l /dev/dri")
def no_render_node(machine: Machine) -> None:
    machine.remove("dev/dri/renderD128")


@case("-", "gpu-reserved", "driverctl unset-override 0000:0a:00.0")
def a_gpu_for_virtual_machines(machine: Machine) -> None:
    machine.pci("0000:0a:00.0", 0x744C, "vfio-pci")


@case("-", "driver-refuses", "dmesg")
def the_driver_lacks_firmware(machine: Machine) -> None:
    machine.pci("0000:0a:00.0", 0x744C, None)
    (machine.root / "lib/firmware/amdgpu").mkdir(parents=True)


@case("-", "two-masks", "unset ROCR_VISIBLE_DEVICES")
def two_masks_that_work(machine: Machine) -> None:
    machine.gpu(2, "gfx1100", location_id=1536, drm_render_minor=129)
    machine.variables |= {"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}


@case("-", "other-index", "unset PIP_INDEX_URL")
def index_of_another_family(machine: Machine) -> None:
    machine.variables["PIP_INDEX_URL"] = "https://me:secret@example.com/v2/gfx94X-dcgpu/"


@case("-", "other-index", "pip config --user unset global.extra-index-url")
def configured_index_of_another_family(machine: Machine) -> None:
    machine.variables["HOME"] = "/home/me"
    machine.write("home/me/.config/pip/pip.conf", "[global]\nextra-index-url = https://example.com/gfx942/simple\n")


@case("-", "old-cxx-library", "conda install")
def old_library_of_conda(machine: Machine) -> None:
    prefix = str(machine.venv).lstrip("/")
    machine.write(f"{prefix}/conda-meta/history")
    machine.write(f"{prefix}/lib/libstdc++.so.6.0.29")
    machine.write("usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.33")


@case("-", "not-read", "")
def old_kernel_without_targets(machine: Machine) -> None:
    path = machine.root / "sys/class/kfd/kfd/topology/nodes/1/properties"
    path.write_text("".join(line for line in path.open() if not line.startswith(("gfx_target", "domain"))))


@case("-", "no-device-file", "udevadm")
def udev_made_nothing(machine: Machine) -> None:
    machine.remove("dev/kfd")


@case("-", "library-not-found", "")
def a_library_is_missing(machine: Machine) -> None:
    """The file is compiled: what the loader finds for it is computed from its headers."""
    gone = machine.write("made/libgone.so.1")
    build = ["gcc", "-shared", "-x", "c", "-", "-x", "none"]
    subprocess.run([*build, "-o", gone, "-Wl,-soname,libgone.so.1"], input=b"int f;", check=True)
    library = machine.site / "torch/lib/libtorch_hip.so"
    subprocess.run([*build, "-o", library, "-Wl,--no-as-needed", gone], input=b"int g;", check=True)
    machine.torch("gfx1100", library=library.read_bytes())


def compiled(folder: Path, *needed: str) -> bytes:
    """A library that needs these, which exist while it is made."""
    folder.mkdir(parents=True, exist_ok=True)
    build = ["gcc", "-shared", "-x", "c", "-", "-x", "none"]
    for name in needed:
        subprocess.run([*build, "-o", folder / name, f"-Wl,-soname,{name}"], input=b"static int f;", check=True)
    libraries = [folder / name for name in needed]
    command = [*build, "-o", folder / "made.so", "-Wl,--no-as-needed", *libraries]
    subprocess.run(command, input=b"static int g;", check=True)
    return (folder / "made.so").read_bytes()


# SONAMEs of ROCm 7. Which of them torch's libraries need is not read from a wheel of torch: none is
# on a registry that the tests reach.
OF_TORCH = ("libamdhip64.so.7", "libMIOpen.so.1", "libhipblas.so.3", "librocblas.so.5", "libhsa-runtime64.so.1")


@case("-", "rocm-libraries-missing", "'rocm[libraries]==7.1.0'")
def torch_without_rocm(machine: Machine) -> None:
    for path in machine.site.iterdir():
        if path.name.lstrip("_").startswith("rocm"):
            shutil.rmtree(path)
    machine.torch("gfx1100", library=compiled(machine.root.parent / "made", *OF_TORCH))


@case("-", "rocm-libraries-missing", "'rocm[libraries]==7.1.0'")
def torch_with_the_runtime_of_another_rocm(machine: Machine) -> None:
    library = compiled(machine.root.parent / "made", *OF_TORCH)
    machine.torch("gfx1100", requires=("rocm[libraries]==7.1.0",), library=library)
    for folder, names in (("_rocm_sdk_libraries", OF_TORCH[1:]), ("_rocm_sdk_core", ("libamdhip64.so.6",))):
        for name in names:
            library = machine.site / folder / "lib" / name
            library.parent.mkdir(parents=True, exist_ok=True)
            library.write_text("no ELF")


def test_the_missing_library_and_the_other_version_are_named(rocwheel: Rocwheel, machine: Machine) -> None:
    torch_with_the_runtime_of_another_rocm(machine)
    finding = named(diagnose(rocwheel, machine, expect=1))["rocm-libraries-missing"]
    assert finding["code"] == "RD073"
    evidence = json.dumps(finding["evidence"])
    assert 'needs libamdhip64.so.7"' in evidence, evidence
    assert "_rocm_sdk_core/lib/libamdhip64.so.6" in evidence
    # The loader finds it in a folder of the system, so nothing is missing.
    machine.write("etc/ld.so.conf.d/rocm.conf", "/opt/rocm/lib\n")
    machine.write("opt/rocm/lib/libamdhip64.so.7", "no ELF")
    assert "rocm-libraries-missing" not in named(diagnose(rocwheel, machine))


def remove_torch(machine: Machine) -> None:
    for file in (machine.site / "torch-2.9.1+rocm7.1.0.dist-info").iterdir():
        file.unlink()
    for name in ("libtorch_hip.so", "rocblas/library/TensileLibrary_lazy_gfx1100.dat"):
        (machine.site / "torch/lib" / name).unlink(missing_ok=True)


@pytest.mark.parametrize("name", list(CASES))
def test_a_reported_failure_has_its_finding(rocwheel: Rocwheel, machine: Machine, name: str) -> None:
    change, wanted, advice = CASES[name]
    change(machine)
    machine.finish()
    command = [rocwheel.binary, "--json", "doctor", "--root", machine.root, "--venv", machine.venv]
    finished = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    report = json.loads(finished.stdout)
    found = named(report)
    assert wanted in found, f"{name}: {sorted(found)}"
    finding = found[wanted]
    assert advice in f"{finding['command']} {finding['check']}", finding
    assert finding["evidence"] and all(seen["path"] for seen in finding["evidence"])
    assert "{" not in finding["meaning"] + (finding["command"] or "").replace("${", ""), finding
    heavy = {finding["severity"] for finding in report["findings"]} & {"error", "unknown"}
    assert finished.returncode == (1 if heavy else 0), report["findings"]
    assert report["verdict"].startswith("not well") == bool(heavy)
    # One cause is not told twice under other names.
    assert sum(finding["severity"] == "error" for finding in report["findings"]) <= 2, sorted(found)


def test_a_missing_partition_is_seen(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Row 19: 65 nodes; the 64th partition has no DRM device."""
    report = diagnose(rocwheel, make_cpx(tmp_path, 63))
    assert len(report["gpus"]) == 63 and [gpu["hip_index"] for gpu in report["gpus"]] == list(range(63))
    found = named(report)["partitions-missing"]
    assert "shows 7 partitions where others show 8" in found["meaning"]
    assert {gpu["partition"] for gpu in report["gpus"]} == {"CPX"}
    # Partitions share their unique_id, so they are told by address.
    assert len({gpu["address"] for gpu in report["gpus"]}) == 63


def test_whole_cards_have_all_their_partitions(rocwheel: Rocwheel, tmp_path: Path) -> None:
    assert "partitions-missing" not in named(diagnose(rocwheel, make_cpx(tmp_path, 32)))


def test_a_gpu_that_a_container_hides_is_not_no_gpu(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.note("sys/class/kfd/kfd/topology/nodes/1/gpu_id", error="EPERM")
    found = named(diagnose(rocwheel, machine, expect=1))
    assert found["gpu-hidden"]["severity"] == "error" and "no-gpu" not in found
    machine.gpu(2, "gfx1100", location_id=1536, drm_render_minor=129)
    report = diagnose(rocwheel, machine)
    assert named(report)["gpu-hidden"]["severity"] == "note" and len(report["gpus"]) == 1


def test_no_gpu_is_calm_unless_one_is_needed(rocwheel: Rocwheel, tmp_path: Path) -> None:
    machine = make_machine(tmp_path)
    report = diagnose(rocwheel, machine)
    assert list(named(report)) == ["no-gpu"] and report["verdict"] == (
        "nothing wrong was found; no AMD GPU can be used here"
    )
    # A machine without that folder has not been looked at.
    assert named(report)["no-gpu"]["evidence"][1]["value"].startswith("does not exist, so the bus could not")
    machine.write("sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n")
    (_, bus) = named(diagnose(rocwheel, machine))["no-gpu"]["evidence"]
    assert bus == {"path": "/sys/bus/pci/devices", "value": "no GPU of the vendor 0x1002"}
    assert "not well" in diagnose(rocwheel, machine, "--need-gpu", expect=1)["verdict"]
    # A CPU torch is right on such a machine.
    machine.package("torch", "2.9.1+cpu", **{"torch/__init__.py": ""})
    assert list(named(diagnose(rocwheel, machine))) == ["no-gpu"]


def test_wrong_options_are_refused(rocwheel: Rocwheel, tmp_path: Path) -> None:
    def fails(code: int, words: str, *arguments: object) -> None:
        assert words in rocwheel.run("doctor", *arguments, expect=code).stderr

    fails(1, "is not a folder", "--root", tmp_path / "none")
    (tmp_path / "elsewhere").mkdir()
    fails(1, "it is no copy of a machine", "--root", tmp_path / "elsewhere")
    (tmp_path / "etc").mkdir()
    fails(2, "is not a folder", "--venv", tmp_path / "none")
    fails(2, "is not a program", "--python", tmp_path / "none")
    fails(2, "1000:1000,44", "--root", tmp_path, "--user", "me")
    fails(2, "--root", "--user", "1000:1000")
    fails(1, "cannot read the variables", "--root", tmp_path, "--environment", tmp_path / "none")
    (tmp_path / "empty").mkdir()
    fails(1, "has no folder of Python packages", "--venv", tmp_path / "empty")
    (tmp_path / "doctor.toml").write_text('[[path]]\npath = "dev/kfd"\nmode = "rw"\n')
    fails(1, "`rw` is not a mode", "--root", tmp_path)


def test_variables_come_from_a_file_too(rocwheel: Rocwheel, machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "env").write_text("HIP_VISIBLE_DEVICES=7\nHOME=/root\n")
    report = diagnose(rocwheel, machine, "--environment", tmp_path / "env", expect=1)
    assert set(named(report)) == {"mask-hides-all", "mask-names-no-gpu"}
    report = diagnose(rocwheel, machine, "--user", "1001:1001", expect=1)
    assert "device-denied" in named(report)


@pytest.mark.parametrize("width", [60, 120])
def test_lines_fit_the_terminal(rocwheel: Rocwheel, machine: Machine, width: int) -> None:
    machine.user = "1000:1000"
    machine.variables["HIP_VISIBLE_DEVICES"] = "0"
    mixed_versions(machine)
    machine.finish()
    command = f"stty cols {width} rows 40; {rocwheel.binary} doctor --root {machine.root} --venv {machine.venv}"
    finished = subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True, text=True)
    assert finished.returncode == 1 and "\x1b[" in finished.stdout
    import re

    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in finished.stdout.splitlines()]
    words = [line for line in lines if not line.startswith("  $ ") and " " in line.strip() and "/" not in line]
    assert max(map(len, words)) <= min(width, 100), words
    assert any(line.startswith("error RD053 mixed-versions") for line in lines), lines


def test_the_subset_in_python_agrees(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """`python -m rocm_sdk doctor` finds the same on the same machines, as far as it looks."""
    source = REPOSITORY / "python/rocm/src"
    sys.path.insert(0, str(source))
    try:
        from rocm_sdk import _doctor
    finally:
        sys.path.remove(str(source))
    compared = 0
    names = {row["name"] for row in _doctor.ROWS}
    for number, (change, _, _) in enumerate(CASES.values()):
        machine = make_machine(tmp_path / str(number), "gfx1100")
        machine.rocm("gfx1100")
        machine.torch("gfx1100", requires=(f"rocm[libraries]=={VERSION}",))
        change(machine)
        machine.finish()
        command = [rocwheel.binary, "--json", "doctor", "--root", machine.root, "--venv", machine.venv]
        ours = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
        if ours["system"]["wsl"]:
            continue
        wanted = {
            (finding["code"], finding["severity"], finding["meaning"], finding["command"] or "")
            for finding in ours["findings"]
            if finding["name"] in names
        }
        examined = _doctor.examine(machine.root, machine.site, machine.variables)
        found = {(one.code, one.severity, one.meaning, one.command) for one in examined}
        assert found == wanted, (change.__name__, found ^ wanted)
        compared += len(found)
    assert compared > 20
