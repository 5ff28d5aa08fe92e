"""Package indexes of a few tiny packages, and the servers that people put in front of them."""

import gzip
import io
import os
import shutil
import sys
import tarfile
from contextlib import ExitStack
from pathlib import Path

from serving import daemon, free_port
from small_wheels import pack

from command import Rocwheel

# When files became public. Some clients can be told to know no newer ones than `BETWEEN`.
OLD, BETWEEN, NEW = "2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-06-01T00:00:00Z"

# A build backend that needs no other package, so installers can build the source distribution from
# the index alone.
BACKEND = """
import base64, hashlib, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "rocm_demo-1.0-py3-none-any.whl"
    files = {
        "rocm_demo.py": "built = True\\n",
        "rocm_demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\\nName: rocm-demo\\nVersion: 1.0\\n",
        "rocm_demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    record = ""
    with zipfile.ZipFile(folder + "/" + name, "w") as archive:
        for path, text in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record += "%s,sha256=%s,%d\\n" % (path, digest, len(text))
            archive.writestr(path, text)
        archive.writestr("rocm_demo-1.0.dist-info/RECORD", record + "rocm_demo-1.0.dist-info/RECORD,,\\n")
    return name
"""


def write_wheel(folder: Path, name: str, version: str, *metadata: str) -> Path:
    """A wheel for any system with one module; `metadata` are more lines of METADATA."""
    lines = ["Metadata-Version: 2.1", f"Name: {name.replace('_', '-')}", f"Version: {version}", *metadata]
    text = "".join(f"{line}\n" for line in lines)
    return pack(folder, name, version, {f"{name}.py": f'version = "{version}"\n'}, metadata=text, hashed=True)


def write_sdist(folder: Path) -> Path:
    texts = {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "PKG-INFO": "Metadata-Version: 2.1\nName: rocm-demo\nVersion: 1.0\n",
        "backend.py": BACKEND,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rocm_demo-1.0.tar.gz"
    with gzip.GzipFile(path, "w", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in texts.items():
            member = tarfile.TarInfo(f"rocm_demo-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def write_index(rocwheel: Rocwheel, root: Path, layout: str) -> None:
    """Two releases, the second one published later. `torch` pins `rocm`, which pins its core."""

    def folder(project: str) -> Path:
        return root if layout == "flat" else root / project

    def release(rocm: str, torch: str) -> None:
        write_wheel(folder("rocm-sdk-core"), "rocm_sdk_core", rocm)
        write_wheel(folder("rocm"), "rocm", rocm, f"Requires-Dist: rocm-sdk-core=={rocm}")
        write_wheel(folder("torch"), "torch", torch, f"Requires-Dist: rocm=={rocm}", "Requires-Python: >=3.8")

    release("7.1.0", "2.9.1+rocm7.1")
    write_sdist(folder("rocm-demo"))
    rocwheel.run("index", "build", root, "--layout", layout, "--now", OLD)
    release("7.2.0", "2.10.0+rocm7.2")
    write_wheel(folder("torch"), "torch", "2.11.0+rocm7.2", "Requires-Python: >=3.99")
    rocwheel.run("index", "build", root, "--layout", layout, "--now", NEW)


class Servers(ExitStack):
    """Web servers on the loopback, started by hand: no service of the system is touched. In
    `scratch` are configurations and what the servers write."""

    def __init__(self, rocwheel: Rocwheel, scratch: Path) -> None:
        super().__init__()
        self.rocwheel, self.scratch = rocwheel, scratch

    def start(self, kind: str, root: Path, changes: tuple[str, str] = ("", "")) -> str:
        """The address of an index, ending in `/`. `changes` is a text of the configuration and what
        stands there instead."""
        if kind == "file":
            return f"{root.as_uri()}/"
        port = free_port()
        state = self.scratch / f"{kind}-{port}"
        state.mkdir()
        if kind == "plain":
            command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", root, port]
        else:
            printed = self.rocwheel.run("index", "server", kind, "--root", root, "--address", f"127.0.0.1:{port}")
            before, after = changes
            assert before in printed.stdout
            configuration = state / "configuration"
            configuration.write_text(printed.stdout.replace(before, after) if before else printed.stdout)
            if kind == "nginx":
                # Only root can read the folders of these tests.
                rights = ["-g", "user root;"] if os.geteuid() == 0 else []
                command = [program("nginx"), "-e", "stderr", "-p", f"{state}/", "-c", configuration, *rights]
            elif kind == "apache":
                command = [*as_somebody(state), program("apache2"), "-D", "FOREGROUND", "-d", "/usr/lib/apache2"]
                command += ["-c", f"PidFile {state}/httpd.pid", "-f", configuration]
            else:
                command = ["caddy", "run", "--adapter", "caddyfile", "--config", configuration]
        environment = {**os.environ, "XDG_DATA_HOME": str(state), "XDG_CONFIG_HOME": str(state)}
        self.enter_context(daemon(command, port, state / "log", env=environment))
        return f"http://127.0.0.1:{port}/"


def as_somebody(state: Path) -> list[str]:
    """Apache does not serve as root, and only root can read the folders of these tests: it runs as
    nobody with the right to read everything."""
    if os.geteuid() != 0:
        return []
    state.chmod(0o777)
    (state / "log").touch()
    (state / "log").chmod(0o666)
    right = "+dac_read_search"
    return ["setpriv", "--reuid=65534", "--clear-groups", f"--inh-caps={right}", f"--ambient-caps={right}"]


def program(name: str) -> str:
    """Debian has servers where only root's shells look."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, f"{name} is not installed: run scripts/setup"
    return found
