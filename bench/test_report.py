"""Times `rocwheel test report` on reports as PyTorch's runner writes them.

The files and cases are made by code: 811 files (the job linux-noble-rocm-py3.12-mi300 of 22 August
2026), a name of some 60 characters for each case, four in ten skipped with a reason as long as
PyTorch's, one in a thousand failed with a traceback of 4 KB, one in a thousand passed at its second
try."""

import subprocess
from pathlib import Path

from measuring import MEGABYTE, Benchmark, measure, options

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


class Report(Benchmark):
    columns = {"report MB": ".0f", "page MB": ".1f"}

    def run(self) -> None:
        folder, page = self.work / "reports", self.work / "report.html"
        written = write_reports(folder, self.settings.cases)
        outputs = ("--html", page, "--junit", self.work / "junit.xml")
        words = (self.settings.rocwheel, "test", "report", folder, "--suite", "pytorch", *outputs)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        # Tests failed, which the exit code says.
        figures = self.repeat(measure, "sh", "-c", '"$@"; [ $? -eq 1 ]', "sh", *words, **quiet)
        self.head()
        sizes = (written / MEGABYTE, page.stat().st_size / MEGABYTE)
        self.show(f"{self.settings.cases} cases in {FILES} files", figures, *sizes, cases=self.settings.cases)


if __name__ == "__main__":
    parser = options(__doc__, runs=5)
    parser.add_argument("--cases", type=int, default=100_000)
    Report(parser.parse_args()).start()
