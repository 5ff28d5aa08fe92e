"""Commands whose results are about other systems and machines: what the program for Windows says is
what the one for Linux says. And what it says where Windows lacks git, Python or a GPU."""

import json
import os
from pathlib import Path

import pytest
from pair import Pair

from command import Rocwheel
from doctor_trees import make_cpx, make_healthy_machine

ROWS = """\
[[target]]
name = "gfx1300"
product = "A card of next year"
families = ["dgpu-all", "gfx130X-all"]
package = "gfx12"
"""


@pytest.mark.parametrize(
    "words",
    [
        ["data", "list", "--json"],
        ["data", "show", "gfx942"],
        ["data", "show", "--json", "librocblas.so.5"],
        ["config", "schema"],
        ["recipe", "list", "--json"],
        ["recipe", "check"],
        ["recipe", "show", "torch", "--platform", "linux"],
        ["recipe", "show", "torch", "--platform", "windows"],
        ["recipe", "show", "torch", "--platform", "windows", "--json"],
        ["recipe", "show", "triton", "--source"],
        ["matrix", "--json"],
        ["matrix", "--platform", "linux,windows", "--excluded"],
        ["matrix", "torch", "--platform", "windows", "--format", "github"],
        ["matrix", "torch", "--format", "workflow"],
    ],
    ids=" ".join,
)
def test_what_needs_no_files(pair: Pair, words: list[str]) -> None:
    assert pair.run(*words)


def test_rows_of_a_user(pair: Pair) -> None:
    pair.write("rows.toml", ROWS)
    assert "A card of next year" in pair.run("data", "show", "gfx1300", "--data-file", "rows.toml")


def test_options_of_a_file(pair: Pair) -> None:
    """The file is found in the working folder; its lines may end as those of Windows do."""
    pair.write("rocwheel.toml", "[prune]\r\nkeep = 'gfx942'\r\n")
    said = pair.run("config", "show", "prune", "--origin")
    assert "prune.keep  'gfx942'  line 2" in said


def test_a_matrix_of_wheels(pair: Pair) -> None:
    name = "torch-2.9.1+rocm7.2-cp312-cp312-win_amd64.whl"
    pair.write(f"wheels/{name}", b"")
    words = ["matrix", "torch", "--platform", "windows", "--torch", "2.9.1", "--wheels", "wheels"]
    assert name in pair.run(*words, "--json")


@pytest.mark.parametrize("change", ["healthy", "no-device", "cpx"])
def test_doctor_of_another_machine(pair: Pair, change: str) -> None:
    for folder in pair.folders.values():
        machine = make_cpx(folder, 16) if change == "cpx" else make_healthy_machine(folder)
        if change == "no-device":
            machine.remove("dev/kfd")
        machine.finish()
    site = "venv/lib/python3.12/site-packages"
    document = json.loads(pair.run("doctor", "--root", "root", "--venv", site, "--json", expect=change == "no-device"))
    assert len(document["gpus"]) == (16 if change == "cpx" else 1)


JUNIT = """\
<testsuites><testsuite name="pytest" tests="3" failures="1" skipped="1">
<testcase classname="test_a.TestOne" name="test_pass[x::y]" file="test_a.py" time="0.5"/>
<testcase classname="test_a" name="test_fail" time="0.25"><failure message="1 == 2">assert</failure></testcase>
<testcase classname="test_a" name="test_skip" time="0"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>
"""


def test_a_report(pair: Pair) -> None:
    pair.write("reports/r.xml", JUNIT)
    words = ["test", "report", "reports", "--html", "page.html", "--junit", "all.xml", "--json"]
    document = json.loads(pair.run(*words, expect=1))
    assert document["result"] == "failed" and len(document["report"]["tests"]) == 3
    pair.compare("all.xml")
    # The page has the paths of the reports; in JSON a backslash is two.
    pages = {(folder / "page.html").read_text().replace("\\\\", "/") for folder in pair.folders.values()}
    assert len(pages) == 1
    assert "test_fail" in pair.run("test", "report", "reports", expect=1)


def test_a_plan_of_a_build(pair: Pair) -> None:
    """For the system that it runs on, unlike all others. It needs neither Python nor a compiler."""
    words = ["build", "torch", "--torch", "2.11", "--python", "3.12", "--rocm", "7.2", "--gpu-targets", "gfx1100"]
    words += ["--source-root", "src", "--rocm-sdk", "index=https://example.org/simple/", "--dry-run"]
    said = pair.programs["windows"].run(*words, cwd=pair.folders["windows"]).stdout
    assert "on windows" in said and 'set "USE_ROCM=ON"' in said and "export" not in said, said
    assert list(pair.folders["windows"].iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="git is there")
def test_a_checkout_without_git(windows: Rocwheel, tmp_path: Path) -> None:
    said = windows.run("source", "checkout", "torch", "--line", "2.11", "--root", "src", cwd=tmp_path, expect=1).stderr
    assert "git" in said and "hint: " in said, said
    assert list(tmp_path.iterdir()) == []
