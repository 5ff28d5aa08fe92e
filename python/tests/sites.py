"""A site-packages folder with ROCm packages, made without an installer, and operations on it."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from fixtures import PYTHON_FOLDER, TEMPLATE, VERSION, Wheel, clean_environment, devel_tar, pure_files, tail

# In an order that TheRock's current reader cannot expand: links before their files, no folder
# before its contents.
DEVEL_MEMBERS: list[tuple[str, bytes | str | None]] = [
    ("bin/amdclang", "../lib/llvm/bin/clang"),
    ("lib/libamdhip64.so", "libamdhip64.so.6"),
    ("llvm", "lib/llvm"),
    ("lib/libamdhip64.so.6.4.0", "libamdhip64.so.6"),
    ("lib/libamdhip64.so.6", "../../_rocm_sdk_core/lib/libamdhip64.so.6"),
    ("lib/librocblas.so.4", "../../_rocm_sdk_libraries/lib/librocblas.so.4"),
    ("lib/librocblas.so", "librocblas.so.4"),
    ("bin/hipconfig", "../../_rocm_sdk_core/bin/hipconfig"),
    ("lib/cmake/hip/hip-config.cmake", b"# hip\n"),
    ('include/odd, "name".h', b"int odd;\n"),
    ("include/hip/hip_runtime.h", b"int hip;\n"),
    ("lib/python/tool.py", b"print('tool')\n"),
    ("lib/llvm/bin/clang", b"#!/bin/sh\necho clang\n"),
    ("share/empty", None),
    ("__init__.py", b""),
    ("include/top.h", b"int top;\n"),
]


class Site:
    """A site-packages folder with core and devel, unpacked like an installer does; Python imports
    from there."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.devel = directory / "_rocm_sdk_devel"
        source = PYTHON_FOLDER / "rocm" / "src" / "rocm_sdk"
        shutil.copytree(source, directory / "rocm_sdk", ignore=shutil.ignore_patterns("__pycache__"))
        lines = tail("gfx1100", "gfx942", topology=directory / "no-gpu")
        (directory / "rocm_sdk" / "_dist_info.py").write_text(TEMPLATE.read_text() + lines)
        core: dict[str, bytes | Path] = {
            "_rocm_sdk_core/__init__.py": b"",
            "_rocm_sdk_core/lib/libamdhip64.so.6": b"hip",
            "_rocm_sdk_core/bin/hipconfig": b"#!/bin/sh\n",
        }
        self.unpack(Wheel("rocm-sdk-core", files=core))

    def unpack(self, wheel: Wheel) -> None:
        info = f"{wheel.name.replace('-', '_')}-{wheel.version}.dist-info"
        members = dict(wheel.files)
        members[f"{info}/METADATA"] = f"Name: {wheel.name}\nVersion: {wheel.version}\n".encode()
        rows = []
        for name, content in members.items():
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.read_bytes())
            rows.append(f"{name},{hash_row(path.read_bytes())},{path.stat().st_size}\n")
        record = self.directory / info / "RECORD"
        record.write_text("".join(rows) + f"{info}/RECORD,,\n")

    def unpack_devel(self, members: list[tuple[str, bytes | str | None]] = DEVEL_MEMBERS) -> None:
        files = pure_files("rocm_sdk_devel", "")
        files["rocm_sdk_devel/_devel.tar"] = devel_tar(members)
        self.unpack(Wheel("rocm-sdk-devel", files=files))

    def unpack_libraries(self) -> None:
        files: dict[str, bytes | Path] = {
            "_rocm_sdk_libraries/__init__.py": b"",
            "_rocm_sdk_libraries/lib/librocblas.so.4": b"blas",
        }
        self.unpack(Wheel("rocm-sdk-libraries", files=files))

    def record(self, name: str = "rocm_sdk_devel") -> list[str]:
        path = self.directory / f"{name}-{VERSION}.dist-info" / "RECORD"
        with open(path, newline="") as file:
            return [row[0] for row in csv.reader(file)]

    def start_init(self, *options: str, prefix: tuple[str, ...] = (), **variables: str) -> subprocess.Popen[str]:
        """Starts `rocm-sdk init`; `prefix` is a command that runs it."""
        command = [*prefix, sys.executable, "-m", "rocm_sdk", "init", *options]
        environment = clean_environment(PYTHONPATH=str(self.directory), PYTHONDONTWRITEBYTECODE="1", **variables)
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True, cwd="/")

    def init(self, *options: str, prefix: tuple[str, ...] = (), **variables: str) -> tuple[int, str, str]:
        """Runs `rocm-sdk init`. Returns exit status, stdout and stderr."""
        process = self.start_init(*options, prefix=prefix, **variables)
        output, errors = process.communicate(timeout=120)
        return process.returncode, output, errors

    def verify(self, *options: str) -> dict[str, Any]:
        """The result of `rocm-sdk init --verify --json`."""
        status, output, errors = self.init("--verify", "--json", *options)
        found: dict[str, Any] = json.loads(output)
        assert status == (1 if found["problems"] else 0), errors
        return found

    def problems(self) -> dict[str, str]:
        """The problems that `--verify` finds: kinds by path in the tree."""
        return {
            problem["path"].removeprefix("_rocm_sdk_devel/"): problem["kind"] for problem in self.verify()["problems"]
        }

    def receipt(self) -> dict[str, Any]:
        """The list that the expansion left."""
        document: dict[str, Any] = json.loads((self.devel / ".expanded.json").read_text())
        return document

    def snapshot(self) -> dict[str, tuple[str, bytes | str]]:
        """Kind and contents of every file and link of the tree, except the list."""
        found: dict[str, tuple[str, bytes | str]] = {}
        for path in self.devel.rglob("*"):
            name = path.relative_to(self.devel).as_posix()
            if path.is_symlink():
                found[name] = ("link", os.readlink(path))
            elif path.is_file() and "__pycache__" not in name and name != ".expanded.json":
                found[name] = ("file", path.read_bytes())
        return found


def hash_row(content: bytes) -> str:
    """The hash of a file in RECORD's form."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
