"""Indexes of small wheels, each made after a thread in which people asked what to install."""

from __future__ import annotations

import struct
import tomllib
import zipfile
from pathlib import Path

from test_chooser import OWN_TAG, write_wheel
from test_chooser_lines import STRANGER

LINUX = "py3-none-manylinux_2_28_x86_64"

COMPILED = f"{OWN_TAG}-{OWN_TAG}-manylinux_2_28_x86_64"

ROWS = tomllib.loads((Path(__file__).parents[2] / "data/targets.toml").read_text())["target"]

MACHINES = {row["name"]: row["elf-machine"] for row in ROWS if "elf-machine" in row}


def write(
    folder: Path, name: str, version: str, *needs: str, tag: str = COMPILED, extras: dict[str, str] | None = None,
    code: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """A wheel; `extras` require one package each, `code` are targets of code objects in it."""
    lines = [f"Requires-Dist: {need}" for need in needs]
    for extra, need in (extras or {}).items():
        lines += [f"Provides-Extra: {extra}", f'Requires-Dist: {need}; extra == "{extra}"']
    path = write_wheel(folder, name, version, tag, *lines)
    with zipfile.ZipFile(path, "a") as archive:
        for target in code:
            ident = b"\x7fELF" + bytes([2, 1, 1, 64, 2]) + bytes(7)
            rest = (3, 224, 1, 0, 0, 0, MACHINES[target], 64, 56, 0, 64, 0, 0)
            archive.writestr(f"{name}_{target}.hsaco", ident + struct.pack("<HHIQQQIHHHHHH", *rest))


def write_rocm(folder: Path, rocm: str, targets: tuple[str, ...], promised: tuple[str, ...] = ()) -> None:
    """ROCm as AMD divides it by GPU; targets that are only promised have no package."""
    write(folder, "rocm-sdk-core", rocm, tag=LINUX)
    write(folder, "rocm-sdk-libraries", rocm, f"rocm-sdk-core=={rocm}", tag=LINUX)
    extras = {f"device-{target}": f"rocm-sdk-device-{target}=={rocm}" for target in (*targets, *promised)}
    extras["libraries"] = f"rocm-sdk-libraries=={rocm}"
    write(folder, "rocm", rocm, f"rocm-sdk-core=={rocm}", tag="py3-none-any", extras=extras)
    for target in targets:
        write(folder, f"rocm-sdk-device-{target}", rocm, tag=LINUX, code=(target,))


def write_torch(
    folder: Path, version: str, rocm: str, targets: tuple[str, ...], *needs: str, tag: str = COMPILED,
    promised: tuple[str, ...] = (),
) -> None:  # fmt: skip
    full = f"{version}+rocm{rocm}"
    extras = {f"device-{target}": f"amd-torch-device-{target}=={full}" for target in (*targets, *promised)}
    write(folder, "torch", full, f"rocm[libraries]=={rocm}", *needs, tag=tag, extras=extras)
    for target in targets:
        write(folder, f"amd-torch-device-{target}", full, tag=LINUX, code=(target,))


def write_pair(folder: Path, version: str, rocm: str, targets: tuple[str, ...], *needs: str, **more: object) -> None:
    write_rocm(folder, rocm, targets, more.get("promised", ()))
    write_torch(folder, version, rocm, targets, *needs, **more)


def a_card(own: Path, _: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx1103", "gfx1150"))


def other_code(own: Path, _: Path) -> None:
    write(own, "torch", "2.9.1+rocm7.1", code=("gfx942",))


def foreign_part(own: Path, _: Path) -> None:
    """torch's package for the GPU has the code for another one."""
    write_rocm(own, "7.1.0", ("gfx1100",))
    write_torch(own, "2.9.1", "7.1.0", (), promised=("gfx1100",))
    write(own, "amd-torch-device-gfx1100", "2.9.1+rocm7.1.0", tag=LINUX, code=("gfx942",))


def empty_part(own: Path, _: Path) -> None:
    write_rocm(own, "7.1.0", ("gfx1100",))
    write_torch(own, "2.9.1", "7.1.0", (), promised=("gfx1100",))
    write(own, "amd-torch-device-gfx1100", "2.9.1+rocm7.1.0", tag="py3-none-any")


def nights(own: Path, _: Path) -> None:
    """Three nights; vision is missing on the last, and torch's part on the second."""
    for night in ("a1", "a2", "a3"):
        rocm = f"7.2.0{night}"
        write_rocm(own, rocm, ("gfx1151",))
        targets, promised = ((), ("gfx1151",)) if night == "a2" else (("gfx1151",), ())
        write_torch(own, f"2.10.0{night}", rocm, targets, promised=promised)
        if night != "a3":
            need = f"torch==2.10.0{night}+rocm{rocm}"
            write(own, "torchvision", f"0.25.0{night}+rocm{rocm}", need, code=("gfx1151",))


def newer_rocm(own: Path, _: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx1100",))
    write_rocm(own, "7.2.0", ("gfx1100",))


def missing_part(own: Path, _: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx1100",))
    write_rocm(own, "7.2.0", ("gfx1100",))
    write_torch(own, "2.10.0", "7.2.0", (), promised=("gfx1100",))


def no_parts(own: Path, _: Path) -> None:
    write_rocm(own, "7.2.0", (), ("gfx1100",))
    write_torch(own, "2.10.0", "7.2.0", (), promised=("gfx1100",))


def old_python(own: Path, _: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx1151",), tag="cp313-cp313-manylinux_2_28_x86_64")


def cuda_abi3(own: Path, public: Path) -> None:
    write(own, "vllm", "0.11+rocm7.1", tag="cp312-cp312-manylinux_2_28_x86_64", code=("gfx942",))
    write(public, "vllm", "0.12", "nvidia-cublas-cu12", tag="cp38-abi3-manylinux_2_28_x86_64")
    write(public, "nvidia-cublas-cu12", "12.8", tag=LINUX)


def cuda_only(own: Path, public: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx942",))
    write(public, "vllm", "0.12", "torch", "nvidia-cublas-cu12", tag="cp38-abi3-manylinux_2_28_x86_64")
    write(public, "nvidia-cublas-cu12", "12.8", tag=LINUX)


def needs_filelock(own: Path, public: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx942",), "filelock")
    write(public, "filelock", "3.20", tag="py3-none-any")


def other_family(own: Path, _: Path) -> None:
    write(own, "torch", "2.9.1+rocm7.1", "rocm-sdk-libraries-gfx94X-dcgpu")
    write(own, "rocm-sdk-libraries-gfx94X-dcgpu", "7.1.0", tag=LINUX, code=("gfx942",))


def own_family(own: Path, _: Path) -> None:
    write(own, "torch", "2.9.1+rocm7.1", "rocm-sdk-libraries-gfx110X-all", code=("gfx1100",))
    write(own, "rocm-sdk-libraries-gfx110X-all", "7.1.0", tag=LINUX, code=("gfx1100", "gfx1101"))


def new_glibc(own: Path, _: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx942",), tag=f"{OWN_TAG}-{OWN_TAG}-manylinux_2_39_x86_64")


def newest_glibc(own: Path, _: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx942",), tag=f"{OWN_TAG}-{OWN_TAG}-manylinux_2_44_x86_64")


def cpu_build(own: Path, _: Path) -> None:
    write(own, "llama-cpp", "1.0+rocm7.1")


def strangers(own: Path, public: Path) -> None:
    """The same versions with a build tag, and higher ones, where anybody can register names."""
    write_pair(own, "2.9.1", "7.1.0", ("gfx1100",), "helper")
    write(public, "helper", "1.0", tag="py3-none-any")
    for path in list(own.glob("*.whl")):
        name, version = path.name.split("-")[:2]
        for other, tag in ((version, f"99-{LINUX}"), ("99.0", "py3-none-any")):
            write_wheel(public, name.replace("_", "-"), other, tag, STRANGER)


def closed_strangers(own: Path, public: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx1100",))
    for name, version in (("torch", "2.9.1+rocm7.1.0"), ("rocm", "7.1.0"), ("rocm-sdk-core", "7.1.0")):
        write_wheel(public, name, version, f"99-{LINUX}", STRANGER)


def registered_part(own: Path, public: Path) -> None:
    no_parts(own, public)
    for name, version in (("rocm-sdk-device-gfx1100", "7.2.0"), ("amd-torch-device-gfx1100", "2.10.0+rocm7.2.0")):
        write_wheel(public, name, version, LINUX, STRANGER)


def windows(own: Path, _: Path) -> None:
    write(own, "torch", "2.9.1+rocm7.1", tag="cp312-cp312-win_amd64", code=("gfx1100",))


def generic(own: Path, _: Path) -> None:
    write_rocm(own, "7.2.0", ("gfx1201", "gfx12-generic", "gfx1100"))


def pytorch(own: Path, _: Path) -> None:
    for version in ("2.9.0+rocm6.4", "2.10.0+rocm7.0"):
        write(own, "torch", version, code=("gfx942", "gfx1100"))


def withdrawn(own: Path, _: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx1100",))
    write_pair(own, "2.10.0", "7.2.0", ("gfx1100",))
    (own / "index-status.toml").write_text("[[yanked]]\nproject = 'torch'\nversion = '2.10.0+rocm7.2.0'\n")


def two_cards(own: Path, _: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx942", "gfx1100"))
    write_pair(own, "2.10.0", "7.2.0", ("gfx942",))


def a_loop(own: Path, _: Path) -> None:
    write(own, "torch", "2.9.1+rocm7.1", "torchvision", code=("gfx1100",))
    write(own, "torchvision", "0.2+rocm7.1", "torch", code=("gfx1100",))


def half(own: Path, _: Path) -> None:
    """torch has its part, and the torchvision that is built on it no code at all."""
    write_pair(own, "2.9.1", "7.1.0", ("gfx1100",))
    write(own, "torchvision", "0.24+rocm7.1.0", "torch==2.9.1+rocm7.1.0")


def pair(version: str, rocm: str, *targets: str) -> set[str]:
    found = {
        f"torch-{version}+rocm{rocm}",
        *(f"{name}-{rocm}" for name in ("rocm", "rocm-sdk-core", "rocm-sdk-libraries")),
    }
    parts = {f"amd-torch-device-{target}-{version}+rocm{rocm}" for target in targets}
    return found | parts | {f"rocm-sdk-device-{target}-{rocm}" for target in targets}
