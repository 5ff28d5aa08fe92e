"""A matrix of sixty cells on a real Slurm of three nodes, one of which loses its power on the
way."""

import json
import os
import time
from collections import Counter
from pathlib import Path

import small_frameworks
from cluster import Cluster
from test_build_plan import cells, wheels, with_uv

from command import Rocwheel

ROCM = ["6.2", "6.3", "6.4", "7.0", "7.1", "7.2"]
TORCH = ["2.7", "2.8", "2.9", "2.10", "2.11"]
FAILING = {("6.3", "2.9"), ("7.2", "2.11")}


def test_sixty_cells_with_a_node_killed(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Every cell is built but those that fail by design; only the killed node's cells start twice;
    nothing is built twice."""
    small_frameworks.write(tmp_path, ROCM, FAILING, seconds=2)
    command = small_frameworks.options(tmp_path, ROCM, TORCH)
    with Cluster(tmp_path / "cluster") as cluster:
        environment = with_uv(**cluster.environment)
        process = rocwheel.start(*command, "--executor", "slurm", "--wait", env={**os.environ, **environment})

        def running_on(node: str) -> set[str]:
            lines = cluster.ask("squeue", "--noheader", "--states=running", "--format=%i|%N").splitlines()
            return {line.split("|")[0] for line in lines if line.endswith(f"|{node}")}

        def has_begun(record: Path) -> bool:
            """Whether a cell began on the node within the last second: it takes two."""
            attempts = json.loads(record.read_text())["attempts"]
            is_open = bool(attempts) and attempts[-1]["host"] == "n2" and "end" not in attempts[-1]
            return is_open and time.time() - record.stat().st_mtime < 1

        # In the middle of the first array, with something on the node: what Slurm calls running may
        # have ended on a busy machine.
        def is_time() -> bool:
            records = tmp_path.glob("out/.rocwheel/plans/*/state/*.json")
            return len(wheels(tmp_path / "out")) >= 8 and bool(running_on("n2")) and any(map(has_begun, records))

        # Nothing comes between the last look and the power cut: on a busy machine the cell would
        # end meanwhile.
        cluster.wait(is_time, "nothing was built", 600)
        cluster.kill_node("n2")
        began = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.whl")}
        said, errors = process.communicate(timeout=1500)
        assert process.returncode == 1, errors[-4000:]
        assert wheels(tmp_path / "out") == small_frameworks.names(ROCM, TORCH, FAILING)
        assert len(wheels(tmp_path / "out")) == 56
        seen = cells(rocwheel, tmp_path / "out", 1, environment)
        assert len(seen) == 60
        states = Counter(cell["state"] for cell in seen.values())
        assert (states["built"] + states["unchanged"], states["failed"]) == (56, 2), states
        twice = {name for name, cell in seen.items() if cell["starts"] > 1}
        assert 1 <= len(twice) <= cluster.cpus, twice
        assert all(cell["starts"] <= 2 for cell in seen.values())
        # What was there when the power went is as it was.
        for name, modified in began.items():
            assert (tmp_path / "out" / name).stat().st_mtime_ns == modified, f"{name} was built again"
        places = Counter(cell["host"] for cell in seen.values() if cell["starts"])
        assert places["n1"] and places["n3"], places
        node = cluster.ask("sinfo", "--noheader", "--nodes=n2", "--format=%t").strip()
        assert node.startswith("down"), node
    for wheel in (tmp_path / "out").glob("*.whl"):
        small_frameworks.check(wheel)
