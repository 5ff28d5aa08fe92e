"""`rocwheel source hipify` beside the original on a part of PyTorch's sources; test_hipify_real.py
takes all of them."""

import json
import shutil
import subprocess
from pathlib import Path

import hipify_original
import pytest

from command import Rocwheel
from trees import differences, snapshot

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="module")
def pytorch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("part")
    subprocess.run([SCRIPTS / "fetch-sources", folder, "part"], check=True)
    return folder / "pytorch"


def copy(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, symlinks=True)
    return target


@pytest.mark.parametrize("clang", [False, True])
def test_a_part_of_pytorch(rocwheel: Rocwheel, pytorch: Path, tmp_path: Path, clang: bool) -> None:
    hip = tmp_path / "hip"
    (hip / "lib").mkdir(parents=True)
    if clang:
        (hip / "lib/.hipInfo").write_text("HIP_COMPILER=clang\n")
    original, ours = copy(pytorch, tmp_path / "original"), copy(pytorch, tmp_path / "ours")
    hipify_original.build_amd(original, hip)
    said = json.loads(rocwheel.run("source", "hipify", ours, "--json", environment={"HIP_PATH": str(hip)}).stdout)
    assert differences(snapshot(original), snapshot(ours)) == []
    counts = said["counts"]
    assert counts["new"] > 150 and counts["changed"] > 5, counts
    assert (counts["launches"] == 0) == clang, counts


def test_extensions(rocwheel: Rocwheel, pytorch: Path, tmp_path: Path) -> None:
    package = pytorch / "torch/utils/hipify"
    tree = pytorch / "test/cpp_extensions"
    original, ours = copy(tree, tmp_path / "original"), copy(tree, tmp_path / "ours")
    hipify_original.extension(package, original, [], ["."])
    said = json.loads(rocwheel.run("source", "hipify", ours, "--tables", package, "--json").stdout)
    assert differences(snapshot(original), snapshot(ours)) == []
    assert said["counts"]["new"] > 5 and said["counts"]["launches"] > 3
