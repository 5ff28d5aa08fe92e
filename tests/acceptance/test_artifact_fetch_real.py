"""TheRock's own artifact_manager.py as the other side: `artifact fetch` reads what it pushed, into
a bucket and into a directory, and it reads what `artifact push` left. ROCWHEEL_THEROCK names a
checkout; scripts/fetch-therock makes one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_artifact_buckets import buckets  # noqa: F401
from test_artifact_fetch import RUN, fetch, home, names, visible  # noqa: F401
from test_index_bucket import Bucket, server  # noqa: F401

from command import Rocwheel, run

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def manager() -> list[object]:
    """The words that start the script."""
    checkout = subprocess.run([REPOSITORY / "scripts/fetch-therock"], capture_output=True, text=True, check=True)
    script = Path(checkout.stdout.strip()) / "build_tools/artifact_manager.py"
    assert script.is_file(), script
    return [sys.executable, script]


def built(artifacts: Path, folder: Path) -> Path:
    """A build tree whose artifacts are all of the topology."""
    (folder / "build").mkdir()
    (folder / "build/artifacts").symlink_to(artifacts)
    return folder / "build"


def test_what_their_script_pushed_into_a_bucket_is_fetched(
    rocwheel: Rocwheel,
    manager: list[object],
    artifacts: Path,
    buckets: Bucket,  # noqa: F811
    home: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    signed = {**home, **buckets.environment, "GITHUB_REPOSITORY": "ROCm/TheRock", "RELEASE_TYPE": "ci"}
    push = ["push", "--stage", "all", "--build-dir", built(artifacts, tmp_path), "--run-id", RUN]
    run(*manager, *push, "--platform", "linux", "--compression-type", "xz", environment=signed)
    fetch(rocwheel, signed, "--run-id", RUN, "--output", tmp_path / "out")
    assert visible(tmp_path / "out") == visible(artifacts)
    words = ["--run-id", RUN, "--targets", "gfx1100", "--components", "lib", "--output", tmp_path / "some"]
    fetch(rocwheel, signed, *words)
    assert names(tmp_path / "some") == [
        "base_lib_generic", "blas_lib_generic", "blas_lib_gfx1100", "core-hip_lib_generic",
    ]  # fmt: skip


def test_both_scripts_read_each_other_through_a_directory(
    rocwheel: Rocwheel,
    manager: list[object],
    artifacts: Path,
    home: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    push = ["push", "--stage", "all", "--build-dir", built(artifacts, tmp_path), "--run-id", RUN]
    local = {**os.environ, **home}
    run(*manager, *push, "--compression-type", "xz", "--local-staging-dir", theirs, environment=local)
    fetch(rocwheel, home, "--run-id", RUN, "--from", theirs, "--output", tmp_path / "out")
    assert visible(tmp_path / "out") == visible(artifacts)
    rocwheel.run("artifact", "push", artifacts, "--to", ours, "--run-id", RUN, "--compression", "xz")
    words = ["fetch", "--stage", "all", "--run-id", RUN, "--platform", "linux", "--local-staging-dir", ours]
    words += ["--amdgpu-targets", "gfx942,gfx1100", "--output-dir", tmp_path / "read"]
    run(*manager, *words, environment=local)
    assert visible(tmp_path / "read/artifacts") == visible(artifacts)
