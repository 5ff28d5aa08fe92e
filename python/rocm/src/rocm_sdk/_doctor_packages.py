"""The installed packages, for `_doctor`: `.dist-info` folders and names of files, nothing imported."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ._doctor_machine import Machine
from ._doctor_rows import NEEDED, PACKAGES

# Folders that packages bring along by mistake.
STRAY = frozenset({"tests", "test", "benchmarks", "examples", "docs", "scripts"})
# Variables that name an index.
INDEXES = (
    *("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_DEFAULT_INDEX", "UV_INDEX"),
    *("UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
)

_KERNEL = re.compile(r"gfx([0-9a-f]{3,})((?:[-_]4)?[-_]generic)?")


@dataclass
class Package:
    name: str
    version: str
    info: Path
    requires: list[str]
    files: list[str]

    @property
    def row(self) -> dict[str, Any]:
        """Its row of the table: the one with the longest beginning of its name."""
        return max((row for row in PACKAGES if self.name.startswith(row["name"])), key=lambda row: len(row["name"]))

    @property
    def pin(self) -> str:
        return shlex.quote(f"{self.name}=={self.version}")


def examine_packages(machine: Machine, site: Path, targets: list[tuple[str, str]], add: Callable[..., None]) -> None:
    """Adds what is wrong with the packages in `site` for the GPUs with these targets, each with the
    path that names it."""
    packages = _read(site)
    rocm = {name: one for name, one in packages.items() if name == "rocm" or name.startswith("rocm-sdk")}
    version = next((rocm[name].version for name in ("rocm", "rocm-sdk-core") if name in rocm), None)
    if version is None and rocm:
        version = next(iter(rocm.values())).version
    _check_versions(rocm, add)
    _check_kernels(site, rocm, version, targets, add)
    _check_devel(site, add)
    torch = packages.get("torch")
    builds = _builds(site, packages)
    kind = _torch_kind(site, torch) if torch is not None else None
    if torch is not None and kind != "rocm" and targets:
        _check_torch(torch, kind == "cuda", (targets[0], builds), add)
    if version is not None:
        _check_pins(site, packages, version, add)
    foreign = _foreign(packages, builds, (kind, targets))
    shared = _shared_files(packages)
    # What is wrong with a package that another one overwrites is told there.
    replaced = {name for one in shared for name in one.replaced}
    _check_builds(packages, {name: builds[name] for name in foreign if name not in replaced}, targets, add)
    _check_built_torch(site, packages, add)
    _check_shared(packages, shared, set(foreign), add)
    if rocm or torch:
        _check_variables(machine, site, version if rocm else None, add)


def installed_kernels(site: Path) -> set[str]:
    """The targets that the packages in `site` have kernels for."""
    return _kernels(_read(site), ("rocm-sdk", "torch", "amd-torch"))


def _read(site: Path) -> dict[str, Package]:
    packages: dict[str, Package] = {}
    for info in sorted(site.glob("*.dist-info")):
        try:
            metadata = (info / "METADATA").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
        except OSError:
            continue
        headers = re.findall(r"^(Name|Version|Requires-Dist): *(.*?) *$", metadata, re.MULTILINE)
        fields = dict(headers)
        name = re.sub(r"[-_.]+", "-", fields.get("Name", "")).lower()
        if not name or not any(name.startswith(row["name"]) for row in PACKAGES):
            continue
        try:
            rows = (info / "RECORD").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            rows = []
        files = [path for path in (row.rsplit(",", 2)[0] for row in rows) if (site / path).is_file()]
        requires = [value for key, value in headers if key == "Requires-Dist"]
        packages[name] = Package(name, fields.get("Version", ""), info, requires, files)
    return packages


def _without_post(version: str) -> str:
    return re.sub(r"\.post\d+", "", version)


def _key(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _check_versions(rocm: dict[str, Package], add: Callable[..., None]) -> None:
    versions: dict[str, list[Package]] = {}
    for package in rocm.values():
        versions.setdefault(_without_post(package.version), []).append(package)
    if len(versions) < 2:
        return
    main = max(versions, key=lambda version: (len(versions[version]), _key(version)))
    others = [one for version in sorted(versions) if version != main for one in versions[version]]
    evidence = [(one.info.name, one.version) for one in others + versions[main]][:6]
    add("mixed-versions", *evidence, version=main, requirements=" ".join(f"{one.name}=={main}" for one in others))


def _kernels(packages: dict[str, Package], prefixes: tuple[str, ...]) -> set[str]:
    targets: set[str] = set()
    for package in packages.values():
        if not package.name.startswith(prefixes):
            continue
        if "-device-" in package.name:
            targets.add(package.name.split("-device-")[1])
        for path in package.files:
            folder, _, name = path.rpartition("/")
            if not re.search(r"/library/|\.kpack|aotriton", path) and not name.startswith("_device_gfx"):
                continue
            found = _KERNEL.search(name if "gfx" in name else folder.rpartition("/")[2])
            if found:
                targets.add(found.group(0).replace("_", "-"))
    return targets


def is_covered(target: str, names: set[str]) -> bool:
    """True if code for one of these targets or families runs on a target."""
    plain = {name.lower().replace("_", "-") for name in names}
    stem, generation = target[:-1], target[:-2]
    families = {target, f"{stem}x", generation, f"{generation}-generic", f"{generation}-4-generic"}
    families |= {f"{generation}-{target[-2]}"} | {f"{stem}x-{kind}" for kind in ("all", "dgpu", "igpu", "dcgpu")}
    return bool(families & plain)


def _listed(targets: set[str]) -> str:
    return ", ".join(sorted(targets)) or "no GPU"


def _check_kernels(
    site: Path, rocm: dict[str, Package], version: str | None, targets: list[tuple[str, str]], add: Callable[..., None]
) -> None:
    libraries = next((one for name, one in sorted(rocm.items()) if name.startswith("rocm-sdk-libraries")), None)
    if libraries is None:
        return
    kernels = _kernels(rocm, ("rocm-sdk",))
    offered = _offered(site)
    if not kernels and not offered:
        return
    for path, target in targets:
        if is_covered(target, kernels):
            continue
        if offered and not is_covered(target, set(offered)):
            words = {"version": version or "", "offered": ", ".join(offered), "target": target}
            add("target-not-offered", (path, target), ("rocm_sdk/_dist_info.py", words["offered"]), **words)
            continue
        requirement = f"rocm-sdk-device-{target}=={version}"
        family = next((family for family in offered if is_covered(target, {family})), None)
        if family and libraries.name != "rocm-sdk-libraries":
            requirement = f"rocm-sdk-libraries-{family}=={version}"
        seen = (libraries.info.name, f"kernels for {_listed(kernels)}")
        words = {"installed": _listed(kernels), "target": target, "requirement": requirement}
        add("no-kernels", (path, target), seen, **words)


def _offered(site: Path) -> list[str]:
    try:
        text = (site / "rocm_sdk" / "_dist_info.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return re.findall(r"^AVAILABLE_TARGET_FAMILIES\.append\(['\"]([^'\"]*)['\"]\)$", text, re.MULTILINE)


def _check_devel(site: Path, add: Callable[..., None]) -> None:
    tree, package = site / "_rocm_sdk_devel", site / "rocm_sdk_devel"
    archive = next((package / name for name in ("_devel.tar", "_devel.tar.xz") if (package / name).exists()), None)
    if not tree.is_dir() or not package.is_dir():
        return
    entries = len(list(tree.iterdir()))
    is_complete = (tree / "__init__.py").is_file() and archive is None
    if is_complete or not entries or (archive is not None and entries <= 1):
        return
    seen = (str(tree / "__init__.py"), "does not exist") if archive is None else (str(archive), "still exists")
    add("half-expanded", seen, tree=str(tree))


def _built_for(site: Path) -> dict[str, str]:
    """The versions of HIP and CUDA in `torch/version.py`, empty for `None`; no keys without the file."""
    try:
        text = (site / "torch" / "version.py").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    rows = re.findall(r"^(hip|cuda)(?: *:[^=\n]*)? *= *(.*?) *$", text, re.MULTILINE)
    found = {name: "" if value == "None" else value.strip("'\"") for name, value in rows}
    return found if len(found) == 2 else {}


def _torch_kind(site: Path, torch: Package) -> str:
    """What torch is built for: `rocm`, `cuda` or `processor`."""
    names = [path.rpartition("/")[2] for path in torch.files]
    local = torch.version.partition("+")[2]

    def has(*starts: str) -> bool:
        return any(name.startswith(starts) for name in names)

    built = _built_for(site)
    if built.get("hip") or (not built and (has("libtorch_hip.so", "libc10_hip.so") or "rocm" in local)):
        return "rocm"
    is_cuda = bool(built.get("cuda")) if built else has("libtorch_cuda.so", "libc10_cuda.so") or local.startswith("cu")
    is_cuda = is_cuda or (not built and any(one.startswith("nvidia-") for one in torch.requires))
    return "cuda" if is_cuda else "processor"


def _check_torch(
    torch: Package, is_cuda: bool, seen: tuple[tuple[str, str], dict[str, Build]], add: Callable[..., None]
) -> None:
    """A torch for other GPUs. The packages that go with it are told with it."""
    (path, target), builds = seen
    beside = [name for name, build in sorted(builds.items()) if build.kind == "cuda" and build.with_torch]
    evidence = [(torch.info.name, torch.version), (path, target)]
    words = {"version": torch.version, "target": target, "requirements": " ".join(["torch", *beside])}
    add("cuda-torch" if is_cuda else "cpu-torch", *evidence, **words)


@dataclass
class Build:
    """What the compiled code of a package is for: `rocm`, `cuda` or `processor`."""

    kind: str
    seen: str
    with_torch: bool


def _builds(site: Path, packages: dict[str, Package]) -> dict[str, Build]:
    """What is known of the packages with compiled code; torch itself is asked elsewhere."""
    found: dict[str, Build] = {}
    for name, package in packages.items():
        if package.row["compiled"]:
            kind, seen = _build(site, package)
            if kind:
                found[name] = Build(kind, seen, package.row["torch"])
    return found


def _build(site: Path, package: Package) -> tuple[str, str]:
    local = package.version.partition("+")[2]
    if "rocm" in local:
        return "rocm", package.version
    rocm, cuda = (
        next((path for path in package.files if any(mark in path for mark in package.row[kind])), "")
        for kind in ("rocm", "cuda")
    )
    if rocm:
        return "rocm", rocm
    facts = _facts(site, package.row["facts"])
    if facts.get("hip"):
        return "rocm", f"{package.row['facts']}: hip"
    if not cuda and facts.get("cuda"):
        cuda = f"{package.row['facts']}: cuda {facts['cuda']}"
    for path in package.files:
        name = path.rpartition("/")[2]
        if not name.endswith(".so") and ".so." not in name:
            continue
        for library in _needed(site / path):
            if library.startswith(tuple(NEEDED["rocm"])):
                return "rocm", f"{path} needs {library}"
            if not cuda and library.startswith(tuple(NEEDED["cuda"])):
                cuda = f"{path} needs {library}"
    if cuda or local.startswith("cu"):
        return "cuda", cuda or package.version
    return ("processor", package.version) if local.startswith("cpu") else ("", "")


def _facts(site: Path, path: str | None) -> dict[str, str]:
    """What a package's own file says about its build: versions of `hip`, `cuda` and `torch`."""
    if path is None:
        return {}
    try:
        text = (site / path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    if not path.endswith(".json"):
        # Only a text is a version; others are code that asks when it is imported.
        rows = re.findall(r"^(hip|cuda)(?: *:[^=\n]*)? *= *['\"]([^'\"\n]+)['\"] *$", text, re.MULTILINE)
        return dict(reversed(rows))
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    table = document.get("version", document) if isinstance(document, dict) else {}
    values = {name: table.get(name) for name in ("hip", "cuda", "torch")} if isinstance(table, dict) else {}
    return {name: str(value) for name, value in values.items() if value and isinstance(value, str | int)}


def _needed(path: Path) -> Iterator[str]:
    """The libraries that a 64-bit little-endian ELF file needs; none for any other file."""
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            if header[:6] != b"\x7fELF\x02\x01" or len(header) < 64:
                return
            (start,) = struct.unpack_from("<Q", header, 32)
            size, count = struct.unpack_from("<HH", header, 54)
            file.seek(start)
            rows = file.read(size * count)
            segments = [struct.unpack_from("<IIQQQQQQ", rows, number * size) for number in range(count)]
            for kind, _, offset, _, _, length, _, _ in segments:
                if kind != 2:
                    continue
                file.seek(offset)
                data = file.read(min(length, 1 << 20))
                tags = list(struct.iter_unpack("<QQ", data[: len(data) // 16 * 16]))
                table = next((value for tag, value in tags if tag == 5), 0)
                loaded = [row for row in segments if row[0] == 1 and row[3] <= table < row[3] + row[5]]
                if not loaded:
                    return
                file.seek(loaded[0][2] + table - loaded[0][3])
                names = file.read(min(next((value for tag, value in tags if tag == 10), 0), 1 << 24))
                for tag, value in tags:
                    if tag == 0:
                        return
                    if tag == 1:
                        yield names[value : value + 256].partition(b"\0")[0].decode(errors="replace")
    except (OSError, struct.error):
        return


_KINDS = {"cuda": "CUDA", "processor": "the processor only"}


def _foreign(
    packages: dict[str, Package], builds: dict[str, Build], seen: tuple[str | None, list[tuple[str, str]]]
) -> list[str]:
    """Packages that are for other GPUs than torch, or than those of the machine without torch."""
    kind, targets = seen
    if kind not in ("rocm", None) or (kind is None and not targets):
        return []
    # On the processor it works, but for what has to fit torch.
    return [
        name
        for name, build in sorted(builds.items())
        if build.kind == "cuda" or (build.kind == "processor" and build.with_torch and "torch" in packages)
    ]


def _check_builds(
    packages: dict[str, Package], foreign: dict[str, Build], targets: list[tuple[str, str]], add: Callable[..., None]
) -> None:
    torch = packages.get("torch")
    for name, build in foreign.items():
        package = packages[name]
        fits_torch = torch is not None and build.with_torch
        reason = "It cannot compute on an AMD GPU."
        if fits_torch:
            reason = "Its compiled code does not load with this torch, or it lacks the operators for the GPU."
        other = f"torch {torch.version} is for ROCm" if torch else f"the GPU is {targets[0][1]}"
        wanted = [package.row["instead"] or name, *([torch.pin] if torch and fits_torch else [])]
        add(
            "other-build",
            (package.info.name, build.seen),
            severity="warning" if build.kind == "processor" else "",
            package=name,
            version=package.version,
            kind=_KINDS[build.kind],
            other=other,
            reason=reason,
            requirements=" ".join(wanted),
        )


def _check_built_torch(site: Path, packages: dict[str, Package], add: Callable[..., None]) -> None:
    """Packages that are built for another version of torch."""
    torch = packages.get("torch")
    if torch is None:
        return
    for name, package in packages.items():
        if name == "torch" or not package.row["torch"]:
            continue
        wanted = [
            pin.group(1)
            for pin in (
                re.fullmatch(r"torch *\(?==+ *([^\s,;)*]+)\)? *(?:;(?!.*extra).*)?", one) for one in package.requires
            )
            if pin
        ]
        wanted = wanted[:1] + [value for key, value in _facts(site, package.row["facts"]).items() if key == "torch"]
        needed = next((one for one in wanted if one.partition("+")[0] != torch.version.partition("+")[0]), None)
        if needed is not None:
            words = {"version": package.version, "needed": needed, "installed": torch.version}
            evidence = [(package.info.name, f"torch=={needed}"), (torch.info.name, torch.version)]
            add("needs-other-torch", *evidence, package=name, requirements=f"{name} {torch.pin}", **words)


def _is_required(packages: dict[str, Package], name: str) -> bool:
    """True if another package for GPUs than those of ROCm requires this one by name."""
    others = (one for other, one in packages.items() if other != name and not other.startswith("rocm"))
    names = (re.match(r"[\w.-]*", text) for one in others for text in one.requires)
    return not name.startswith("rocm") and any(
        re.sub(r"[-_.]+", "-", found.group(0)).lower() == name for found in names if found
    )


@dataclass
class SharedFiles:
    """Files that several packages own, and the package that stays."""

    owners: tuple[str, ...]
    files: list[str]
    kept: str

    @property
    def replaced(self) -> set[str]:
        return set(self.owners) - {self.kept}


def _shared_files(packages: dict[str, Package]) -> list[SharedFiles]:
    owners: dict[str, list[str]] = {}
    for name, package in sorted(packages.items()):
        for path in set(package.files):
            if not path.startswith("..") and not path.endswith(".pyc") and path.split("/")[0] not in STRAY:
                owners.setdefault(path, []).append(name)
    shared: dict[tuple[str, ...], list[str]] = {}
    for path, names in sorted(owners.items()):
        if len(names) > 1 and not all(name.startswith(("rocm", "amd-")) for name in names):
            shared.setdefault(tuple(names), []).append(path)

    def rank(name: str) -> tuple[bool, bool, bool]:
        # One that another package requires stays, then one for ROCm.
        return _is_required(packages, name), "rocm" in name, "migraphx" in name

    return [SharedFiles(found, files, max(reversed(found), key=rank)) for found, files in sorted(shared.items())]


def _check_shared(
    packages: dict[str, Package], shared: list[SharedFiles], foreign: set[str], add: Callable[..., None]
) -> None:
    """Packages that own one file: an error if one of them is for other GPUs."""
    for one in shared:
        count = len(one.files)
        more = "" if count == 1 else " and another file" if count == 2 else f" and {count - 1} other files"
        words = {"packages": " and ".join(one.owners), "packages-list": " ".join(one.owners), "more": more}
        evidence = [(packages[name].info.name, one.files[0]) for name in one.owners]
        words |= {"file": one.files[0], "requirement": packages[one.kept].pin}
        add("one-file-two-packages", *evidence, severity="error" if one.replaced & foreign else "", **words)


def _check_pins(site: Path, packages: dict[str, Package], version: str, add: Callable[..., None]) -> None:
    for package in packages.values():
        if package.name.startswith("rocm"):
            continue
        pins = [
            re.match(r"(rocm(?:[-_.]sdk[-_.\w]*)?)(?:\[[^]]*\])? *\(?== *([^\s,;)*]+)(?=[\s,;)]|$)", requirement)
            for requirement in package.requires
        ]
        wanted = [(re.sub(r"[-_.]+", "-", pin.group(1)).lower(), pin.group(2)) for pin in pins if pin]
        if package.name == "torch":
            try:
                text = (site / "torch" / "_rocm_init.py").read_text(encoding="utf-8", errors="replace")
            except OSError:
                text = ""
            checked = re.search(r"check_version=['\"](\d[^'\"*]*)['\"]", text)
            wanted += [("rocm", checked.group(1))] if checked else []
        for name, needed in wanted:
            found = packages[name].version if name in packages else version if name == "rocm" else needed
            if needed not in (found, found.partition("+")[0]):
                words = {"package": f"{package.name} {package.version}", "needed": f"{name} {needed}"}
                seen = (package.info.name, f"{name}=={needed}")
                add("torch-needs-other-rocm", seen, installed=found, requirement=f"{name}=={needed}", **words)
                break


def _check_variables(machine: Machine, site: Path, rocm: str | None, add: Callable[..., None]) -> None:
    variables, prefix = machine.variables, Path(machine.inside(site.resolve().parents[2]))
    preload = variables.get("LD_PRELOAD", "")
    if any(name in preload for name in ("libamdhip64.so", "libhsa-runtime64.so", "librocblas.so", "rocm")):
        add("preloaded", ("LD_PRELOAD", preload))
    for variable in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"):
        folder = variables.get(variable, "")
        if folder and rocm is not None and not Path(folder).is_relative_to(prefix):
            add("rocm-path", (variable, folder), variable=variable, folder=folder)
    if rocm is not None:
        _check_compiler(machine, str(prefix), rocm, add)


def _check_compiler(machine: Machine, prefix: str, version: str, add: Callable[..., None]) -> None:
    """The compiler of another ROCm that PATH finds."""
    folders = (folder.rstrip("/") for folder in machine.variables.get("PATH", "").split(":") if folder.startswith("/"))
    program = next((f"{folder}/hipcc" for folder in folders if machine.exists(f"{folder}/hipcc")), None)
    if program is None or Path(program).is_relative_to(prefix):
        return
    root, inside, _ = machine.real(program).rpartition("/bin/")
    if not inside:
        return
    found = machine.text_if_any(f"{root}/.info/version")
    other = (found or (root.rpartition("rocm-")[2] if "rocm-" in root else "")).split("-")[0]
    numbers = [re.match(r"[\d.]*", text) for text in (other, version)]
    parts = [number.group(0).split(".") for number in numbers if number]
    if other and all(one == two for one, two in zip(*parts, strict=False)):
        return
    words = {"program": program, "other": other or "of an unknown version", "version": version}
    evidence = [("PATH", program), (f"{root}/.info/version", other or "not readable")]
    # Packages without tools have no compiler to prefer.
    has_own = machine.exists(f"{prefix}/bin/hipcc")
    add("other-compiler", *evidence, has_command=has_own, folder=shlex.quote(f"{prefix}/bin"), **words)


def has_index(machine: Machine, site: Path, targets: list[str]) -> bool:
    """True if the settings of pip, or variables, name an index that is not for another GPU."""
    variables = machine.variables
    addresses = [word for name in INDEXES for word in re.split(r"[ ,\t\n]+", variables.get(name, ""))]
    home = variables.get("HOME", "")
    settings = variables.get("XDG_CONFIG_HOME") or f"{home}/.config"
    prefix = machine.inside(site.resolve().parents[2])
    files = ["/etc/xdg/pip/pip.conf", "/etc/pip.conf", f"{home}/.pip/pip.conf", f"{settings}/pip/pip.conf"]
    for file in [*files, f"{prefix}/pip.conf", variables.get("PIP_CONFIG_FILE", "")]:
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read_string(machine.text_if_any(file) if file else "")
        except configparser.Error:
            continue
        rows = [row for section in parser.sections() for row in parser.items(section)]
        for key, value in rows:
            if key.replace("_", "-") in ("index-url", "extra-index-url", "find-links"):
                addresses += value.split()
    return any(_fits(address, targets) for address in addresses if "://" in address and "pypi.org" not in address)


def _fits(address: str, targets: list[str]) -> bool:
    family = next((part for part in address.split("/")[3:] if re.fullmatch(r"gfx[0-9a-zA-Z]+(-\w+)*", part)), None)
    return family is None or all(is_covered(target, {family}) for target in targets)
