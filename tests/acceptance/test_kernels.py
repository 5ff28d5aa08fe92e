"""`rocwheel kernels` on real ROCm: what it says is what LLVM and the tools of GNU say of the same
code. In the long run also on large real wheels, 330 MB of them: every bundle is found, in bounded
memory and without a file of unpacked bytes."""

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from command import CACHE, Rocwheel, run
from packages import listed_wheel

HERE = Path(__file__).resolve().parent


def kernels(rocwheel: Rocwheel, *arguments: object, expect: int = 0) -> dict:
    return rocwheel.json("kernels", *arguments, expect=expect)


@pytest.fixture(scope="module")
def library(debs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Debian's librocrand: code object versions of its time, one file with a bundle for seven
    targets or more."""
    (package,) = [deb for deb in debs if deb.name.startswith("librocrand1_")]
    directory = tmp_path_factory.mktemp("rocrand")
    run("dpkg-deb", "-x", package, directory)
    (library,) = [path for path in directory.rglob("librocrand.so*") if not path.is_symlink()]
    return library


def code_objects(library: Path, directory: Path) -> list[tuple[str, Path]]:
    """The code objects of a library's plain bundles, taken apart by other means than ours: (bundle
    id, file)."""
    section = directory / "section"
    run("objcopy", "--output-target=binary", "--only-section=.hip_fatbin", library, directory / "section")
    data = section.read_bytes()
    found, start = [], 0
    while (start := data.find(b"__CLANG_OFFLOAD_BUNDLE__", start)) >= 0:
        (count,) = struct.unpack_from("<Q", data, start + 24)
        position, end = start + 32, start + 32
        for _ in range(count):
            offset, size, length = struct.unpack_from("<QQQ", data, position)
            name = data[position + 24 : position + 24 + length].decode()
            position += 24 + length
            end = max(end, start + offset + size)
            if size:
                path = directory / str(len(found))
                path.write_bytes(data[start + offset : start + offset + size])
                found.append((name, path))
        start = end
    return found


def test_a_real_library_says_what_readelf_says(rocwheel: Rocwheel, library: Path, tmp_path: Path) -> None:
    (file,) = kernels(rocwheel, library, "--by", "kernel")["files"]
    expected = code_objects(library, tmp_path)
    assert len(expected) >= 7
    listed = run("clang-offload-bundler-19", "--list", "--type=o", f"--input={tmp_path / 'section'}").stdout.split()
    assert {name for name, _ in expected} | {name for name in listed if name.startswith("host-")} == set(listed)
    assert len(file["code_objects"]) == len(expected)
    for found, (name, path) in zip(file["code_objects"], expected, strict=True):
        assert found["target"] == name.partition("--")[2]
        assert found["size"] == path.stat().st_size
        header = run("llvm-readelf-19", "--file-header", path).stdout
        flags = re.search(r"Flags:\s+0x\w+, (.*)", header)[1].split(", ")
        said = [flag if flag.endswith(("+", "-")) else None for flag in flags[1:]]
        own = ":".join([flags[0], *sorted(flag for flag in said if flag)])
        assert found["own_target"] == own == found["target"]
        assert found["version"] == int(re.search(r"ABI Version:\s+(\d)", header)[1]) + 2
        notes = run("llvm-readelf-19", "--notes", path).stdout
        for key, ours in (("name", "name"), ("symbol", "symbol"), ("vgpr_count", "vgpr"), ("sgpr_count", "sgpr")):
            # Names of arguments stand deeper.
            theirs = re.findall(rf"^(?:  - |    )\.{key}:\s+'?([^'\n]*)", notes, re.MULTILINE)
            assert [str(kernel[ours]) for kernel in found["kernels"]] == theirs, key
    assert file["findings"] == []


def test_the_document_of_a_small_wheel_is_kept(rocwheel: Rocwheel, small_wheel: Path) -> None:
    """A change of the document is a change of what others rely on: only with a new field, or a new
    schema."""
    document = rocwheel.run("kernels", "--json", small_wheel.name, cwd=small_wheel.parent).stdout
    kept = HERE / "snapshots/kernels-gafime.json"
    if os.environ.get("ROCWHEEL_UPDATE_SNAPSHOTS"):
        kept.write_text(document)
    assert document == kept.read_text()


def test_a_wheel_is_read_in_place(rocwheel: Rocwheel, small_wheel: Path, tmp_path: Path) -> None:
    before = small_wheel.read_bytes()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    packed = kernels(rocwheel, small_wheel, "--scratch", scratch)
    assert list(scratch.iterdir()) == []
    assert small_wheel.read_bytes() == before
    run("python3", "-m", "zipfile", "-e", small_wheel, tmp_path / "unpacked")
    unpacked = kernels(rocwheel, tmp_path / "unpacked")
    assert packed["targets"] == unpacked["targets"]
    assert packed["totals"] == unpacked["totals"]
    assert packed["files"][0]["code_objects"] == unpacked["files"][0]["code_objects"]


@pytest.mark.parametrize("by", ["target", "file", "kernel"])
def test_the_answer_does_not_depend_on_threads(rocwheel: Rocwheel, small_wheel: Path, library: Path, by: str) -> None:
    def answers(jobs: int) -> list[str]:
        arguments = ("kernels", "--jobs", jobs, "--by", by, small_wheel, library.parent)
        return [rocwheel.run(*arguments).stdout, rocwheel.run(*arguments, "--json").stdout]

    assert answers(1) == answers(5)


def test_the_picture_is_an_image_with_text(rocwheel: Rocwheel, small_wheel: Path, tmp_path: Path) -> None:
    picture = tmp_path / "sizes.svg"
    rocwheel.run("kernels", small_wheel, "--plot", picture)
    root = ElementTree.parse(picture).getroot()
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert small_wheel.name in texts and "3.21 MB of GPU code in 1 file for 13 targets" in texts
    assert {"gfx90a", "gfx950", "gfx1201"} <= set(texts)
    missing = rocwheel.run("kernels", small_wheel, "--plot", tmp_path / "no/such/folder.svg", expect=1)
    assert f"there is no folder `{tmp_path}/no/such`" in missing.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["sizes.svg"]


def test_only_the_wanted_targets(rocwheel: Rocwheel, small_wheel: Path) -> None:
    def targets(wanted: str) -> list[str]:
        return [row["target"] for row in kernels(rocwheel, small_wheel, "--targets", wanted)["targets"]]

    assert targets("gfx942,gfx1100") == ["gfx942", "gfx1100"]
    assert targets("gfx120X-all") == ["gfx1200", "gfx1201"]
    assert targets("gfx803") == []
    nothing = rocwheel.run("kernels", small_wheel, "--targets", "gfx803")
    assert nothing.stdout == "" and "no GPU code for gfx803 in 7 files" in nothing.stderr
    there = [row["target"] for row in kernels(rocwheel, small_wheel)["targets"]]
    rocwheel.run("kernels", small_wheel, "--expect", ",".join(there))
    fewer = rocwheel.run("kernels", small_wheel, "--expect", ",".join(there[1:]), expect=1)
    assert f"there is code for {there[0]} too" in fewer.stderr
    more = rocwheel.run("kernels", small_wheel, "--expect", ",".join([*there, "gfx803"]), expect=1)
    assert "there is no code for gfx803" in more.stderr
    rocwheel.run("kernels", small_wheel, "--targets", "radeon", expect=2).says("unknown GPU target or family `radeon`")


def test_bad_input_is_named_and_the_rest_is_listed(rocwheel: Rocwheel, library: Path, tmp_path: Path) -> None:
    whole = library.read_bytes()
    (tmp_path / "cut.so").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "lie.so").write_bytes(whole.replace(b"--gfx1030", b"--gfx1031"))
    (tmp_path / "text.txt").write_text("no code\n")
    (tmp_path / "whole.so").write_bytes(whole)
    result = rocwheel.run("kernels", "--by", "file", tmp_path, tmp_path / "missing", expect=1)
    assert f"warning: `{tmp_path}/cut.so`: " in result.stderr
    lie = f"warning: `{tmp_path}/lie.so`: the code for `gfx1031` in bundle 0 is code for `gfx1030` by its own ELF flags"
    assert lie in result.stderr
    assert f"warning: `{tmp_path}/missing`: it cannot be read: No such file or directory" in result.stderr
    assert re.search(r"B  /.*/whole\.so$", result.stdout, re.MULTILINE)
    assert "text.txt" not in result.stderr
    assert (
        "`" + str(tmp_path / "text.txt") + "` has no GPU code"
        in rocwheel.run("kernels", "-v", tmp_path, expect=1).stderr
    )
    for path in (tmp_path / "text.txt", Path("/proc/self/status")):
        result = rocwheel.run("kernels", path)
        assert result.stdout == "" and "no GPU code in 1 file" in result.stderr
    (tmp_path / "empty/inner").mkdir(parents=True)
    rocwheel.run("kernels", tmp_path / "empty", expect=1).says(f"there are no files in `{tmp_path}/empty`")


MEMORY_LIMIT = 200 << 20


# Wheel → file → (wrappers, bundles, targets, kernels), for every file with GPU code.
REAL_WHEELS = {
    "cupy_rocm_7_0": {
        "cupy/cuda/cub.cpython-312-x86_64-linux-gnu.so": (1, 1, 9, 12492),
        "cupy/cuda/thrust.cpython-312-x86_64-linux-gnu.so": (1, 1, 9, 7380),
        "cupy/random/_generator_api.cpython-312-x86_64-linux-gnu.so": (1, 1, 9, 432),
    },
    "cyllama_rocm": {"cyllama_rocm.libs/libggml-hip-1f7b8bcc.so": (140, 140, 3, 21552)},
    "jax_rocm7_pjrt": {"jax_plugins/xla_rocm7/xla_rocm_plugin.so": (45, 45, 27, 409773)},
    "jax_rocm7_plugin": {
        "jax_rocm7_plugin/_linalg.so": (1, 1, 27, 189),
        "jax_rocm7_plugin/_prng.so": (1, 1, 27, 27),
        "jax_rocm7_plugin/_solver.so": (2, 2, 27, 351),
    },
    "onnxruntime_rocm": {"onnxruntime/capi/libonnxruntime_providers_rocm.so": (95, 95, 8, 81688)},
    "torch_scatter_rocm": {
        "torch_scatter/_scatter_cuda.so": (1, 1, 11, 693),
        "torch_scatter/_segment_coo_cuda.so": (1, 1, 11, 3465),
        "torch_scatter/_segment_csr_cuda.so": (1, 1, 11, 1386),
    },
    "torch_sparse_rocm": {
        "torch_sparse/_convert_cuda.so": (1, 1, 11, 22),
        "torch_sparse/_diag_cuda.so": (1, 1, 11, 11),
        "torch_sparse/_rw_cuda.so": (1, 1, 11, 11),
        "torch_sparse/_spmm_cuda.so": (1, 1, 11, 1584),
    },
}


# A program counts the memory of the process that started it until it is loaded, and pytest's may be
# large.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def measured(rocwheel: Rocwheel, *arguments: object) -> tuple[dict, int]:
    """The document and the peak memory of making it, in bytes."""
    command = [sys.executable, "-c", MEASURE, rocwheel.binary, "kernels", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), int(done.stderr.splitlines()[-1]) * 1024


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(REAL_WHEELS))
def test_real_wheels(rocwheel: Rocwheel, name: str, tmp_path: Path) -> None:
    nowhere = tmp_path / "missing"
    document, memory = measured(rocwheel, listed_wheel(CACHE / "wheels", name), "--scratch", nowhere)
    found = {}
    for file in document["files"]:
        targets = {code["target"] for code in file["code_objects"]}
        total = sum(code["kernel_count"] for code in file["code_objects"])
        found[file["member"]] = (file["wrappers"], len(file["bundles"]), len(targets), total)
        assert file["findings"] == []
        assert len(file["code_objects"]) == len(file["bundles"]) * len(targets)
        for number, bundle in enumerate(file["bundles"]):
            assert bundle["wrappers"] == [number]
    assert found == REAL_WHEELS[name]
    assert memory < MEMORY_LIMIT, f"{memory >> 20} MiB"
