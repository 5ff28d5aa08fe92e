"""The contents of this ROCm distribution: its packages, libraries and GPU targets.

Every package contains a copy of this file, and each copy must work alone: the build backend of the
`rocm` source distribution loads it by path, before anything is installed. So it imports only the
standard library, and runs on Python 3.10 and later.

The packaging tool appends assignments below the last line (`__version__ = '...'`,
`AVAILABLE_TARGET_FAMILIES.append('...')` and so on, one per line, at column 0). Release tools read
and edit those lines as text. Therefore every function here computes its result from them when it is
called, never at import.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from fnmatch import fnmatchcase
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

# The folder in which the kernel driver describes the GPUs. Everyone can read it, and it exists
# without any ROCm.
KFD_TOPOLOGY = "/sys/class/kfd/kfd/topology/nodes"

# The suffixes that a GPU family name can have, most general first.
FAMILY_SUFFIXES = ("-all", "-dgpu", "-igpu", "-dcgpu")

OFFLOAD_ARCH_TIMEOUT_SECONDS = 20


class LibraryEntry(NamedTuple):
    """A library that programs can request by a short name, and its path in its package.

    If `dll_pattern` is empty the library does not exist on Windows. If an `optional` library is not
    in the distribution, it is omitted without an error.
    """

    shortname: str
    package_name: str
    so_pattern: str
    dll_pattern: str = ""
    posix_relpath: str = "lib"
    windows_relpath: str = "bin"
    optional: bool = False

    @property
    def pattern(self) -> str:
        """The pattern of the file name on this platform; empty if the library does not exist on it."""
        return self.dll_pattern if os.name == "nt" else self.so_pattern

    @property
    def relpath(self) -> str:
        """The folder on this platform, relative to the platform package."""
        return self.windows_relpath if os.name == "nt" else self.posix_relpath

    def matches(self, path: str) -> bool:
        """True if a path in the platform package, with `/`, is one of its files; on Windows case is
        ignored."""
        pattern = f"{self.relpath}/{self.pattern}"
        if os.name == "nt":
            return fnmatchcase(path.lower(), pattern.lower())
        return fnmatchcase(path, pattern)

    @property
    def package(self) -> PackageEntry:
        """The package that contains it. Raises ModuleNotFoundError if this distribution has no such
        package."""
        return get_package(self.package_name)


class PackageEntry:
    """One distribution of the set: its names, by logical name (`core`, `libraries`, ...)."""

    def __init__(
        self,
        logical_name: str,
        dist_package_template: str,
        *,
        required: bool = False,
        shares_py_package_of: str | None = None,
    ):
        self.logical_name = logical_name
        # May contain `{target_family}`. A generated line changes it if the libraries are the same
        # for all targets.
        self.dist_package_template = dist_package_template
        self.required = required
        # `sys.platform` of the only system that has it; empty for all systems. Set by a generated
        # line.
        self.sys_platform = ""
        self.shares_py_package_of = shares_py_package_of

    def __repr__(self) -> str:
        return f"PackageEntry({self.logical_name!r}, {self.dist_package_template!r})"

    @property
    def is_target_specific(self) -> bool:
        """True if there is one distribution for each GPU target or family."""
        return "{target_family}" in self.dist_package_template

    def get_dist_package_name(self, target_family: str | None = None) -> str:
        """The name for pip, e.g. `rocm-sdk-device-gfx942`. Raises ValueError if a target is needed
        but not given."""
        if not self.is_target_specific:
            return self.dist_package_template
        if target_family is None:
            raise ValueError(f"Package {self.logical_name} has one distribution per GPU target: name the target")
        return self.dist_package_template.format(target_family=base_target(target_family))

    def get_dist_package_require(self, target_family: str | None = None) -> str:
        """The requirement that pins this package to the version of this distribution."""
        return f"{self.get_dist_package_name(target_family)}=={__version__}"

    @property
    def platform_marker(self) -> str:
        """The marker of a package that exists on one system only."""
        return f'sys_platform == "{self.sys_platform}"' if self.sys_platform else ""

    def get_py_package_name(self, target_family: str | None = None) -> str:
        """The import name of the package that contains the files, e.g. `_rocm_sdk_core`."""
        if self.shares_py_package_of in ALL_PACKAGES:
            return ALL_PACKAGES[self.shares_py_package_of].get_py_package_name(target_family)
        name = self.get_dist_package_name(target_family).replace("-", "_")
        return f"_{name}{PY_PACKAGE_SUFFIX_NONCE}"

    def get_pure_py_package_name(self, target_family: str | None = None) -> str:
        """The import name of the package that contains the Python code, e.g. `rocm_sdk_core`."""
        if self.logical_name == "meta":
            return "rocm_sdk"
        return self.get_dist_package_name(target_family).replace("-", "_")

    def get_py_package(self, target_family: str | None = None) -> ModuleType:
        """Imports the package that contains the files. The message of ModuleNotFoundError names the
        command that installs it."""
        name = self.get_py_package_name(target_family)
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            raise self.missing(target_family) from error
        # Remaining files of an uninstalled package form a namespace package, which has no file.
        if getattr(module, "__file__", None) is None:
            raise self.missing(target_family)
        return module

    def has_py_package(self, target_family: str | None = None) -> bool:
        """True if the package that contains the files is installed."""
        specification = importlib.util.find_spec(self.get_py_package_name(target_family))
        return specification is not None and specification.origin is not None

    def missing(self, target_family: str | None = None) -> ModuleNotFoundError:
        """The error for a package that is not installed, with the command that installs it."""
        extra = "" if self.required else f"[{self.logical_name}]"
        name = self.get_dist_package_name(target_family)
        return ModuleNotFoundError(
            f"{name} is not installed. Install it with: pip install 'rocm{extra}=={__version__}'",
            name=self.get_py_package_name(target_family),
        )


def get_package(logical_name: str) -> PackageEntry:
    """A package by its logical name. Raises ModuleNotFoundError if this distribution has no such
    package."""
    package = ALL_PACKAGES.get(logical_name)
    if package is None:
        raise ModuleNotFoundError(f"ROCm {__version__} is distributed without a '{logical_name}' package")
    return package


def base_target(target: str) -> str:
    """`gfx90a` for `gfx90a:xnack+`: packages are named after the target without its features."""
    return target.split(":", 1)[0]


def get_available_base_targets() -> list[str]:
    """The available targets or families without features and duplicates, in the order of the
    generated lines."""
    return list(dict.fromkeys(base_target(family) for family in AVAILABLE_TARGET_FAMILIES))


def get_platform_target_families() -> list[str]:
    """The base targets that have packages for this platform.

    Release tools trim only `AVAILABLE_TARGET_FAMILIES`, so the lists of the platforms can only
    narrow it.
    """
    of_platform = WINDOWS_TARGET_FAMILIES if os.name == "nt" else LINUX_TARGET_FAMILIES
    if not of_platform:
        return get_available_base_targets()
    here = {base_target(family) for family in of_platform}
    return [family for family in get_available_base_targets() if family in here]


def target_of_gfx_version(version: int) -> str | None:
    """The target of the driver's `gfx_target_version`: 90402 is gfx942, 90010 gfx90a, 110000 gfx1100; 0 is a CPU."""
    if version <= 0:
        return None
    major, minor, stepping = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def discover_gpu_targets(topology: str | os.PathLike[str] | None = None) -> list[str]:
    """The targets of the GPUs that the kernel driver lists, in node order, without duplicates.
    Empty without driver or GPU.

    `HSA_OVERRIDE_GFX_VERSION` (`10.3.0`) has the same effect as in the runtime, which then requests
    kernels of that target.
    """
    nodes = Path(KFD_TOPOLOGY if topology is None else topology)
    targets: dict[str, None] = {}
    try:
        numbered = sorted((entry for entry in nodes.iterdir() if entry.name.isdigit()), key=lambda e: int(e.name))
    except OSError:
        return []
    for node in numbered:
        try:
            lines = (node / "properties").read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            # A container lists the nodes of GPUs that do not belong to it, but cannot read them.
            continue
        for line in lines:
            words = line.split()
            if len(words) == 2 and words[0] == "gfx_target_version" and words[1].isdigit():
                target = target_of_gfx_version(int(words[1]))
                if target is not None:
                    targets[target] = None
    override = _overriding_target()
    if targets and override is not None:
        return [override]
    return list(targets)


def _overriding_target() -> str | None:
    numbers = os.environ.get("HSA_OVERRIDE_GFX_VERSION", "").strip().split(".")
    if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
        return None
    major, minor, stepping = (int(number) for number in numbers)
    return target_of_gfx_version(major * 10000 + minor * 100 + stepping)


def _find_offload_arch() -> str | None:
    # The scripts of this interpreter come first: another ROCm on PATH may not know the GPU.
    for directory in [sysconfig.get_path("scripts"), *os.get_exec_path()]:
        if not directory:
            continue
        candidate = os.path.join(directory, "offload-arch.exe" if os.name == "nt" else "offload-arch")
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    return None


def _ask_offload_arch() -> list[str]:
    program = _find_offload_arch()
    if program is None:
        _say("offload-arch was not found")
        return []
    # pip's build isolation uses PYTHONPATH, which would hide the installed packages from a Python
    # script.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        answer = subprocess.run(
            [program],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=OFFLOAD_ARCH_TIMEOUT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        _say(f"{program} failed: {error}")
        return []
    lines = (base_target(line.strip()) for line in answer.stdout.splitlines())
    return list(dict.fromkeys(line for line in lines if line.startswith("gfx")))


def _say(message: str) -> None:
    if os.environ.get("ROCM_SDK_VERBOSE") == "1":
        print(f"rocm-sdk: {message}", file=sys.stderr)


def family_of_target(target: str) -> str | None:
    """The available family for a GPU target: its family by name (`gfx110X-all`), or the target
    itself."""
    target = base_target(target)
    available = get_platform_target_families()
    for stem in (target[:-1] + "X", target):
        for suffix in FAMILY_SUFFIXES:
            if stem + suffix in available:
                return stem + suffix
    return target if target in available else None


def discover_current_target_family(topology: str | os.PathLike[str] | None = None) -> str | None:
    """The available family of this machine's GPU, according to the kernel driver, or else to
    `offload-arch`.

    If there are several GPUs, the first one in the driver's order for which the distribution has
    packages. None if no GPU is found or the distribution has packages for none of them.
    """
    targets = discover_gpu_targets(topology) or _ask_offload_arch()
    for target in targets:
        family = family_of_target(target)
        if family is not None:
            return family
        _say(f"this distribution has no packages for {target}")
    return None


def determine_target_family() -> str | None:
    """The family of the bare extras: `ROCM_SDK_TARGET_FAMILY`, or else that of this machine's GPU,
    or else the default.

    If the variable has a value that is not available, that is an error. A GPU without packages is
    not: the distribution can still be installed, for example to compile for another machine, and
    `rocm-sdk test` reports it. None only if the distribution has no packages per target at all;
    then nothing depends on the result, and the variable is ignored.
    """
    global CACHED_TARGET_FAMILY
    if CACHED_TARGET_FAMILY is not None:
        return CACHED_TARGET_FAMILY
    if not AVAILABLE_TARGET_FAMILIES:
        return None
    requested = os.environ.get("ROCM_SDK_TARGET_FAMILY", "").strip()
    family = requested or discover_current_target_family() or default_target_family()
    if family not in AVAILABLE_TARGET_FAMILIES:
        raise ValueError(
            f"Requested ROCM_SDK_TARGET_FAMILY={family} is not available in the distribution "
            f"(available: {', '.join(AVAILABLE_TARGET_FAMILIES)})"
        )
    CACHED_TARGET_FAMILY = family
    return family


def default_target_family() -> str:
    """The family if no GPU is found: the default, or the first one of this platform if the default
    is not available."""
    here = get_platform_target_families()
    if DEFAULT_TARGET_FAMILY is not None and (not here or base_target(DEFAULT_TARGET_FAMILY) in here):
        return DEFAULT_TARGET_FAMILY
    return here[0] if here else AVAILABLE_TARGET_FAMILIES[0]


def get_target_family_platform_marker(target_family: str) -> str:
    """`sys_platform == "linux"` or `"win32"` for a target with packages on only one of these
    platforms, else an empty string."""
    if not LINUX_TARGET_FAMILIES or not WINDOWS_TARGET_FAMILIES:
        return ""
    base = base_target(target_family)
    on_linux = base in {base_target(family) for family in LINUX_TARGET_FAMILIES}
    on_windows = base in {base_target(family) for family in WINDOWS_TARGET_FAMILIES}
    if on_linux == on_windows:
        return ""
    return 'sys_platform == "linux"' if on_linux else 'sys_platform == "win32"'


def marked(requirement: str, marker: str) -> str:
    """A requirement with its environment marker, if it has one."""
    return f"{requirement}; {marker}" if marker else requirement


def build_install_requires() -> list[str]:
    """The requirements of the selector without an extra."""
    return [
        package.get_dist_package_require()
        for package in ALL_PACKAGES.values()
        if package.required and package.logical_name != "meta"
    ]


def _is_offered(package: PackageEntry) -> bool:
    if package.required:
        return False
    if package.logical_name == "device":
        # Libraries that are built per family contain their device code, so there are no device
        # packages.
        libraries = ALL_PACKAGES.get("libraries")
        return bool(AVAILABLE_TARGET_FAMILIES) and libraries is not None and not libraries.is_target_specific
    return not package.is_target_specific or bool(AVAILABLE_TARGET_FAMILIES)


def build_per_target_extras() -> dict[str, list[str]]:
    """The extras `<logical>-<target>` and `<logical>-all`, if there are several targets to choose
    from.

    Names of extras are lower case (PEP 685): `libraries-gfx110x-all` installs
    `rocm-sdk-libraries-gfx110X-all`.
    """
    targets = get_available_base_targets()
    if len(targets) < 2:
        return {}
    extras: dict[str, list[str]] = {}
    for package in ALL_PACKAGES.values():
        if not package.is_target_specific or not _is_offered(package):
            continue
        everything: list[str] = []
        for target in targets:
            marker = package.platform_marker or get_target_family_platform_marker(target)
            requirement = marked(package.get_dist_package_require(target), marker)
            extras[f"{package.logical_name}-{target.lower()}"] = [requirement]
            everything.append(requirement)
        extras[f"{package.logical_name}-all"] = everything
    return extras


def build_extras(target_family: str | None) -> dict[str, list[str]]:
    """All extras of the selector; the bare ones (`libraries`, `device`, ...) are for the given
    family."""
    extras = {
        package.logical_name: [marked(package.get_dist_package_require(target_family), package.platform_marker)]
        for package in ALL_PACKAGES.values()
        if _is_offered(package)
    }
    extras.update(build_per_target_extras())
    return extras


# A generated line removes packages that the distribution does not have.
ALL_PACKAGES: dict[str, PackageEntry] = {
    package.logical_name: package
    for package in (
        PackageEntry("meta", "rocm", required=True),
        PackageEntry("core", "rocm-sdk-core", required=True),
        PackageEntry("libraries", "rocm-sdk-libraries-{target_family}"),
        PackageEntry("device", "rocm-sdk-device-{target_family}", shares_py_package_of="libraries"),
        PackageEntry("devel", "rocm-sdk-devel"),
        PackageEntry("profiler", "rocm-profiler"),
        PackageEntry("hpc", "rocm-sdk-hpc-{target_family}"),
    )
}

_SYSDEPS = "lib/rocm_sysdeps/lib"
_HOST_MATH = "lib/host-math/lib"

ALL_LIBRARIES: dict[str, LibraryEntry] = {
    library.shortname: library
    for library in (
        LibraryEntry("amdhip64", "core", "libamdhip64.so*", "amdhip64*.dll"),
        LibraryEntry("hipfile", "core", "libhipfile.so*"),
        # The 0 keeps hiprtc-builtins out.
        LibraryEntry("hiprtc", "core", "libhiprtc.so*", "hiprtc0*.dll"),
        LibraryEntry("hiprtc-builtins", "core", "libhiprtc-builtins.so*", "hiprtc-builtins*.dll", optional=True),
        LibraryEntry("roctx64", "core", "libroctx64.so*"),
        LibraryEntry("rocprofiler-sdk", "core", "librocprofiler-sdk.so*"),
        LibraryEntry("rocprofiler-sdk-roctx", "core", "librocprofiler-sdk-roctx.so*"),
        LibraryEntry("roctracer64", "core", "libroctracer64.so*"),
        LibraryEntry("rocm_sysdeps_liblzma", "core", "librocm_sysdeps_liblzma.so.*", posix_relpath=_SYSDEPS),
        LibraryEntry("rocm-openblas", "core", "librocm-openblas.so.*", "rocm-openblas*.dll", posix_relpath=_HOST_MATH),
        LibraryEntry("amd_comgr", "core", "libamd_comgr.so*", "amd_comgr*.dll"),
        LibraryEntry("rocm_kpack", "core", "librocm_kpack.so*", "rocm_kpack*.dll"),
        LibraryEntry("rocm_smi64", "core", "librocm_smi64.so*"),
        LibraryEntry("rocdecode", "core", "librocdecode.so*"),
        LibraryEntry("rocjpeg", "core", "librocjpeg.so*"),
        LibraryEntry("amd_smi", "core", "libamd_smi.so*"),
        LibraryEntry("rocdxg", "core", "librocdxg*.so*", optional=True),
        LibraryEntry("rpp", "libraries", "librpp.so*"),
        LibraryEntry("hipblas", "libraries", "libhipblas.so*", "*hipblas.dll"),
        LibraryEntry("hipblaslt", "libraries", "libhipblaslt.so*", "*hipblaslt*.dll"),
        LibraryEntry("hipfft", "libraries", "libhipfft.so*", "hipfft*.dll"),
        LibraryEntry("hiprand", "libraries", "libhiprand.so*", "hiprand*.dll"),
        LibraryEntry("hipsparse", "libraries", "libhipsparse.so*", "hipsparse*.dll"),
        LibraryEntry("hipsparselt", "libraries", "libhipsparselt.so*"),
        LibraryEntry("hipsolver", "libraries", "libhipsolver.so*", "hipsolver*.dll"),
        LibraryEntry("rccl", "libraries", "librccl.so*"),
        LibraryEntry("miopen", "libraries", "libMIOpen.so*", "MIOpen*.dll"),
        LibraryEntry("origami", "libraries", "liborigami.so*", "origami*.dll"),
        LibraryEntry("hipdnn", "libraries", "libhipdnn_backend.so*", "hipdnn_backend*.dll"),
        LibraryEntry("hiptensor", "hpc", "libhiptensor.so*", "hiptensor*.dll"),
        LibraryEntry("rocblas", "libraries", "librocblas.so*", "rocblas*.dll", optional=True),
        LibraryEntry("rocfft", "libraries", "librocfft.so*", "rocfft*.dll", optional=True),
        LibraryEntry("rocrand", "libraries", "librocrand.so*", "rocrand*.dll", optional=True),
        LibraryEntry("rocsolver", "libraries", "librocsolver.so*", "rocsolver*.dll", optional=True),
        LibraryEntry("rocsparse", "libraries", "librocsparse.so*", "rocsparse*.dll", optional=True),
        LibraryEntry("oam", "core", "liboam.so*", optional=True),
        LibraryEntry("rocm-core", "core", "librocm-core.so*", optional=True),
        LibraryEntry("hipfftw", "libraries", "libhipfftw.so*", optional=True),
    )
}

CACHED_TARGET_FAMILY: str | None = None

# Generated lines change the following values, which are those of an unpackaged source tree.
__version__ = "0.0.0.dev0"
PY_PACKAGE_SUFFIX_NONCE = ""
DEFAULT_TARGET_FAMILY: str | None = None
AVAILABLE_TARGET_FAMILIES: list[str] = []
LINUX_TARGET_FAMILIES: list[str] = []
WINDOWS_TARGET_FAMILIES: list[str] = []
THIS_TARGET_FAMILY: str | None = None
THIS_PACKAGE_ENTRY: PackageEntry = ALL_PACKAGES["meta"]

# Generated by the packaging tool:
