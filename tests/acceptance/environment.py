"""A fresh virtual environment that pip or uv installs into from a local directory."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from command import TOOLS, Result, run
from trees import files


@functools.cache
def with_pip(interpreter: str) -> tuple[Path, tempfile.TemporaryDirectory[str]]:
    """An environment as `python -m venv` makes it, with pip, until the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="rocwheel-venv-")
    run(interpreter, "-m", "venv", folder.name)
    return Path(folder.name), folder


def create_venv(prefix: Path, interpreter: str = sys.executable) -> None:
    """What `python -m venv` makes. It installs pip each time, which takes seconds: here the pip of
    the first is copied."""
    run(interpreter, "-m", "venv", "--without-pip", prefix)
    template, _ = with_pip(interpreter)
    (site,) = template.glob("lib/python3.*/site-packages")
    shutil.copytree(site, prefix / site.relative_to(template), dirs_exist_ok=True)
    (record,) = (prefix / site.relative_to(template)).glob("pip-*.dist-info/RECORD")
    rows = [row for row in record.read_text().splitlines() if "/bin/pip" not in row]
    for script in template.glob("bin/pip*"):
        copy = prefix / "bin" / script.name
        shutil.copy(script, copy)
        text = script.read_bytes().replace(bytes(template), bytes(prefix))
        copy.write_bytes(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
        rows.append(f"../../../bin/{script.name},sha256={digest},{len(text)}")
    record.write_text("\n".join([*rows, ""]))


@dataclass(frozen=True)
class Environment:
    prefix: Path
    installer: str
    before: frozenset[str]

    @staticmethod
    def create(prefix: Path, installer: str, interpreter: str | None = None) -> Environment:
        """`installer` is pip or uv; the interpreter is the one that runs the tests unless another
        is named."""
        interpreter = interpreter or os.path.realpath(sys.executable)
        if installer == "pip":
            create_venv(prefix, interpreter)
        else:
            run(TOOLS / "uv", "venv", "--quiet", "--no-cache", "--python", interpreter, prefix)
        return Environment(prefix, installer, frozenset(files(prefix)))

    @property
    def python(self) -> Path:
        return self.prefix / "bin/python"

    @property
    def site(self) -> Path:
        (site,) = self.prefix.glob("lib/python3.*/site-packages")
        return site

    def install(self, dist: Path, *requirements: str) -> Result:
        """Installs from `dist` alone: no index, and no wheel that an earlier build left in a
        cache."""
        source = ["--no-index", "--find-links", dist]
        if self.installer == "pip":
            return run(self.python, "-m", "pip", "install", "--no-cache-dir", *source, *requirements)
        return run(TOOLS / "uv", "pip", "install", "--no-cache", "--python", self.python, *source, *requirements)

    def installed(self) -> dict[str, str]:
        """Names and versions of what is installed of our set."""
        listed = run(TOOLS / "uv", "pip", "list", "--quiet", "--python", self.python, "--format", "json").stdout
        return {one["name"]: one["version"] for one in json.loads(listed) if one["name"].startswith("rocm")}

    def check(self) -> Result:
        if self.installer == "pip":
            return run(self.python, "-m", "pip", "check")
        return run(TOOLS / "uv", "pip", "check", "--python", self.python)

    def uninstall(self, *names: str) -> Result:
        if self.installer == "pip":
            return run(self.python, "-m", "pip", "uninstall", "--yes", *names)
        return run(TOOLS / "uv", "pip", "uninstall", "--python", self.python, *names)

    def left_over(self) -> set[str]:
        """Files that were not there when the environment was new."""
        # `.lock` is uv's own.
        return files(self.prefix) - self.before - {".lock"}

    def run(self, *command: object, **options) -> Result:
        """Runs a program of the environment as an activated shell would find it."""
        path = f"{self.prefix / 'bin'}{os.pathsep}{os.environ['PATH']}"
        environment = {"PATH": path, "VIRTUAL_ENV": str(self.prefix), **options.pop("environment", {})}
        first, *rest = command
        return run(self.prefix / "bin" / str(first), *rest, environment=environment, **options)
