"""Machines on which something is wrong, the finding that names it, and its advice.

They are failures that users reported; the numbers are those of the table in
`shared/spec/testing.md` 5.14. Row 23 (a test that passes without libraries) belongs to `test`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from doctor_trees import LIMITS, RENDER, Machine
from trees import put

NOTHING = "no command"


@dataclass(frozen=True)
class Case:
    """What is changed on a healthy machine, in the order of the fields."""

    name: str
    finding: str
    # A piece of the command, of the template, or of the check.
    advice: str
    also: tuple[Callable[[Machine], None], ...] = ()
    user: str | None = None
    gone: tuple[str, ...] = ()
    # Mode and owner.
    kfd: tuple[str, str] | None = None
    write: dict[str, str | bytes] = field(default_factory=dict)
    gpus: tuple[tuple[int, str, dict[str, int]], ...] = ()
    # Device and driver of one more GPU on the bus.
    pci: tuple[int, str | None] | None = None
    # Name and version of a package, its files, and what it requires.
    packages: tuple[tuple[str, str, dict[str, str], tuple[str, ...]], ...] = ()
    variables: dict[str, str] = field(default_factory=dict)

    def apply(self, machine: Machine) -> None:
        for change in self.also:
            change(machine)
        machine.user = self.user or machine.user
        for path in (*self.gone, *(["dev/kfd"] if self.kfd else [])):
            machine.remove(path)
        if self.kfd:
            machine.device("dev/kfd", *self.kfd)
        for path, content in self.write.items():
            machine.write(path, content)
        for number, kind, keys in self.gpus:
            machine.gpu(number, kind, **keys)
        if self.pci:
            machine.pci("0000:0a:00.0", *self.pci)
        for name, version, files, requires in self.packages:
            machine.package(name, version, requires=requires, **files)
        machine.variables |= self.variables


def docker_desktop(machine: Machine) -> None:
    machine.write(".dockerenv")
    machine.write("proc/version", "Linux version 6.10.14-linuxkit (root@buildkitsandbox)\n")
    for node in (0, 1):
        for path in ("properties", "gpu_id"):
            machine.remove(f"sys/class/kfd/kfd/topology/nodes/{node}/{path}")
    machine.note("sys/class/kfd/kfd/topology/nodes", error="ENOENT")
    machine.note("sys/bus/pci/devices", error="ENOENT")


def torch_for_another_gpu(machine: Machine) -> None:
    machine.torch("gfx942", "gfx90a")
    (machine.site / "torch/lib/rocblas/library/TensileLibrary_lazy_gfx1100.dat").unlink()


def device_wheel_without_its_files(machine: Machine) -> None:
    machine.gpu(1, "gfx90a")
    machine.rocm("gfx90a")
    machine.torch("gfx90a")
    (machine.site / "_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat").unlink()


def remove_torch(machine: Machine) -> None:
    for file in (machine.site / "torch-2.9.1+rocm7.1.0.dist-info").iterdir():
        file.unlink()
    for name in ("libtorch_hip.so", "rocblas/library/TensileLibrary_lazy_gfx1100.dat"):
        (machine.site / "torch/lib" / name).unlink(missing_ok=True)


def no_device_wheel(machine: Machine) -> None:
    for file in machine.site.glob("**/*gfx1100*"):
        if file.is_file():
            file.unlink()
    for file in (machine.site / "rocm_sdk_device_gfx1100-7.1.0.dist-info").iterdir():
        file.unlink()
    machine.torch()


def torch_of_another_rocm(machine: Machine) -> None:
    machine.torch("gfx1100", requires=("rocm[libraries]==7.2.0",))


def firmware_that_may_be_bad(machine: Machine) -> None:
    machine.gpu(1, "gfx1151")
    machine.rocm("gfx1151", offered=("gfx1151",))
    machine.torch("gfx1151")


def mixed_versions(machine: Machine) -> None:
    for file in (machine.site / "rocm_sdk_core-7.1.0.dist-info").iterdir():
        file.unlink()
    machine.package("rocm-sdk-core", "7.0.2", **{"_rocm_sdk_core/__init__.py": ""})


def half_expanded(machine: Machine) -> None:
    for name in ("include/hip.h", "lib/x"):
        file = machine.site / "_rocm_sdk_devel" / name
        put(file, "")


def files_that_nobody_installed(machine: Machine) -> None:
    (machine.site / "_rocm_sdk_core/lib").mkdir()
    (machine.site / "_rocm_sdk_core/lib/libamdhip64.so.6").write_text("left over")


def file_of_another_size(machine: Machine) -> None:
    (machine.site / "torch/version.py").write_text("hip = None # patched by hand\n")


def module_is_not_loaded(machine: Machine) -> None:
    docker_desktop(machine)
    machine.remove(".dockerenv")
    machine.notes = [note for note in machine.notes if "sys/bus/pci" not in note]
    (machine.root / "sys/bus/pci/devices/0000:03:00.0/driver").unlink()
    (machine.root / "sys/module/amdgpu/initstate").unlink()
    (machine.root / "sys/module/amdgpu").rmdir()


def no_packages(machine: Machine) -> None:
    for path in list(machine.site.iterdir()):
        shutil.rmtree(path)


def second_gpu_with_kernels(machine: Machine) -> None:
    """Two cards; the packages of ROCm are for both, and torch for one."""
    machine.gpu(2, "gfx90a", location_id=1536, drm_render_minor=129)
    machine.rocm("gfx1100", "gfx90a")


def unprivileged_lxc(machine: Machine) -> None:
    for device in ("dev/kfd", "dev/dri/renderD128"):
        machine.remove(device)
        machine.device(device, owner="65534:65534")
        machine.note(device, error="EACCES", mode="0660", owner="65534:65534")


def the_compiler_of_another_rocm(machine: Machine) -> None:
    (machine.root / "opt").mkdir()
    (machine.root / "opt/rocm").symlink_to("/opt/rocm-6.3.0")
    (machine.root / "usr/bin").mkdir(parents=True)
    (machine.root / "usr/bin/hipcc").symlink_to("/opt/rocm/bin/hipcc")


def torchaudio_that_needs_libraries_of_cuda(machine: Machine) -> None:
    library = compiled(machine.root.parent / "cuda", "libcudart.so.12", "libtorch_cuda.so")
    machine.package("torchaudio", "2.9.1", **{"torchaudio/lib/_torchaudio.so": library})


def torchvision_of_another_torch(machine: Machine) -> None:
    files = {"torchvision/_C.so": compiled(machine.root.parent / "hip", "libtorch_hip.so")}
    machine.package("torchvision", "0.23.0", requires=("torch==2.8.0", "numpy"), **files)


def the_driver_is_busy(machine: Machine) -> None:
    machine.note("dev/kfd", error="EBUSY")


def a_folder_of_firmware(machine: Machine) -> None:
    (machine.root / "lib/firmware/amdgpu").mkdir(parents=True)


def old_library_of_conda(machine: Machine) -> None:
    prefix = str(machine.venv).lstrip("/")
    machine.write(f"{prefix}/conda-meta/history")
    machine.write(f"{prefix}/lib/libstdc++.so.6.0.29")
    machine.write("usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.33")


def old_kernel_without_targets(machine: Machine) -> None:
    path = machine.root / "sys/class/kfd/kfd/topology/nodes/1/properties"
    path.write_text("".join(line for line in path.open() if not line.startswith(("gfx_target", "domain"))))


def nothing_of_the_kernel(machine: Machine) -> None:
    machine.notes = []
    shutil.rmtree(machine.root / "sys")


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


def a_library_is_missing(machine: Machine) -> None:
    """The file is compiled: what the loader finds for it is computed from its headers."""
    machine.torch("gfx1100", library=compiled(machine.root / "made", "libgone.so.1"))


# SONAMEs of ROCm 7. Which of them torch's libraries need is not read from a wheel of torch: none is
# on a registry that the tests reach.
OF_TORCH = ("libamdhip64.so.7", "libMIOpen.so.1", "libhipblas.so.3", "librocblas.so.5", "libhsa-runtime64.so.1")


def torch_without_rocm(machine: Machine) -> None:
    for path in machine.site.iterdir():
        if path.name.lstrip("_").startswith("rocm"):
            shutil.rmtree(path)
    machine.torch("gfx1100", library=compiled(machine.root.parent / "made", *OF_TORCH))


def torch_with_the_runtime_of_another_rocm(machine: Machine) -> None:
    library = compiled(machine.root.parent / "made", *OF_TORCH)
    machine.torch("gfx1100", requires=("rocm[libraries]==7.1.0",), library=library)
    for folder, names in (("_rocm_sdk_libraries", OF_TORCH[1:]), ("_rocm_sdk_core", ("libamdhip64.so.6",))):
        for name in names:
            library = machine.site / folder / "lib" / name
            put(library, "no ELF")


KERNEL = "6.12.48+deb13-amd64"
GROUPS = f"root:x:0:\nrender:x:{RENDER}:\nme:x:1000:\n"
SECOND = (2, "gfx1100", {"location_id": 1536, "drm_render_minor": 129})
INTEGRATED = (2, "gfx1036", {"drm_render_minor": 129})
KFD = ("dev/kfd",)
LIMITED = {"proc/self/limits": LIMITS.format(locked="65536")}
WSL = {"proc/version": "Linux version 6.6.87.2-microsoft-standard-WSL2\n", "dev/dxg": ""}
SECURE_BOOT: dict[str, str | bytes] = {
    "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": b"\x06\0\0\0\x01",
    "sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
    f"lib/modules/{KERNEL}/updates/dkms/amdgpu.ko.zst": "",
    "var/lib/dkms/mok.pub": "",
}
OTHER_KERNEL = {
    "lib/modules/6.12.41+deb13-amd64/updates/dkms/amdgpu.ko.zst": "",
    f"lib/modules/{KERNEL}/modules.builtin": "kernel/fs/ext4/ext4.ko\n",
    "var/lib/dkms/amdgpu/6.16.6-2238411.24.04/source": "",
}
CLOUD = {
    "proc/sys/kernel/osrelease": "6.8.0-1021-aws\n",
    "lib/modules/6.8.0-1021-aws/modules.builtin": "kernel/fs/ext4/ext4.ko\n",
}
PODMAN = {
    "run/.containerenv": 'engine="podman-4.3.1"\nrootless=1\n',
    "proc/self/uid_map": "         0       1000          1\n         1     100000      65536\n",
}
LXC = {
    "proc/1/cgroup": "0::/\n",
    "run/systemd/container": "lxc",
    "proc/self/uid_map": "         0     100000      65536\n",
}
ROCM_6 = {"opt/rocm-6.3.0/bin/hipcc": "", "opt/rocm-6.3.0/.info/version": "6.3.0-39\n"}
PIP_INDEX = "[global]\nextra-index-url = https://example.com/gfx942/simple\n"
IOMMU = {"sys/class/iommu/ivhd0/name": "", "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n"}
CUDA_TORCH = ("torch", "2.9.1", {"torch/__init__.py": ""}, ("nvidia-cublas-cu12==12.8.4.1",))
CPU_TORCH = ("torch", "2.9.1+cpu", {"torch/__init__.py": "", "torch/lib/libtorch_cpu.so": "no ELF"}, ())
CORE = ("rocm-sdk-core", "7.1.0", {"_rocm_sdk_core/lib/libamd_smi.so.26": "one"}, ())
AMD_SMI = ("amdsmi", "26.0.2", {"amdsmi/__init__.py": "", "amdsmi/libamd_smi.so": "other"}, ())
DEVEL = {"rocm_sdk_devel/__init__.py": "", "rocm_sdk_devel/_devel.tar": "tar"}
VISION_TEXT = "__version__ = '0.24.0'\ncuda = '12.8'\n"
VISION = ("torchvision", "0.24.0", {"torchvision/version.py": VISION_TEXT, "torchvision/_C.so": "no ELF"}, ())
XFORMERS = {"version": {"cuda": 1208, "hip": None, "torch": "2.9.1+cu128", "python": "3.12.3"}}
AMD_DRIVER = "triton/backends/amd/driver.py"
TRITONS = tuple(
    (name, version, {"triton/__init__.py": f"# {name}\n", AMD_DRIVER: "", "triton/jit.py": f"{name}\n"}, ())
    for name, version in (("triton", "3.4.0"), ("triton-rocm", "3.5.1"))
)
OVER_ROCM = tuple(
    (name, version, {"triton/__init__.py": text, f"triton/backends/{vendor}/driver.py": ""}, ())
    for name, version, text, vendor in (
        ("triton-rocm", "3.5.1", "# ROCm\n", "amd"),
        ("triton", "3.4.0", "# CUDA.\n", "nvidia"),
    )
)
BAD_FIRMWARE = {"sys/bus/pci/devices/0000:c2:00.0/fw_version/mes_fw_version": "0x00000083\n"}

CASES = [
    Case("1 not in the group", "device-denied", "sudo usermod -aG render", user="1000:1000",
         write={"etc/group": GROUPS}),
    Case("1b not logged in again", "login-again", "newgrp render", user="1000:1000"),
    Case("2 kfd for root only", "device-mode", "70-amdgpu.rules", kfd=("0600", "0:0")),
    Case("3 other gid in the container", "container-group", "--group-add 105", kfd=("0660", "0:105"),
         write={".dockerenv": ""}),
    Case("4 docker desktop", "docker-desktop", "uname -r", (docker_desktop,)),
    Case("5 rootless podman", "rootless-container", "--group-add keep-groups", user="1000:0",
         kfd=("0660", "65534:65534"), write=PODMAN),
    Case("6 apptainer without binds", "apptainer-without-device", "apptainer exec --rocm", gone=KFD,
         variables={"APPTAINER_NAME": "rocm.sif"}),
    Case("7 override of another generation", "override-wrong", "unset HSA_OVERRIDE_GFX_VERSION",
         variables={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}),
    Case("7b torch for another gpu", "torch-without-kernels", "pip install --force-reinstall", (torch_for_another_gpu,)),
    Case("8 device wheel without its files", "files-missing", "rocm-sdk-device-gfx90a==7.1.0",
         (device_wheel_without_its_files,)),
    Case("9 gpu that is not built", "target-not-offered", "--index-url", gpus=((1, "gfx1152", {}),)),
    Case("10 cpu torch", "cpu-torch", "pip install --force-reinstall", (remove_torch,), packages=(CPU_TORCH,)),
    Case("11 library path with another rocm", "library-path", "unset LD_LIBRARY_PATH",
         write={"opt/rocm-6.4.0/lib/libamdhip64.so.6": "not read"},
         variables={"LD_LIBRARY_PATH": "/opt/rocm-6.4.0/lib"}),
    Case("12 no device wheel", "no-kernels", "rocm-sdk-device-gfx1100==7.1.0", (no_device_wheel,)),
    Case("13 torch of another rocm", "torch-needs-other-rocm", "rocm==7.2.0", (torch_of_another_rocm,)),
    Case("14 two copies of amd smi", "two-copies", "pip uninstall amdsmi", packages=(CORE, AMD_SMI)),
    Case("15 both masks", "mask-hides-all", "unset ROCR_VISIBLE_DEVICES HIP_VISIBLE_DEVICES", gpus=(SECOND,),
         variables={"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "1"}),
    Case("16 ordinal", "ordinal-disagrees", "unset GPU_DEVICE_ORDINAL", gpus=(SECOND,),
         variables={"GPU_DEVICE_ORDINAL": "1", "HIP_VISIBLE_DEVICES": "0"}),
    Case("17 no pcie atomics", "no-compute-node", "dmesg", pci=(0x67DF, "amdgpu")),
    Case("18 firmware that may be bad", "known-bad-firmware", "amdgpu_firmware_info", (firmware_that_may_be_bad,)),
    Case("18b firmware that is bad", "known-bad-firmware", "", (firmware_that_may_be_bad,), write=BAD_FIRMWARE),
    Case("20 wsl without bridge", "wsl-libraries", "rocminfo", write=WSL),
    Case("20b wsl with the distributions runtime", "wsl-libraries", "libhsa-runtime64-1", write={
        **WSL, "opt/rocm/lib/librocdxg.so.1": "", "usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1": ""}),
    Case("21 integrated gpu first", "integrated-first", "export ROCR_VISIBLE_DEVICES=1", gpus=(
        (1, "gfx1036", {"drm_render_minor": 128}), (2, "gfx1100", {"drm_render_minor": 129}))),
    Case("22 cuda torch", "cuda-torch", "pip install --force-reinstall", (remove_torch,),
         packages=(CUDA_TORCH,)),
    Case("24 mixed versions", "mixed-versions", "rocm-sdk-core==7.1.0", (mixed_versions,)),
    Case("half expanded", "half-expanded", "rocm-sdk init", (half_expanded,),
         packages=(("rocm-sdk-devel", "7.1.0", DEVEL, ()),)),
    Case("files that nobody installed", "files-unknown", "new environment", (files_that_nobody_installed,)),
    Case("file of another size", "files-changed", "torch==2.9.1+rocm7.1.0", (file_of_another_size,)),
    Case("module is not loaded", "driver-not-loaded", "sudo modprobe amdgpu", (module_is_not_loaded,)),
    Case("secure boot refuses the module", "driver-not-loaded", "sudo mokutil --import /var/lib/dkms/mok.pub",
         (module_is_not_loaded,), write=SECURE_BOOT),
    Case("the module is built for another kernel", "driver-not-loaded",
         f"sudo dkms install amdgpu/6.16.6-2238411.24.04 -k {KERNEL}", (module_is_not_loaded,), write=OTHER_KERNEL),
    Case("the module is forbidden", "driver-not-loaded",
         "/etc/modprobe.d/blacklist-amdgpu.conf && sudo update-initramfs -u && sudo modprobe", (module_is_not_loaded,),
         write={**SECURE_BOOT, "etc/modprobe.d/blacklist-amdgpu.conf": "# for the NVIDIA card\nblacklist amdgpu\n"}),
    Case("the kernel line forbids the module", "driver-not-loaded",
         "s/ *nomodeset//' /etc/default/grub && sudo update-grub", (module_is_not_loaded,),
         write={"proc/cmdline": "root=/dev/sda1 nomodeset quiet\n"}),
    Case("a kernel of a cloud", "driver-not-loaded", "sudo apt install linux-modules-extra-6.8.0-1021-aws",
         (module_is_not_loaded,), write=CLOUD),
    Case("a mask of the wrong gpu", "mask-leaves-integrated",
         "unset HIP_VISIBLE_DEVICES && export ROCR_VISIBLE_DEVICES=0", gpus=(INTEGRATED,),
         variables={"HIP_VISIBLE_DEVICES": "1"}),
    Case("a mask of the wrong gpu without packages", "mask-leaves-integrated", "export ROCR_VISIBLE_DEVICES=0",
         (no_packages,), gpus=(INTEGRATED,), variables={"ROCR_VISIBLE_DEVICES": "1"}),
    Case("the visible gpu has no kernels", "torch-without-kernels", "pip install", (second_gpu_with_kernels,),
         variables={"HIP_VISIBLE_DEVICES": "1"}),
    Case("unprivileged lxc", "user-namespace",
         "pct set CONTAINER --dev0 /dev/kfd,gid=992 --dev1 /dev/dri/renderD128,gid=992", (unprivileged_lxc,),
         user="0:0", write=LXC),
    Case("lxc without devices", "container-without-device", "pct set CONTAINER --dev0 /dev/kfd,gid=992", gone=KFD,
         write={"proc/1/environ": "TERM=linux\0container=lxc\0"}),
    Case("docker with other users", "user-namespace", "docker run --userns host", kfd=("0660", "65534:65534"),
         write={".dockerenv": "", "proc/self/uid_map": "0 100000 65536\n"}),
    Case("a user namespace has the devices of the host", "no-device-file", "udevadm", gone=KFD,
         write={"proc/self/uid_map": "0 1000 1\n"}),
    Case("a pod without devices", "container-without-device",
         "kubectl set resources deployment NAME --limits=amd.com/gpu=1", gone=KFD,
         variables={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
    Case("podman without devices", "container-without-device", "podman run --runtime crun", gone=KFD,
         write={"run/.containerenv": ""}),
    Case("a container of systemd without devices", "container-without-device", NOTHING, gone=KFD,
         variables={"container": "systemd-nspawn"}),
    Case("little memory may be locked", "locked-memory", "sudo prlimit --pid $$ --memlock=unlimited:unlimited",
         write=LIMITED),
    Case("little memory may be locked in docker", "locked-memory", "docker run --ulimit memlock=-1 IMAGE",
         write={**LIMITED, ".dockerenv": ""}),
    Case("the compiler of another rocm", "other-compiler", NOTHING, (the_compiler_of_another_rocm,), write=ROCM_6,
         variables={"PATH": "/usr/local/bin:/usr/bin"}),
    Case("torchvision for cuda", "other-build",
         "pip uninstall --yes torchvision && pip install --index-url INDEX torchvision torch==2.9.1+",
         packages=(VISION,)),
    Case("torchaudio that needs libraries of cuda", "other-build", "torchaudio torch==2.9.1+rocm7.1.0",
         (torchaudio_that_needs_libraries_of_cuda,)),
    Case("torchvision for the processor", "other-build", "torchvision",
         packages=(("torchvision", "0.24.0+cpu", {"torchvision/_C.so": "no ELF"}, ()),)),
    Case("xformers for cuda", "other-build", "xformers", packages=(("xformers", "0.0.33", {
        "xformers/cpp_lib.json": json.dumps(XFORMERS), "xformers/_C.so": "no ELF"}, ()),)),
    Case("onnxruntime for cuda", "other-build", "onnxruntime-migraphx", (remove_torch,), packages=(
        ("onnxruntime-gpu", "1.23.0", {"onnxruntime/capi/libonnxruntime_providers_cuda.so": "no ELF"}, ()),)),
    Case("torch and torchvision for cuda", "cuda-torch",
         "pip install --force-reinstall --index-url INDEX torch torchvision", (remove_torch,),
         packages=(CUDA_TORCH, VISION)),
    Case("torchvision of another torch", "needs-other-torch",
         "pip install --upgrade --index-url INDEX torchvision torch==2.9.1+rocm7.1.0", (torchvision_of_another_torch,)),
    Case("two tritons", "one-file-two-packages",
         "pip uninstall --yes triton triton-rocm && pip install --no-deps", packages=TRITONS),
    Case("a triton for cuda over that for rocm", "one-file-two-packages",
         "pip uninstall --yes triton triton-rocm && pip install --no-deps", packages=OVER_ROCM),
    Case("container without devices", "container-without-device", "docker run --device /dev/kfd", gone=KFD,
         write={".dockerenv": ""}),
    Case("override is a name", "override-malformed", "unset HSA_OVERRIDE_GFX_VERSION",
         variables={"HSA_OVERRIDE_GFX_VERSION": "gfx1100"}),
    Case("the driver is busy", "device-fails", "dmesg", (the_driver_is_busy,)),
    Case("rocm path", "rocm-path", "unset ROCM_PATH", variables={"ROCM_PATH": "/opt/rocm"}),
    Case("two names of a mask", "masks-differ", "unset CUDA_VISIBLE_DEVICES", gpus=(SECOND,),
         variables={"HIP_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": "0"}),
    Case("preloaded runtime", "preloaded", "unset LD_PRELOAD",
         variables={"LD_PRELOAD": "/opt/rocm/lib/libamdhip64.so.6"}),
    Case("another torch comes first", "shadowed", "unset PYTHONPATH", write={"srv/sources/torch/__init__.py": ""},
         variables={"PYTHONPATH": "/srv/sources"}),
    Case("the system knows another rocm", "linker-configuration", "",
         write={"etc/ld.so.conf.d/10-rocm.conf": "/opt/rocm-6.4.0/lib\n"}),
    Case("a package is there twice", "installed-twice", "torch==2.9.1+rocm7.1.0",
         packages=(("torch", "2.8.0+rocm6.4", {}, ()),)),
    Case("several gpus behind an iommu", "iommu", "iommu=pt", gpus=(SECOND,), write=IOMMU),
    Case("no render node", "render-node-missing", "ls -l /dev/dri", gone=("dev/dri/renderD128",)),
    Case("a gpu for virtual machines", "gpu-reserved", "driverctl unset-override 0000:0a:00.0",
         pci=(0x744C, "vfio-pci"), write={"etc/driverctl.d/0000:0a:00.0": "vfio-pci\n"}),
    Case("a gpu that libvirt took", "gpu-reserved", "tee /sys/bus/pci/drivers_probe", pci=(0x744C, "vfio-pci"),
         write={"sys/bus/pci/devices/0000:0a:00.0/driver_override": "vfio-pci\n"}),
    Case("all gpus of a product for virtual machines", "gpu-reserved",
         "/etc/modprobe.d/vfio.conf && sudo update-initramfs -u", pci=(0x744C, "vfio-pci"),
         write={"etc/modprobe.d/vfio.conf": "options vfio-pci ids=1002:744c,1002:ab30\n"}),
    Case("the kernel line gives gpus to virtual machines", "gpu-reserved",
         "vfio-pci.ids=1002:744C//' /etc/default/grub && sudo update-grub", pci=(0x744C, "vfio-pci"),
         write={"proc/cmdline": "root=/dev/sda1 vfio-pci.ids=1002:744C quiet\n"}),
    Case("the host of sr iov", "gpu-reserved", NOTHING, pci=(0x744C, "gim")),
    Case("the driver lacks firmware", "driver-refuses", "dmesg", (a_folder_of_firmware,), pci=(0x744C, None)),
    Case("two masks that work", "two-masks", "unset ROCR_VISIBLE_DEVICES", gpus=(SECOND,),
         variables={"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}),
    Case("index of another family", "other-index", "unset PIP_INDEX_URL",
         variables={"PIP_INDEX_URL": "https://me:secret@example.com/v2/gfx94X-dcgpu/"}),
    Case("configured index of another family", "other-index", "pip config --user unset global.extra-index-url",
         write={"home/me/.config/pip/pip.conf": PIP_INDEX}, variables={"HOME": "/home/me"}),
    Case("old library of conda", "old-cxx-library", "conda install", (old_library_of_conda,)),
    Case("old kernel without targets", "not-read", "", (old_kernel_without_targets,)),
    Case("a copy without sys", "not-read", "", (nothing_of_the_kernel,)),
    Case("udev made nothing", "no-device-file", "udevadm", gone=KFD),
    Case("a library is missing", "library-not-found", "", (a_library_is_missing,)),
    Case("torch without rocm", "rocm-libraries-missing", "'rocm[libraries]==7.1.0'", (torch_without_rocm,)),
    Case("torch with the runtime of another rocm", "rocm-libraries-missing", "'rocm[libraries]==7.1.0'",
         (torch_with_the_runtime_of_another_rocm,)),
]  # fmt: skip
