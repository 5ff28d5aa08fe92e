"""Completion in real shells: what bash, fish and zsh offer for the words of a command line."""

import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from command import Rocwheel, run

CASES = [
    ("rocwheel build flash", "flash-attn"),
    ("rocwheel recipe show torchv", "torchvision"),
    ("rocwheel audit --explain RW01", "RW012"),
    ("rocwheel prune --keep gfx94", "gfx942"),
    ("rocwheel source checkout torchau", "torchaudio"),
    ("rocwheel build sta", "status"),
    ("rocwheel artifact fl", "flatten"),
]


@pytest.fixture(scope="module")
def scripts(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    for shell in ("bash", "fish", "zsh"):
        (folder / shell).write_text(rocwheel.run("completions", shell).stdout)
    return folder


@pytest.mark.parametrize(("line", "value"), CASES)
def test_bash_and_fish_complete_values(scripts: Path, tmp_path: Path, line: str, value: str) -> None:
    words = line.split(" ")
    typed = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _rocwheel rocwheel '{words[-1]}' '{words[-2]}'"
    said = run("bash", "--norc", "-c", f"source '{scripts}/bash'; {typed}; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    assert value in said.stdout.split(), said
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    command = f"source '{scripts}/fish'; complete -C '{line}'"
    said = run("fish", "--no-config", "-c", command, environment=home, cwd=tmp_path)
    assert value in [row.split("\t")[0] for row in said.stdout.splitlines()], said


@pytest.mark.parametrize(("line", "value"), [case for case in CASES if case[1] != "RW012" and case[1] != "gfx942"])
def test_zsh_completes_values_at_a_prompt(scripts: Path, tmp_path: Path, line: str, value: str) -> None:
    """With the Tab key, in a terminal."""
    (tmp_path / ".zshrc").write_text(f"PS1='> '; autoload -U compinit; compinit -u -D; source '{scripts}/zsh'\n")
    environment = {**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb", "HOME": str(tmp_path)}
    here, there = pty.openpty()
    shell = subprocess.Popen(["zsh", "-i"], stdin=there, stdout=there, stderr=there, env=environment, cwd=tmp_path)
    try:
        read_until(here, "> ")
        os.write(here, f"{line}\t".encode())
        shown = read_until(here, value)
        assert value in shown, shown
    finally:
        shell.kill()
        shell.wait()
        os.close(here)
        os.close(there)


def read_until(terminal: int, text: str) -> str:
    """What the terminal shows up to a text, or within ten seconds."""
    shown, end = "", time.monotonic() + 10
    while text not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")
    return shown
