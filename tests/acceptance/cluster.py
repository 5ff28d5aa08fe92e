"""A real Slurm on this machine: munge, a controller and several nodes, on free ports and in a
folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 60
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@dataclass
class Node:
    name: str
    daemon: subprocess.Popen


@dataclass
class Cluster:
    """Started by `with`, and gone with everything that it started when that ends."""

    root: Path
    nodes: int = 3
    cpus: int = 2
    most_tasks: int = 1001
    daemons: list[subprocess.Popen] = field(default_factory=list)
    running: dict[str, Node] = field(default_factory=dict)

    def __enter__(self) -> Cluster:
        missing = [name for name in PROGRAMS if self.program(name) is None]
        assert not missing, f"{', '.join(missing)} not found: run scripts/setup, which installs Slurm and munge"
        assert os.geteuid() == 0, "slurmd starts tasks of others only as root: run this test as root"
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @staticmethod
    def program(name: str) -> str | None:
        return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")

    @property
    def environment(self) -> dict[str, str]:
        """What a client of the cluster needs."""
        return {"SLURM_CONF": str(self.root / "slurm.conf")}

    @property
    def node_names(self) -> list[str]:
        return [f"n{number + 1}" for number in range(self.nodes)]

    def start(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        # munged refuses folders that others may write to, and clients have to reach its socket.
        munge = self.root / "munge"
        munge.mkdir(mode=0o755)
        key = munge / "key"
        subprocess.run([self.program("mungekey"), "--create", f"--keyfile={key}"], check=True)
        key.chmod(0o600)
        places = [f"--{name}={munge / name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
        self.launch("munged", "--foreground", "--force", f"--key-file={key}", *places, log="munged")
        self.wait(lambda: (munge / "socket").exists(), "munged made no socket")
        controller, *ports = free_ports(1 + self.nodes)
        self.write_configuration(munge / "socket", controller, ports)
        self.launch("slurmctld", "-D", "-i", log="slurmctld")
        for name in self.node_names:
            self.start_node(name)
        self.wait(
            lambda: self.ask("sinfo", "--noheader", "--format=%t %D").split() == ["idle", str(self.nodes)],
            "the nodes did not come up",
        )

    def write_configuration(self, socket: Path, controller: int, ports: list[int]) -> None:
        for name in ("state", *(f"spool-{node}" for node in self.node_names)):
            (self.root / name).mkdir()
        nodes = [
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs={self.cpus} RealMemory=4000"
            for name, port in zip(self.node_names, ports, strict=True)
        ]
        (self.root / "slurm.conf").write_text(
            f"""ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={socket}
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
SlurmctldTimeout=10
MinJobAge=300
MaxArraySize={self.most_tasks}
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
StateSaveLocation={self.root}/state
SlurmctldPidFile={self.root}/slurmctld.pid
SlurmctldLogFile={self.root}/slurmctld.log
SlurmdSpoolDir={self.root}/spool-%n
SlurmdPidFile={self.root}/slurmd-%n.pid
SlurmdLogFile={self.root}/slurmd-%n.log
"""
            + "\n".join(nodes)
            + f"\nPartitionName=all Nodes={','.join(self.node_names)} Default=YES MaxTime=INFINITE State=UP\n"
        )

    def launch(self, name: str, *arguments: str, log: str) -> subprocess.Popen:
        with (self.root / f"{log}.out").open("ab") as said:
            daemon = subprocess.Popen(
                # It ends with the tests, also when those are killed.
                ["setpriv", "--pdeathsig", "TERM", "--", self.program(name), *arguments],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.daemons.append(daemon)
        return daemon

    def start_node(self, name: str) -> None:
        self.running[name] = Node(name, self.launch("slurmd", "-D", "-N", name, log=f"slurmd-{name}"))

    def ask(self, *command: str) -> str:
        asked = subprocess.run(
            list(command), env={**os.environ, **self.environment}, capture_output=True, text=True, timeout=PATIENCE
        )
        return asked.stdout

    def wait(self, holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        while not holds():
            dead = [daemon.args for daemon in self.daemons if daemon.poll() not in (None, -signal.SIGKILL)]
            assert not dead, f"{dead} ended: {self.logs()}"
            assert time.monotonic() < end, f"{what} in {patience} s: {self.logs()}"
            time.sleep(0.2)

    def logs(self) -> str:
        paths = sorted([*self.root.glob("*.log"), *self.root.glob("*.out"), *self.root.glob("munge/log-file")])
        return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in paths)

    def kill_node(self, name: str) -> None:
        """What a power cut does: the daemon and everything that it started is gone at once."""
        daemon = self.running.pop(name).daemon
        # First the one that would start more.
        daemon.kill()
        daemon.wait()
        while victims := self.processes_of(name):
            # All stop before one is killed: a slurmstepd that outlives its task by a moment tells
            # the controller that the task failed, which no power cut does.
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for victim in victims:
                    with suppress(ProcessLookupError):
                        os.kill(victim, number)
            time.sleep(0.05)

    def processes_of(self, name: str) -> set[int]:
        """What runs on a node: tasks, by their environment; the slurmstepd above each; and whatever
        they have started."""
        parents, tasks, steps = {}, set(), set()
        marks = {f"SLURM_CONF={self.root / 'slurm.conf'}".encode(), f"SLURMD_NODENAME={name}".encode()}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state == "Z":
                    continue
                parents[int(entry.name)] = int(parent)
                if (entry / "comm").read_text().startswith("slurmstepd"):
                    steps.add(int(entry.name))
                elif marks <= set((entry / "environ").read_bytes().split(b"\0")):
                    tasks.add(int(entry.name))
        found = set(tasks)
        for task in tasks:
            while (task := parents.get(task, 0)) > 1:
                if task in steps:
                    found.add(task)
        while more := {child for child, parent in parents.items() if parent in found} - found:
            found |= more
        return found - {os.getpid()}

    def stop(self) -> None:
        for name in list(self.running):
            self.kill_node(name)
        for daemon in reversed(self.daemons):
            if daemon.poll() is None:
                daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
