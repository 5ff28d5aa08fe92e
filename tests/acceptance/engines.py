"""Docker and Podman of our own: each with its data in a folder, so that nothing of the machine's
own is seen or changed."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from command import NOBODY, REPOSITORY, Result, run

AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]


@dataclass(frozen=True)
class Engine:
    """An engine that runs: how it is called, and what `rocwheel build` has to be told to use it."""

    name: str
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)
    # What makes a program run as the engine's user.
    user: list[str] = field(default_factory=list)

    def run(self, *arguments: object, **options) -> Result:
        return run(*self.user, *self.words, *arguments, environment=self.environment, **{"cwd": "/", **options})

    def arguments(self, image: str) -> list[str]:
        """Options of `rocwheel build` for a container of an image."""
        engine = ["--executor", self.name, "--engine", " ".join(self.words), "--image", image]
        return engine + [f"--engine-option={option}" for option in self.options]

    def import_root(self, root: Path, name: str) -> None:
        """Makes an image of a root as scripts/make-root packs it, or of a plain tarball."""
        unpack = ["zstd", "-qdc"] if root.suffix == ".zst" else ["cat"]
        with subprocess.Popen([*unpack, root], stdout=subprocess.PIPE) as packed:
            subprocess.run(
                [*self.user, *self.words, "import", "-", name],
                cwd="/",
                env={**os.environ, **self.environment},
                stdin=packed.stdout,
                stdout=subprocess.DEVNULL,
                check=True,
            )
        assert packed.returncode == 0

    def derive(self, image: str, name: str, script: str, **variables: str) -> None:
        """Makes an image of another one: what a script changes in it as root, and its variables."""
        changes = [f"--change=ENV {name}={value}" for name, value in variables.items()]
        container = f"derive-{os.getpid()}"
        root = ("--network", "none", "--user", "0:0", "--entrypoint", "")
        self.run("run", "--name", container, *root, *self.options, image, "sh", "-ec", script)
        self.run("commit", *changes, container, name)
        self.run("rm", container)

    def running(self) -> list[str]:
        return self.run("ps", "--quiet").stdout.split()


def needed(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    assert not missing, f"{', '.join(missing)} is not installed: run scripts/setup"
    assert os.geteuid() == 0, "starting an engine of our own needs root"


@contextmanager
def docker(folder: Path) -> Iterator[Engine]:
    """Docker with its own daemon. It makes no network: containers have none, or the machine's."""
    needed("docker", "dockerd", "containerd", "runc")
    # A socket's path has 107 characters at most.
    sockets = Path(tempfile.mkdtemp(prefix="rocwheel-docker-"))
    socket = sockets / "socket"
    log = (folder / "dockerd.log").open("w")
    daemon = subprocess.Popen(
        [
            # It ends with the tests, also when those are killed.
            *("setpriv", "--pdeathsig", "TERM", "--"),
            *("dockerd", "--host", f"unix://{socket}", "--data-root", folder / "data", "--exec-root", sockets / "exec"),
            *("--pidfile", sockets / "pid", "--iptables=false", "--ip6tables=false", "--bridge=none"),
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    # Debian's client beside its daemon: another one on PATH may be newer than the daemon
    # understands.
    client = "/usr/bin/docker" if os.access("/usr/bin/docker", os.X_OK) else "docker"
    engine = Engine("docker", [client], {"DOCKER_HOST": f"unix://{socket}"})
    try:
        for _ in range(600):
            assert daemon.poll() is None, f"dockerd ended: {(folder / 'dockerd.log').read_text()[-4000:]}"
            asked = subprocess.run([client, "info"], env={**os.environ, **engine.environment}, capture_output=True)
            if asked.returncode == 0 and b"Server Version" in asked.stdout:
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f"dockerd does not answer: {(folder / 'dockerd.log').read_text()[-4000:]}")
        socket.chmod(0o666)
        sockets.chmod(0o755)
        yield engine
    finally:
        daemon.terminate()
        daemon.wait(60)
        log.close()
        # It leaves the network of the machine mounted.
        subprocess.run(["umount", sockets / "exec/netns/default"], capture_output=True, check=False)
        shutil.rmtree(sockets, ignore_errors=True)
        shutil.rmtree(folder / "data", ignore_errors=True)


@contextmanager
def podman(folder: Path) -> Iterator[Engine]:
    """Podman with its own images. Limits are named, since what it asks for by itself may be more
    than the machine allows."""
    needed("podman", "conmon", "runc")
    # It takes no path of more than 50 characters for what it runs.
    running = Path(tempfile.mkdtemp(prefix="rocwheel-podman-"))
    words = [
        *("podman", "--root", str(folder / "data"), "--runroot", str(running)),
        *("--cgroup-manager", "cgroupfs", "--runtime", "runc"),
    ]
    engine = Engine("podman", words, {}, ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"])
    try:
        yield engine
    finally:
        subprocess.run([*words, "rm", "--all", "--force"], capture_output=True, check=False)
        # Podman leaves the folder of its layers mounted on itself.
        subprocess.run(["umount", folder / "data/overlay"], capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(running, ignore_errors=True)


@contextmanager
def rootless_podman(home: Path) -> Iterator[Engine]:
    """Podman of a user without rights and without numbers of other users: all files of an image are
    the user's."""
    needed("podman", "conmon", "runc", "setpriv")
    words = [
        *("podman", "--root", str(home / "data"), "--runroot", str(home / "run"), "--storage-driver", "overlay"),
        *("--storage-opt", "ignore_chown_errors=true", "--cgroup-manager", "cgroupfs", "--runtime", "runc"),
    ]
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home / "runtime")}
    limits = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=4096:4096"]
    run(*AS_NOBODY, "mkdir", "--mode=700", home / "runtime")
    engine = Engine("podman", words, environment, limits, AS_NOBODY)
    try:
        yield engine
    finally:
        # What lies in its namespace is removed from there.
        subprocess.run(
            [*AS_NOBODY, *words, "system", "reset", "--force"],
            env={**os.environ, **environment},
            cwd="/",
            capture_output=True,
            check=False,
        )


def root(suite: str, *packages: str) -> Path:
    """The tarball of a Debian root, made now or earlier."""
    return Path(run(REPOSITORY / "scripts/make-root", suite, *packages).stdout.strip())
