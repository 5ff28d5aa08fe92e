"""Small ROCm distributions that are generated: wheels, the selector's tree and source distribution,
and environments."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PYTHON_FOLDER = Path(__file__).resolve().parent.parent
SELECTOR = PYTHON_FOLDER / "rocm"
TEMPLATE = SELECTOR / "src" / "rocm_sdk" / "_dist_info.py"
VERSION = "6.4.0"
# The one of this environment is preferred to another one on PATH.
UV = next((str(path) for path in [Path(sys.executable).with_name("uv")] if path.exists()), "uv")


def tail(
    *targets: str,
    version: str = VERSION,
    topology: str | os.PathLike[str] | None = None,
    logical: str = "meta",
    default: str | None = None,
    without: tuple[str, ...] = ("hpc",),
) -> str:
    """The generated lines of `_dist_info.py` for the shape `split`, like those of the packaging
    tool."""
    lines = [f"__version__ = {version!r}", "PY_PACKAGE_SUFFIX_NONCE = ''"]
    lines.append('ALL_PACKAGES["libraries"].dist_package_template = "rocm-sdk-libraries"')
    lines += [f"ALL_PACKAGES.pop({name!r}, None)" for name in without]
    if targets:
        lines.append(f"DEFAULT_TARGET_FAMILY = {default or targets[0]!r}")
    lines += [f"AVAILABLE_TARGET_FAMILIES.append({target!r})" for target in targets]
    lines += ["THIS_TARGET_FAMILY = None", f"THIS_PACKAGE_ENTRY = ALL_PACKAGES[{logical!r}]"]
    if topology is not None:
        # Not a line of the packaging tool: it sets the GPUs of the machine for the tests.
        lines.append(f"KFD_TOPOLOGY = {str(topology)!r}")
    return "\n".join(lines) + "\n"


def make_topology(directory: Path, *versions: int) -> Path:
    """A driver's description of a processor (node 0) and of GPUs with these `gfx_target_version`s."""
    for index, version in enumerate((0, *versions)):
        node = directory / str(index)
        node.mkdir(parents=True)
        node.joinpath("properties").write_text(f"cpu_cores_count 16\ngfx_target_version {version}\nsimd_count 4\n")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def selector_tree(directory: Path, lines: str) -> Path:
    """The source tree of the selector with these generated lines, including egg-info."""
    shutil.copytree(SELECTOR, directory, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    information = directory / "src" / "rocm_sdk" / "_dist_info.py"
    information.write_text(TEMPLATE.read_text() + lines)
    run([sys.executable, "rocm_build.py", "--write-egg-info"], cwd=directory)
    return directory


def selector_sdist(tree: Path, output: Path) -> Path:
    """The source distribution of that tree in its current state, which may have been edited."""
    version = next(line for line in (tree / "PKG-INFO").read_text().splitlines() if line.startswith("Version: "))
    stem = f"rocm-{version.removeprefix('Version: ')}"
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{stem}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tree, stem, filter=lambda entry: None if "__pycache__" in entry.name else entry)
    return path


@dataclass
class Wheel:
    """A wheel to write; a member's contents are bytes, or a file to copy."""

    name: str
    version: str = VERSION
    files: dict[str, bytes | Path] = field(default_factory=dict)
    executables: set[str] = field(default_factory=set)
    requires: list[str] = field(default_factory=list)
    scripts: dict[str, str] = field(default_factory=dict)

    def write(self, directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        stem = f"{self.name.replace('-', '_')}-{self.version}"
        metadata = ["Metadata-Version: 2.4", f"Name: {self.name}", f"Version: {self.version}"]
        metadata += [f"Requires-Dist: {requirement}" for requirement in self.requires]
        wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
        members = {name: c.read_bytes() if isinstance(c, Path) else c for name, c in self.files.items()}
        members[f"{stem}.dist-info/METADATA"] = ("\n".join(metadata) + "\n").encode()
        members[f"{stem}.dist-info/WHEEL"] = wheel.encode()
        if self.scripts:
            lines = [f"{name} = {target}" for name, target in self.scripts.items()]
            members[f"{stem}.dist-info/entry_points.txt"] = "\n".join(["[console_scripts]", *lines, ""]).encode()
        rows = [f"{name},{_hash(content)},{len(content)}" for name, content in members.items()]
        rows.append(f"{stem}.dist-info/RECORD,,")
        members[f"{stem}.dist-info/RECORD"] = ("\n".join(rows) + "\n").encode()
        path = directory / f"{stem}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, content in members.items():
                entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                entry.external_attr = (0o100755 if name in self.executables else 0o100644) << 16
                archive.writestr(entry, content)
        return path


def _hash(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def contents(distribution: str, platform_package: str, libraries: Sequence[object], tools: Sequence[object]) -> bytes:
    """A `_contents.json`; a library is a path, or a pair of a path and the reason not to load it."""
    rows = []
    for library in libraries:
        path, reason = library if isinstance(library, tuple) else (library, None)
        rows.append({"path": path, "load": reason is None, "reason": reason})
    document = {
        "schema": 1,
        "distribution": distribution,
        "version": VERSION,
        "platform_package": platform_package,
        "libraries": rows,
        "tools": tools,
    }
    return json.dumps(document, indent=2).encode()


def tool(name: str, path: str, *, devel: bool = False, **probe: object) -> dict[str, object]:
    full = {"arguments": [], "expect": "", "exit_codes": [0], "needs_gpu": False, "needs": [], **probe}
    function = name.replace("-", "_").replace("+", "p")
    return {"name": name, "path": path, "function": function, "devel": devel, "probe": full}


def pure_files(package: str, lines: str) -> dict[str, bytes | Path]:
    """The Python code of a package, with its `_dist_info.py`."""
    folder = PYTHON_FOLDER / package.replace("_", "-") / "src" / package
    files: dict[str, bytes | Path] = {f"{package}/{path.name}": path for path in folder.glob("*.py")}
    files[f"{package}/_dist_info.py"] = (TEMPLATE.read_text() + lines).encode()
    return files


def compile_library(path: Path, source: str, *arguments: str) -> Path:
    """Compiles a shared library whose SONAME is its file name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-shared", "-fPIC", "-O0", f"-Wl,-soname,{path.name}", "-o", path, "-x", "c", "-"]
    # -x none: the following arguments are objects, not C.
    run([*command, "-x", "none", *arguments], input=source)
    return path


def devel_tar(members: list[tuple[str, bytes | str | None]]) -> bytes:
    """A `_devel.tar` with these members in this order: contents for a file, text for a link, None
    for a folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members:
            entry = tarfile.TarInfo(f"_rocm_sdk_devel/{name}")
            entry.mtime = 315532800
            if content is None:
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(entry)
            elif isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def run(command: list[object], *, check: bool = True, **options: object) -> subprocess.CompletedProcess[str]:
    """Runs a command and captures its output, which a failure prints."""
    result = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        **options,  # type: ignore[call-overload]
    )
    if check and result.returncode != 0:
        raise AssertionError(f"{command} ended with {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result


def clean_environment(**more: str) -> dict[str, str]:
    """The variables of this process without those that affect ROCm, pip, uv and Python."""
    steering = ("ROCM_", "HSA_", "PIP_", "UV_", "PYTHON", "VIRTUAL_ENV", "LD_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    return {**kept, **more}


@dataclass
class Environment:
    """A virtual environment without pip; pip and uv manage it from outside, each with its own
    cache."""

    directory: Path
    wheels: Path
    installer: str = "pip"
    interpreter: str = sys.executable
    cache: Path | None = None

    def __post_init__(self) -> None:
        if not self.directory.exists():
            run([self.interpreter, "-m", "venv", "--without-pip", self.directory])

    @property
    def python(self) -> Path:
        return self.directory / "bin" / "python"

    @property
    def site(self) -> Path:
        return next(self.directory.glob("lib/python*/site-packages"))

    def variables(self, **more: str) -> dict[str, str]:
        return clean_environment(UV_OFFLINE="1", PIP_DISABLE_PIP_VERSION_CHECK="1", **more)

    def install(self, *requirements: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        find = ["--no-index", "--find-links", self.wheels]
        # uv caches what it read of a local file by time stamp, so the cache must be private in any
        # case.
        cache = self.cache or self.directory / "cache"
        if self.installer == "pip":
            keep = ["--cache-dir", cache] if self.cache else ["--no-cache-dir"]
            command = [
                sys.executable,
                "-m",
                "pip",
                "--python",
                self.python,
                "install",
                "-q",
                "--no-compile",
                *keep,
                *find,
            ]
        else:
            command = [UV, "pip", "install", "-q", "--python", self.python, "--cache-dir", cache, *find]
        return run([*command, *requirements], check=check, env=self.variables(**more))

    def uninstall(self, *names: str) -> None:
        if self.installer == "pip":
            run(
                [sys.executable, "-m", "pip", "--python", self.python, "uninstall", "-q", "-y", *names],
                env=self.variables(),
            )
        else:
            run([UV, "pip", "uninstall", "-q", "--python", self.python, *names], env=self.variables())

    def rocm_sdk(self, *arguments: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        return run([self.python, "-m", "rocm_sdk", *arguments], check=check, env=self.variables(**more), cwd="/")

    def execute(self, code: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        return run([self.python, "-c", code], check=check, env=self.variables(**more), cwd="/")

    def installed(self) -> list[str]:
        """The names of the ROCm distributions."""
        return sorted(path.name.split("-")[0] for path in self.site.glob("rocm*.dist-info"))

    def files(self) -> list[str]:
        """All files and links in site-packages and bin, except those of a new environment."""
        bare = ("python", "activate", "Activate")
        found = [path for folder in (self.site, self.python.parent) for path in folder.rglob("*")]
        return sorted(
            str(path.relative_to(self.directory))
            for path in found
            if (path.is_symlink() or path.is_file())
            and not (path.parent == self.python.parent and path.name.startswith(bare))
        )
