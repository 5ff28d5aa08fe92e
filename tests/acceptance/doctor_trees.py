"""Copies of machines with AMD GPUs, as `rocwheel doctor --root` reads them, made by code.

The numbers of the nodes are those that kernels printed on real machines: of an RX 7900 XTX, an
MI300X in the modes SPX and CPX, an MI210, and a processor with a GPU inside beside a discrete one.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from small_wheels import install

from command import Rocwheel
from trees import put

CPU = {"cpu_cores_count": 24, "simd_count": 0, "mem_banks_count": 1, "gfx_target_version": 0, "vendor_id": 0}

# Of the keys of a real node those that matter, and some that a reader has to ignore.
COLUMNS = "target simd_count simd_per_cu gfx_target_version device_id location_id drm_render_minor unique_id memory"
ROWS = """
gfx1100    192 2 110000 29772   768 128 11673270660693242239  25753026560
gfx1151     80 2 110501  5510 49664 128                    0 122406567936
gfx1152     16 2 110502  4372 49664 128                    0  16377958400
gfx1036      4 2 100306  5710  4096 129                    0  16377958400
gfx90a     416 4  90010 29711 25344 128  1801979520617338022  68702699520
gfx942    1216 4  90402 29857 18176 128  4376936076086227261 206141652992
gfx942-cpx 152 4  90402 29857  1280 128 16404946649897475633  25753026560
"""
GPUS: dict[str, dict[str, int]] = {
    row.split()[0]: dict(zip(COLUMNS.split()[1:], map(int, row.split()[1:]), strict=True))
    for row in ROWS.strip().splitlines()
}
GPUS["gfx1100"] |= {"caches_count": 206, "simd_id_base": 2147488032, "lds_size_in_kb": 64, "num_xcc": 1}
GPUS["gfx90a"] |= {"caches_count": 217, "hive_id": 12609507387757274807, "num_xcc": 1}
GPUS["gfx942"] |= {"caches_count": 626, "hive_id": 10631624818852212319, "num_xcc": 8}
GPUS["gfx942-cpx"] |= {"caches_count": 80, "hive_id": 15188982192727901047, "num_xcc": 1}

LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max locked memory         {locked:<20} {locked:<20} bytes     \n"
)
RENDER = 992
VERSION = "7.1.0"


@dataclass
class Machine:
    """A copy of a machine in `root`, and a virtual environment beside it."""

    root: Path
    venv: Path
    notes: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    user: str = f"1000:1000,{RENDER}"
    # Domain, bus and device of each node.
    cards: dict[int, str] = field(default_factory=dict)

    @property
    def site(self) -> Path:
        return self.venv / "lib/python3.12/site-packages"

    def write(self, path: str, content: str | bytes = "") -> Path:
        file = self.root / path
        put(file, content if isinstance(content, bytes) else content.encode())
        return file

    def note(self, path: str, **values: str) -> None:
        """What a copy cannot hold: an error, a mode, an owner."""
        rows = [f'{name} = "{value}"\n' for name, value in {"path": path, **values}.items()]
        self.notes.append("[[path]]\n" + "".join(rows))

    def device(self, path: str, mode: str = "0660", owner: str = f"0:{RENDER}") -> None:
        self.write(path)
        self.note(path, mode=mode, owner=owner)

    def node(self, number: int, keys: dict[str, int], gpu_id: int) -> Path:
        folder = f"sys/class/kfd/kfd/topology/nodes/{number}"
        memory = keys.get("memory", 0)
        lines = [f"{key} {value}\n" for key, value in keys.items() if key != "memory"]
        self.write(f"{folder}/properties", "".join(lines))
        self.write(f"{folder}/gpu_id", f"{gpu_id}\n")
        if memory:
            self.write(f"{folder}/mem_banks/0/properties", f"heap_type 1\nsize_in_bytes {memory}\nflags 0\n")
        return self.root / folder

    def gpu(self, number: int, kind: str, *, device: bool = True, **changed: int) -> str:
        """A node of a GPU with its device on the bus and its render node; returns the address."""
        keys = {"cpu_cores_count": 0, "vendor_id": 4098, "domain": 0, "local_mem_size": 0, **GPUS[kind], **changed}
        self.node(number, keys, 40000 + number)
        location = keys["location_id"]
        card = f"{keys['domain']:04x}:{location >> 8:02x}:{location >> 3 & 31:02x}"
        before = self.cards.get(number, card)
        if before != card:
            shutil.rmtree(self.root / f"sys/bus/pci/devices/{before}.0", ignore_errors=True)
        self.cards[number] = card
        address = f"{card}.{location & 7}"
        if location & 7 == 0:
            self.pci(address, keys["device_id"])
        if kind not in ("gfx1036", "gfx1151", "gfx1152"):
            self.write(f"sys/bus/pci/devices/{card}.0/mem_info_vram_vendor", "samsung\n")
        else:
            self.write(f"sys/bus/pci/devices/{address}/mem_info_vram_total", "536870912\n")
            self.write(f"sys/bus/pci/devices/{address}/mem_info_gtt_total", "16377958400\n")
        if device:
            self.device(f"dev/dri/renderD{keys['drm_render_minor']}")
        return address

    def pci(self, address: str, device: int, driver: str | None = "amdgpu") -> None:
        folder = f"sys/bus/pci/devices/{address}"
        values = {"vendor": "0x1002", "device": f"{device:#06x}", "class": "0x030000", "revision": "0xc8"}
        for name, value in values.items():
            self.write(f"{folder}/{name}", value + "\n")
        link = self.root / folder / "driver"
        if driver and not link.is_symlink():
            link.symlink_to(f"../../../../bus/pci/drivers/{driver}")

    def package(
        self, name: str, version: str = VERSION, *, requires: tuple[str, ...] = (), **files: str | bytes
    ) -> Path:
        """An installed package with a RECORD; the names of files are paths."""
        return install(self.site, name, version, files, requires)

    def rocm(
        self, *targets: str, version: str = VERSION, offered: tuple[str, ...] = ("gfx1100", "gfx942", "gfx90a")
    ) -> None:
        """A complete ROCm with the kernels of some targets."""
        lines = "".join(f"AVAILABLE_TARGET_FAMILIES.append({target!r})\n" for target in offered)
        self.package("rocm", version, **{"rocm_sdk/__init__.py": "", "rocm_sdk/_dist_info.py": lines})
        self.package("rocm-sdk-core", version, **{"_rocm_sdk_core/__init__.py": ""})
        self.package("rocm-sdk-libraries", version, **{"_rocm_sdk_libraries/__init__.py": ""})
        for target in targets:
            self.package(
                f"rocm-sdk-device-{target}",
                version,
                **{
                    f"_rocm_sdk_libraries/_device_{target}.py": f"TARGET = '{target}'\n",
                    f"_rocm_sdk_libraries/lib/rocblas/library/TensileLibrary_lazy_{target}.dat": "kernels",
                },
            )

    def torch(self, *targets: str, requires: tuple[str, ...] = (), library: bytes = b"no ELF") -> None:
        files: dict[str, str | bytes] = {"torch/__init__.py": "", "torch/version.py": "hip = '7.1'\n"}
        files["torch/lib/libtorch_hip.so"] = library
        files |= {f"torch/lib/rocblas/library/TensileLibrary_lazy_{target}.dat": "kernels" for target in targets}
        self.package("torch", "2.9.1+rocm7.1.0", requires=requires, **files)

    def status(self) -> None:
        user, groups = self.user.split(":")
        first = groups.split(",")[0]
        self.write(
            "proc/self/status",
            f"Name:\tbash\nUid:\t{user}\t{user}\t{user}\t{user}\nGid:\t{first}\t{first}\t{first}\t{first}\n"
            f"Groups:\t{groups.replace(',', ' ')}\n",
        )

    def finish(self) -> None:
        """Writes what is known at the end: variables, user, and what a copy cannot hold."""
        self.status()
        self.write("proc/self/environ", "".join(f"{name}={value}\0" for name, value in self.variables.items()))
        self.write("doctor.toml", "\n".join(self.notes))

    def remove(self, path: str) -> None:
        (self.root / path).unlink()
        self.notes = [note for note in self.notes if f'path = "{path}"' not in note]


def make_machine(folder: Path, *gpus: str) -> Machine:
    """A machine on which everything works: these GPUs, driver, device files, groups, and a virtual
    environment without packages."""
    machine = Machine(folder / "root", folder / "venv")
    machine.write("sys/module/ext4/refcnt", "1\n")
    machine.site.mkdir(parents=True)
    (machine.venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.3\n")
    machine.write("proc/sys/kernel/osrelease", "6.12.48+deb13-amd64\n")
    machine.write("proc/version", "Linux version 6.12.48+deb13-amd64 (debian-kernel@lists.debian.org)\n")
    machine.write("proc/self/limits", LIMITS.format(locked="8388608"))
    machine.write("etc/debian_version", "13.1\n")
    machine.write("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nme:x:1000:1000::/home/me:/bin/bash\n")
    machine.write("etc/group", f"root:x:0:\nvideo:x:44:me\nrender:x:{RENDER}:me\nme:x:1000:\n")
    if gpus:
        machine.write("sys/module/amdgpu/initstate", "live\n")
        machine.write("sys/class/kfd/kfd/topology/generation_id", "2\n")
        machine.node(0, CPU, 0)
        machine.device("dev/kfd")
    for number, kind in enumerate(gpus, 1):
        machine.gpu(number, kind, **({"drm_render_minor": 127 + number} if number > 1 else {}))
    return machine


def make_cpx(folder: Path, count: int) -> Machine:
    """MI300X in the mode CPX: eight partitions for each card, one `unique_id` for each card, and
    two processors."""
    machine = make_machine(folder, "gfx942-cpx")
    machine.node(1, {**CPU, "cpu_cores_count": 96}, 0)
    machine.write("sys/bus/pci/devices/0000:05:00.0/current_compute_partition", "CPX\n")
    for partition in range(count):
        card, function = divmod(partition, 8)
        bus = 5 + 16 * card
        machine.gpu(
            2 + partition,
            "gfx942-cpx",
            location_id=(bus << 8) + function,
            drm_render_minor=128 + partition,
            unique_id=16404946649897475633 + card,
        )
        machine.write(f"sys/bus/pci/devices/0000:{bus:02x}:00.0/current_compute_partition", "CPX\n")
    return machine


def make_healthy_machine(folder: Path) -> Machine:
    """A machine with one GPU on which everything works."""
    machine = make_machine(folder, "gfx1100")
    machine.rocm("gfx1100")
    machine.torch("gfx1100", requires=(f"rocm[libraries]=={VERSION}",))
    return machine


def diagnose(rocwheel: Rocwheel, machine: Machine, *arguments: object, expect: int = 0) -> dict:
    machine.finish()
    return rocwheel.json("doctor", "--root", machine.root, "--venv", machine.venv, *arguments, expect=expect)


def answered(rocwheel: Rocwheel, machine: Machine, *arguments: object) -> tuple[int, dict]:
    """The exit code, whatever it is, and the report."""
    machine.finish()
    command = [rocwheel.binary, "--json", "doctor", "--root", machine.root, "--venv", machine.venv, *arguments]
    said = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert said.stdout, said.stderr
    return said.returncode, json.loads(said.stdout)


def named(report: dict) -> dict[str, dict]:
    return {finding["name"]: finding for finding in report["findings"]}
