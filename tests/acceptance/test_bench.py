"""`rocwheel test bench`: what became slower is found; what cannot be compared has no verdict."""

import json
import subprocess
import sys
import time
from pathlib import Path

from command import Rocwheel
from trees import put

BENCHMARK = """
import json, sys, time
def measure(count):
    begin = time.perf_counter()
    total = 0
    for number in range(count):
        total += number * number
    return (time.perf_counter() - begin) * 1e6
count = int(sys.argv[1])
best = [min(measure(count) for _ in range(5)), min(measure(60000) for _ in range(5))]
rows = [{"name": name, "unit": "us", "value": value} for name, value in zip(("loop", "steady"), best)]
print(json.dumps(rows))
"""


# A benchmark that says what it is told.
ONE_NUMBER = "import json, sys\nprint(json.dumps([{'name': 'loop', 'value': sys.argv[1], 'unit': sys.argv[2]}]))\n"


def test_a_benchmark_that_became_slower_is_found(rocwheel: Rocwheel, tmp_path: Path) -> None:
    script = tmp_path / "bench.py"
    script.write_text(BENCHMARK)
    history = tmp_path / "history"

    def measure(count: int, *more: object, expect: int = 0) -> dict:
        command = ("--", sys.executable, script, count)
        options = ("--cpu", "--history", history, "--samples", 20, *more)
        return rocwheel.json("test", "bench", *options, *command, expect=expect)["benchmarks"]

    first = measure(20000, "--label", "one", "--export", tmp_path / "export.json")
    assert first["loop"]["comparison"]["movement"] == "no_baseline"
    assert first["loop"]["summary"]["samples"] == 20
    assert {row["name"] for row in json.loads((tmp_path / "export.json").read_text())} == {"loop", "steady"}
    # Twice the work takes longer on any machine, however busy it is.
    slow = measure(60000, "--label", "two", expect=1)
    assert slow["loop"]["comparison"]["movement"] == "slower"
    assert slow["loop"]["comparison"]["ratio"] > 1.5
    (file,) = history.iterdir()
    assert [json.loads(line)["label"] for line in file.read_text().splitlines()] == ["one", "two"]
    # A baseline that does not exist would find nothing slower.
    wrong = ("test", "bench", "--cpu", "--history", history, "--baseline", "three", "--", sys.executable, script)
    rocwheel.run(*wrong, expect=2).says("has no measurement `three`", "`one`", "`two`")
    # Results of other hardware are no baseline.
    record = json.loads(file.read_text().splitlines()[0])
    record["key"] = {"target": "gfx942"}
    (history / "gfx942-000000000000.jsonl").write_text(json.dumps(record) + "\n")
    file.unlink()
    again = rocwheel.run("test", "bench", "--cpu", "--history", history, "--import", tmp_path / "export.json")
    assert "no baseline" in again.stdout


def test_two_states_are_measured_in_turns(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """On a machine that becomes slower all the time, a later series is slower; turns are not."""
    script = tmp_path / "bench.py"
    script.write_text(
        "import json, pathlib, sys\n"
        "count = pathlib.Path(__file__).with_name('count')\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number))\n"
        "factor = float(sys.argv[1]) if len(sys.argv) > 1 else 1\n"
        "print(json.dumps([{'name': 'warming', 'unit': 'us', 'value': (100 + 2 * number) * factor}]))\n"
    )

    def measure(*options: object, expect: int = 0) -> dict:
        words = ("--json", "test", "bench", "--cpu", "--samples", 10, *options)
        return json.loads(rocwheel.run(*words, expect=expect).stdout)["benchmarks"]["warming"]

    history = ("--history", tmp_path / "history")
    measure(*history, "--", sys.executable, script)
    drifted = measure(*history, "--", sys.executable, script, expect=1)
    assert drifted["comparison"]["movement"] == "slower"
    command = f"'{sys.executable}' '{script}'"
    same = measure("--base", command, "--", sys.executable, script)
    assert (same["comparison"]["movement"], same["base"]["samples"]) == ("same", 10)
    slower = measure("--base", command, "--", sys.executable, script, 2, expect=1)
    assert slower["comparison"]["movement"] == "slower"
    # The second series is in the samples of both.
    assert (slower["summary"]["samples"], slower["base"]["samples"]) == (20, 20)
    other = tmp_path / "other-python"
    put(other, f'#!/bin/sh\nexec {sys.executable} "$@" 0.5\n', 0o755)
    assert measure("--base-python", other, "--", sys.executable, script, expect=1)["comparison"]["ratio"] > 1.8
    for wrong in ("", "'open"):
        words = ("test", "bench", "--cpu", "--base", wrong, "--", sys.executable, script)
        assert "`--base` is no command" in rocwheel.run(*words, expect=2).stderr
    rocwheel.run("test", "bench", "--base", command, *history, "--", sys.executable, script, expect=2)


def test_a_benchmark_that_is_measured_no_more_is_an_error(rocwheel: Rocwheel, tmp_path: Path) -> None:
    def script(*names: str) -> str:
        rows = json.dumps([{"name": name, "unit": "us", "value": 1.0} for name in names])
        path = tmp_path / f"{'-'.join(names)}.py"
        path.write_text(f"print({rows!r})\n")
        return str(path)

    bench = ("test", "bench", "--cpu", "--samples", 8)
    history = (*bench, "--history", tmp_path / "history")
    both, one = script("a", "b"), script("a")
    rocwheel.run(*history, "--label", "v1", "--", sys.executable, both)
    said = rocwheel.run(*history, "--baseline", "v1", "--", sys.executable, one, expect=1)
    assert "`b` was measured before, and now it was not" in said.stderr
    base = ("--base", f"'{sys.executable}' '{both}'")
    assert "`b` was measured before" in rocwheel.run(*bench, *base, "--", sys.executable, one, expect=1).stderr
    rocwheel.run(*bench, *base, "--", sys.executable, both)


def test_measurements_of_other_conditions_have_no_verdict(rocwheel: Rocwheel, tmp_path: Path) -> None:
    script = tmp_path / "bench.py"
    script.write_text(ONE_NUMBER)
    history = tmp_path / "history"

    def measure(value: float, unit: str = "us", expect: int = 0) -> tuple[dict, str]:
        options = ("--cpu", "--samples", 8, "--history", history, "--", sys.executable, script, value, unit)
        ran = rocwheel.run("--json", "test", "bench", *options, expect=expect)
        document = json.loads(ran.stdout)
        return document["benchmarks"]["loop"]["comparison"], ran.stderr

    measure(1)
    (file,) = history.iterdir()
    record = json.loads(file.read_text())
    assert record["conditions"]["load"]
    record["conditions"]["machine"] = "on fire"
    file.write_text(json.dumps(record) + "\n")
    comparison, words = measure(5, expect=3)
    assert comparison["movement"] == "other_conditions"
    assert "there is no verdict: machine was on fire and is " in words
    # It is a baseline of its own, also for other units of time.
    assert measure(10, expect=1)[0]["movement"] == "slower"
    comparison = measure(0.02, "ms", expect=1)[0]
    assert (comparison["movement"], round(comparison["ratio"], 6)) == ("slower", 4)
    assert measure(0.005, "ms")[0]["movement"] == "same"
    # A rate is no time, and from then on a baseline.
    comparison, words = measure(5, "GB/s", expect=1)
    assert comparison["movement"] == "other_unit"
    assert "`loop` was measured in `us`, and now in `GB/s`: they cannot be compared" in words.replace("ms", "us")
    assert measure(5, "GB/s")[0]["movement"] == "same"
    # 0 is neither faster nor a baseline.
    comparison, words = measure(0, "GB/s", expect=1)
    assert comparison["movement"] == "zero"
    assert "`loop` has a value of 0 before or now, which is neither faster nor slower" in words
    assert measure(5, "GB/s")[0]["movement"] == "same"
    time_of_0 = ("--cpu", "--samples", 8, "--", sys.executable, script, 0, "us")
    assert "`loop` took 0 us, and a time is more than 0" in rocwheel.run("test", "bench", *time_of_0, expect=1).stderr


def test_two_states_in_other_units_are_converted_or_an_error(rocwheel: Rocwheel, tmp_path: Path) -> None:
    script = tmp_path / "bench.py"
    script.write_text(ONE_NUMBER)
    for old, new, code, movement in (
        (("1000", "us"), ("20", "ms"), 1, "slower"),
        (("1000", "us"), ("1", "ms"), 0, "same"),
        (("20", "ms"), ("1000", "us"), 0, "faster"),
        (("1000", "us"), ("20", "MB"), 1, "other_unit"),
        (("1000", "us"), ("20", "''"), 1, "other_unit"),
        (("1000", "MB"), ("0", "MB"), 1, "zero"),
        (("0", "MB"), ("1000", "MB"), 1, "zero"),
        (("0", "leaks"), ("0", "leaks"), 0, "same"),
    ):
        base = ("--base", f"'{sys.executable}' '{script}' {' '.join(old)}")
        command = (sys.executable, script, new[0], new[1].strip("'"))
        ran = rocwheel.run("--json", "test", "bench", "--cpu", "--samples", 8, *base, "--", *command, expect=code)
        found = json.loads(ran.stdout)["benchmarks"]["loop"]["comparison"]["movement"]
        assert found == movement, (old, new, ran.stderr)


def test_a_process_that_a_benchmark_leaves_behind_holds_nothing_up(rocwheel: Rocwheel, tmp_path: Path) -> None:
    left = tmp_path / "left.sh"
    left.write_text("sleep 333 & setsid sleep 4 & echo '{\"a\": 1}'\n")
    started = time.monotonic()
    rocwheel.run("test", "bench", "--cpu", "--samples", 8, "--warm-up", 0, "--timeout", 20, "--", "sh", left)
    assert time.monotonic() - started < 60
    listing = subprocess.run(["pgrep", "-f", "^sleep 333$"], capture_output=True, text=True, check=False)
    assert listing.stdout == ""


def test_commands_that_measure_nothing_are_errors(rocwheel: Rocwheel) -> None:
    for code, words in {
        "print('hello')": "no measurements",
        "import sys; sys.exit('broken: out of memory')": "broken: out of memory",
        "import time; time.sleep(60)": "ran longer than 1 s",
    }.items():
        rocwheel.run("test", "bench", "--cpu", "--timeout", 1, "--", sys.executable, "-c", code, expect=1).says(words)
    assert "there is nothing to measure" in rocwheel.run("test", "bench", expect=2).stderr


def test_operator_benchmarks_of_pytorch_are_run(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """A stand-in with the options and the CSV of PyTorch's benchmark_core.py."""
    folder = tmp_path / "pytorch/benchmarks/operator_benchmark"
    (folder / "pt").mkdir(parents=True)
    (folder / "pt/add_test.py").write_text(
        "import csv, random, sys\n"
        "path = sys.argv[sys.argv.index('--output-csv') + 1]\n"
        "assert sys.argv[sys.argv.index('--device') + 1] == 'cpu', sys.argv\n"
        "head = ['Benchmarking Framework', 'Benchmarking Module Name', 'Case Name', 'tag', 'run_backward',\n"
        "        'Execution Time', 'Peak Memory (KB)']\n"
        "with open(path, 'a', newline='') as file:\n"
        "    writer = csv.writer(file)\n"
        "    writer.writerow(head)\n"
        "    writer.writerow(['PyTorch', 'add', 'add_M1_N1_K1_cpu', 'short', False, 2 + random.random() / 50, 0])\n"
        "print('# PyTorch Operator Micro-benchmarks')\n"
    )
    options = ("--cpu", "--pytorch-dir", tmp_path / "pytorch", "--operators", "add", "--python", sys.executable)
    ran = rocwheel.run("--json", "test", "bench", *options, "--history", tmp_path / "history", "--samples", 10)
    found = json.loads(ran.stdout)["benchmarks"]["add_M1_N1_K1_cpu"]
    assert (found["unit"], found["summary"]["samples"]) == ("us", 10)
    assert 2 <= found["summary"]["median"] <= 2.02
    wrong = rocwheel.run("test", "bench", "--pytorch-dir", tmp_path, "--operators", "add", expect=2)
    assert "benchmarks/operator_benchmark" in wrong.stderr
