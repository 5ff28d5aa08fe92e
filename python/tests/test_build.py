"""The build backend: the texts it generates, and the bytes of its archives."""

from __future__ import annotations

import csv
import hashlib
import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from fixtures import SELECTOR, clean_environment, make_topology, run, selector_tree, tail
from update_golden import GOLDEN, SHAPES, generated


def build(tree: Path, hook: str, output: Path, **variables: str) -> str:
    """Calls a PEP 517 hook like a frontend: in the tree, in a new process."""
    output.mkdir(parents=True, exist_ok=True)
    code = f"import sys; sys.path.insert(0, '.'); import rocm_build; print('answer', rocm_build.{hook}(sys.argv[1]))"
    result = run([sys.executable, "-B", "-c", code, output], cwd=tree, env=clean_environment(**variables))
    return result.stdout.splitlines()[-1].removeprefix("answer ")


@pytest.mark.parametrize("shape", SHAPES)
def test_generated_files_are_the_golden_ones(shape: str, tmp_path: Path) -> None:
    """The packaging tool generates the same files; its own tests compare with the same texts."""
    tree = selector_tree(tmp_path / "rocm", (GOLDEN / shape / "tail.py").read_text())
    for name, text in generated(tree).items():
        assert text == (GOLDEN / shape / name).read_text(), name
    package_info = (tree / "PKG-INFO").read_text()
    assert package_info.endswith("\n\n" + (SELECTOR / "README.md").read_text())
    assert (tree / "src" / "rocm.egg-info" / "PKG-INFO").read_text() == package_info


def test_dynamic_fields_are_spelled_as_uv_reads_them(tmp_path: Path) -> None:
    lines = (selector_tree(tmp_path / "rocm", tail("gfx942")) / "PKG-INFO").read_text().splitlines()
    assert [line for line in lines if line.startswith("Dynamic")] == [
        "Dynamic: Requires-Dist",
        "Dynamic: Provides-Extra",
    ]


def test_a_wheel_is_the_same_bytes_wherever_it_is_built(tmp_path: Path) -> None:
    lines = tail("gfx1100", "gfx942", topology=tmp_path / "no-gpu")
    digests = set()
    for index, zone in enumerate(("UTC", "Asia/Tokyo")):
        tree = selector_tree(tmp_path / str(index) / "rocm", lines)
        for path in tree.rglob("*"):
            path.touch()
        name = build(tree, "build_wheel", tmp_path / f"out{index}", TZ=zone, PYTHONHASHSEED=str(index))
        assert name == "rocm-6.4.0-py3-none-any.whl"
        digests.add(hashlib.sha256((tmp_path / f"out{index}" / name).read_bytes()).hexdigest())
    assert len(digests) == 1


def test_the_record_of_a_wheel_is_right(tmp_path: Path) -> None:
    tree = selector_tree(tmp_path / "rocm", tail("gfx942", topology=tmp_path / "no-gpu"))
    name = build(tree, "build_wheel", tmp_path)
    with zipfile.ZipFile(tmp_path / name) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        rows = list(csv.reader(io.StringIO(wheel.read("rocm-6.4.0.dist-info/RECORD").decode())))
        assert [row[0] for row in rows] == names
        assert names[-1] == "rocm-6.4.0.dist-info/RECORD"
        assert "rocm_sdk/_dist_info.py" in names and "rocm_sdk/tests/_load.py" in names
        assert not [name for name in names if "egg-info" in name or "pycache" in name]
        for member, digest, size in rows[:-1]:
            assert digest.startswith("sha256=") and int(size) == len(wheel.read(member))


def test_metadata_alone_is_that_of_the_wheel(tmp_path: Path) -> None:
    topology = make_topology(tmp_path / "nodes", 90402)
    tree = selector_tree(tmp_path / "rocm", tail("gfx1100", "gfx942", topology=topology))
    folder = build(tree, "prepare_metadata_for_build_wheel", tmp_path / "metadata")
    name = build(tree, "build_wheel", tmp_path)
    with zipfile.ZipFile(tmp_path / name) as wheel:
        metadata = wheel.read(f"{folder}/METADATA").decode()
    assert metadata == (tmp_path / "metadata" / folder / "METADATA").read_text()
    # The GPU of this machine; the source distribution has the default here.
    assert 'Requires-Dist: rocm-sdk-device-gfx942==6.4.0; extra == "device"\n' in metadata
    assert 'Requires-Dist: rocm-sdk-device-gfx1100==6.4.0; extra == "device"\n' in (tree / "PKG-INFO").read_text()


def test_a_source_distribution_makes_itself_again(tmp_path: Path) -> None:
    tree = selector_tree(tmp_path / "rocm", tail("gfx1100", topology=make_topology(tmp_path / "nodes", 90402)))
    first = build(tree, "build_sdist", tmp_path / "first")
    with tarfile.open(tmp_path / "first" / first) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    second = build(tmp_path / "unpacked" / "rocm-6.4.0", "build_sdist", tmp_path / "second")
    assert first == second == "rocm-6.4.0.tar.gz"
    assert (tmp_path / "first" / first).read_bytes() == (tmp_path / "second" / second).read_bytes()


def test_an_unavailable_target_stops_the_build(tmp_path: Path) -> None:
    tree = selector_tree(tmp_path / "rocm", tail("gfx942"))
    with pytest.raises(AssertionError, match="ROCM_SDK_TARGET_FAMILY=gfx1100 is not available in the distribution"):
        build(tree, "build_wheel", tmp_path, ROCM_SDK_TARGET_FAMILY="gfx1100")


def test_the_archives_can_be_published(tmp_path: Path) -> None:
    tree = selector_tree(tmp_path / "rocm", tail("gfx1100", "gfx942", topology=tmp_path / "no-gpu"))
    archives = [tmp_path / build(tree, hook, tmp_path) for hook in ("build_sdist", "build_wheel")]
    result = run([sys.executable, "-m", "twine", "check", "--strict", *archives])
    assert result.stdout.count("PASSED") == 2, result.stdout
