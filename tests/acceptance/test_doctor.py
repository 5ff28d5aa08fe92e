"""`rocwheel doctor` on copies of machines."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from doctor_cases import CASES, NOTHING, Case, mixed_versions, torch_with_the_runtime_of_another_rocm

from command import REPOSITORY, Rocwheel
from doctor_trees import Machine, answered, diagnose, make_cpx, make_healthy_machine, make_machine, named

# The word in JSON, and the words for people that the Python has.
NEEDS = {"host": "a shell on the host"}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return make_healthy_machine(tmp_path)


def test_a_healthy_machine_has_no_findings(rocwheel: Rocwheel, machine: Machine) -> None:
    report = diagnose(rocwheel, machine)
    assert report["findings"] == []
    assert report["verdict"] == "nothing wrong was found; 1 GPU can be used"
    (gpu,) = report["gpus"]
    assert (gpu["address"], gpu["target"], gpu["compute_units"], gpu["hip_index"]) == ("0000:03:00.0", "gfx1100", 96, 0)
    # The number identifies the machine.
    assert "11673270660693242239" not in json.dumps(report) and f"{11673270660693242239:x}" not in json.dumps(report)


def test_the_missing_library_and_the_other_version_are_named(rocwheel: Rocwheel, machine: Machine) -> None:
    torch_with_the_runtime_of_another_rocm(machine)
    finding = named(diagnose(rocwheel, machine, expect=1))["rocm-libraries-missing"]
    assert finding["code"] == "RD073"
    evidence = json.dumps(finding["evidence"])
    assert 'needs libamdhip64.so.7"' in evidence, evidence
    assert "_rocm_sdk_core/lib/libamdhip64.so.6" in evidence
    # The loader finds it in a folder of the system, so nothing is missing.
    machine.write("etc/ld.so.conf.d/rocm.conf", "/opt/rocm/lib\n")
    machine.write("opt/rocm/lib/libamdhip64.so.7", "no ELF")
    assert "rocm-libraries-missing" not in named(diagnose(rocwheel, machine))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reported_failure_has_its_finding(rocwheel: Rocwheel, machine: Machine, case: Case) -> None:
    case.apply(machine)
    code, report = answered(rocwheel, machine)
    found = named(report)
    assert case.finding in found, sorted(found)
    finding = found[case.finding]
    if case.advice == NOTHING:
        assert finding["command"] is None and finding["template"] is None, finding
    else:
        assert case.advice in f"{finding['command']} {finding['template']} {finding['check']}", finding
    # What is called a command has no word that the reader has to replace.
    assert not finding["command"] or not finding["blanks"], finding
    assert bool(finding["template"]) == bool(finding["blanks"]), finding
    assert finding["evidence"] and all(seen["path"] for seen in finding["evidence"])
    assert "{" not in finding["meaning"] + (finding["command"] or "").replace("${", ""), finding
    heavy = {finding["severity"] for finding in report["findings"]} & {"error", "unknown"}
    assert code == (1 if heavy else 0), report["findings"]
    assert report["verdict"].startswith("not well") == bool(heavy)
    # One cause is not told twice under other names.
    assert sum(finding["severity"] == "error" for finding in report["findings"]) <= 2, sorted(found)


def test_a_missing_partition_is_seen(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """Row 19: 65 nodes; the 64th partition has no DRM device."""
    report = diagnose(rocwheel, make_cpx(tmp_path, 63))
    assert len(report["gpus"]) == 63 and [gpu["hip_index"] for gpu in report["gpus"]] == list(range(63))
    found = named(report)["partitions-missing"]
    assert "shows 7 partitions where others show 8" in found["meaning"]
    assert {gpu["partition"] for gpu in report["gpus"]} == {"CPX"}
    # Partitions share their unique_id, so they are told by address.
    assert len({gpu["address"] for gpu in report["gpus"]}) == 63


def test_whole_cards_have_all_their_partitions(rocwheel: Rocwheel, tmp_path: Path) -> None:
    assert "partitions-missing" not in named(diagnose(rocwheel, make_cpx(tmp_path, 32)))


def test_a_gpu_that_a_container_hides_is_not_no_gpu(rocwheel: Rocwheel, machine: Machine) -> None:
    machine.note("sys/class/kfd/kfd/topology/nodes/1/gpu_id", error="EPERM")
    found = named(diagnose(rocwheel, machine, expect=1))
    assert found["gpu-hidden"]["severity"] == "error" and "no-gpu" not in found
    machine.gpu(2, "gfx1100", location_id=1536, drm_render_minor=129)
    report = diagnose(rocwheel, machine)
    assert named(report)["gpu-hidden"]["severity"] == "note" and len(report["gpus"]) == 1


def test_no_gpu_is_calm_unless_one_is_needed(rocwheel: Rocwheel, tmp_path: Path) -> None:
    machine = make_machine(tmp_path)
    report = diagnose(rocwheel, machine)
    assert list(named(report)) == ["no-gpu"] and report["verdict"] == (
        "nothing wrong in what was looked at; no AMD GPU can be used here"
    )
    assert [one["what"] for one in report["not_looked_at"]] == ["the PCI bus"]
    # A machine without that folder has not been looked at.
    assert named(report)["no-gpu"]["evidence"][1]["value"].startswith("does not exist, so the bus could not")
    machine.write("sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n")
    report = diagnose(rocwheel, machine)
    assert report["verdict"] == "nothing wrong was found; no AMD GPU can be used here"
    assert report["not_looked_at"] == []
    (_, bus) = named(report)["no-gpu"]["evidence"]
    assert bus == {"path": "/sys/bus/pci/devices", "value": "no GPU of the vendor 0x1002"}
    assert "not well" in diagnose(rocwheel, machine, "--need-gpu", expect=1)["verdict"]
    # A CPU torch is right on such a machine.
    machine.package("torch", "2.9.1+cpu", **{"torch/__init__.py": ""})
    assert list(named(diagnose(rocwheel, machine))) == ["no-gpu"]


def test_wrong_options_are_refused(rocwheel: Rocwheel, tmp_path: Path) -> None:
    def fails(code: int, words: str, *arguments: object) -> None:
        assert words in rocwheel.run("doctor", *arguments, expect=code).stderr

    fails(2, "is not a folder", "--root", tmp_path / "none")
    (tmp_path / "elsewhere").mkdir()
    fails(1, "it is no copy of a machine", "--root", tmp_path / "elsewhere")
    (tmp_path / "etc").mkdir()
    fails(2, "is not a folder", "--venv", tmp_path / "none")
    fails(2, "is not a program", "--python", tmp_path / "none")
    fails(2, "neither the address of an index nor a folder", "--index", tmp_path / "none")
    fails(2, "1000:1000,44", "--root", tmp_path, "--user", "me")
    fails(2, "--root", "--user", "1000:1000")
    fails(1, "cannot read the variables", "--root", tmp_path, "--environment", tmp_path / "none")
    (tmp_path / "empty").mkdir()
    fails(1, "has no folder of Python packages", "--venv", tmp_path / "empty")
    (tmp_path / "doctor.toml").write_text('[[path]]\npath = "dev/kfd"\nmode = "rw"\n')
    fails(1, "`rw` is not a mode", "--root", tmp_path)


def test_variables_come_from_a_file_too(rocwheel: Rocwheel, machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "env").write_text("HIP_VISIBLE_DEVICES=7\nHOME=/root\n")
    report = diagnose(rocwheel, machine, "--environment", tmp_path / "env", expect=1)
    assert set(named(report)) == {"mask-hides-all"}, "one mask has one finding"
    assert named(report)["mask-hides-all"]["meaning"].startswith("HIP_VISIBLE_DEVICES hides the one GPU. `7` in HIP")
    report = diagnose(rocwheel, machine, "--user", "1001:1001", expect=1)
    assert "device-denied" in named(report)


@pytest.mark.parametrize("width", [60, 120])
def test_lines_fit_the_terminal(rocwheel: Rocwheel, machine: Machine, width: int) -> None:
    machine.user = "1000:1000"
    machine.variables["HIP_VISIBLE_DEVICES"] = "0"
    mixed_versions(machine)
    machine.finish()
    command = f"stty cols {width} rows 40; {rocwheel.binary} doctor --root {machine.root} --venv {machine.venv}"
    finished = subprocess.run(["script", "-qec", command, "/dev/null"], capture_output=True, text=True)
    assert finished.returncode == 1 and "\x1b[" in finished.stdout
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in finished.stdout.splitlines()]
    words = [
        line for line in lines if not line.startswith(("  $ ", "  > ")) and " " in line.strip() and "/" not in line
    ]
    assert max(map(len, words)) <= min(width, 100), words
    assert any(line.startswith("error RD053 mixed-versions") for line in lines), lines


def test_the_subset_in_python_agrees(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """`python -m rocm_sdk doctor` finds the same on the same machines, as far as it looks."""
    source = REPOSITORY / "python/rocm/src"
    sys.path.insert(0, str(source))
    try:
        from rocm_sdk import _doctor
    finally:
        sys.path.remove(str(source))
    compared = 0
    names = {row["name"] for row in _doctor.ROWS}
    for number, case in enumerate(CASES):
        machine = make_healthy_machine(tmp_path / str(number))
        case.apply(machine)
        _, ours = answered(rocwheel, machine)
        if ours["system"]["wsl"]:
            continue
        wanted = {
            (
                finding["code"],
                finding["severity"],
                finding["meaning"],
                finding["command"] or "",
                finding["template"] or "",
                tuple(sorted(NEEDS.get(need, need) for need in finding["needs"])),
            )
            for finding in ours["findings"]
            if finding["name"] in names
        }
        examined = _doctor.examine(machine.root, machine.site, machine.variables)
        found = {
            (one.code, one.severity, one.meaning, one.command, one.template, tuple(sorted(one.needs)))
            for one in examined
        }
        assert found == wanted, (case.name, found ^ wanted)
        compared += len(found)
    assert compared > 40
