"""`rocwheel test suite --memory` where control groups of version 2 are delegated: in a Linux of
Debian's package user-mode-linux, since the kernel of a machine for tests may have version 1."""

import json
import os
import shutil
from pathlib import Path

from command import REPOSITORY, Rocwheel, run

TESTS = """
def test_before():
    pass

def test_greedy():
    # The kernel ends it before it has all of this.
    assert len(bytearray(400 << 20)) > 0

def test_after():
    pass
"""

# A group with nothing but the shell, as `systemd-run --scope --property=Delegate=yes` makes one.
INIT = """#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TMPDIR=/mnt
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs tmpfs /mnt
group=/sys/fs/cgroup/session
mkdir $group
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
cd /mnt
cp {share}/test_memory.py .
sh -c 'echo $$ >/sys/fs/cgroup/session/cgroup.procs; exec {share}/rocwheel --quiet test suite test_memory.py --memory 150MiB'
echo "exit code $?"
find $group -mindepth 1 -type d -printf 'left %f\\n'
cat test-results/*/events.jsonl
python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'
"""


def test_the_kernel_keeps_the_limit(rocwheel: Rocwheel, tmp_path: Path) -> None:
    shutil.copy(rocwheel.binary, tmp_path / "rocwheel")
    (tmp_path / "test_memory.py").write_text(TESTS)
    (tmp_path / "init").write_text(INIT.format(share=tmp_path))
    (tmp_path / "init").chmod(0o755)
    linux = "linux.uml mem=1G root=/dev/root rootfstype=hostfs rootflags=/ rw quiet"
    packages = [word for name in ("user-mode-linux", "python3-pytest") for word in ("--package", name)]
    command = f"{linux} init={tmp_path}/init con0=null,fd:1 con=null </dev/null"
    root = (REPOSITORY / "scripts/in-root", "trixie", *packages, "--share", tmp_path, "--", "sh", "-c", command)
    result = run(*root, environment={"TMPDIR": os.environ.get("TMPDIR", "/var/tmp")})
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert "exit code 1" in lines, result.stdout
    # Its own group stays for the process that is in it; those of the programs are gone.
    assert [line for line in lines if line.startswith("left ")] == ["left rocwheel-supervisor"]
    events = [json.loads(line) for line in lines if line.startswith("{")]
    attempts = {event["id"]: event for event in events if event["event"] == "attempt"}
    outcomes = {name.split("::")[1]: attempt["outcome"] for name, attempt in attempts.items()}
    assert outcomes == {"test_before": "passed", "test_greedy": "out_of_memory", "test_after": "passed"}
    # Where rocwheel measures itself, it notices after the limit; the kernel gives no page more.
    message = attempts["test_memory.py::test_greedy"]["message"]
    used = int(message.removeprefix("its processes used ").split()[0])
    assert used <= 150 and message.endswith("may use 150 MiB"), message
