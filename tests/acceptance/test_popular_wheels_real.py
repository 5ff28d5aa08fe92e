"""`rocwheel audit` on 87 wheels of PyPI that many people use, 16 of them for Windows, 3 for musl:
every finding was looked at, and is in the table as true or false.

The table is popular-wheels.toml: for each wheel its findings, how much they weigh, and what was
found with readelf, llvm-readobj and unzip. A finding that is not in it, weighs something else or is
gone, fails. Part of `--set all`; 2 GB are downloaded once.
"""

import hashlib
import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from command import Rocwheel

REPOSITORY = Path(__file__).resolve().parents[2]
TABLE = tomllib.loads(Path(__file__).with_name("popular-wheels.toml").read_text())["wheel"]


@pytest.fixture(scope="module")
def popular() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rocwheel"
    folder = Path(os.environ.get("ROCWHEEL_CACHE", cache)) / "popular-wheels"
    subprocess.run([REPOSITORY / "scripts/fetch-popular-wheels", folder], check=True)
    return folder


def test_the_table_has_87_wheels_and_a_reason_for_every_finding() -> None:
    assert len({wheel["file"] for wheel in TABLE}) == len(TABLE) == 87
    assert sum("win_amd64" in wheel["file"] for wheel in TABLE) == 16
    for finding in (finding for wheel in TABLE for finding in wheel.get("finding", [])):
        assert finding["why"], finding


@pytest.mark.parametrize("row", TABLE, ids=[wheel["file"].split("-")[0] for wheel in TABLE])
def test_findings_are_those_of_the_table(rocwheel: Rocwheel, popular: Path, row: dict, tmp_path: Path) -> None:
    wheel = popular / row["file"]
    with open(wheel, "rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == row["sha256"], "another file than the one looked at"
    beside = tmp_path / "beside"
    beside.mkdir()
    for name in row.get("with", []):
        (beside / name).symlink_to(popular / name)
    command = [rocwheel.binary, "audit", "--json", "--scratch", tmp_path, wheel]
    if row.get("with"):
        command += ["--with", beside]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)["findings"]
    columns = ("code", "file", "subject", "severity")
    kept = {tuple(finding[column] or "" for column in columns) for finding in found}
    expected = {tuple(finding[column] for column in columns) for finding in row.get("finding", [])}
    assert kept == expected
    assert done.returncode == int(any(finding["severity"] == "error" for finding in found))
