"""Today's ROCm, that of Debian experimental, in a root of Debian unstable that has none: an
extension and a program are compiled against our packages by Debian's clang. Part of `--set all`."""

import json
import re
from pathlib import Path

import pytest

from command import REPOSITORY, Rocwheel, run
from packages import PackageSet, make_package_set

HERE = Path(__file__).resolve().parent / "rocm7"
# apt finds what they need in turn; that hipBLASLt needs hipblas-common, only its CMake file says.
WANTED = (
    "hipcc",
    "libamdhip64-dev",
    "libhipblas-common-dev",
    "libhipblaslt-dev",
    "libmiopen-dev",
    "librccl-dev",
    "librocblas-dev",
)
WANTED += ("librocfft-dev",)
HIP_ERROR_NO_DEVICE = "100"


@pytest.fixture(scope="module")
def packages(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> PackageSet:
    folder = tmp_path_factory.mktemp("experimental")
    run(REPOSITORY / "scripts/fetch-rocm", "experimental", folder / "debs", *WANTED)
    return make_package_set(rocwheel, sorted((folder / "debs").glob("*.deb")), folder)


@pytest.fixture(scope="module")
def said(packages: PackageSet) -> str:
    """What compile.bash prints in a root with the compiler that this hipcc is made for."""
    (hipcc,) = [deb for deb in packages.debs if deb.name.startswith("hipcc_")]
    depends = run("dpkg-deb", "--field", hipcc, "Depends").stdout
    version = re.search(r"\bclang-(\d+)\b", depends)[1]
    tools = ("clang", "lld", "llvm", "clang-tools")
    names = [f"{tool}-{version}" for tool in tools] + [f"libclang-rt-{version}-dev", "libc6-dev", "python3-dev"]
    names += [re.search(r"libstdc\+\+-\d+-dev", depends)[0], "cmake", "make"]
    arguments = [word for name in names for word in ("--package", name)]
    arguments += ["--share", packages.dist, "--share", HERE]
    script = ["bash", HERE / "compile.bash", packages.dist, HERE, version]
    return run(REPOSITORY / "scripts/in-root", "sid", *arguments, "--", *script).stdout


def part(said: str, name: str) -> str:
    """What one step has printed."""
    return said.partition(f"== {name}\n")[2].partition("\n-- ")[0]


def test_a_release_of_today_is_imported_whole(packages: PackageSet) -> None:
    assert int(packages.imported["version"].partition(".")[0]) >= 7
    assert packages.imported["unresolved"] == []
    targets = set(packages.imported["targets"])
    assert {"gfx90a", "gfx942", "gfx1100", "gfx1201"} <= targets


def test_hipcc_of_the_packages_compiles_for_four_targets(said: str) -> None:
    listed = json.loads(part(said, "listing"))
    assert listed == ["gfx1100", "gfx1201", "gfx90a", "gfx942"]
    # There is no GPU in the root: the extension is loaded, and the runtime answers.
    assert part(said, "calling") == f"answer HIP error {HIP_ERROR_NO_DEVICE}"


def test_a_program_is_linked_to_five_libraries_and_asks_for_a_gpu(said: str) -> None:
    printed = part(said, "running")
    libraries = {"hip", "rocfft", "rccl", "miopen", "hipblaslt", "rocblas"}
    versions = dict(re.findall(r"^(\w+) version ([0-9][0-9A-Za-z.+-]*)$", printed, re.MULTILINE))
    assert versions.keys() == libraries, printed
    # A status, or the code with which the library ended the process.
    statuses = dict(re.findall(r"^(\w+) (?:status|ended with) ([0-9]+)$", printed, re.MULTILINE))
    assert statuses.keys() == libraries, printed
    assert "0" not in statuses.values(), printed
    assert statuses["hip"] == HIP_ERROR_NO_DEVICE
