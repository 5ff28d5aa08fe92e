"""`rocwheel data check` on a checkout of TheRock and on Debian's packages. Part of `--set all`."""

import re
from pathlib import Path

from command import Rocwheel, run

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_commit_of_therock_that_we_test_with_has_nothing_new(rocwheel: Rocwheel) -> None:
    folder = Path(run(REPOSITORY / "scripts/fetch-therock").stdout.strip())
    checked = rocwheel.run("data", "check", "--therock", folder)
    assert checked.stdout == ""
    # A target that it has and that we are made to forget is found again.
    cmake = (folder / "cmake/therock_amdgpu_targets.cmake").read_text()
    assert len(re.findall(r"^therock_add_amdgpu_target\(gfx", cmake, re.M)) > 20


def test_packages_of_debian_have_nothing_new(rocwheel: Rocwheel, debs: list[Path]) -> None:
    checked = rocwheel.run("data", "check", "--debian", debs[0].parent)
    assert checked.stdout == ""
