"""The terminal of the README, and docs/first-wheel.md, followed with the debug binary on this
machine. test_release_real.py follows it in a root that has nothing but Python."""

import sys
from pathlib import Path

import pytest
from guides import script

from command import Rocwheel, download, run
from tool_wheel import pip_of

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_guide_can_be_followed(tool: Path, tmp_path: Path) -> None:
    (tmp_path / "follow.sh").write_text(script("first-wheel.md", tmp_path))
    said = run("bash", "follow.sh", cwd=tmp_path, environment=pip_of(tool, tmp_path)).prints("RW007 too-new")
    assert list((tmp_path / "repaired").glob("gafime_rocm-0.4.7-*manylinux_2_34_x86_64.whl"))
    received = sorted(path.name.split("-")[0] for path in (tmp_path / "received").glob("*.whl"))
    assert received == ["gafime_rocm", "gafime_rocm_device_gfx942"]
    assert ", 0 errors" in said.stdout.splitlines()[-1] or ": 0 errors" in said.stdout.splitlines()[-1]


def test_the_terminal_of_the_readme_is_what_the_program_prints(rocwheel: Rocwheel, tmp_path: Path) -> None:
    download(tmp_path, "--python-version", "3.12", "--platform", "manylinux_2_28_x86_64", "gafime-rocm==0.4.7")
    (wheel,) = tmp_path.glob("*.whl")
    drawn = tmp_path / "audit.svg"
    run(
        *(sys.executable, REPOSITORY / "scripts/terminal-picture"),
        *("--rocwheel", rocwheel.binary, "--wheel", wheel, "--output", drawn),
    )
    kept = REPOSITORY / "docs/images/audit.svg"
    assert drawn.read_text() == kept.read_text(), "run scripts/terminal-picture, and look at the picture"
