"""A wheel of rocwheel itself around the binary under test, as maturin lays one out. The wheel that
scripts/dist makes takes minutes to compile, and is for the long run."""

from pathlib import Path

from small_wheels import pack

from command import Rocwheel, run

TAG = "py3-none-manylinux_2_36_x86_64"


def version_of(rocwheel: Rocwheel) -> str:
    return rocwheel.run("--version").stdout.split()[1]


def write_tool_wheel(rocwheel: Rocwheel, folder: Path) -> Path:
    """Writes the wheel into a folder, without symbols, which are most of a debug binary."""
    folder.mkdir(parents=True, exist_ok=True)
    version = version_of(rocwheel)
    program = folder / "program"
    run("strip", "-o", program, rocwheel.binary)
    members = {f"rocwheel-{version}.data/scripts/rocwheel": program.read_bytes()}
    program.unlink()
    metadata = f"Metadata-Version: 2.4\nName: rocwheel\nVersion: {version}\nRequires-Python: >=3.8\n"
    # Stored: a debug binary is packed and unpacked longer than the tests of it run.
    return pack(folder, "rocwheel", version, members, tag=TAG, metadata=metadata, hashed=True)


def pip_of(tool: Path, folder: Path) -> dict[str, str]:
    """Variables with which pip takes the wheel for `rocwheel`, whatever an index has by that
    name."""
    constraint = folder / "constraint.txt"
    constraint.write_text(f"rocwheel @ {tool.as_uri()}\n")
    return {"PIP_CONSTRAINT": str(constraint)}
