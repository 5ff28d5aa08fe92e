"""Times `rocwheel test report` on reports as PyTorch's runner writes them.

The files and cases are made by code: 811 files (the job linux-noble-rocm-py3.12-mi300 of 22 August
2026), a name of some 60 characters for each case, four in ten skipped with a reason as long as
PyTorch's, one in a thousand failed with a traceback of 4 KB, one in a thousand passed at its second
try. Prints seconds and the largest memory of each run.
"""

import json
import resource
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from measuring import options, write_figures

FILES = 811
TRACE = "\n".join(f"  File &quot;test_nn.py&quot;, line {line}, in test" for line in range(90))


def case(number: int) -> str:
    head = f'<testcase classname="TestOps{number % 40}" name="test_operator_{number}_cuda_float32" '
    head += f'file="test_{number % FILES}.py" time="0.{number % 1000:03}"'
    if number % 1000 == 1:
        return f'{head}><failure message="AssertionError: tensors differ in {number}">{TRACE}</failure></testcase>'
    if number % 1000 == 2:
        return f'{head}><rerun message="RuntimeError: HIP error {number}">{TRACE}</rerun></testcase>'
    if number % 10 < 4:
        reason = f"test_{number % FILES}.py::TestOps::test_{number}: Skipped! not supported on this device"
        return f'{head}><skipped type="pytest.skip" message="{reason}">/pytorch/test.py:1</skipped></testcase>'
    return f"{head}/>"


def write_reports(folder: Path, cases: int) -> int:
    size = 0
    for number in range(FILES):
        inner = "".join(case(one) for one in range(number, cases, FILES))
        path = folder / f"python-pytest/test_{number}/test_{number}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        start = f"2026-11-23T12:{number // 60 % 60:02}:{number % 60:02}"
        path.write_text(
            f'<testsuites><testsuite name="pytest" timestamp="{start}" tests="{inner.count("<testcase")}">'
            f"{inner}</testsuite></testsuites>"
        )
        size += path.stat().st_size
    return size


def main() -> None:
    parser = options(__doc__, runs=5)
    parser.add_argument("--cases", type=int, default=100_000)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    folder = arguments.work / "reports"
    size = write_reports(folder, arguments.cases)
    seconds, processor = [], []
    command = [arguments.rocwheel, "test", "report", folder, "--suite", "pytorch"]
    command += ["--html", arguments.work / "report.html", "--junit", arguments.work / "junit.xml"]
    for _ in range(arguments.runs):
        begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        finished = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(time.monotonic() - begin)
        processor.append(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime)
        assert finished.returncode == 1, finished.returncode
    memory = used.ru_maxrss / 1000
    page = (arguments.work / "report.html").stat().st_size
    row = {"cases": arguments.cases, "files": FILES, "megabytes": size / 1e6, "page_megabytes": page / 1e6}
    row |= {"median_seconds": statistics.median(seconds), "median_processor_seconds": statistics.median(processor)}
    row |= {"largest_memory_megabytes": memory}
    print(json.dumps(row))
    write_figures(arguments, row)


if __name__ == "__main__":
    main()
