"""Runs the built binary and other programs; a failure shows what the program said."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPTS = REPOSITORY / "scripts"
# Where scripts/fetch-wheels and others keep what they download, for `make test-real` too.
CACHE = Path(
    os.environ.get("ROCWHEEL_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rocwheel"
)
# Where the tests' pip and uv are.
TOOLS = Path(sys.prefix) / "bin"
UV = TOOLS / "uv"


def with_uv(**more: str) -> dict[str, str]:
    """Variables with which a program finds uv."""
    return {"PATH": f"{TOOLS}:{os.environ['PATH']}", **more}


@dataclass(frozen=True)
class Result:
    code: int
    stdout: str
    stderr: str

    def says(self, *parts: str) -> "Result":
        """Insists on parts of standard error."""
        for part in parts:
            assert part in self.stderr, self.stderr
        return self

    def prints(self, *parts: str) -> "Result":
        """Insists on parts of standard output."""
        for part in parts:
            assert part in self.stdout, self.stdout
        return self


def run(
    *command: object, expect: int = 0, environment: dict[str, str] | None = None, timeout: int = 1800, **options
) -> Result:
    """Runs a program to its end, in `timeout` seconds at most, with `environment` laid over our
    own, and insists on its exit code."""
    arguments = [os.fspath(part) if isinstance(part, os.PathLike) else str(part) for part in command]
    finished = subprocess.run(
        arguments,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        **options,
    )
    if finished.returncode != expect:
        said = f"{finished.stdout[-8000:]}\n--- stderr\n{finished.stderr[-8000:]}"
        raise AssertionError(f"exit code {finished.returncode}, expected {expect}: {shlex.join(arguments)}\n{said}")
    return Result(finished.returncode, finished.stdout, finished.stderr)


def download(folder: Path, *wanted: object) -> None:
    """Wheels of the package index, and options that choose them; nothing that they require."""
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:")
    run(*pip, "--dest", folder, *wanted)


def own_suite() -> str:
    """The code name of this machine's Debian release."""
    lines = Path("/etc/os-release").read_text().splitlines()
    return next(line.partition("=")[2].strip('"') for line in lines if line.startswith("VERSION_CODENAME="))


def unprivileged() -> list[str]:
    """The words before a command that make it run as a user without rights; none where we are such
    a user."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]


def on_a_disk(size: str, disk: Path, *command: object, filled: str = "0", expect: int = 1, **options) -> Result:
    """Runs a command beside a file system of its own, of which a part is filled. Standard output
    are the command's, and below it the files that it leaves."""
    disk.mkdir(exist_ok=True)
    script = (
        f'mount -t tmpfs -o size={size} tmpfs "$1" || exit 99\n'
        f'disk=$1; shift; [ {filled} = 0 ] || head -c {filled} /dev/zero > "$disk/filled"\n'
        '"$@"; code=$?\nfind "$disk" -type f ! -name filled; exit $code\n'
    )
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    return run(*namespace, "bash", "-c", script, "disk", disk, *command, expect=expect, **options)


def wait_until(process: subprocess.Popen[str], holds: Callable[[], object]) -> None:
    """Waits for something that a running program does."""
    deadline = time.monotonic() + 120
    while not holds():
        assert process.poll() is None, f"it ended before: {process.communicate()}"
        assert time.monotonic() < deadline, "nothing happened in two minutes"
        time.sleep(0.002)


@dataclass(frozen=True)
class Rocwheel:
    binary: Path

    def run(self, *arguments: object, **options) -> Result:
        return run(self.binary, *arguments, **options)

    def json(self, *arguments: object, **options) -> dict:
        """What it prints as JSON."""
        return json.loads(self.run("--json", *arguments, **options).stdout)

    def start(self, *arguments: object, **options) -> subprocess.Popen[str]:
        """Starts the program and returns at once, for tests that interrupt it or run two at a
        time."""
        command = [self.binary, *map(str, arguments)]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )

    def interrupted(
        self, *arguments: object, when: Callable[[], object], number: int = signal.SIGINT, repeated: int = 1,
        timeout: int = 60, **options: object,
    ) -> str:  # fmt: skip
        """Starts the program, sends it a signal when it is time, and insists on its end; what it
        said."""
        process = self.start(*arguments, **options)
        wait_until(process, when)
        for _ in range(repeated):
            process.send_signal(number)
            time.sleep(0.003)
        _, stderr = process.communicate(timeout=timeout)
        assert process.returncode == 130 and "panicked" not in stderr, stderr
        return stderr

    def import_debs(self, debs: list[Path], output: Path, *arguments: object, **options) -> Result:
        return self.run("artifact", "import", "--deb", *debs, "--output", output, *arguments, **options)

    def package(self, artifacts: Path, output: Path, *arguments: object, **options) -> Result:
        return self.run("package", "--artifacts", artifacts, "--output", output, *arguments, **options)
