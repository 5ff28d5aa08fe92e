"""What an earlier run unpacked from archives is not written again; whatever happens to it, the
wheels have the bytes of a run from nothing. The archives are written by tar and xz."""

import json
import shutil
from pathlib import Path

import pytest

import synthetic
from command import Rocwheel, run
from trees import put, snapshot

MANIFEST = "artifact_manifest.txt"
LIBRARY = "math-libs/BLAS/rocBLAS/stage/lib/rocblas/library"
CHANGED = f"{LIBRARY}/TensileLibrary_gfx942.dat"
# In the same archive.
STAYS = f"{LIBRARY}/TensileLibrary_stays_gfx942.dat"


def archive(artifacts: Path, output: Path) -> Path:
    """Writes `.tar.xz` archives, as TheRock's build does: the manifest first, then the rest."""
    output.mkdir()
    for artifact in sorted(artifacts.iterdir()):
        rest = sorted(path.name for path in artifact.iterdir() if path.name != MANIFEST)
        run(
            *("tar", "--xz", "--create", "--file", output / f"{artifact.name}.tar.xz", "--directory", artifact),
            *(MANIFEST, *rest),
        )
    return output


def unpacked(output: Path) -> dict[str, Path]:
    """The files in the unpacked archives of an output folder: artifact and path in it → place."""
    folder = output / ".rocwheel/artifacts"
    trees = {place.name.rsplit("-", 1)[0]: place / "tree" for place in folder.iterdir() if place.is_dir()}
    files = {(name, path): tree for name, tree in trees.items() for path in tree.rglob("*")}
    return {f"{name}/{path.relative_to(tree)}": path for (name, path), tree in files.items() if is_file(path)}


def is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@pytest.fixture(scope="module")
def nights(rocwheel: Rocwheel, compiled: synthetic.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the archives of two nights, the output of the `first`, and `expected` of the
    second."""
    folder = tmp_path_factory.mktemp("nights")
    artifacts = synthetic.write_artifacts(folder / "artifacts", compiled)
    (artifacts / "blas_lib_gfx942" / STAYS).write_bytes(b"kernels of every night")
    archive(artifacts, folder / "first-archives")
    (artifacts / "blas_lib_gfx942" / CHANGED).write_bytes(b"kernels of the second night")
    archive(artifacts, folder / "second-archives")
    rocwheel.package(folder / "first-archives", folder / "first")
    rocwheel.package(artifacts, folder / "expected", "--version", "7.1.1", "--no-reuse")
    return folder


@pytest.fixture
def first(nights: Path, tmp_path: Path) -> Path:
    """A copy of the first night's output, for a test to change."""
    return Path(shutil.copytree(nights / "first", tmp_path / "first", symlinks=True))


def package(rocwheel: Rocwheel, nights: Path, output: Path, *arguments: object) -> dict[str, Path]:
    """Packages the second night, checks its wheels, and returns the files that were unpacked."""
    said = packaged(rocwheel, nights, output, *arguments)
    assert said["version"] == "7.1.1"
    assert snapshot(output / "dist") == snapshot(nights / "expected/dist")
    return unpacked(output)


def packaged(rocwheel: Rocwheel, nights: Path, output: Path, *arguments: object) -> dict:
    ran = rocwheel.package(nights / "second-archives", output, "--version", "7.1.1", "--json", *arguments)
    return json.loads(ran.stdout)


def assert_up_to_date(rocwheel: Rocwheel, nights: Path, output: Path) -> None:
    """Another run writes no package, although other trees had or lost names of the same files."""
    assert not any(written["written"] for written in packaged(rocwheel, nights, output)["packages"])


def same_files(left: dict[str, Path], right: dict[str, Path]) -> set[str]:
    """What is one file with a name in both."""
    return {name for name, path in left.items() if name in right and path.samefile(right[name])}


@pytest.mark.parametrize("reused", ["first", "first/dist"])
def test_files_that_stay_get_a_second_name(
    rocwheel: Rocwheel, nights: Path, first: Path, tmp_path: Path, reused: str
) -> None:
    before = snapshot(first)
    files = package(rocwheel, nights, tmp_path / "second", "--reuse", tmp_path / reused)
    changed = f"blas_lib_gfx942/{CHANGED}"
    assert len(files) >= 15
    assert same_files(files, unpacked(first)) == set(files) - {changed}
    assert files[changed].read_bytes() == b"kernels of the second night"
    assert snapshot(first) == before
    package(rocwheel, nights, tmp_path / "third", "--reuse", tmp_path / "second")
    assert_up_to_date(rocwheel, nights, tmp_path / "second")
    shutil.rmtree(first)
    assert_up_to_date(rocwheel, nights, tmp_path / "second")
    assert unpacked(tmp_path / "second") == files


def test_one_output_folder_for_all_nights(rocwheel: Rocwheel, nights: Path, first: Path) -> None:
    inodes = {name: path.stat().st_ino for name, path in unpacked(first).items()}
    files = package(rocwheel, nights, first, "--replace")
    new = {name for name, path in files.items() if path.stat().st_ino != inodes[name]}
    assert new == {f"blas_lib_gfx942/{CHANGED}"}
    # The trees of the first night are gone.
    assert all(path.stat().st_nlink == 1 for path in files.values())
    assert_up_to_date(rocwheel, nights, first)


def test_without_reuse_nothing_is_shared(rocwheel: Rocwheel, nights: Path, first: Path, tmp_path: Path) -> None:
    assert not same_files(package(rocwheel, nights, tmp_path / "second", "--no-reuse"), unpacked(first))


def test_earlier_trees_that_lie(rocwheel: Rocwheel, nights: Path, first: Path, tmp_path: Path) -> None:
    files = unpacked(first)
    names = sorted(name for name, path in files.items() if path.stat().st_size > 8)
    other, cut, longer, link, folder, runs = names[:6]
    content = files[other].read_bytes()
    files[other].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    files[cut].write_bytes(files[cut].read_bytes()[:-1])
    files[longer].write_bytes(files[longer].read_bytes() + b"\0")
    target = tmp_path / "target"
    files[link].rename(target)
    files[link].symlink_to(target)
    files[folder].unlink()
    files[folder].mkdir()
    files[runs].chmod(0o777)
    found = package(rocwheel, nights, tmp_path / "second", "--reuse", first)
    spoilt = {other, cut, longer, link, folder, runs}
    changed = f"blas_lib_gfx942/{CHANGED}"
    assert same_files(found, unpacked(first)) == set(found) - spoilt - {changed}


def test_what_was_changed_in_the_own_tree_is_unpacked_again(rocwheel: Rocwheel, nights: Path, tmp_path: Path) -> None:
    output = tmp_path / "second"
    files = package(rocwheel, nights, output)
    other, gone, runs = sorted(name for name, path in files.items() if path.stat().st_size > 8)[:3]
    content = files[other].read_bytes()
    files[other].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    files[gone].unlink()
    files[runs].chmod(0o777)
    files[runs].with_name("added").write_bytes(b"not in the archive")
    # Nothing else in the folder is ours.
    own = output / ".rocwheel/artifacts/my-data/x"
    put(own, "precious")
    package(rocwheel, nights, output)
    assert own.read_text() == "precious"
    assert_up_to_date(rocwheel, nights, output)


def test_a_tree_that_was_not_finished(rocwheel: Rocwheel, nights: Path, first: Path, tmp_path: Path) -> None:
    for mark in first.glob(".rocwheel/artifacts/*/complete"):
        mark.unlink()
    assert not same_files(package(rocwheel, nights, tmp_path / "second", "--reuse", first), unpacked(first))


def test_on_another_file_system_files_are_written(
    rocwheel: Rocwheel, nights: Path, first: Path, tmp_path: Path
) -> None:
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    script = 'mount -t tmpfs tmpfs "$1" || exit 99\nshift\n"$@" && cp --archive mounted/second kept\n'
    command = (
        rocwheel.binary, "package", "--artifacts", nights / "second-archives", "--output", mounted / "second",
        "--version", "7.1.1", "--reuse", first,
    )  # fmt: skip
    run("unshare", "--map-root-user", "--mount", "bash", "-c", script, "other", mounted, *command, cwd=tmp_path)
    assert snapshot(tmp_path / "kept/dist") == snapshot(nights / "expected/dist")
