"""`rocwheel audit` on every ROCm wheel of PyPI that the tests know, 330 MB, and on three that
everybody has. Part of `--set all`.

What the snapshots say of numpy, scipy and torch is judged in popular-wheels.toml, finding by
finding.
"""

import json
import os
from pathlib import Path

import pytest
from test_kernels_real import cached_wheels
from test_popular_wheels_real import popular

from command import Rocwheel
from packages import listed_wheel

__all__ = ["popular"]

HERE = Path(__file__).parent
NAMES = (
    "cupy_rocm_7_0",
    "cyllama_rocm",
    "jax_rocm7_pjrt",
    "jax_rocm7_plugin",
    "onnxruntime_rocm",
    "torch_scatter_rocm",
    "torch_sparse_rocm",
)


def summary(finding: dict) -> dict:
    """What a finding says, with the number of files rather than their names."""
    kept = {key: finding[key] for key in ("code", "severity", "file", "subject", "message")}
    return {**kept, "files": len(finding["related"]) + (finding["file"] is not None)}


def check(rocwheel: Rocwheel, wheel: Path, kept: Path) -> None:
    wanted = json.loads(kept.read_text()) if kept.is_file() else {}
    result = rocwheel.run("audit", "--json", wheel.name, cwd=wheel.parent, expect=wanted.get("exit code", 0))
    report = json.loads(result.stdout)
    floor = report["wheels"][0]["floor"]
    found = {
        "exit code": result.code,
        "floor": floor["tag"],
        "newest": floor["newest"],
        "findings": [summary(finding) for finding in report["findings"]],
    }
    if os.environ.get("ROCWHEEL_UPDATE_SNAPSHOTS"):
        kept.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(kept.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_kept(rocwheel: Rocwheel, name: str) -> None:
    check(rocwheel, listed_wheel(cached_wheels(), name), HERE / f"snapshots/audit-{name}.json")


@pytest.mark.parametrize("name", ["numpy", "scipy", "torch"])
def test_findings_of_popular_wheels_are_kept(rocwheel: Rocwheel, popular: Path, name: str) -> None:
    [wheel] = popular.glob(f"{name}-*manylinux*.whl")
    check(rocwheel, wheel, HERE / f"snapshots/audit-{name}.json")


def test_a_second_audit_of_many_wheels_says_the_same(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """All wheels as one set, of which the cache has the first half and then the whole."""
    wheels = [listed_wheel(cached_wheels(), name) for name in NAMES]
    environment = {"ROCWHEEL_CACHE": str(tmp_path / "cache")}

    def audit(*words: object) -> str:
        words = ("audit", "--json", "--offline", *words)
        return rocwheel.run(*words, environment=environment, expect=1).stdout

    def entries() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in (tmp_path / "cache/facts").glob("*.facts")}

    plain = audit("--no-cache", *wheels)
    assert not entries()
    audit(*wheels[: len(wheels) // 2])
    half = entries()
    assert audit(*wheels) == plain
    whole = entries()
    assert half and half.items() < whole.items()
    assert audit(*wheels) == plain and entries() == whole
