"""The program for Windows beside that for Linux: the same commands on the same files."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from command import Rocwheel
from trees import differences, digest_file, snapshot

# On Windows itself there is no program for Linux: a test sees there what its own assertions see.
SYSTEMS = ("windows",) if os.name == "nt" else ("linux", "windows")


def is_record(path: str) -> bool:
    """Of `artifact archive`: it has inodes and times."""
    return path.startswith(".rocwheel-archives")


@dataclass(frozen=True)
class Pair:
    """Both programs, each with a folder of its own, in which the same commands run."""

    programs: dict[str, Rocwheel]
    folders: dict[str, Path]

    @property
    def folder(self) -> Path:
        """That of Linux, where there is one."""
        return self.folders[SYSTEMS[0]]

    def put(self, *paths: Path) -> None:
        for folder in self.folders.values():
            for path in paths:
                if path.is_dir():
                    shutil.copytree(path, folder / path.name, symlinks=True)
                else:
                    shutil.copy(path, folder)

    def write(self, path: str, content: str | bytes) -> None:
        for folder in self.folders.values():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())

    def run(self, *words: object, expect: int = 0, **environment: str) -> str:
        """Runs a command with both. What it prints on stdout must be the same but for the separator
        of paths, the folder, times, and how wide these make a column."""
        said = {}
        for system, program in self.programs.items():
            cache = {"ROCWHEEL_CACHE": "../cache-" + system, **environment}
            result = program.run(*words, expect=expect, cwd=self.folders[system], environment=cache)
            # In JSON a backslash is two.
            text = result.stdout.replace("\\\\", "/").replace("\\", "/")
            folder = self.folders[system].as_posix()
            text = text.replace(f"Z:{folder}", "[FOLDER]").replace(folder, "[FOLDER]")
            said[system] = re.sub(r" {2,}", "  ", re.sub(r"\b\d+\.\d+ s\b", "[TIME]", text))
        assert said["windows"] == said[SYSTEMS[0]]
        return said["windows"]

    def compare(self, place: str) -> Path:
        """Compares a result, a file or a folder; modes are not compared, nor what a program notes
        for its next run on this machine. Returns that of Linux."""
        first, windows = self.folder / place, self.folders["windows"] / place
        if first.is_file():
            assert digest_file(windows) == digest_file(first)
            return first
        found = [
            {path: (entry[0], *entry[2:]) for path, entry in snapshot(root).items() if not is_record(path)}
            for root in (first, windows)
        ]
        assert found[0], f"{first} is empty"
        different = differences(*found)
        assert different == [], different
        return first
