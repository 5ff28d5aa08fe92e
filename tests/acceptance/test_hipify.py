"""`rocwheel source hipify` beside the original on a part of the sources of PyTorch; in the long
run on all of PyTorch, torchvision and torchaudio."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import hipify_original
from command import SCRIPTS, Rocwheel, run
from trees import differences, snapshot


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
    said = rocwheel.json("source", "hipify", ours, environment={"HIP_PATH": str(hip)})
    assert differences(snapshot(original), snapshot(ours)) == []
    counts = said["counts"]
    assert counts["new"] > 150 and counts["changed"] > 5, counts
    assert (counts["launches"] == 0) == clang, counts


def test_extensions(rocwheel: Rocwheel, pytorch: Path, tmp_path: Path) -> None:
    package = pytorch / "torch/utils/hipify"
    tree = pytorch / "test/cpp_extensions"
    original, ours = copy(tree, tmp_path / "original"), copy(tree, tmp_path / "ours")
    hipify_original.extension(package, original, [], ["."])
    said = rocwheel.json("source", "hipify", ours, "--tables", package)
    assert differences(snapshot(original), snapshot(ours)) == []
    assert said["counts"]["new"] > 5 and said["counts"]["launches"] > 3


# Sources and include folders of the extensions, as their setup.py names them.
EXTENSIONS = {"vision": ("torchvision/csrc", ["torchvision/csrc", "."]), "audio": ("src", ["src", "."])}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """pytorch, vision, audio, and torch with the second algorithm."""
    folder = tmp_path_factory.mktemp("sources")
    subprocess.run([SCRIPTS / "fetch-sources", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def unstable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian unstable's torch: usr/lib/python3/dist-packages/torch, and the headers in
    usr/include."""
    folder = tmp_path_factory.mktemp("unstable")
    run(SCRIPTS / "fetch-rocm", "sid", folder / "debs", "python3-torch", "libtorch-dev")
    for deb in (folder / "debs").glob("*.deb"):
        run("dpkg-deb", "--extract", deb, folder)
    return folder / "usr"


def contents(tree: Path) -> dict[str, str]:
    """Every file by its path: mode and checksum, or where the link leads."""
    found = {}
    for folder, _, names in os.walk(tree):
        for path in (Path(folder, name) for name in names):
            if path.is_symlink():
                found[str(path.relative_to(tree))] = f"-> {path.readlink()}"
            elif "__pycache__" not in path.parts:
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                found[str(path.relative_to(tree))] = f"{path.stat().st_mode:o} {digest}"
    return found


def hip(folder: Path) -> Path:
    """A HIP whose compiler is clang."""
    (folder / "lib").mkdir(parents=True)
    (folder / "lib/.hipInfo").write_text("HIP_COMPILER=clang\n")
    return folder


@pytest.mark.long
@pytest.mark.parametrize("clang", [False, True])
def test_pytorch_by_the_first_algorithm(rocwheel: Rocwheel, given: Path, tmp_path: Path, clang: bool) -> None:
    path = hip(tmp_path / "hip") if clang else None
    original = copy(given / "pytorch", tmp_path / "original")
    hipify_original.build_amd(original, path)
    expected = contents(original)

    ours = copy(given / "pytorch", tmp_path / "ours")
    environment = {"HIP_PATH": str(path or tmp_path / "nothing")}
    said = rocwheel.json("source", "hipify", ours, environment=environment)
    assert contents(ours) == expected
    assert said["algorithm"] == "v1"
    assert said["counts"]["new"] == 593
    assert said["counts"]["changed"] == 96
    assert said["counts"]["launches"] == (0 if clang else 410)

    # Into another folder, with one thread; the original tree stays.
    before = contents(given / "pytorch")
    rocwheel.run("source", "hipify", given / "pytorch", "-o", tmp_path / "new", "--jobs", 1, environment=environment)
    assert contents(tmp_path / "new") == expected
    assert contents(given / "pytorch") == before


@pytest.mark.long
def test_the_first_algorithm_is_as_it_was_the_second_time(rocwheel: Rocwheel, given: Path, tmp_path: Path) -> None:
    """One file changes again, in the original too; with --fix-defects none does."""
    environment = {"HIP_PATH": str(tmp_path / "nothing")}
    tree = copy(given / "pytorch", tmp_path / "tree")
    rocwheel.run("source", "hipify", tree, environment=environment)
    again = copy(tree, tmp_path / "again")
    hipify_original.build_amd(again)
    rocwheel.run("source", "hipify", tree, "--check", expect=1, environment=environment)
    rocwheel.run("source", "hipify", tree, environment=environment)
    assert contents(tree) == contents(again)

    tree = copy(given / "pytorch", tmp_path / "fixed")
    rocwheel.run("source", "hipify", tree, "--fix-defects", environment=environment)
    rocwheel.run("source", "hipify", tree, "--fix-defects", "--check", environment=environment)


@pytest.mark.long
def test_pytorch_by_the_second_algorithm(rocwheel: Rocwheel, given: Path, tmp_path: Path) -> None:
    original = copy(given / "pytorch", tmp_path / "original")
    hipify_original.second_algorithm(original, given / "torch/utils/hipify")
    ours = copy(original, tmp_path / "ours")
    hipify_original.build_amd(original)
    said = rocwheel.json("source", "hipify", ours)
    assert contents(ours) == contents(original)
    assert (said["algorithm"], said["launches"]) == ("v2", "keep")
    assert (said["counts"]["new"], said["counts"]["changed"]) == (642, 89)
    rocwheel.run("source", "hipify", ours, "--check")


TABLES = "lib/python3/dist-packages/torch/utils/hipify"


# Headers of HIP that are beside those of CUDA which would replace them: the original overwrites
# them, and rocwheel refuses to. Without their patterns they are sources.
OF_HIP = ("*ATen/detail/HIPHooksInterface.h", "*ATen/hip/*", "*ATen/native/hip/*", "*ATen/native/transformers/hip/*")


@pytest.mark.long
def test_pytorch_with_the_tables_of_unstable(rocwheel: Rocwheel, given: Path, unstable: Path, tmp_path: Path) -> None:
    original = copy(given / "pytorch", tmp_path / "original")
    hipify_original.second_algorithm(original, unstable / TABLES)
    ours = copy(original, tmp_path / "ours")
    hipify_original.build_amd(original)
    said = rocwheel.json("source", "hipify", ours)
    assert contents(ours) == contents(original)
    assert (said["algorithm"], said["launches"]) == ("v2", "keep")
    assert said["counts"]["new"] > 600


@pytest.mark.long
def test_headers_of_unstable(rocwheel: Rocwheel, unstable: Path, tmp_path: Path) -> None:
    """9,000 headers as an extension, with the launches in them."""
    original = copy(unstable / "include", tmp_path / "original")
    ours = copy(unstable / "include", tmp_path / "ours")
    tables = unstable / TABLES
    rocwheel.run("source", "hipify", ours, "--tables", tables, expect=1).says("which is itself a source to convert")
    assert contents(ours) == contents(original)
    hipify_original.extension(tables, original, [], [], list(OF_HIP))
    ignores = [f"--ignore={pattern}" for pattern in OF_HIP]
    said = rocwheel.json("source", "hipify", ours, "--tables", tables, *ignores)
    assert contents(ours) == contents(original)
    assert said["counts"]["new"] > 250
    assert said["counts"]["launches"] > 50


@pytest.mark.long
@pytest.mark.parametrize("torch", ["pytorch", "torch"])
@pytest.mark.parametrize("name", ["vision", "audio", "pytorch/test/cpp_extensions"])
@pytest.mark.parametrize("only_sources", [False, True])
def test_all_extensions(
    rocwheel: Rocwheel, given: Path, tmp_path: Path, torch: str, name: str, only_sources: bool
) -> None:
    package = given / ("pytorch/torch/utils/hipify" if torch == "pytorch" else "torch/utils/hipify")
    below, folders = EXTENSIONS.get(name, (".", ["."]))
    original = copy(given / name, tmp_path / "original")
    ours = copy(given / name, tmp_path / "ours")
    hipify_original.extension(
        package, original, hipify_original.sources(original, below) if only_sources else [], folders
    )
    options = []
    if only_sources:
        options += [f"--source={path.relative_to(ours)}" for path in hipify_original.sources(ours, below)]
        options += [f"--include-dir={folder}" for folder in folders]
    said = rocwheel.json("source", "hipify", ours, "--tables", package, *options)
    assert contents(ours) == contents(original)
    assert said["counts"]["new"] > 5
    assert said["counts"]["launches"] > 3


@pytest.mark.long
def test_the_vectors_with_the_real_tables(given: Path) -> None:
    environment = {f"ROCWHEEL_HIPIFY_TABLES_V{n}": str(given / tree) for n, tree in ((1, "pytorch"), (2, "."))}
    said = run("cargo", "test", "--locked", "--package", "rocwheel-hipify", "--test", "golden", environment=environment)
    assert "7 passed" in said.stdout
