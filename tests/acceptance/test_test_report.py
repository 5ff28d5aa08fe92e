"""`rocwheel test report`, `shards` and `bench`: real reports of pytest and ctest are read, other
programs read what is written, and nothing that did not run passes."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import junitparser
import pytest
from browser import Browser
from envelopes import opened, payload

from command import Rocwheel, run
from trees import put

THEROCK = Path("/tmp/therock/external-builds/pytorch")

SUITE = """
import os, sys
import pytest

class TestMath:
    @pytest.mark.parametrize("value", [1, "x::y", "<b>"])
    def test_pass(self, value):
        print("some output")

def test_fail():
    print("\\x1b[31mred\\x1b[0m </script>")
    assert 1 == 2, "one is not two"

@pytest.mark.skip(reason="no GPU")
def test_skip(): ...

@pytest.mark.xfail(reason="bug 1")
def test_known(): assert False

@pytest.fixture
def leaves():
    yield
    raise OSError("left over")

def test_clean_up(leaves): ...
"""


def pytest_report(folder: Path, family: str, text: str = SUITE) -> Path:
    """The report of a real run of pytest."""
    put(folder / "test_sample.py", text)
    report = folder / f"{family}.xml"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", f"junit_family={family}"]
        + ["--rootdir", folder, f"--junit-xml={report}", folder / "test_sample.py"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    assert report.is_file()
    return report


def report(rocwheel: Rocwheel, *arguments: object, expect: int = 0) -> dict:
    return rocwheel.json("test", "report", *arguments, expect=expect)


def outcomes(document: dict) -> dict[str, str]:
    return {test["id"]: test["outcome"] for test in document["report"]["tests"]}


@pytest.mark.parametrize("family", ["xunit1", "xunit2"])
def test_pytests_own_reports_have_its_node_ids(rocwheel: Rocwheel, tmp_path: Path, family: str) -> None:
    document = report(rocwheel, pytest_report(tmp_path / "r", family), expect=1)
    assert document["result"] == "failed"
    assert outcomes(document) == {
        "test_sample.py::TestMath::test_pass[1]": "passed",
        "test_sample.py::TestMath::test_pass[x::y]": "passed",
        "test_sample.py::TestMath::test_pass[<b>]": "passed",
        "test_sample.py::test_fail": "failed",
        "test_sample.py::test_skip": "skipped",
        "test_sample.py::test_known": "expected_failure",
        "test_sample.py::test_clean_up": "error",
    }
    assert document["counts"]["total"] == 7


def test_ctests_own_report_is_read(rocwheel: Rocwheel, tmp_path: Path) -> None:
    source, build = tmp_path / "source", tmp_path / "build"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.21)\nproject(x NONE)\nenable_testing()\n"
        "add_test(NAME good COMMAND true)\nadd_test(NAME bad COMMAND false)\n"
        "add_test(NAME slow COMMAND sleep 60)\nset_tests_properties(slow PROPERTIES TIMEOUT 1)\n"
        'add_test(NAME dies COMMAND sh -c "kill -SEGV $$")\n'
        'add_test(NAME skips COMMAND sh -c "exit 77")\nset_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 77)\n'
        "add_test(NAME off COMMAND true)\nset_tests_properties(off PROPERTIES DISABLED TRUE)\n"
        "add_test(NAME absent COMMAND /no/such/program)\n"
    )
    run("cmake", "-S", source, "-B", build)
    subprocess.run(["ctest", "--output-junit", tmp_path / "ctest.xml"], cwd=build, capture_output=True, check=False)
    document = report(rocwheel, tmp_path / "ctest.xml", expect=1)
    found = outcomes(document)
    # ctest 3.25 writes no reason of a failure.
    assert found.pop("slow") in ("timed_out", "failed") and found.pop("dies") in ("crashed", "failed")
    assert found == {"good": "passed", "bad": "failed", "skips": "skipped", "off": "skipped", "absent": "not_run"}


SUBTESTS = """
import unittest

class Test(unittest.TestCase):
    def test_parts(self):
        for number in range(9):
            with self.subTest(number=number):
                self.assertTrue(True)
"""


@pytest.mark.parametrize("options", [(), ("-n2",)])
def test_what_pytest_announces_is_what_it_writes(rocwheel: Rocwheel, tmp_path: Path, options: tuple[str, ...]) -> None:
    """Subtests are announced as tests and have no test cases; a worker that dies is an error."""
    (tmp_path / "test_parts.py").write_text(SUBTESTS)
    dies = "def test_dies():\n    import os\n    os._exit(3)\n" if options else ""
    (tmp_path / "test_sample.py").write_text(SUITE + dies)
    for name in ("test_parts.py", "test_sample.py"):
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, name]
        subprocess.run([*words, f"--junit-xml={name}.xml"], cwd=tmp_path, capture_output=True, check=False)
    assert report(rocwheel, tmp_path / "test_parts.py.xml")["result"] == "passed"
    document = report(rocwheel, tmp_path / "test_sample.py.xml", expect=1)
    assert document["gaps"] == []
    assert document["counts"]["total"] == (8 if options else 7)


def test_a_pass_of_another_gpu_does_not_undo_a_failure(
    rocwheel: Rocwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import os\ndef test_mm(): assert not os.environ.get('WRONG')\ndef test_b(): ...\n"
    for family, wrong in (("gfx94X-dcgpu", "1"), ("gfx110X-all", "")):
        monkeypatch.setenv("WRONG", wrong)
        pytest_report(tmp_path / f"test-reports-{family}", "xunit2", text)
    document = report(rocwheel, tmp_path, expect=1)
    assert outcomes(document) == {"test_sample.py::test_b": "passed", "test_sample.py::test_mm": "failed"}
    assert document["counts"]["flaky"] == 0


def test_a_group_of_node_that_fails_has_no_test_case(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """The end of a file of Node 20: only the comments tell of the group whose clean-up failed."""
    (tmp_path / "r.xml").write_text(
        '<testsuites><testsuite name="group" errors="0" tests="1" failures="0"><testcase name="x" classname="test"/>'
        "</testsuite><!-- tests 2 --><!-- pass 1 --><!-- fail 1 --><!-- cancelled 0 --></testsuites>"
    )
    document = report(rocwheel, tmp_path / "r.xml", expect=1)
    assert document["result"] == "incomplete" and "announces 1 failure" in document["gaps"][0]


def test_shards_that_lose_tests_between_them_are_found(rocwheel: Rocwheel, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text("".join(f"def test_{number}(): ...\n" for number in range(8)))
    for index, seconds in ((1, 1.0), (2, 60.0)):
        # The first shard leaves `test_1` to the second, which leaves it to the first.
        durations = {f"test_a.py::test_{number}": seconds if number == 1 else 1.0 for number in range(8)}
        (tmp_path / "times.json").write_text(json.dumps(durations))
        words = ("test", "suite", "--python", sys.executable, "test_a.py", "--shard", f"{index}/2")
        rocwheel.run(*words, "--durations", "times.json", cwd=tmp_path)
    document = report(rocwheel, tmp_path / "test-results", expect=1)
    assert document["result"] == "incomplete" and "have 7 of the 8 tests that were collected" in document["gaps"][0]


@pytest.mark.parametrize("kind", ["xfail", "quarantine"])
def test_a_suite_and_its_report_agree_about_known_failures(rocwheel: Rocwheel, tmp_path: Path, kind: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text("def test_bad(): assert 0\ndef test_good(): ...\n")
    row = f'kind = "{kind}"\nreason = "known"\nowner = "lab"\nexpires = 2999-01-01\n'
    ids = ("bad",) if kind == "xfail" else ("bad", "good")
    (tmp_path / "list.toml").write_text("".join(f'[[test]]\nid = "test_a.py::test_{name}"\n{row}' for name in ids))
    words = ("test", "suite", "--python", sys.executable, "--list", "list.toml", "-o")
    only = "test_a.py::test_bad" if kind == "xfail" else "test_a.py"
    rocwheel.run(*words, "out", only, cwd=tmp_path, expect=1).prints("no test passed whose pass counts")
    assert report(rocwheel, tmp_path / "out", expect=1)["gaps"] == ["no test passed"]


def test_a_selection_is_in_the_run_and_in_the_report(rocwheel: Rocwheel, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_a.py").write_text("def test_one(): ...\ndef test_two(): ...\n")

    def selection(*words: str, addopts: str = "") -> list[str]:
        output = tmp_path / "out" / str(len(list((tmp_path / "out").glob("*"))))
        suite = ("test", "suite", "--python", sys.executable, "-o", output, *words)
        rocwheel.run(*suite, cwd=tmp_path, environment={"PYTEST_ADDOPTS": addopts})
        document = report(rocwheel, output)
        note = rocwheel.run("test", "report", output)
        found = document["report"]["runs"][0]["facts"].get("selection", [])
        assert ("only a selection of the tests ran" in note.stdout + note.stderr) == bool(found)
        return found

    (tmp_path / "out").mkdir()
    assert selection("test_a.py") == []
    assert selection("test_a.py", "--", "-v", "--tb=short", addopts="-q") == []
    assert selection("test_a.py", "-k", "one") == ["-k", "one"]
    assert selection("test_a.py::test_one") == ["test_a.py::test_one"]
    assert selection("test_a.py", "--", "-m", "not slow") == ["-m", "not slow"]
    assert selection("test_a.py", addopts="-k one") == ["PYTEST_ADDOPTS=-k one"]


def test_what_did_not_run_has_not_passed(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """T1, T2 and T3: today's scripts end with 0 on each of these."""
    nothing = pytest_report(tmp_path / "collected", "xunit2", "")
    assert report(rocwheel, nothing, expect=1)["result"] == "incomplete"
    empty = tmp_path / "empty"
    empty.mkdir()
    assert report(rocwheel, empty, expect=1)["result"] == "incomplete"
    broken = tmp_path / "broken"
    put(broken / "r.xml", "<testsuites><testsuite")
    assert report(rocwheel, broken, expect=1)["result"] == "incomplete"
    assert rocwheel.run("test", "report", tmp_path / "nowhere", expect=1).stderr.startswith("error: `")
    for folder in (empty, broken, tmp_path / "collected"):
        rocwheel.run("compat", "summarize_test_results", "--reports-dir", folder, expect=1)


def test_a_summary_and_annotations_on_github(rocwheel: Rocwheel, tmp_path: Path) -> None:
    text = "def test_evil():\n    assert False, '::error::x | </details> ' + chr(10) + '::set-output name=a::b'\n"
    pytest_report(tmp_path / "r", "xunit2", text)
    summary = tmp_path / "summary"
    github = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    ran = rocwheel.run("test", "report", tmp_path / "r", expect=1, environment=github)
    lines = [line for line in (ran.stdout + ran.stderr).splitlines() if line.startswith("::")]
    assert lines and all(line.startswith(("::error title=", "::warning title=")) for line in lines), lines
    page = summary.read_text()
    assert "</details>" not in page and "test&#95;evil" in page
    assert "| pytest | failed |" in page
    (tmp_path / "odd.xml").write_text('<testsuite name="s"><testcase classname="c" name="x" status="KO"/></testsuite>')
    rocwheel.run("test", "report", tmp_path / "odd.xml", expect=1, environment=github)
    page = summary.read_text()
    assert "| incomplete |" in page and "is no word for an outcome that is known" in page


def test_other_programs_read_our_junit(rocwheel: Rocwheel, tmp_path: Path) -> None:
    pytest_report(tmp_path / "r", "xunit2")
    rocwheel.run("test", "report", tmp_path / "r", "--junit", tmp_path / "out.xml", expect=1)
    xml = junitparser.JUnitXml.fromfile(str(tmp_path / "out.xml"))
    cases = [case for suite in xml for case in suite]
    assert (xml.tests, xml.failures, xml.errors, xml.skipped, len(cases)) == (7, 1, 1, 2, 7)
    (failed,) = (case for case in cases if case.name == "test_fail")
    assert failed.result[0].message.startswith("AssertionError: one is not two")


def statement(path: Path) -> tuple[dict, dict]:
    envelope = json.loads(path.read_text())
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    return envelope, payload(envelope)


def test_a_verdict_is_signed_and_about_the_wheel(rocwheel: Rocwheel, tmp_path: Path) -> None:
    text = "def test_a(): ...\ndef test_b(): ...\n"
    reports = pytest_report(tmp_path / "r", "xunit2", text)
    wheel = tmp_path / "torch-2.9-py3-none-any.whl"
    wheel.write_bytes(b"the bytes that were tested")
    key = tmp_path / "key"
    rocwheel.run("release", "key", "new", key)
    verdict, result = tmp_path / "verdict.json", tmp_path / "result.json"
    arguments = ("test", "report", reports, "--suite", "pytorch", "--targets", "gfx942,gfx1100")
    refused = rocwheel.run(*arguments, "--verdict", verdict, expect=1)
    assert "no wheel is named" in refused.stderr and not verdict.exists()
    rocwheel.run(*arguments, "--wheel", wheel, "--verdict", verdict, "--test-result", result, "--signing-key", key)
    envelope, document = statement(verdict)
    assert document["predicateType"] == "https://rocwheel.dev/test-verdict/v1"
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert document["subject"] == [{"name": wheel.name, "digest": {"sha256": digest}}]
    predicate = document["predicate"]
    facts = [predicate[key] for key in ("suite", "result", "targets")]
    assert facts == ["pytorch", "passed", ["gfx1100", "gfx942"]]
    assert (predicate["counts"]["passed"], predicate["counts"]["not_run"]) == (2, 0)
    assert predicate["reports"][0]["digest"]["sha256"] == hashlib.sha256(reports.read_bytes()).hexdigest()
    assert statement(result)[1]["predicate"]["result"] == "PASSED"
    assert opened(envelope, key.with_name("key.pub")) == document


def test_a_verdict_is_about_one_file_of_a_name_and_targets_that_exist(rocwheel: Rocwheel, tmp_path: Path) -> None:
    reports = pytest_report(tmp_path / "r", "xunit2", "def test_a(): ...\n")
    words = ("test", "report", reports, "--verdict", tmp_path / "verdict.json")
    wheels = []
    for folder, text in (("A", b"one"), ("B", b"two"), ("C", b"one")):
        put(tmp_path / folder / "x-1.0-py3-none-any.whl", text)
        wheels.append(("--wheel", tmp_path / folder))
    rocwheel.run(*words, *wheels[0], *wheels[1], expect=2).says("different files of the name `x-1.0-py3-none-any.whl`")
    for targets, hint in (("gfx94l", "gfx942"), ("gfx942;gfx1100", "gfx942,gfx1100"), ("gfx94X-all", "a family")):
        said = rocwheel.run(*words, *wheels[0], "--targets", targets, expect=2).stderr
        assert f"`--targets` names `{targets}`, which is not a GPU target" in said and hint in said
    assert not (tmp_path / "verdict.json").exists()
    # The clock counts, and not the time that builds are given; the report is not of 1970 either.
    epoch = {"SOURCE_DATE_EPOCH": "1"}
    rocwheel.run(*words, *wheels[0], *wheels[2], "--targets", "gfx942, gfx1100", environment=epoch)
    predicate = statement(tmp_path / "verdict.json")[1]["predicate"]
    assert predicate["targets"] == ["gfx1100", "gfx942"]
    assert "2000" < predicate["started"][:19] <= predicate["finished"][:19]


def test_an_output_replaces_no_report_and_no_other_output(rocwheel: Rocwheel, tmp_path: Path) -> None:
    reports = pytest_report(tmp_path / "r", "xunit2", "def test_a(): ...\n")
    before = reports.read_bytes()
    merged = reports.parent / "merged.xml"
    said = rocwheel.run("test", "report", reports, "--junit", f"{reports.parent}/../r/{reports.name}", expect=2).stderr
    assert "which is one of the reports" in said and reports.read_bytes() == before
    said = rocwheel.run("test", "report", reports, "--junit", merged, "--html", merged, expect=2).stderr
    assert "`--html` and `--junit` both write" in said and not merged.exists()
    # A result from before is in the folder that is read.
    page = tmp_path / "page.html"
    rocwheel.run("test", "report", reports.parent, "--junit", merged)
    said = rocwheel.run("test", "report", reports.parent, "--junit", merged, "--html", page, expect=2).stderr
    assert "which is one of the reports" in said and not page.exists()
    rocwheel.run("test", "report", reports, "--junit", "/dev/null", "--html", "/dev/null")


def test_the_page_works_from_a_file(rocwheel: Rocwheel, tmp_path: Path, browser: Browser) -> None:
    many = SUITE + "\n@pytest.mark.parametrize('n', range(500))\ndef test_many(n): ...\n"
    many += "def test_evil():\n    print('<img src=x onerror=document.title=1>')\n    assert 0, '{data}</script><script>boom()'\n"
    pytest_report(tmp_path / "r", "xunit2", many)
    page = tmp_path / "report.html"
    rocwheel.run("test", "report", tmp_path / "r", "--html", page, "--title", "torch <2.9>", expect=1)
    # For readers without scripts.
    assert '<p class="verdict failed">failed: 508 tests</p>' in page.read_text()
    browser.resize(1280)
    browser.open(page.as_uri())
    assert browser.run("return document.title") == "torch <2.9>"
    shown = "return [...document.querySelectorAll('#tests summary .id')].map(e => e.textContent)"
    assert browser.run(shown) == [
        "test_sample.py::test_clean_up",
        "test_sample.py::test_evil",
        "test_sample.py::test_fail",
    ]
    browser.run("document.querySelectorAll('#tests details')[1].open = true")
    wait = "return new Promise(done => setTimeout(() => done(document.querySelector('#tests pre').textContent), 200))"
    assert "{data}</script><script>boom()" in browser.run(wait)
    assert browser.run("return document.querySelectorAll('img').length") == 0
    # All outcomes, then a search.
    browser.run("document.querySelectorAll('#outcomes input:checked').forEach(box => box.click())")
    assert browser.run(f"return ({shown[7:]}).length") == 200
    browser.run("document.getElementById('more').click()")
    assert browser.run(f"return ({shown[7:]}).length") == 400
    browser.run("document.getElementById('search').focus()")
    browser.type(*"MANY[421")
    settled = "return new Promise(done => setTimeout(() => done(document.getElementById('count').textContent), 400))"
    assert browser.run(settled) == "1 of 508 tests"
    folder = os.environ.get("ROCWHEEL_SCREENSHOTS")
    for width in (360, 1280):
        for scheme in ("light", "dark"):
            browser.resize(width)
            browser.prefer(scheme)
            browser.open(page.as_uri())
            browser.run("document.querySelectorAll('#tests details')[1].open = true")
            browser.run("return new Promise(done => setTimeout(done, 200))")
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth"), width
            if folder:
                browser.screenshot(Path(folder) / f"report-{width}-{scheme}.png")
    assert browser.console() == []


def test_shards_have_all_tests(rocwheel: Rocwheel, tmp_path: Path) -> None:
    durations = {f"test_{number}.py": float(number % 37 + 1) for number in range(200)}
    (tmp_path / ".test_durations").write_text(json.dumps(durations))
    arguments = ("test", "shards", tmp_path / ".test_durations", "--shards", 4)
    document = rocwheel.json(*arguments)
    assert sorted(test for shard in document["shards"] for test in shard["tests"]) == sorted(durations)
    assert max(shard["seconds"] for shard in document["shards"]) <= 1.1 * document["mean_seconds"]
    second = rocwheel.run(*arguments, "--shard", 2).stdout.split()
    assert second == document["shards"][1]["tests"]
    assert "Of the mean" in rocwheel.run(*arguments).stdout
    # A shard without tests takes no time, which is not less than none.
    assert "-0.0" not in rocwheel.run(*arguments[:-1], 201).stdout
    assert "-0.0" not in rocwheel.run("--json", *arguments[:-1], 201).stdout
    rocwheel.run(*arguments, "--shard", 5, expect=2)


def test_the_matrix_is_that_of_todays_script(rocwheel: Rocwheel, tmp_path: Path) -> None:
    output = tmp_path / "output"
    flags = ("--test-configs", "default distributed inductor other", "--default-runner", "a", "--multi-gpu-runner", "b")
    github = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(output)}
    rocwheel.run("compat", "generate_test_sharding_matrix.py", *flags, environment=github)
    ours = next(line for line in output.read_text().splitlines() if line.startswith("matrix="))
    assert len(json.loads(ours.removeprefix("matrix="))["include"]) == 15
    script = THEROCK / "generate_test_sharding_matrix.py"
    if script.is_file():
        theirs = tmp_path / "theirs"
        run(sys.executable, script, *flags, environment={"GITHUB_OUTPUT": str(theirs)})
        assert theirs.read_text() == ours + "\n"
