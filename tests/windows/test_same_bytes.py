"""What rocwheel.exe writes and prints is what the program for Linux writes and prints, byte for
byte: on wheels of PyPI, and on packages of both systems."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import therock
from pair import Pair
from small_wheels import write_wheel

from command import Rocwheel, download
from packages import fetch_wheels

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of PyPI with GPU code for several targets."""
    folder = tmp_path_factory.mktemp("wheel")
    if os.name == "nt":
        download(folder, "--platform", "manylinux_2_28_x86_64", "gafime-rocm==0.4.7")
    else:
        fetch_wheels(folder, "gafime-rocm==0.4.7")
    (wheel,) = folder.glob("gafime_rocm-*.whl")
    return wheel


def write_build(place: Path) -> Path:
    """A build for Windows. No file has the mode of a program, as in most archives for Windows."""
    place.mkdir(parents=True)
    therock.BUILDS["windows"](place)
    return place


def test_audit(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    said = pair.run("audit", wheel.name, expect=1)
    assert "RW007" in said
    document = json.loads(pair.run("audit", "--json", wheel.name, expect=1))
    assert document["findings"]


def test_kernels(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    document = json.loads(pair.run("kernels", "--json", "--by", "kernel", wheel.name))
    assert document["files"]
    pair.run("kernels", wheel.name, "--plot", "sizes.svg")
    pair.compare("sizes.svg")


def test_edit_and_diff(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    pair.run("edit", wheel.name, "--local-version", "rocm7.0", "--output", "edited")
    (edited,) = pair.compare("edited").iterdir()
    assert "+rocm7.0" in edited.name
    said = pair.run("diff", wheel.name, f"edited/{edited.name}", "--json")
    assert json.loads(said)


def test_repair(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    pair.run("repair", wheel.name, "--mode", "rocm", "--rocm-version", "7.*", "--output", "repaired")
    assert len(list(pair.compare("repaired").glob("*.whl"))) == 1


def test_prune(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    target = json.loads(pair.run("kernels", "--json", wheel.name))["targets"][0]["target"]
    pair.run("prune", "--keep", target, wheel.name, "--output", "pruned")
    pair.compare("pruned")


def test_split_and_fuse(pair: Pair, wheel: Path) -> None:
    pair.put(wheel)
    pair.run("split", wheel.name, "--output", "parts")
    parts = sorted(f"parts/{path.name}" for path in pair.compare("parts").glob("*.whl"))
    assert len(parts) > 1
    pair.run("fuse", *parts, "--output", "fused")
    pair.compare("fused")


def test_package_for_windows(pair: Pair, tmp_path: Path) -> None:
    place = write_build(tmp_path / "build" / "windows")
    pair.put(place)
    pair.run("package", "--windows-artifacts", "windows", "--output", "for-windows")
    assert list(pair.compare("for-windows/dist").glob("*-win_amd64.whl"))
    wheels = (pair.folder / "for-windows/dist").glob("*.whl")
    said = pair.run("audit", "--json", *sorted(f"for-windows/dist/{path.name}" for path in wheels))
    assert "findings" in json.loads(said)
    # A second run finds everything as it was.
    assert "up to date" in pair.run("package", "--windows-artifacts", "windows", "--output", "for-windows")


def test_artifacts(pair: Pair, tmp_path: Path) -> None:
    place = write_build(tmp_path / "windows-build")
    # An archive has the modes of the files on Linux. Windows has none: what begins as a program
    # counts as one.
    for path in place.rglob("*"):
        if path.suffix in (".dll", ".exe"):
            path.chmod(0o755)
    pair.put(place)
    pair.run("artifact", "list", "--json", place.name)
    pair.run("artifact", "archive", place.name, "--output", "archives")
    pair.compare("archives")
    pair.run("artifact", "flatten", "archives", "--output", "tree")
    pair.compare("tree")


def test_index(pair: Pair, wheel: Path) -> None:
    for folder in pair.folders.values():
        (folder / "index").mkdir()
        shutil.copy(wheel, folder / "index")
    pair.run("index", "build", "index", "--now", "2026-11-25T00:00:00Z")
    pair.compare("index/simple")


def test_archives_of_both_systems(pair: Pair, linux: Rocwheel, tmp_path: Path) -> None:
    """Archives of Linux are read, and unpacked as far as there are no links to nothing: where
    Windows refuses links, nothing can be copied in their place."""
    place = tmp_path / "kpack"
    place.mkdir()
    therock.BUILDS["kpack"](place)
    linux.run("artifact", "archive", place, "--output", tmp_path / "archives")
    pair.put(tmp_path / "archives")
    pair.run("artifact", "list", "--json", "archives")
    result = pair.programs["windows"].run("artifact", "verify", "archives", cwd=pair.folders["windows"], expect=1)
    said = [line for line in (result.stdout + result.stderr).splitlines() if line.startswith("error: ")]
    assert said and all("links need the developer mode" in line for line in said), said


EXTENSION = """\
import collections
NAMES = collections.OrderedDict([('cudaMalloc', 'hipMalloc'), ('cudaStream_t', 'hipStream_t')])
CUDA_TO_HIP_MAPPINGS = [NAMES]
"""


def test_hipify(pair: Pair) -> None:
    """Line ends of both systems, a read-only file, and names that Linux and Windows sort in the
    same order."""
    for folder in pair.folders.values():
        (folder / "tree/csrc").mkdir(parents=True)
        (folder / "torch").mkdir()
        (folder / "torch/cuda_to_hip_mappings.py").write_text(EXTENSION)
        for number, end in enumerate(("\n", "\r\n", "\n")):
            source = folder / f"tree/csrc/k{number}.cu"
            source.write_bytes(f' #include "b.h"{end} cudaMalloc({number});{end}cudaNewThing();'.encode())
        (folder / "tree/csrc/b.h").write_bytes(b"cudaStream_t stream;\r\n")
        (folder / "tree/csrc/b.h").chmod(0o444)
        (folder / "tree/csrc/B-2.cu").write_bytes(b"cudaStream_t other;\n")
    for more in (["--dry-run", "--diff"], ["--unmapped", "--dry-run"], ["--json"]):
        pair.run("source", "hipify", "tree", "--tables", "torch", *more)
    tree = pair.compare("tree")
    # As the original reads and writes them.
    assert b"hipMalloc(1);\n" in (tree / "csrc/k1.hip").read_bytes()
    pair.run("source", "hipify", "tree", "--tables", "torch", "--check")


@pytest.mark.skipif(os.name == "nt", reason="the script that fetches it is for Linux")
def test_a_part_of_pytorch(pair: Pair, tmp_path: Path) -> None:
    subprocess.run([REPOSITORY / "scripts/fetch-sources", tmp_path / "part", "part"], check=True)
    pair.put(tmp_path / "part/pytorch")
    said = json.loads(pair.run("source", "hipify", "pytorch", "--json"))
    assert said["counts"]["new"] > 150
    pair.compare("pytorch")


def test_a_wheel_for_windows(pair: Pair, tmp_path: Path) -> None:
    """Extension modules and DLLs."""
    folder = tmp_path / "download"
    download(folder, "--platform", "win_amd64", "--python-version", "3.12", "numpy==2.2.6")
    (wheel,) = folder.iterdir()
    pair.put(wheel)
    pair.run("audit", wheel.name)
    pair.run("audit", "--json", wheel.name)
    pair.run("edit", wheel.name, "--local-version", "here", "--output", "edited")
    pair.compare("edited")


def test_release(pair: Pair) -> None:
    """A stream in a folder: its pages, files and snapshots."""
    for folder in pair.folders.values():
        write_wheel(folder / "dist", "demo", "1.0")
        write_wheel(folder / "dist", "demo-lib", "1.0", "demo==1.0")
    now = {"SOURCE_DATE_EPOCH": "1790000000", "USER": "me"}
    pair.run("release", "publish", "dist", "--to", "store", "--stream", "nightly", **now)
    for place in sorted((pair.folder / "store").iterdir()):
        pair.compare(f"store/{place.name}")
    # It prints the address, which has the folder.
    for system, program in pair.programs.items():
        said = program.run("index", "check", "store/nightly", "--files", cwd=pair.folders[system]).stderr
        assert "0 errors, 0 warnings" in said
