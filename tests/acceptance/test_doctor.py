"""`rocwheel doctor` on copies of machines.

The cases are failures that users reported; the numbers are those of the table in
`shared/spec/testing.md` 5.14. Row 23 (a test that passes without libraries) belongs to `test`.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from command import Rocwheel
from doctor_trees import (
    LIMITS,
    RENDER,
    VERSION,
    Machine,
    diagnose,
    make_cpx,
    make_healthy_machine,
    make_machine,
    named,
)

# The word in JSON, and the words for people that the Python has.
NEEDS = {"host": "a shell on the host"}
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


NOTHING = "no command"


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


KERNEL = "6.12.48+deb13-amd64"


@case("-", "driver-not-loaded", "sudo mokutil --import /var/lib/dkms/mok.pub")
def secure_boot_refuses_the_module(machine: Machine) -> None:
    module_is_not_loaded(machine)
    machine.write("sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\0\0\0\x01")
    machine.write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    machine.write(f"lib/modules/{KERNEL}/updates/dkms/amdgpu.ko.zst")
    machine.write("var/lib/dkms/mok.pub")


@case("-", "driver-not-loaded", f"sudo dkms install amdgpu/6.16.6-2238411.24.04 -k {KERNEL}")
def the_module_is_built_for_another_kernel(machine: Machine) -> None:
    module_is_not_loaded(machine)
    machine.write("lib/modules/6.12.41+deb13-amd64/updates/dkms/amdgpu.ko.zst")
    machine.write(f"lib/modules/{KERNEL}/modules.builtin", "kernel/fs/ext4/ext4.ko\n")
    machine.write("var/lib/dkms/amdgpu/6.16.6-2238411.24.04/source")


@case("-", "driver-not-loaded", "/etc/modprobe.d/blacklist-amdgpu.conf && sudo update-initramfs -u && sudo modprobe")
def the_module_is_forbidden(machine: Machine) -> None:
    secure_boot_refuses_the_module(machine)
    machine.write("etc/modprobe.d/blacklist-amdgpu.conf", "# for the NVIDIA card\nblacklist amdgpu\n")


@case("-", "driver-not-loaded", "s/ *nomodeset//' /etc/default/grub && sudo update-grub")
def the_kernel_line_forbids_the_module(machine: Machine) -> None:
    module_is_not_loaded(machine)
    machine.write("proc/cmdline", "root=/dev/sda1 nomodeset quiet\n")


@case("-", "driver-not-loaded", "sudo apt install linux-modules-extra-6.8.0-1021-aws")
def a_kernel_of_a_cloud(machine: Machine) -> None:
    module_is_not_loaded(machine)
    machine.write("proc/sys/kernel/osrelease", "6.8.0-1021-aws\n")
    machine.write("lib/modules/6.8.0-1021-aws/modules.builtin", "kernel/fs/ext4/ext4.ko\n")


@case("-", "mask-leaves-integrated", "unset HIP_VISIBLE_DEVICES && export ROCR_VISIBLE_DEVICES=0")
def a_mask_of_the_wrong_gpu(machine: Machine) -> None:
    machine.gpu(2, "gfx1036", drm_render_minor=129)
    machine.variables["HIP_VISIBLE_DEVICES"] = "1"


@case("-", "mask-leaves-integrated", "export ROCR_VISIBLE_DEVICES=0")
def a_mask_of_the_wrong_gpu_without_packages(machine: Machine) -> None:
    machine.gpu(2, "gfx1036", drm_render_minor=129)
    machine.variables["ROCR_VISIBLE_DEVICES"] = "1"
    for path in list(machine.site.iterdir()):
        shutil.rmtree(path)


@case("-", "torch-without-kernels", "pip install")
def the_visible_gpu_has_no_kernels(machine: Machine) -> None:
    """Two cards, and the mask leaves the one that the packages are not for."""
    machine.gpu(2, "gfx90a", location_id=1536, drm_render_minor=129)
    machine.rocm("gfx1100", "gfx90a")
    machine.variables["HIP_VISIBLE_DEVICES"] = "1"


@case("-", "user-namespace", "pct set CONTAINER --dev0 /dev/kfd,gid=992 --dev1 /dev/dri/renderD128,gid=992")
def unprivileged_lxc(machine: Machine) -> None:
    machine.user = "0:0"
    machine.write("proc/1/cgroup", "0::/\n")
    machine.write("run/systemd/container", "lxc")
    machine.write("proc/self/uid_map", "         0     100000      65536\n")
    for device in ("dev/kfd", "dev/dri/renderD128"):
        machine.remove(device)
        machine.device(device, owner="65534:65534")
        machine.note(device, error="EACCES", mode="0660", owner="65534:65534")


@case("-", "container-without-device", "pct set CONTAINER --dev0 /dev/kfd,gid=992")
def lxc_without_devices(machine: Machine) -> None:
    machine.write("proc/1/environ", "TERM=linux\0container=lxc\0")
    machine.remove("dev/kfd")


@case("-", "user-namespace", "docker run --userns host")
def docker_with_other_users(machine: Machine) -> None:
    machine.write(".dockerenv")
    machine.write("proc/self/uid_map", "0 100000 65536\n")
    machine.remove("dev/kfd")
    machine.device("dev/kfd", owner="65534:65534")


@case("-", "no-device-file", "udevadm")
def a_user_namespace_has_the_devices_of_the_host(machine: Machine) -> None:
    machine.write("proc/self/uid_map", "0 1000 1\n")
    machine.remove("dev/kfd")


@case("-", "container-without-device", "kubectl set resources deployment NAME --limits=amd.com/gpu=1")
def a_pod_without_devices(machine: Machine) -> None:
    machine.variables["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    machine.remove("dev/kfd")


@case("-", "container-without-device", "podman run --runtime crun")
def podman_without_devices(machine: Machine) -> None:
    machine.write("run/.containerenv")
    machine.remove("dev/kfd")


@case("-", "container-without-device", NOTHING)
def a_container_of_systemd_without_devices(machine: Machine) -> None:
    machine.variables["container"] = "systemd-nspawn"
    machine.remove("dev/kfd")


@case("-", "locked-memory", "sudo prlimit --pid $$ --memlock=unlimited:unlimited")
def little_memory_may_be_locked(machine: Machine) -> None:
    machine.write("proc/self/limits", LIMITS.format(locked="65536"))


@case("-", "locked-memory", "docker run --ulimit memlock=-1 IMAGE")
def little_memory_may_be_locked_in_docker(machine: Machine) -> None:
    machine.write(".dockerenv")
    little_memory_may_be_locked(machine)


@case("-", "other-compiler", NOTHING)
def the_compiler_of_another_rocm(machine: Machine) -> None:
    machine.write("opt/rocm-6.3.0/bin/hipcc")
    machine.write("opt/rocm-6.3.0/.info/version", "6.3.0-39\n")
    (machine.root / "opt/rocm").symlink_to("/opt/rocm-6.3.0")
    (machine.root / "usr/bin").mkdir(parents=True)
    (machine.root / "usr/bin/hipcc").symlink_to("/opt/rocm/bin/hipcc")
    machine.variables["PATH"] = "/usr/local/bin:/usr/bin"


@case("-", "other-build", "pip uninstall --yes torchvision && pip install --index-url INDEX torchvision torch==2.9.1+")
def torchvision_for_cuda(machine: Machine) -> None:
    text = "__version__ = '0.24.0'\ncuda = '12.8'\n"
    machine.package("torchvision", "0.24.0", **{"torchvision/version.py": text, "torchvision/_C.so": "no ELF"})


@case("-", "other-build", "torchaudio torch==2.9.1+rocm7.1.0")
def torchaudio_that_needs_libraries_of_cuda(machine: Machine) -> None:
    library = compiled(machine.root.parent / "cuda", "libcudart.so.12", "libtorch_cuda.so")
    machine.package("torchaudio", "2.9.1", **{"torchaudio/lib/_torchaudio.so": library})


@case("-", "other-build", "torchvision")
def torchvision_for_the_processor(machine: Machine) -> None:
    machine.package("torchvision", "0.24.0+cpu", **{"torchvision/_C.so": "no ELF"})


@case("-", "other-build", "xformers")
def xformers_for_cuda(machine: Machine) -> None:
    facts = {"version": {"cuda": 1208, "hip": None, "torch": "2.9.1+cu128", "python": "3.12.3"}}
    machine.package("xformers", "0.0.33", **{"xformers/cpp_lib.json": json.dumps(facts), "xformers/_C.so": "no ELF"})


@case("-", "other-build", "onnxruntime-migraphx")
def onnxruntime_for_cuda(machine: Machine) -> None:
    remove_torch(machine)
    library = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
    machine.package("onnxruntime-gpu", "1.23.0", **{library: "no ELF"})


@case("-", "cuda-torch", "pip install --force-reinstall --index-url INDEX torch torchvision")
def torch_and_torchvision_for_cuda(machine: Machine) -> None:
    cuda_torch(machine)
    torchvision_for_cuda(machine)


@case("-", "needs-other-torch", "pip install --upgrade --index-url INDEX torchvision torch==2.9.1+rocm7.1.0")
def torchvision_of_another_torch(machine: Machine) -> None:
    files = {"torchvision/_C.so": compiled(machine.root.parent / "hip", "libtorch_hip.so")}
    machine.package("torchvision", "0.23.0", requires=("torch==2.8.0", "numpy"), **files)


@case("-", "one-file-two-packages", "pip uninstall --yes triton triton-rocm && pip install --no-deps")
def two_tritons(machine: Machine) -> None:
    for name, version in (("triton", "3.4.0"), ("triton-rocm", "3.5.1")):
        files = {"triton/__init__.py": f"# {name}\n", "triton/backends/amd/driver.py": "", "triton/jit.py": f"{name}\n"}
        machine.package(name, version, **files)


@case("-", "one-file-two-packages", "pip uninstall --yes triton triton-rocm && pip install --no-deps")
def a_triton_for_cuda_over_that_for_rocm(machine: Machine) -> None:
    machine.package("triton-rocm", "3.5.1", **{"triton/__init__.py": "# ROCm\n", "triton/backends/amd/driver.py": ""})
    machine.package("triton", "3.4.0", **{"triton/__init__.py": "# CUDA.\n", "triton/backends/nvidia/driver.py": ""})


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
    machine.write("etc/driverctl.d/0000:0a:00.0", "vfio-pci\n")


@case("-", "gpu-reserved", "tee /sys/bus/pci/drivers_probe")
def a_gpu_that_libvirt_took(machine: Machine) -> None:
    machine.pci("0000:0a:00.0", 0x744C, "vfio-pci")
    machine.write("sys/bus/pci/devices/0000:0a:00.0/driver_override", "vfio-pci\n")


@case("-", "gpu-reserved", "/etc/modprobe.d/vfio.conf && sudo update-initramfs -u")
def all_gpus_of_a_product_for_virtual_machines(machine: Machine) -> None:
    machine.pci("0000:0a:00.0", 0x744C, "vfio-pci")
    machine.write("etc/modprobe.d/vfio.conf", "options vfio-pci ids=1002:744c,1002:ab30\n")


@case("-", "gpu-reserved", "vfio-pci.ids=1002:744C//' /etc/default/grub && sudo update-grub")
def the_kernel_line_gives_gpus_to_virtual_machines(machine: Machine) -> None:
    machine.pci("0000:0a:00.0", 0x744C, "vfio-pci")
    machine.write("proc/cmdline", "root=/dev/sda1 vfio-pci.ids=1002:744C quiet\n")


@case("-", "gpu-reserved", NOTHING)
def the_host_of_sr_iov(machine: Machine) -> None:
    machine.pci("0000:0a:00.0", 0x744C, "gim")


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
    if advice == NOTHING:
        assert finding["command"] is None and finding["template"] is None, finding
    else:
        assert advice in f"{finding['command']} {finding['template']} {finding['check']}", finding
    # What is called a command has no word that the reader has to replace.
    assert not finding["command"] or not finding["blanks"], finding
    assert bool(finding["template"]) == bool(finding["blanks"]), finding
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
        "nothing wrong in what was looked at; no AMD GPU can be used here"
    )
    assert [one["what"] for one in report["not_looked_at"]] == ["the PCI bus"]
    # A machine without that folder has not been looked at.
    assert named(report)["no-gpu"]["evidence"][1]["value"].startswith("does not exist, so the bus could not")
    machine.write("sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n")
    report = diagnose(rocwheel, machine)
    assert report["verdict"] == "nothing wrong was found; no AMD GPU can be used here"
    assert report["not_looked_at"] == []
    (_, bus) = named(report)["no-gpu"]["evidence"]
    assert bus == {"path": "/sys/bus/pci/devices", "value": "no GPU of the vendor 0x1002"}
    assert "not well" in diagnose(rocwheel, machine, "--need-gpu", expect=1)["verdict"]
    # A CPU torch is right on such a machine.
    machine.package("torch", "2.9.1+cpu", **{"torch/__init__.py": ""})
    assert list(named(diagnose(rocwheel, machine))) == ["no-gpu"]


def test_wrong_options_are_refused(rocwheel: Rocwheel, tmp_path: Path) -> None:
    def fails(code: int, words: str, *arguments: object) -> None:
        assert words in rocwheel.run("doctor", *arguments, expect=code).stderr

    fails(2, "is not a folder", "--root", tmp_path / "none")
    (tmp_path / "elsewhere").mkdir()
    fails(1, "it is no copy of a machine", "--root", tmp_path / "elsewhere")
    (tmp_path / "etc").mkdir()
    fails(2, "is not a folder", "--venv", tmp_path / "none")
    fails(2, "is not a program", "--python", tmp_path / "none")
    fails(2, "neither the address of an index nor a folder", "--index", tmp_path / "none")
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
    assert set(named(report)) == {"mask-hides-all"}, "one mask has one finding"
    assert named(report)["mask-hides-all"]["meaning"].startswith("HIP_VISIBLE_DEVICES hides the one GPU. `7` in HIP")
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
    words = [
        line for line in lines if not line.startswith(("  $ ", "  > ")) and " " in line.strip() and "/" not in line
    ]
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
            (
                finding["code"],
                finding["severity"],
                finding["meaning"],
                finding["command"] or "",
                finding["template"] or "",
                tuple(sorted(NEEDS.get(need, need) for need in finding["needs"])),
            )
            for finding in ours["findings"]
            if finding["name"] in names
        }
        examined = _doctor.examine(machine.root, machine.site, machine.variables)
        found = {
            (one.code, one.severity, one.meaning, one.command, one.template, tuple(sorted(one.needs)))
            for one in examined
        }
        assert found == wanted, (change.__name__, found ^ wanted)
        compared += len(found)
    assert compared > 40
