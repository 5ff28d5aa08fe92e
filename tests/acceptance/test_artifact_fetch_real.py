"""TheRock's own artifact_manager.py as the other side: `artifact fetch` reads what it pushed, into
a bucket and into a directory, and it reads what `artifact push` left; and its tests run on our
command. ROCWHEEL_THEROCK names a checkout; scripts/fetch-therock makes one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from test_artifact_buckets import buckets  # noqa: F401
from test_artifact_fetch import RUN, fetch, home, names, visible  # noqa: F401
from test_index_bucket import Bucket, server  # noqa: F401

from command import Rocwheel, run

REPOSITORY = Path(__file__).resolve().parents[2]
# Their tests that fail on our command: the first six replace a function inside of the script, where
# no other program is; the others are rows of docs/deviations.md.
DIFFERENT = {
    "test_push_fails_when_all_uploads_fail",
    "test_push_fails_when_some_uploads_fail",
    "test_push_fails_when_compression_fails",
    "test_fetch_fails_when_download_fails",
    "test_fetch_fails_when_extraction_fails",
    "test_copy_fails_when_copy_fails",
    "test_push_succeeds_when_precompressed_artifact_is_missing_sha256sum",
    "test_shared_cache_skips_redownload",
    "test_copy_invalid_stage_exits_with_error",
    "test_copy_transfers_sha256sum_files",
}


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


def test_their_tests_pass_on_our_command(
    rocwheel: Rocwheel,
    manager: list[object],
    home: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    tools = manager[1].parent
    environment = {**home, "ROCWHEEL_BINARY": str(rocwheel.binary), "PYTHONPATH": f"{Path(__file__).parent}:{tools}"}
    options = ["-q", "-p", "no:cacheprovider", "-p", "therock_shim", "--noconftest", "--rootdir", tmp_path]
    pytest = [sys.executable, "-m", "pytest", *options, tools / "tests/artifact_manager_tool_test.py"]
    ran = run(*pytest, environment=environment, cwd=tmp_path, expect=1).stdout
    assert set(re.findall(r"^FAILED \S*::(\w+)", ran, re.MULTILINE)) == DIFFERENT, ran
    assert re.search(r"^10 failed, 26 passed in ", ran, re.MULTILINE), ran
