"""The installed packages, for `_doctor`: `.dist-info` folders and names of files, nothing imported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

_KERNEL = re.compile(r"gfx([0-9a-f]{3,})((?:[-_]4)?[-_]generic)?")


@dataclass
class Package:
    name: str
    version: str
    info: Path
    requires: list[str]
    files: list[str]


def examine_packages(
    site: Path, targets: list[tuple[str, str]], variables: Mapping[str, str], add: Callable[..., None]
) -> None:
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
    if torch is not None and targets:
        _check_torch(site, torch, targets[0], add)
    if version is not None:
        _check_pins(site, packages, version, add)
    if rocm or torch:
        _check_variables(site, bool(rocm), variables, add)


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
        if not name or not name.startswith(("rocm", "torch", "amd-torch", "triton")):
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


def _check_torch(site: Path, torch: Package, gpu: tuple[str, str], add: Callable[..., None]) -> None:
    names = [path.rpartition("/")[2] for path in torch.files]
    local = torch.version.partition("+")[2]

    def has(*starts: str) -> bool:
        return any(name.startswith(starts) for name in names)

    built = _built_for(site)
    if built.get("hip") or (not built and (has("libtorch_hip.so", "libc10_hip.so") or "rocm" in local)):
        return
    is_cuda = bool(built.get("cuda")) if built else has("libtorch_cuda.so", "libc10_cuda.so") or local.startswith("cu")
    is_cuda = is_cuda or (not built and any(one.startswith("nvidia-") for one in torch.requires))
    path, target = gpu
    evidence = [(torch.info.name, torch.version), (path, target)]
    add("cuda-torch" if is_cuda else "cpu-torch", *evidence, version=torch.version, target=target)


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


def _check_variables(site: Path, has_rocm: bool, variables: Mapping[str, str], add: Callable[..., None]) -> None:
    prefix = site.resolve().parents[2]
    preload = variables.get("LD_PRELOAD", "")
    if any(name in preload for name in ("libamdhip64.so", "libhsa-runtime64.so", "librocblas.so", "rocm")):
        add("preloaded", ("LD_PRELOAD", preload))
    for variable in ("ROCM_PATH", "ROCM_HOME", "HIP_PATH"):
        folder = variables.get(variable, "")
        if folder and has_rocm and not Path(folder).is_relative_to(prefix):
            add("rocm-path", (variable, folder), variable=variable, folder=folder)
