"""Runs that are cut short, or meet each other: no partial file, and the next run goes on."""

import signal
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from command import Rocwheel, run, wait_until
from packages import PackageSet, record_problems
from synthetic import write_artifact
from trees import differences, files, put, snapshot

TEMPORARY = 4
# The second one takes the same way through the program.
SIGNALS = [
    pytest.param(signal.SIGINT, id="Ctrl-C"),
    pytest.param(signal.SIGTERM, id="terminate", marks=pytest.mark.long),
]


def written(output: Path) -> int:
    """How many bytes are below a folder now."""
    count = 0
    for name in files(output):
        with suppress(FileNotFoundError):
            count += (output / name).stat().st_size
    return count


def assert_only_whole_packages(output: Path) -> None:
    for path in sorted(output.rglob("*")):
        if path.is_file() and path.suffix == ".whl":
            assert record_problems(path) == [], path
    odd = [name for name in files(output) if "tmp" in name.lower() or "partial" in name.lower()]
    assert odd == [], f"temporary files are left: {odd}"


@pytest.mark.parametrize("number", SIGNALS)
def test_packaging_interrupted(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path, number: int) -> None:
    output = tmp_path / "output"
    words = ("package", "--artifacts", package_set.artifacts, "--output", output)
    rocwheel.interrupted(*words, when=lambda: written(output) >= 1 << 20, number=number)
    assert_only_whole_packages(output)
    rocwheel.package(package_set.artifacts, output)
    assert differences(snapshot(package_set.dist), snapshot(output / "dist")) == []


def test_import_interrupted(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    output = tmp_path / "artifacts"
    words = ("artifact", "import", "--deb", *package_set.debs, "--output", output)
    rocwheel.interrupted(*words, when=lambda: written(tmp_path) >= 1 << 20)
    assert files(tmp_path) == set(), "half an import is left"
    rocwheel.import_debs(package_set.debs, output)
    assert differences(snapshot(package_set.artifacts), snapshot(output)) == []


def test_flattening_interrupted(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """One file that takes a while to copy, as real libraries do: Ctrl-C does not wait for its
    end."""
    artifact = write_artifact(tmp_path / "in", "blas_lib_generic", "stage", {"lib/small.txt": "x\n"})
    with open(artifact / "stage/lib/large.bin", "wb") as large:
        large.truncate(16 << 30)
    (tmp_path / "out").mkdir()
    words = ("artifact", "flatten", tmp_path / "in", "--output", tmp_path / "out/tree")
    rocwheel.interrupted(*words, when=lambda: written(tmp_path / "out") >= 1 << 20, timeout=10)
    assert files(tmp_path / "out") == set(), "half a tree is left"


def test_one_signal_that_comes_twice_is_one(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """`timeout` and `uv run` send it to the program, then to its group. Only what comes later is a
    person who will not wait."""
    artifact = write_artifact(tmp_path / "in", "blas_lib_generic", "stage", {"lib/small.txt": "x\n"})
    with open(artifact / "stage/lib/large.bin", "wb") as large:
        large.truncate(16 << 30)
    for round_ in range(3):
        (tmp_path / f"out-{round_}").mkdir()
        output = tmp_path / f"out-{round_}"
        words = ("artifact", "flatten", tmp_path / "in", "--output", output / "tree")
        begun = partial(lambda folder: written(folder) >= 1 << 20, output)
        assert "interrupted" in rocwheel.interrupted(*words, when=begun, repeated=3, timeout=10)
        assert files(tmp_path / f"out-{round_}") == set(), "half a tree is left"


def test_killed_run_is_mended_by_the_next(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    """SIGKILL gives no chance to clean up: the next run must not mistake what it left for a
    finished wheel."""
    output = tmp_path / "output"
    process = rocwheel.start("package", "--artifacts", package_set.artifacts, "--output", output)
    wait_until(process, lambda: written(output) >= 4 << 20)
    process.kill()
    process.communicate(timeout=60)
    rocwheel.package(package_set.artifacts, output)
    assert differences(snapshot(package_set.dist), snapshot(output / "dist")) == []


def test_two_runs_into_one_output(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    output = tmp_path / "output"
    first = rocwheel.start("package", "--artifacts", package_set.artifacts, "--output", output)
    wait_until(first, lambda: written(output) >= 1 << 20)
    rocwheel.package(package_set.artifacts, output, expect=TEMPORARY).says(str(output))
    _, stderr = first.communicate(timeout=600)
    assert first.returncode == 0, stderr
    assert differences(snapshot(package_set.dist), snapshot(output / "dist")) == []


@pytest.mark.parametrize("arguments", ["--help", "package --help", "artifact import --help"])
def test_reader_that_stops_reading(rocwheel: Rocwheel, arguments: str) -> None:
    script = f'set -o pipefail; "$1" {arguments} | head -n 1 >/dev/null; echo "${{PIPESTATUS[0]}}"'
    result = run("bash", "-c", script, "pipe", rocwheel.binary)
    assert "panicked" not in result.stderr and "Broken pipe" not in result.stderr, result.stderr
    assert result.stdout.strip() in ("0", "141"), result.stdout


def test_plan_into_a_closed_pipe(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    """The plan of a real set is longer than a pipe holds."""
    script = (
        '"$1" package --artifacts "$2" --output "$3" --dry-run --json | head -c 1 >/dev/null; echo "${PIPESTATUS[0]}"'
    )
    result = run("bash", "-c", script, "pipe", rocwheel.binary, package_set.artifacts, tmp_path / "output")
    assert "panicked" not in result.stderr, result.stderr
    assert result.stdout.strip() in ("0", "141"), result.stdout
    assert files(tmp_path) == set()


def test_inputs_are_never_changed(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    """Content, modes and links of artifacts and packages, before and after."""
    debs, artifacts = package_set.debs[0].parent, package_set.artifacts
    before = (snapshot(debs), snapshot(artifacts))
    rocwheel.package(artifacts, tmp_path / "output", "--compression", "none")
    assert (snapshot(debs), snapshot(artifacts)) == before


def has_folder(output: Path) -> bool:
    """Whether a running program has made its temporary folder beside the output."""
    return output.is_dir() and any(path.name.startswith(".rocwheel-") for path in output.iterdir())


def packing_again(package_set: PackageSet, output: Path) -> list[object]:
    """An edit that takes seconds: other search paths in all libraries, which are packed again."""
    wheel = max(package_set.dist.glob("*.whl"), key=lambda wheel: wheel.stat().st_size)
    return ["edit", wheel, "--rpath", "*.so*=$ORIGIN", "--no-audit", "--output", output]


@pytest.mark.parametrize("number", SIGNALS)
def test_edit_interrupted(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path, number: int) -> None:
    output = tmp_path / "output"
    rocwheel.interrupted(*packing_again(package_set, output), when=lambda: has_folder(output), number=number)
    assert list(tmp_path.rglob("*")) == [], "something is left"


def test_what_a_killed_edit_leaves_goes_with_the_next(
    rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path
) -> None:
    """SIGKILL gives no chance to clean up: no more than empty folders stay, and only until the next
    run."""
    output = tmp_path / "output"
    command = packing_again(package_set, output)
    process = rocwheel.start(*command)
    wait_until(process, lambda: has_folder(output))
    process.kill()
    process.communicate(timeout=60)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in left if path.stat().st_size > 0] == [], left
    # What is somebody else's stays, whatever its name.
    other = output / ".rocwheel-Other5"
    put(other / "precious.txt", "precious\n")
    rocwheel.run(*command)
    kept = sorted(path.name for path in output.iterdir())
    assert kept == [".rocwheel-Other5", command[1].name], kept
    assert [path.name for path in tmp_path.iterdir()] == ["output"], list(tmp_path.iterdir())
