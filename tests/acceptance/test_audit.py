"""`rocwheel audit` on real wheels: what it says of the packages that this program makes, and of a small wheel from PyPI."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from command import Rocwheel
from packages import PackageSet, fetch_wheels

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def small_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (wheel,) = fetch_wheels(tmp_path_factory.mktemp("wheel"), "gafime-rocm==0.4.7").glob("gafime_rocm-*.whl")
    return wheel


def test_the_set_passes(rocwheel: Rocwheel, package_set: PackageSet, least_loaded: int) -> None:
    """Every library of the set is found in it, with its symbols; the tags are true; RECORD is right."""
    wheels = sorted(package_set.dist.glob("*.whl"))
    report = json.loads(rocwheel.run("audit", "--json", *wheels).stdout)
    assert [finding for finding in report["findings"] if finding["severity"] == "error"] == []
    assert sum(scenario["loaded"] for scenario in report["scenarios"]) >= least_loaded
    assert all(scenario["missing"] == [] for scenario in report["scenarios"])


def test_findings_of_a_small_wheel_are_kept(rocwheel: Rocwheel, small_wheel: Path) -> None:
    """A change of what is found in a wheel that does not change is one that somebody has to mean."""
    result = rocwheel.run("audit", "--json", small_wheel.name, cwd=small_wheel.parent, expect=1)
    kept = HERE / "snapshots/audit-gafime.json"
    if os.environ.get("ROCWHEEL_UPDATE_SNAPSHOTS"):
        kept.write_text(result.stdout)
    assert result.stdout == kept.read_text()
