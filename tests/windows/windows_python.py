"""A Python for Windows, in which pip has installed the ROCm packages that rocwheel.exe has made."""

import json
from dataclasses import dataclass
from pathlib import Path

from command import Result, run


@dataclass(frozen=True)
class WindowsPython:
    # That of python.exe; with a space and parentheses, as in `Program Files (x86)`.
    folder: Path
    # The words that start a program for Windows.
    starter: list[str]

    @property
    def program(self) -> Path:
        return self.folder / "python.exe"

    @property
    def packages(self) -> Path:
        return self.folder / "Lib/site-packages"

    def run(self, *words: object, **options) -> Result:
        return run(*self.starter, self.program, *words, cwd=self.folder.parent, **options)

    def answers(self, program: str, **options) -> object:
        """What a Python program prints as JSON."""
        return json.loads(self.run("-c", program, **options).stdout)

    def script(self, name: str, *words: object, **options) -> Result:
        """Runs a program that pip has written for an entry point."""
        return run(*self.starter, self.folder / f"Scripts/{name}.exe", *words, cwd=self.folder.parent, **options)


def on_windows(path: Path) -> str:
    """The path as a program for Windows says it."""
    return "Z:" + str(path).replace("/", "\\")
