"""Finds out why the GPUs of this machine and the installed packages do not work together.

Input: the files of the kernel driver, device files, environment variables, and the `.dist-info`
folders beside this package. Output: findings, each with a code, what it means and a command.

Nothing is imported, started or changed. `rocwheel doctor` finds the same and more: the findings
have the same codes and words, from the same table (`_doctor_rows`), and a test compares the two.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ._doctor_machine import AccessError, Machine
from ._doctor_packages import examine_packages, has_index, installed_kernels, is_covered
from ._doctor_rows import BLANKS, INTEGRATED, ROWS

KFD = "/dev/kfd"
NODES = "/sys/class/kfd/kfd/topology/nodes"
BUS = "/sys/bus/pci/devices"
AMD = 4098
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
# From light to heavy. `unknown` is a check that could not be made; it counts as an error.
SEVERITIES = ("note", "warning", "unknown", "error")
_ROWS = {row["name"]: row for row in ROWS}
# What this part never looks at.
NOT_LOOKED_AT = {
    "what": "whether libraries load, changed files, kernel modules, the order of GPUs, settings of uv",
    "why": "this is the part that needs no program",
    "decides": "`rocwheel doctor`",
}
if os.name == "nt":
    NOT_LOOKED_AT["what"] = f"the GPUs, {NOT_LOOKED_AT['what']}"


@dataclass
class Finding:
    """A row of the table, filled in."""

    code: str
    name: str
    severity: str
    title: str
    meaning: str
    command: str
    needs: list[str]
    check: str
    evidence: list[tuple[str, str]] = field(default_factory=list)
    # The command if it has words that only the reader knows, each with what to write.
    template: str = ""
    blanks: list[tuple[str, str]] = field(default_factory=list)

    @property
    def weight(self) -> int:
        return SEVERITIES.index(self.severity)


# Findings with another command in a container.
CONTAINED = frozenset(row["name"] for row in ROWS if row["commands"])


def _in_container(machine: Machine, gpus: list[Gpu], one: Finding, kind: str) -> str:
    """The command of a finding in a container of a kind; empty if that has none."""
    command: str = _ROWS[one.name]["commands"].get(kind, "")
    group = machine.group_number("render") or machine.group_number("video") or "0"
    nodes = [KFD, *(gpu.render_node for gpu in gpus if gpu.render_node)]
    devices = " ".join(f"--dev{number} {node},gid={group}" for number, node in enumerate(nodes))
    owner = re.search(r"owner \d+:(\d+)", one.evidence[0][1])
    return command.replace("{devices}", devices).replace("{gid}", owner.group(1) if owner else "")


def finding(
    name: str, *evidence: tuple[str, str], severity: str = "", has_command: bool = True, **words: str
) -> Finding:
    """A finding of the row `name`; `{words}` of its texts are filled in."""
    row = _ROWS[name]

    def fill(text: str) -> str:
        for word, value in words.items():
            text = text.replace(f"{{{word}}}", value)
        return text

    return Finding(
        row["code"],
        name,
        severity or row["severity"],
        row["title"],
        fill(row["meaning"]),
        fill(row["command"]) if has_command else "",
        list(row["needs"]),
        fill(row["check"]),
        list(evidence),
    )


@dataclass
class Reader:
    """The place in which commands will be typed."""

    # The kind of container; empty outside of one.
    container: str
    # The address of a package index, if the user named one.
    index: str | None
    # True if the settings of pip name an index.
    has_index: bool = False

    def settle(self, one: Finding) -> None:
        """Makes the command work where it is printed, or a template of it."""
        row = _ROWS[one.name]
        if self.container and row["commands"]:
            has_command = self.container in row["commands"]
            if has_command:
                one.needs += [need for need in ("a shell on the host", "new container") if need not in one.needs]
            else:
                one.needs = [need for need in one.needs if need != "new container"]
        if self.container and row["machine"] and "a shell on the host" not in one.needs:
            one.needs.append("a shell on the host")
        option = f"--index-url {shlex.quote(self.index)} " if self.index else "--index-url {index} "
        text = one.command.replace("{from-index}", "" if self.has_index and not self.index else option)
        if self.index:
            text = text.replace("{index}", shlex.quote(self.index))
        for word, shown, meaning in BLANKS:
            if f"{{{word}}}" in text:
                text = text.replace(f"{{{word}}}", shown)
                one.blanks.append((shown, meaning))
        one.command, one.template = ("", text) if one.blanks else (text, "")
        if "sudo " in one.command and "root" not in one.needs:
            one.needs.insert(0, "root")


@dataclass
class Gpu:
    """A GPU that the driver offers; partitions of a GPU are several."""

    node: int
    target: str | None
    render_node: str | None
    unique_id: int
    integrated: bool
    # True if a mask hides it.
    masked: bool = False

    @property
    def path(self) -> str:
        return f"{NODES}/{self.node}/properties"


def examine(
    root: Path | None,
    site: Path | None,
    variables: Mapping[str, str],
    need_gpu: bool = False,
    index: str | None = None,
) -> list[Finding]:
    """The findings of a machine, the heaviest first. `root` is a copy of one, None for this one. A
    machine without a GPU has an error if it needs one. `index` is the package index that commands
    name."""
    found: list[Finding] = []
    machine = Machine(root, variables)
    reader = Reader(machine.container(), index)
    kernels = installed_kernels(site) if site is not None else set()
    gpus = _gpus(machine, found)
    if need_gpu and not gpus:
        for one in found:
            one.severity = "error" if one.name == "no-gpu" else one.severity
        # A GPU of another driver, and that of WSL: files do not show that it computes.
        if all(one.weight < SEVERITIES.index("unknown") for one in found):
            found.append(finding("not-read", (NODES, "no node of a GPU"), question="Whether a GPU can be used"))
    if gpus:
        usable = _check_devices(machine, gpus, found)
        opening = [gpu for gpu, opens in zip(gpus, usable, strict=True) if opens]
        # If none opens, the masks are judged as if all did.
        _check_masks(opening or gpus, variables, found)
        _check_integrated(opening, variables, kernels, found)
        _check_limits(machine, found)
    if site is not None:
        targets = _targets_of_interest(gpus, variables, kernels)
        reader.has_index = has_index(machine, site, [target for _, target in targets])
        # The mask is what is wrong, and not the packages.
        if any(one.name == "mask-leaves-integrated" for one in found):
            integrated = {gpu.path for gpu in gpus if gpu.integrated}
            targets = [one for one in targets if one[0] not in integrated or is_covered(one[1], kernels)]
        examine_packages(machine, site, targets, lambda *a, **k: found.append(finding(*a, **k)))
    _check_overrides(gpus, variables, kernels, found)
    for one in found:
        if one.name in CONTAINED and reader.container:
            one.command = _in_container(machine, gpus, one, reader.container)
        reader.settle(one)
    return sorted(found, key=lambda one: (-one.weight, one.code))


def _gpus(machine: Machine, found: list[Finding]) -> list[Gpu]:
    hidden: list[int] = []
    gpus: list[Gpu] = []
    if machine.is_windows:
        return gpus
    try:
        names = machine.names(NODES)
    except FileNotFoundError:
        names = []
    except AccessError as error:
        found.append(finding("not-read", (NODES, str(error)), question="Which GPUs the machine has"))
        return []
    for number in sorted(int(name) for name in names if name.isdigit()):
        gpu = _node(machine, number, hidden, found)
        if gpu is not None:
            gpus.append(gpu)
    if hidden:
        severity = "" if gpus else "error"
        words = ", ".join(map(str, hidden))
        found.append(finding("gpu-hidden", (f"{NODES}/{hidden[0]}", "EPERM"), severity=severity, nodes=words))
    answered = any(one.weight >= SEVERITIES.index("unknown") for one in found)
    if not gpus and not hidden and not answered and not machine.is_wsl() and not _is_on_bus(machine):
        if any(machine.exists(path) for path in (NODES, BUS, "/sys/module")):
            found.append(finding("no-gpu", (NODES, "no node of a GPU"), (BUS, "no GPU of the vendor 0x1002")))
        else:
            found.append(finding("not-read", (NODES, "does not exist"), question="Which GPUs the machine has"))
    return gpus


def _node(machine: Machine, number: int, hidden: list[int], found: list[Finding]) -> Gpu | None:
    question = f"Whether node {number} is a GPU that works"
    folder = f"{NODES}/{number}"
    gpu_id: int | None = None
    for name in ("gpu_id", "properties"):
        path = f"{folder}/{name}"
        try:
            text = machine.text(path)
        except PermissionError as error:
            if error.errno == 1:
                hidden.append(number)
                return None
            found.append(finding("not-read", (path, str(error)), question=question))
        except FileNotFoundError as error:
            if name == "properties":
                found.append(finding("not-read", (path, str(error)), question=question))
        except AccessError as error:
            found.append(finding("not-read", (path, str(error)), question=question))
        else:
            if name == "properties":
                return _gpu(machine, number, text, gpu_id, found)
            if text.isdigit():
                gpu_id = int(text)
            else:
                found.append(finding("contradiction", (path, text[:60]), question=question))
    return None


def _gpu(machine: Machine, number: int, text: str, gpu_id: int | None, found: list[Finding]) -> Gpu | None:
    question = f"Whether node {number} is a GPU that works"
    path = f"{NODES}/{number}/properties"
    keys: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) != 2 or not words[1].isdigit():
            found.append(finding("contradiction", (path, line[:60]), question=question))
            return None
        keys[words[0]] = int(words[1])
    if not keys:
        found.append(finding("contradiction", (path, "is empty"), question=question))
        return None
    is_gpu = keys.get("simd_count", 0) > 0 if gpu_id is None else gpu_id != 0
    if not is_gpu or keys.get("vendor_id", AMD) != AMD:
        return None
    version = keys.get("gfx_target_version")
    target = _target(version or 0)
    if version is not None and target is None or not keys.get("simd_count"):
        question = f"What the GPU of node {number} is"
        found.append(finding("contradiction", (path, f"gfx_target_version {version}"), question=question))
    if version is None:
        question = f"Which target the GPU of node {number} is"
        found.append(finding("not-read", (path, "no gfx_target_version"), question=question))
    minor = keys.get("drm_render_minor", 0)
    return Gpu(
        number,
        target,
        f"/dev/dri/renderD{minor}" if minor else None,
        keys.get("unique_id", 0),
        _is_integrated(machine, keys),
    )


def _target(version: int) -> str | None:
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    if not 1 <= major <= 63 or minor > 15 or stepping > 15:
        return None
    return f"gfx{major}{minor:x}{stepping:x}"


def _is_integrated(machine: Machine, keys: Mapping[str, int]) -> bool:
    """True for the GPU of a processor: cards with memory of their own have other files."""
    if keys.get("cpu_cores_count", 0) > 0:
        return True
    location = keys.get("location_id", 0)
    folder = f"{BUS}/{keys.get('domain', 0):04x}:{location >> 8:02x}:{location >> 3 & 31:02x}.0"
    if any(machine.exists(f"{folder}/{name}") for name in ("mem_info_vram_vendor", "board_info")):
        return False
    try:
        own, shared = (int(machine.text(f"{folder}/mem_info_{kind}_total")) for kind in ("vram", "gtt"))
    except (OSError, ValueError):
        return _target(keys.get("gfx_target_version", 0)) in INTEGRATED
    return own <= 4 << 30 and shared >= 8 << 30 and shared // 4 >= own


def _is_on_bus(machine: Machine) -> bool:
    try:
        devices = machine.names(BUS)
    except OSError:
        return False

    def number(device: str, name: str) -> int:
        try:
            return int(machine.text(f"{BUS}/{device}/{name}"), 16)
        except (OSError, ValueError):
            return 0

    return any(number(device, "vendor") == AMD and number(device, "class") >> 16 in (0x03, 0x12) for device in devices)


def _check_devices(machine: Machine, gpus: list[Gpu], found: list[Finding]) -> list[bool]:
    faults: dict[str, Finding] = {}
    groups: set[str] = set()

    def opens(device: str) -> bool:
        try:
            machine.open_device(device)
        except OSError as error:
            one = _device_finding(machine, device, error, groups)
            faults.setdefault(one.name, one)
            return False
        return True

    kfd = opens(KFD)
    absent = bool({"container-without-device", "no-device-file"} & faults.keys())
    usable = []
    for gpu in gpus:
        node = gpu.render_node is None or (not absent and opens(gpu.render_node))
        usable.append(kfd and node)
    for one in faults.values():
        one.command = one.command.replace("{group}", ",".join(sorted(groups)))
        one.meaning = one.meaning.replace("{group}", ",".join(sorted(groups)))
        found.append(one)
    return usable


def _device_finding(machine: Machine, device: str, error: OSError, groups: set[str]) -> Finding:
    container = machine.container()
    if isinstance(error, FileNotFoundError):
        seen = (device, "does not exist")
        if container == "apptainer":
            return finding("apptainer-without-device", seen, device=device)
        if container and container != "user-namespace":
            return finding("container-without-device", seen, device=device)
        return finding("no-device-file" if device == KFD else "render-node-missing", seen, device=device)
    words = machine.words(error)
    if error.errno == 1 and container:
        return finding("container-without-device", (device, words), device=device)
    if error.errno != 13:
        reason = "That is neither a missing file nor a missing right: the driver refuses."
        if error.errno == 1:
            reason = "A device cgroup or a security module refuses."
        return finding("device-fails", (device, words), device=device, error=words, reason=reason)
    mode, user, group = machine.rights(device)
    seen = (device, f"{words}; mode {mode:04o}, owner {user}:{group}")
    has_right = mode >> 3 & 6 == 6
    if container and has_right and (group == 65534 or machine.is_rootless()):
        if container == "podman":
            return finding("rootless-container", seen, device=device)
        words_of_map = {"owner": f"{user}:{group}", "map": machine.uid_map() or "not readable"}
        return finding("user-namespace", seen, device=device, **words_of_map)
    if machine.may_use(device):
        reason = "Owner, group and mode allow it, so that a security module refuses."
        return finding("device-fails", seen, device=device, error=words, reason=reason)
    if container and has_right:
        return finding("container-group", seen, device=device, gid=str(group))
    name = machine.group_name(group)
    if not has_right or group == 0 or name is None:
        return finding("device-mode", seen, device=device, mode=f"{mode:04o}", owner=f"{user}:{group}")
    groups.add(name)
    kind = "login-again" if machine.is_listed(group) else "device-denied"
    return finding(kind, seen, device=device)


def _quoted(value: str) -> str:
    return f'"{value[:80]}"'


def _check_masks(gpus: list[Gpu], variables: Mapping[str, str], found: list[Finding]) -> None:
    rocr, hip, cuda, ordinal = (
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
    )
    filled = {name: value for name, value in variables.items() if value}

    def contradicts(row: str, one: str, other: str) -> None:
        found.append(finding(row, (one, _quoted(filled[one])), (other, _quoted(filled[other]))))

    second = hip if hip in filled else cuda if cuda in filled else None
    if hip in filled and cuda in filled and filled[hip] != filled[cuda]:
        contradicts("masks-differ", hip, cuda)
    other = second or (rocr if rocr in filled else None)
    if ordinal in filled and other and filled[other] != filled[ordinal]:
        contradicts("ordinal-disagrees", ordinal, other)
    left = gpus
    if rocr in variables:
        left = _select(left, rocr, variables[rocr], found)
    if second:
        left = _select(left, second, filled[second], found)
    for gpu in gpus:
        gpu.masked = gpu not in left
    if not left and gpus:
        names = [name for name in (rocr if rocr in variables else None, second) if name]
        count = "the one GPU" if len(gpus) == 1 else "both GPUs" if len(gpus) == 2 else f"all {len(gpus)} GPUs"
        evidence = [(name, _quoted(variables[name])) for name in names]
        wrong = [one for one in found if one.name == "mask-names-no-gpu"]
        if rocr in variables and not variables[rocr].strip():
            reason = f"An empty {rocr} hides every GPU."
        elif len(names) > 1:
            reason = f"HIP's numbers count what {rocr} leaves, so two masks in one place often leave nothing."
        else:
            reason = wrong[0].meaning if wrong else ""
        # One mask has one finding.
        found[:] = [one for one in found if one not in wrong]
        words = {"variables": " and ".join(names), "names": " ".join(names), "reason": reason}
        words["count"] = f"{'hides' if len(names) == 1 else 'hide'} {count}"
        found.append(finding("mask-hides-all", *evidence, **words))
    elif rocr in filled and second:
        contradicts("two-masks", rocr, second)


def _check_integrated(
    opening: list[Gpu], variables: Mapping[str, str], kernels: set[str], found: list[Finding]
) -> None:
    """A mask that leaves only GPUs of processors although a discrete one opens."""
    left = [gpu for gpu in opening if not gpu.masked]
    hidden = [(number, gpu) for number, gpu in enumerate(opening) if gpu.masked and not gpu.integrated]
    if not left or not hidden or not all(gpu.integrated for gpu in left):
        return
    masks = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
    names = [name for name in masks if variables.get(name)]
    runs = any(gpu.target is not None and is_covered(gpu.target, kernels) for gpu in left)
    if runs:
        reason = "The installed packages have kernels for it, and it is slower."
    elif not kernels:
        reason = "Most packages have no kernels for it; then the first launch fails with `invalid device function`."
    else:
        reason = "The installed packages have no kernels for it: the first launch fails with `invalid device function`."
    others = [name for name in names if name != masks[0]]
    words = {
        "variables": " and ".join(names),
        "leave": "leaves" if len(names) == 1 else "leave",
        "hide": "hides" if len(names) == 1 else "hide",
        "left": " and ".join(gpu.target or "an unknown target" for gpu in left),
        "hidden": " and ".join(gpu.target or "an unknown target" for _, gpu in hidden),
        "reason": reason,
        "unset": f"unset {' '.join(others)} && " if others else "",
        "mask": ",".join(str(number) for number, _ in hidden),
    }
    evidence = [(name, _quoted(variables[name])) for name in names]
    severity = "warning" if runs or not kernels else "error"
    found.append(finding("mask-leaves-integrated", *evidence, severity=severity, **words))


def _check_limits(machine: Machine, found: list[Finding]) -> None:
    """The limit of locked memory; today's is 8 MiB."""
    limits = "/proc/self/limits"
    line = re.search(r"^Max locked memory +(\d+)", machine.text_if_any(limits), re.MULTILINE)
    if line and int(line.group(1)) < 1 << 20:
        limit = f"{int(line.group(1)) >> 10} KiB"
        found.append(finding("locked-memory", (limits, f"{line.group(1)} bytes"), limit=limit))


def _select(gpus: list[Gpu], name: str, mask: str, found: list[Finding]) -> list[Gpu]:
    left: list[Gpu] = []
    if not mask.strip():
        return left
    for token in (token.strip() for token in mask.split(",")):
        if token.isdigit():
            fitting = gpus[int(token) : int(token) + 1]
        else:
            start = token.lower().removeprefix("gpu-") if token.lower().startswith("gpu-") else ""
            fitting = [g for g in gpus if start and g.unique_id and f"{g.unique_id:016x}".startswith(start)]
        if len(fitting) != 1 or fitting[0] in left:
            found.append(finding("mask-names-no-gpu", (name, _quoted(mask)), token=token, variable=name))
            break
        left.append(fitting[0])
    return left


def _version(text: str) -> int | None:
    numbers = text.strip().split(".")
    if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
        return None
    major, minor, stepping = map(int, numbers)
    if major > 63 or minor > 255 or stepping > 255:
        return None
    return major * 10000 + minor * 100 + stepping


def _override(gpu: Gpu, variables: Mapping[str, str]) -> tuple[str, str] | None:
    for name in (f"{OVERRIDE}_{gpu.node}", OVERRIDE):
        if variables.get(name):
            return name, variables[name]
    return None


def _targets_of_interest(gpus: list[Gpu], variables: Mapping[str, str], kernels: set[str]) -> list[tuple[str, str]]:
    """The paths and targets of the GPUs that packages need kernels for. An override counts if there
    are kernels for its target, else it is what is wrong."""
    visible = [gpu for gpu in gpus if not gpu.masked] or gpus
    discrete = [gpu for gpu in visible if not gpu.integrated] or visible
    targets: dict[str, str] = {}
    for gpu in discrete:
        override = _override(gpu, variables)
        version = _version(override[1]) if override else None
        other = _target(version) if version else None
        target = other if other and is_covered(other, kernels) else gpu.target
        if target:
            targets.setdefault(target, gpu.path)
    return [(path, target) for target, path in targets.items()]


def _generic(target: str) -> int | None:
    """A number for the targets that have a generic target of LLVM in common; None without one."""
    groups = ("gfx90[02469c]", "gfx94[0-2]|gfx950", "gfx101[0-3]", "gfx103[0-6]", "gfx11[05][0-3]", "gfx120[01]")
    return next((number for number, group in enumerate(groups) if re.fullmatch(group, target)), None)


def _check_overrides(gpus: list[Gpu], variables: Mapping[str, str], kernels: set[str], found: list[Finding]) -> None:
    for name, value in sorted(variables.items()):
        if re.fullmatch(rf"{OVERRIDE}(_\d+)?", name) and value and _version(value) is None:
            found.append(finding("override-malformed", (name, value), value=value, variable=name))
    told: set[tuple[str, str]] = set()
    for gpu in gpus:
        override = _override(gpu, variables)
        version = _version(override[1]) if override else None
        if gpu.target is None or override is None or version is None:
            continue
        name, value = override
        other = _target(version) or f"gfx {value}"
        if other == gpu.target or (name, gpu.target) in told:
            continue
        told.add((name, gpu.target))
        if is_covered(gpu.target, kernels) and is_covered(other, kernels):
            severity = "warning"
            reason = f"Kernels for {gpu.target} are installed, so the variable is not needed."
        elif is_covered(gpu.target, kernels):
            severity = "error"
            reason = f"Kernels for {gpu.target} are installed and none for {other}: programs fail."
        elif other[:-2] != gpu.target[:-2]:
            severity = "error"
            reason = "The two have different instructions: programs fail with `invalid device function` or worse."
        elif _generic(gpu.target) is None or _generic(gpu.target) != _generic(other):
            severity = "warning"
            reason = "The two are of one generation, and their instructions differ: programs may fail."
        else:
            severity = "note"
            reason = "The two are of one family. That often works, and AMD does not support it."
        words = {"variable": name, "target": gpu.target, "other": other, "reason": reason}
        one = finding("override-wrong", (name, value), (gpu.path, gpu.target), severity=severity, **words)
        if severity == "note":
            one.command = ""
        found.append(one)


def verdict(findings: list[Finding]) -> tuple[str, int]:
    """One line, and the exit status: 1 if something is wrong or a check could not be made."""
    counts = {name: sum(one.severity == name for one in findings) for name in SEVERITIES}
    heavy = counts["error"] + counts["unknown"]
    plural = {name: "" if count == 1 or name == "unknown" else "s" for name, count in counts.items()}
    shown = [f"{count} {name}{plural[name]}" for name, count in reversed(counts.items()) if count and name != "note"]
    words = ", ".join(shown)
    if heavy:
        return f"not well: {words}", 1
    # This part does not look at everything.
    return (f"no errors in what was looked at, {words}" if words else "nothing wrong in what was looked at"), 0


def _lines(one: Finding, width: int) -> Iterator[str]:
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)

    def block(start: str, text: str) -> list[str]:
        wrap.initial_indent, wrap.subsequent_indent = start, " " * len(start)
        return wrap.wrap(text)

    head = block("", f"{one.severity} {one.code} {one.name}: {one.title}")
    yield from head[:1] + [f"  {line}" for line in head[1:]]
    for path, value in one.evidence:
        yield from block("  - ", f"{path}: {value}" if value else path)
    yield from block("  ", one.meaning)
    if one.command:
        yield f"  $ {one.command}"
    if one.template:
        yield f"  > {one.template}"
        for shown, meaning in one.blanks:
            yield from block("    ", f"{shown}: {meaning}")
    if one.check:
        yield from block("  to check: ", one.check)
    if one.needs:
        yield from block("  needs: ", ", ".join(one.needs))


def run(site: Path, as_json: bool, need_gpu: bool, index: str | None = None) -> int:
    """Examines this machine and prints the findings."""
    if index is not None and "://" not in index:
        # Of a folder that `rocwheel index build` wrote, the index is `simple`.
        folders = [folder for folder in (Path(index, "simple"), Path(index)) if folder.is_dir()]
        if not folders:
            raise ValueError(f"`{index}` is neither the address of an index nor a folder")
        index = str(folders[0].resolve())
    findings = examine(None, site, dict(os.environ), need_gpu, index)
    text, status = verdict(findings)
    if as_json:
        rows = [
            {
                **vars(one),
                "evidence": [{"path": path, "value": value} for path, value in one.evidence],
                "blanks": [{"word": word, "meaning": meaning} for word, meaning in one.blanks],
            }
            for one in findings
        ]
        document = {"schema": 1, "findings": rows, "verdict": text, "not_looked_at": [NOT_LOOKED_AT]}
        print(json.dumps(document, indent=2))
        return status
    try:
        width = min(os.get_terminal_size(sys.stdout.fileno()).columns, 100)
    except (OSError, ValueError):
        width = 80
    for one in findings:
        # Names come from files and variables, and must not steer a terminal.
        for line in _lines(one, max(width, 40)):
            print("".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in line))
        print()
    print(text)
    print("not looked at: {what} ({why}); {decides}".format(**NOT_LOOKED_AT))
    return status
