"""`rocwheel kernels` on large real wheels, 330 MB of them: every bundle is found, in bounded
memory and without a file of unpacked bytes. Part of `--set all`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import Rocwheel
from packages import listed_wheel

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


def cached_wheels() -> Path:
    """Where `make test-real` keeps them."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rocwheel"
    return Path(os.environ.get("ROCWHEEL_CACHE", cache)) / "wheels"


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


@pytest.mark.parametrize("name", sorted(REAL_WHEELS))
def test_real_wheels(rocwheel: Rocwheel, name: str, tmp_path: Path) -> None:
    nowhere = tmp_path / "missing"
    document, memory = measured(rocwheel, listed_wheel(cached_wheels(), name), "--scratch", nowhere)
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
