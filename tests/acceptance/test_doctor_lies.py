"""`rocwheel doctor` on machines whose driver and packages do not tell the truth."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from command import Rocwheel
from doctor_trees import Machine, diagnose, make_healthy_machine, named


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_healthy_machine(tmp_path)


def lie(machine: Machine, path: str, kind: str) -> None:
    file = machine.root / path
    if kind in ("EIO", "EACCES"):
        machine.note(path, error=kind)
        return
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "large":
        file.write_bytes(b"simd_count 1\n" * 800_000)
    elif kind == "bytes":
        file.write_bytes(b"simd_count \xff\xfe\n")
    elif kind == "loop":
        file.symlink_to(file.name)
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_text(kind)


@pytest.mark.parametrize(
    "kind", ["EIO", "EACCES", "folder", "large", "bytes", "loop", "pipe", "", "simd_count -1\n", "x\n"]
)
@pytest.mark.parametrize("file", ["properties", "gpu_id"])
def test_a_driver_that_lies_is_never_well(rocwheel: Rocwheel, machine: Machine, file: str, kind: str) -> None:
    lie(machine, f"sys/class/kfd/kfd/topology/nodes/1/{file}", kind)
    report = diagnose(rocwheel, machine, expect=1)
    unknown = [finding for finding in report["findings"] if finding["severity"] == "unknown"]
    assert unknown and report["verdict"].startswith("not well"), report
    assert any(f"nodes/1/{file}" in seen["path"] for finding in unknown for seen in finding["evidence"])


@pytest.mark.parametrize(
    "changed",
    [{"gfx_target_version": 900100}, {"simd_count": 0}, {"gfx_target_version": 2**64 - 1}, {"simd_per_cu": 0}],
)
def test_numbers_that_cannot_be_are_no_gpu_that_works(rocwheel: Rocwheel, machine: Machine, changed: dict) -> None:
    machine.gpu(1, "gfx1100", **changed)
    machine.finish()
    command = [rocwheel.binary, "--json", "doctor", "--root", machine.root]
    finished = subprocess.run(command, capture_output=True, text=True)
    found = named(json.loads(finished.stdout))
    if "simd_per_cu" in changed:
        assert finished.returncode == 0
    else:
        assert finished.returncode == 1 and "contradiction" in found, found


def test_a_packages_folder_that_cannot_be_read_is_said(rocwheel: Rocwheel, machine: Machine) -> None:
    (machine.site / "torch-2.9.1+rocm7.1.0.dist-info/METADATA").write_bytes(b"\xff\xfe\x00" * 100)
    (machine.site / "rocm_sdk_core-7.1.0.dist-info/RECORD").write_text('"unclosed\n')
    machine.finish()
    finished = subprocess.run(
        [rocwheel.binary, "--json", "doctor", "--root", machine.root, "--venv", machine.venv],
        capture_output=True,
        text=True,
    )
    assert finished.returncode in (0, 1) and json.loads(finished.stdout)["verdict"], finished.stderr
