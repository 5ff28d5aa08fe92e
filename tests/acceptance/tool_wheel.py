"""A wheel of rocwheel itself around the binary under test, as maturin lays one out. The wheel that
scripts/dist makes takes minutes to compile, and is for the long run."""

import base64
import hashlib
import stat
import zipfile
from pathlib import Path

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
    info = f"rocwheel-{version}.dist-info"
    metadata = f"Metadata-Version: 2.4\nName: rocwheel\nVersion: {version}\nRequires-Python: >=3.8\n"
    members = {
        f"rocwheel-{version}.data/scripts/rocwheel": program.read_bytes(),
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(),
    }
    program.unlink()
    record = ""
    for name, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    path = folder / f"rocwheel-{version}-{TAG}.whl"
    # Stored: a debug binary is packed and unpacked longer than the tests of it run.
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            member = zipfile.ZipInfo(name)
            mode = 0o755 if "/scripts/" in name else 0o644
            member.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(member, data)
    return path


def pip_of(tool: Path, folder: Path) -> dict[str, str]:
    """Variables with which pip takes the wheel for `rocwheel`, whatever an index has by that
    name."""
    constraint = folder / "constraint.txt"
    constraint.write_text(f"rocwheel @ {tool.as_uri()}\n")
    return {"PIP_CONSTRAINT": str(constraint)}
