"""Times what `rocwheel build` adds to jobs, and the planning of thousands of cells.

A job's step copies a wheel that was made before. What its environment and its step take, as the
job's own record says, is subtracted: the milliseconds are rocwheel's own, with the audit and
without it.
"""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from measuring import Benchmark, Measured, measure, median, options
from small_wheels import core_metadata, pack

RECIPE = """
schema = 1
name = "tiny"
summary = "A wheel that is there"
distribution = "tiny"
source = "tiny"
platforms = ["linux"]
backends = ["plain"]
without-sdk = ["plain"]
any-python = ["plain"]
work-on = "copy"
[[version]]
text = "1.0+rocm${{rocm.minor}}torch${{torch.minor}}"
[[step]]
name = "wheel"
run = ["cp", "{wheels}/tiny-${{version}}-py3-none-any.whl", "."]
[output]
wheel = "*.whl"
[[cost]]
memory-per-job = 0.1
disk = 0.01
"""

# Stands for uv: an environment in no time.
INSTALLER = """#!/bin/sh
for folder; do :; done
mkdir -p "$folder/bin" "$folder/lib/python3/site-packages" && ln -sf {python} "$folder/bin/python"
printf 'include-system-site-packages = false\nversion_info = 3\n' >"$folder/pyvenv.cfg"
"""

TABLE = """
schema = 1
[torch-index]
release = "https://index.example/rocmROCM"
nightly = "https://index.example/nightly/rocmROCM"
"""

JOBS = [[f"7.{number}" for number in range(10)], [f"2.{number}" for number in range(10)]]
CELLS = [
    [f"{major}.{minor}" for major in range(5, 10) for minor in range(10)],
    [f"2.{minor}" for minor in range(20)],
    ["3.10", "3.11", "3.12", "3.13", "3.14"],
]


class Build(Benchmark):
    columns = {"ms each": ".2f"}

    def run(self) -> None:
        self.environment = {**os.environ, "PATH": f"{self.work / 'bin'}:{os.environ['PATH']}"}
        for folder in ("bin", "recipes", "wheels", "tiny", "flash-attention/flash_attn"):
            (self.work / folder).mkdir(parents=True)
        (self.work / "tiny/README").write_text("nothing\n")
        (self.work / "flash-attention/flash_attn/__init__.py").write_text('__version__ = "2.8.3"\n')
        (self.work / "flash-attention/setup.py").write_text('allowed_archs = ["native", "gfx942"]\n')
        (self.work / "table.toml").write_text(TABLE)
        (self.work / "recipes/tiny.toml").write_text(RECIPE.format(wheels=self.work / "wheels"))
        installer = self.work / "bin/uv"
        installer.write_text(INSTALLER.format(python=os.path.realpath(sys.executable)))
        installer.chmod(0o755)
        for rocm in JOBS[0]:
            for torch in JOBS[1]:
                version = f"1.0+rocm{rocm}torch{torch}"
                metadata = core_metadata("tiny", version)
                pack(self.work / "wheels", "tiny", version, {"tiny.py": b""}, metadata=metadata, hashed=True)
        for rocm in CELLS[0]:
            for folder in ("bin", ".info"):
                (self.work / f"rocm-{rocm}" / folder).mkdir(parents=True)
            (self.work / f"rocm-{rocm}/.info/version").write_text(f"{rocm}.0\n")
        self.head()
        self.jobs()
        self.plans()

    def command(self, *arguments: object) -> list:
        return [self.settings.rocwheel, "--no-progress", "build", *arguments]

    def measure(self, *command: object) -> Measured:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return measure(*command, env=self.environment, cwd=self.work, **quiet)

    def jobs(self) -> None:
        count = len(JOBS[0]) * len(JOBS[1])
        base = self.command(
            *("tiny", "--recipes", "recipes", "--source", "tiny", "--gpu-targets", "gfx942"),
            *("--rocm", ",".join(JOBS[0]), "--torch", ",".join(JOBS[1])),
        )
        for name, more in (("jobs, audited", []), ("jobs, not audited", ["--no-audit"])):
            first, again, others = [], [], []
            for number in range(self.settings.runs):
                # Never the folder of a run before: ext4 is slow for seconds after thousands of
                # files were removed.
                out = self.work / f"{name.replace(', ', '-').replace(' ', '-')}-{number}"
                first.append(self.measure(*base, "--output", out, *more))
                assert len(list(out.glob("*.whl"))) == count
                others.append(self.others(out, count))
                again.append(self.measure(*base, "--output", out, *more))
            self.row(f"{count} {name}", median(first), count, statistics.median(others))
            self.row(f"{count} {name}: once more", median(again), count)

    def others(self, out: Path, count: int) -> float:
        """Seconds in which jobs waited for other programs: Python, uv and the steps of the
        recipe."""
        records = [json.loads(path.read_text()) for path in (out / ".rocwheel/jobs").glob("*/state.json")]
        assert len(records) == count
        return sum(record["done"]["environment"] + record["done"]["wheel"] for record in records)

    def plans(self) -> None:
        count = len(CELLS[0]) * len(CELLS[1]) * len(CELLS[2])
        base = self.command(
            *("flash-attn", "--backend", "ck", "--source", "flash-attention"),
            *("--rocm-sdk", f"prefix={self.work}/rocm-{{rocm}}"),
            *("--rocm", ",".join(CELLS[0]), "--torch", ",".join(CELLS[1]), "--python", ",".join(CELLS[2])),
            *("--gpu-targets", "gfx942", "--table", "table.toml"),
        )
        runs = range(self.settings.runs)
        self.row(f"plan of {count} cells", median([self.measure(*base, "--dry-run", "--json") for _ in runs]), count)
        written = [self.measure(*base, "--write-plan", f"plan-{number}", "--output", "out") for number in runs]
        self.row(f"plan of {count} cells, written", median(written), count)
        (looked,) = {len(list((self.work / f"plan-{number}/jobs").iterdir())) for number in runs}
        assert looked == count
        # Nothing is built yet: the exit code says so.
        asked = [
            self.measure("sh", "-c", f"{self.settings.rocwheel} build status plan-{n} || [ $? = 3 ]") for n in runs
        ]
        self.row(f"status of {count} cells", median(asked), count)

    def row(self, name: str, measured: Measured, count: int, others: float = 0) -> None:
        each = (measured.wall - others) * 1000 / count
        self.show(name, measured, each, milliseconds_each=each)


if __name__ == "__main__":
    Build(options(__doc__, runs=5).parse_args()).start()
