"""The files of a machine, for `_doctor`: this one, or a copy in a folder.

What a copy cannot hold (errors of the kernel, modes, owners) is in its `doctor.toml`. Only the rows
that `rocwheel doctor` documents are read, so no parser of TOML is needed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

# Limit in bytes of a file of the kernel.
SMALL = 1 << 16
# A named pipe would block. Windows has none among its files, and no such flags.
FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class AccessError(OSError):
    """A file that exists and does not have what its name promises."""


class Machine:
    def __init__(self, root: Path | None, variables: Mapping[str, str]):
        self._root = root
        self.variables = variables
        self._notes = _notes(root / "doctor.toml") if root else {}
        # It has none of Linux's files; their paths would be those of the working directory's drive.
        self.is_windows = root is None and os.name == "nt"

    def _locate(self, path: str) -> Path:
        return self._root / self.real(path).lstrip("/") if self._root else Path(path)

    def real(self, path: str) -> str:
        """A path with its links resolved. Those of a copy stay inside of it."""
        if self._root is None:
            return os.path.realpath(path)
        pending, found, links = path.split("/")[::-1], "", 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if part == "..":
                found = found.rpartition("/")[0]
                continue
            found += f"/{part}"
            try:
                target = os.readlink(self._root / found.lstrip("/"))
            except OSError:
                continue
            links += 1
            if links > 40:
                return found
            found = "" if target.startswith("/") else found.rpartition("/")[0]
            pending += target.split("/")[::-1]
        return found

    def inside(self, path: Path) -> str:
        """The path of the machine for a folder that may be inside of the copy."""
        if self._root is not None and path.is_relative_to(self._root.resolve()):
            return f"/{path.relative_to(self._root.resolve())}"
        return str(path)

    def _is_foreign(self, path: str) -> bool:
        return self.is_windows and path.startswith("/")

    def _refuse(self, path: str) -> None:
        name = "ENOENT" if self._is_foreign(path) else self._notes.get(path, {}).get("error")
        if name:
            number = getattr(errno, name)
            raise OSError(number, os.strerror(number))

    def text(self, path: str, limit: int = SMALL) -> str:
        """The text of a small file. Raises AccessError for anything else, and PermissionError or
        FileNotFoundError as the kernel says."""
        try:
            self._refuse(path)
            descriptor = os.open(self._locate(path), os.O_RDONLY | FLAGS)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise AccessError("is not a file")
                data = file.read(limit + 1)
        except (PermissionError, FileNotFoundError, AccessError):
            raise
        except NotADirectoryError as error:
            raise FileNotFoundError(str(error)) from error
        except OSError as error:
            raise AccessError(self.words(error)) from error
        if len(data) > limit:
            raise AccessError(f"has more than {limit} bytes")
        try:
            return data.decode().strip()
        except UnicodeDecodeError as error:
            raise AccessError("is not text") from error

    def names(self, path: str) -> list[str]:
        try:
            self._refuse(path)
            return sorted(os.listdir(self._locate(path)))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise AccessError(self.words(error)) from error

    def exists(self, path: str) -> bool:
        if self._is_foreign(path) or self._notes.get(path, {}).get("error") == "ENOENT":
            return False
        return self._locate(path).exists()

    def text_if_any(self, path: str) -> str:
        try:
            return self.text(path, 1 << 20)
        except OSError:
            return ""

    def open_device(self, path: str) -> None:
        """Opens a device as the runtime does. A copy is judged by modes, owners and groups."""
        self._refuse(path)
        if self._root is None:
            os.close(os.open(path, os.O_RDWR | FLAGS))
            return
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        if not self.may_use(path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def rights(self, path: str) -> tuple[int, int, int]:
        """Mode, user and group of a file."""
        found = os.stat(self._locate(path))
        note = self._notes.get(path, {})
        user, group = (note.get("owner") or f"{found.st_uid}:{found.st_gid}").split(":")
        mode = int(note["mode"], 8) if "mode" in note else found.st_mode
        return mode & 0o7777, int(user), int(group)

    def _user(self) -> tuple[int, set[int]]:
        fields = dict(re.findall(r"^(Uid|Gid|Groups):\s*(.*)$", self.text_if_any("/proc/self/status"), re.MULTILINE))
        groups = {int(number) for number in fields.get("Groups", "").split()}
        return int(fields.get("Uid", "0 0").split()[1]), groups | {int(fields.get("Gid", "0 0").split()[1])}

    def _groups(self) -> list[list[str]]:
        # Systems whose /usr is an image have groups of the system there.
        text = "\n".join(self.text_if_any(path) for path in ("/etc/group", "/usr/lib/group"))
        rows = [line.split(":") for line in text.splitlines()]
        return [row for row in rows if len(row) == 4]

    def group_name(self, group: int) -> str | None:
        return next((row[0] for row in self._groups() if row[2] == str(group)), None)

    def may_use(self, path: str) -> bool:
        """True if mode, owner and group of a device allow reading and writing."""
        mode, owner, group = self.rights(path)
        user, groups = self._user()
        bits = mode >> 6 if user == owner else mode >> 3 if group in groups else mode
        return user == 0 or bits & 6 == 6

    def is_listed(self, group: int) -> bool:
        """True if the files have the user in the group, whatever the session has."""
        user, _ = self._user()
        users = [line.split(":") for line in self.text_if_any("/etc/passwd").splitlines()]
        name = next((fields[0] for fields in users if len(fields) > 2 and fields[2] == str(user)), None)
        return any(row[2] == str(group) and name in row[3].split(",") for row in self._groups())

    def group_number(self, name: str) -> str | None:
        return next((row[2] for row in self._groups() if row[0] == name), None)

    def container(self) -> str:
        """The kind of container, as the table names it; empty outside of one."""
        groups = self.text_if_any("/proc/1/cgroup")
        is_docker = self.exists("/.dockerenv") or "/docker" in groups
        names = [name for name in self.variables if name.startswith(("APPTAINER_", "SINGULARITY_"))]
        if names or self.exists("/.singularity.d"):
            return "apptainer"
        if is_docker:
            if "linuxkit" in self.text_if_any("/proc/version"):
                return "docker-desktop"
        if "kubepods" in groups or "KUBERNETES_SERVICE_HOST" in self.variables:
            return "kubernetes"
        if self.exists("/run/.containerenv") or self.variables.get("container") == "podman":
            return "podman"
        if is_docker:
            return "docker"
        kind = self._named_container()
        if kind == "lxc" and (self.exists("/dev/lxd") or self.exists("/dev/incus")):
            return "other"
        if kind in ("lxc", "docker", "podman"):
            return kind
        if kind == "wsl":
            return ""
        if kind:
            return "other"
        if "/lxc" in groups:
            return "lxc"
        return "user-namespace" if self.is_rootless() else ""

    def _named_container(self) -> str:
        """The kind that the container's manager told its first process."""
        own = self.variables.get("container") or self.text_if_any("/run/systemd/container")
        if own:
            return own
        rows = self.text_if_any("/proc/1/environ").split("\0")
        return next((row.partition("=")[2] for row in rows if row.startswith("container=")), "")

    def is_rootless(self) -> bool:
        """True if the numbers of users are not those of the host."""
        return self.uid_map() not in ("", "0 0 4294967295")

    def uid_map(self) -> str:
        """The first row of the map of users: number here, number on the host, count."""
        lines = self.text_if_any("/proc/self/uid_map").splitlines()
        return " ".join(lines[0].split()) if lines else ""

    def is_wsl(self) -> bool:
        kernel = self.text_if_any("/proc/version").lower()
        return self.exists("/dev/dxg") or "microsoft" in kernel or "WSL_DISTRO_NAME" in self.variables

    @staticmethod
    def words(error: OSError) -> str:
        """The name of an error and its text, as `rocwheel doctor` has them."""
        if error.errno is None:
            return str(error)
        return f"{errno.errorcode.get(error.errno, error.errno)}: {os.strerror(error.errno)}"


def _notes(path: Path) -> dict[str, dict[str, str]]:
    notes: dict[str, dict[str, str]] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return notes
    for block in text.split("[[path]]")[1:]:
        values = dict(re.findall(r'^(\w+) = "([^"]*)"$', block, re.MULTILINE))
        notes.setdefault("/" + values.get("path", "").lstrip("/"), {}).update(values)
    return notes
