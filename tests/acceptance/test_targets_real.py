"""`llvm` of data/targets.toml, asked of compilers: the clangs that PyPI's ziglang has. The release
in Debian is asked in test_build_all.py."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from command import run

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("ziglang", "llvm"), [("0.15.2", 20), ("0.16.0", 21)])
def test_the_table_of_targets_agrees_with_llvm(ziglang: str, llvm: int, tmp_path: Path) -> None:
    run(REPOSITORY / ".venv/bin/uv", "pip", "install", "--quiet", "--target", tmp_path, f"ziglang=={ziglang}")
    zig = tmp_path / "ziglang/zig"
    assert f"clang version {llvm}." in run(zig, "cc", "--version").stdout
    (tmp_path / "empty.c").write_text("")

    def is_known(target: str) -> bool:
        command = [zig, "clang", "--target=amdgcn-amd-amdhsa", f"-mcpu={target}", "-nogpulib", "-c", "empty.c"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0

    assert not is_known("gfx9999")
    rows = tomllib.loads((REPOSITORY / "data/targets.toml").read_text())["target"]
    built_for = [row for row in rows if "product" in row]
    assert len(built_for) > 20
    for row in built_for:
        assert is_known(row["name"]) == (row.get("llvm", 0) <= llvm), row["name"]
