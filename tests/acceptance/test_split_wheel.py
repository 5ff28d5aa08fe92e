"""`rocwheel split WHEEL`: the parts hold what the wheel held, install in any order with pip and uv,
and leave nothing."""

import hashlib
import io
import json
import random
import re
import shutil
import signal
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from packaging.requirements import Requirement
from rocm_bootstrap.naming import device_dist_name
from rocm_bootstrap.targets import lookup_bundle, packaging_chain
from variantlib.api import VariantDescription, VariantProperty, get_variant_environment_dict
from variantlib.variant_dist_info import VariantDistInfo

import hip_wheels
from command import CACHE, REPOSITORY, TOOLS, Rocwheel, on_a_disk, run
from environment import Environment
from hip_wheels import DATA, DATABASES, FILE_NAME, INFO, NAME, VERSION, Compiled, Read, device, wheels
from trees import files

KEYS = ("gfx90a", "gfx942", "gfx1100", "gfx1201", "gfx12-0", "gfx11")
# The targets of the two target sets by their base: the more common one has the plain name.
SETS = (("gfx90a", "gfx942", "gfx1100", "gfx1201"), ("gfx942", "gfx1100"))
# Versions and numbers of targets of the wheels that scripts/fetch-wheels knows.
REAL = {
    "gafime_rocm": ("0.4.7", 13),
    "torch_sparse_rocm": ("0.6.18", 11),
    "jax_rocm7_plugin": ("0.12.0", 27),
    # Its program header tables have no room to grow.
    "jax_rocm7_plugin-0.10": ("0.10.0", 6),
    "torch_scatter_rocm": ("2.1.2", 11),
    "cyllama_rocm": ("0.7.0", 3),
    "onnxruntime_rocm": ("1.22.2.post3", 8),
    "cupy_rocm_7_0": ("14.2.0", 9),
    "jax_rocm7_pjrt": ("0.12.0", 27),
}
SMALL = ("gafime_rocm", "torch_sparse_rocm", "jax_rocm7_plugin", "jax_rocm7_plugin-0.10")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return Compiled.make(tmp_path_factory.mktemp("hip"))


@pytest.fixture(scope="module")
def wheel(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hip_wheels.write_wheel(tmp_path_factory.mktemp("wheel"), hip_wheels.members(compiled))


@pytest.fixture(scope="module")
def parts(rocwheel: Rocwheel, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    rocwheel.run(
        "split", wheel, "--output", folder, "--variant", "amd", "--requires", "rocm-device-@GFXARCH@>=7; extra == 'x'"
    )
    return folder


def host(folder: Path) -> Read:
    return Read(folder / FILE_NAME)


def markers(library: bytes) -> list[dict]:
    """What stands where the GPU code was (kpack specification 3), by a foreign MessagePack
    reader."""
    found = []
    place = library.find(b"kpack_search_paths")
    while place >= 0:
        # A map of two pairs begins with 0x82; which of the two comes first is the writer's choice.
        for start in (start for start in range(place, max(place - 300, 0), -1) if library[start] == 0x82):
            try:
                value = msgpack.Unpacker(io.BytesIO(library[start : start + 4096])).unpack()
            except (msgpack.UnpackException, ValueError):
                continue
            if isinstance(value, dict) and set(value) == {"kpack_search_paths", "kernel_name"}:
                found.append(value)
                break
        place = library.find(b"kpack_search_paths", place + 1)
    return found


def test_the_host_wheel_is_the_input_without_code(wheel: Path, parts: Path) -> None:
    before, after = Read(wheel), host(parts)
    after.check_record()
    moved = set(DATABASES)
    assert after.payload() == before.payload() - moved
    changed = {name for name in after.payload() if after.bytes(name) != before.bytes(name)}
    assert changed == {name for name in before.payload() if ".so" in name}
    assert after.text("WHEEL") == before.text("WHEEL")
    for name in after.payload() - changed:
        assert after.packed(name) == before.packed(name), name
    for name in changed:
        assert b"__CLANG_OFFLOAD_BUNDLE__" not in after.bytes(name) and b"CCOB" not in after.bytes(name)
        assert after.archive.getinfo(name).external_attr == before.archive.getinfo(name).external_attr
    assert f"{INFO}/RECORD.jws" not in after.archive.namelist()


def test_metadata_gets_extras_at_the_end_of_its_headers(wheel: Path, parts: Path) -> None:
    before, after = Read(wheel).text("METADATA"), host(parts).text("METADATA")
    head, _, body = before.partition("\r\n\r\n")
    assert after.endswith(f"\r\n\r\n{body}") and after.startswith(
        head.replace("2.0", "2.1", 1).replace(":  2.1", ": 2.1")
    )
    extras = host(parts).headers("Provides-Extra")
    assert extras == ["other", "device-gfx90a", "device-gfx942", "device-gfx1100", "device-gfx1201", "device-all"]
    wanted = {extra: set() for extra in extras[1:]}
    for requirement in map(Requirement, host(parts).headers("Requires-Dist")):
        assert str(requirement.specifier) == f"=={VERSION}"
        for extra in wanted:
            if requirement.marker.evaluate({"extra": extra}):
                wanted[extra].add(requirement.name.removeprefix("demo-hip-device-"))
    assert wanted == {
        "device-gfx90a": {"gfx90a"},
        "device-gfx942": {"gfx942"},
        "device-gfx1100": {"gfx1100", "gfx11"},
        "device-gfx1201": {"gfx1201", "gfx12-0"},
        "device-all": set(KEYS),
    }


def test_device_wheels_own_files_of_their_own(parts: Path) -> None:
    owners: dict[str, str] = {}
    found = [read for read in wheels(parts) if not read.path.name.endswith("-amd.whl")]
    assert len(found) == 1 + len(KEYS)
    for read in found:
        read.check_record()
        for name in read.archive.namelist():
            assert name not in owners, f"{name} is in {read.path.name} and {owners[name]}"
            owners[name] = read.path.name
        assert zipfile.ZipFile(read.path).testzip() is None
    for key in KEYS:
        read = device(parts, key.replace("-", "_"))
        assert read.path.name.endswith(FILE_NAME.split(VERSION)[1]) and "Root-Is-Purelib: false" in read.text("WHEEL")
        assert [line for line in read.text("WHEEL").splitlines() if line.startswith(("Tag", "Build"))] == [
            *(f"Tag: {tag}" for tag in hip_wheels.TAGS),
            "Build: 1local",
        ]
        assert f"{NAME} == {VERSION}" in read.headers("Requires-Dist")
        assert f"{read.info}/licenses/LICENSE" in read.archive.namelist()
        run(TOOLS / "check-wheel-contents", "--ignore", "W002", read.path)
    requires = device(parts, "gfx1201").headers("Requires-Dist")
    assert requires == [
        f"{NAME} == {VERSION}",
        "rocm-device-gfx1201>=7; extra == 'x'",
        f"demo-hip-device-gfx12-0 == {VERSION}",
    ]
    assert device(parts, "gfx11").headers("Requires-Dist") == [f"{NAME} == {VERSION}"]


def test_database_files_move_as_they_are_packed(wheel: Path, parts: Path) -> None:
    for name, (key, content) in DATABASES.items():
        read = device(parts, key)
        moved = name.replace(DATA, read.info.replace(".dist-info", ".data"))
        assert read.bytes(moved) == content
        assert read.packed(moved) == Read(wheel).packed(name)
    fallback = "demo/lib/rocblas/library/TensileLibrary_fallback.dat"
    assert fallback in host(parts).payload()


def test_twine_is_content(parts: Path) -> None:
    run(TOOLS / "twine", "check", "--strict", *parts.glob("*_device_*.whl"))


def test_names_are_those_of_rocm_bootstrap(parts: Path) -> None:
    """AMD's own package says how device packages are called and which of them a target needs."""
    for key in KEYS:
        bundle = lookup_bundle(key.replace("-", "_"))
        assert device(parts, key.replace("-", "_")).headers("Name") == [device_dist_name("demo-hip-device", bundle)]
    table = REPOSITORY / "data/targets.toml"
    assert "gfx1151" in table.read_text()
    for target in ("gfx1100", "gfx1201"):
        chain = {device_dist_name("demo-hip-device", bundle) for bundle in packaging_chain(target)}
        requirements = map(Requirement, host(parts).headers("Requires-Dist"))
        asked = {one.name for one in requirements if one.marker.evaluate({"extra": f"device-{target}"})}
        assert asked <= chain, target


@pytest.mark.parametrize("installer", ["pip", "uv"])
@pytest.mark.parametrize("seed", [pytest.param(0, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.long), 2])
def test_they_install_load_and_uninstall_in_any_order(
    parts: Path, compiled: Compiled, installer: str, seed: int, tmp_path: Path
) -> None:
    dist = tmp_path / "dist"
    dist.mkdir()
    for read in wheels(parts):
        if not read.path.name.endswith("-amd.whl"):
            (dist / read.path.name).symlink_to(read.path)
    environment = Environment.create(tmp_path / "venv", installer)
    extra = ["device-gfx1201", "device-gfx942", "device-all"][seed]
    environment.install(dist, f"demo-hip[{extra}]")
    environment.check()
    expected = [{"gfx1201", "gfx12-0"}, {"gfx942"}, set(KEYS)][seed]
    listed = json.loads(run(TOOLS / "uv", "pip", "list", "--python", environment.python, "--format", "json").stdout)
    names = {one["name"].lower().replace(".", "-") for one in listed if "demo" in one["name"].lower()}
    assert names == {"demo-hip", *(f"demo-hip-device-{key}" for key in expected)}

    libraries = [path for path in environment.prefix.rglob("*.so") if "demo" in path.name]
    assert len(libraries) == 5
    for library in libraries:
        (marker,) = markers(library.read_bytes())
        (search,) = marker["kpack_search_paths"]
        for target in SETS["_set2_" in search]:
            archive = (library.parent / search.replace("@GFXARCH@", target)).resolve()
            assert archive.is_relative_to(environment.prefix) and archive.is_file() == (target in expected), archive
        said = compiled.load(library)
        assert "register kpacked version 1 index 0 reaches" in said and "answer 42" in said
    for key in expected:
        module = f"demo._demo_hip_device_{key.replace('-', '_')}"
        said = environment.run("python", "-c", f"import {module} as m; print(m.VERSION, m.TARGETS, m.ARCHIVES)")
        assert said.stdout.startswith(VERSION)

    order = sorted(names)
    random.Random(seed).shuffle(order)
    for name in order:
        environment.uninstall(name)
    assert environment.left_over() == set()


def test_the_same_bytes_for_any_threads_and_place(rocwheel: Rocwheel, wheel: Path, parts: Path, tmp_path: Path) -> None:
    template = "rocm-device-@GFXARCH@>=7; extra == 'x'"
    for jobs in (1, 7):
        folder = tmp_path / f"jobs{jobs}"
        common = ["--output", folder, "--variant", "amd", "--requires", template]
        rocwheel.run("split", "--jobs", jobs, wheel, *common)
        assert files(folder) == files(parts)
        for name in files(folder):
            assert (folder / name).read_bytes() == (parts / name).read_bytes(), name


def test_the_variant_is_what_the_drafts_say(parts: Path) -> None:
    """variantlib, the drafts' own implementation, reads variant.json; its markers choose the
    devices of one GPU."""
    read = Read(parts / FILE_NAME.replace(".whl", "-amd.whl"))
    read.check_record()
    info = VariantDistInfo(read.bytes(f"{read.info}/variant.json"), expected_label="amd")
    properties = [one.to_str() for one in info.variants["amd"].properties]
    assert properties == [f"amd :: gfx_arch :: {target}" for target in ("gfx1100", "gfx1201", "gfx90a", "gfx942")]
    supported = VariantDescription([VariantProperty("amd", "gfx_arch", "gfx1201")], "amd")
    values = get_variant_environment_dict(supported)
    chosen = set()
    for requirement in read.headers("Requires-Dist"):
        # pip's own parser does not know this marker, which is why only the variant has it.
        distribution, _, marker = requirement.partition(" == ")
        wanted, _, variable = marker.partition("; ")[2].strip('"').partition('" in ')
        if variable == "variant_properties" and wanted in values["variant_properties"]:
            chosen.add(distribution)
    assert chosen == {"demo-hip-device-gfx1201", "demo-hip-device-gfx12-0"}
    assert read.payload() == host(parts).payload()


def test_only_some_targets(rocwheel: Rocwheel, wheel: Path, tmp_path: Path) -> None:
    said = rocwheel.run("split", wheel, "--output", tmp_path, "--targets", "gfx1201")
    names = {read.path.name.split("-")[0] for read in wheels(tmp_path)}
    assert names == {"demo_hip", "demo_hip_device_gfx1201", "demo_hip_device_gfx12_0"}
    assert "removed from" in said.stderr and "gfx942" in said.stderr
    assert not any("gfx942" in name for name in host(tmp_path).payload())
    failed = rocwheel.run("split", wheel, "--output", tmp_path, "--targets", "gfx950", expect=1)
    assert "no GPU code for gfx950" in failed.stderr and "gfx942" in failed.stderr


def test_only_some_databases(rocwheel: Rocwheel, wheel: Path, tmp_path: Path) -> None:
    rocwheel.run("split", wheel, "--output", tmp_path, "--split-databases", "rocblas", "--device-prefix", "amd-demo")
    kept = {name for name in DATABASES if name in host(tmp_path).payload()}
    assert kept == {name for name in DATABASES if "rocblas" not in name}
    assert (tmp_path / FILE_NAME.replace("demo_hip-", "amd_demo_gfx942-")).is_file()
    assert not list(tmp_path.glob("*gfx12_0*"))


def test_the_plan_writes_nothing(rocwheel: Rocwheel, wheel: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    (planned,) = rocwheel.json("split", wheel, "--output", output, "--dry-run")["wheels"]
    assert [one["key"] for one in planned["plan"]["devices"]] == "gfx90a gfx942 gfx1100 gfx1201 gfx12_0 gfx11".split()
    assert planned["plan"]["root"] == "demo" and not output.exists()
    text = rocwheel.run("split", wheel, "--output", output, "--dry-run").stdout
    assert "Demo.Hip[device-gfx1201] requires demo-hip-device-gfx1201, demo-hip-device-gfx12-0" in text


def rewritten(folder: Path, wheel: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """The wheel in `folder` with other bytes in the member that ends in `name`, and RECORD as it
    was."""
    with zipfile.ZipFile(wheel) as before, zipfile.ZipFile(folder / wheel.name, "w", zipfile.ZIP_DEFLATED) as after:
        for entry in before.infolist():
            content = before.read(entry)
            after.writestr(entry, change(content) if entry.filename.endswith(name) else content)


def flipped(content: bytes) -> bytes:
    """One bit in the middle is another one."""
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def test_parts_are_verified_alone(rocwheel: Rocwheel, wheel: Path, parts: Path, tmp_path: Path) -> None:
    rocwheel.run("split", "--verify-only", wheel, parts).says("nothing is different")
    mutations = {
        "a bit of an archive": ("_gfx942-", ".kpack", flipped, "gfx942"),
        "a bit of a database": ("_gfx11-", ".aks2", flipped, "is not what it was"),
        "a bit of host code": ("demo_hip-", "other/libdemo.so", flipped, "other/libdemo.so"),
        "metadata": ("demo_hip-", "METADATA", lambda text: text.replace(b"a wheel", b"A wheel"), "METADATA"),
        "a hash in RECORD": ("_gfx1100-", "/RECORD", lambda text: text.replace(b"sha256=", b"sha256=A", 1), "RECORD"),
    }
    for case, (which, member, change, words) in mutations.items():
        folder = tmp_path / case
        folder.mkdir()
        for path in parts.glob("*.whl"):
            if which in path.name and not path.name.endswith("-amd.whl"):
                rewritten(folder, path, member, change)
            else:
                (folder / path.name).symlink_to(path)
        failed = rocwheel.run("split", "--verify-only", wheel, folder, expect=1)
        assert words in failed.stdout, (case, failed)
    for missing, words in (("_gfx942-", "gfx942"), ("_gfx12_0-", "is gone")):
        folder = tmp_path / f"without{missing}"
        folder.mkdir()
        for path in parts.glob("*.whl"):
            if missing not in path.name:
                (folder / path.name).symlink_to(path)
        failed = rocwheel.run("split", "--verify-only", wheel, folder, expect=1)
        assert words in failed.stdout, (missing, failed)


def cut(library: bytes) -> bytes:
    """The first entry is the host's, of no bytes; the second is cut off from its code."""
    table = library.index(b"__CLANG_OFFLOAD_BUNDLE__") + 32
    place = table + 24 + int.from_bytes(library[table + 16 : table + 24], "little")
    return library[:place] + b"\xff" * 8 + library[place + 8 :]


Members = dict[str, bytes]
WITHOUT_NAME = b"Metadata-Version: 2.1\nName: Demo.Hip\n\n"
SPLIT_BEFORE = hip_wheels.METADATA.replace("other", "device-gfx942").encode()
LIBRARY = "demo/lib/libdemo.so"


def without_code(members: Members) -> Members:
    return {name: content for name, content in members.items() if ".so" not in name and name not in DATABASES}


# What is changed in the wheel, and words of the message.
BROKEN: dict[str, tuple[Callable[[Members], Members], str]] = {
    "no code": (without_code, "holds no GPU code that can be split off"),
    "no metadata": (
        lambda members: {name: text for name, text in members.items() if name != f"{INFO}/METADATA"},
        f"it has no `{INFO}/METADATA`",
    ),
    "split before": (
        lambda members: {**members, f"{INFO}/METADATA": SPLIT_BEFORE}, "has an extra `device-gfx942` already",
    ),
    "no version": (lambda members: {**members, f"{INFO}/METADATA": WITHOUT_NAME}, "its METADATA has no Version"),
    "cut bundle": (
        lambda members: {**members, LIBRARY: cut(members[LIBRARY])}, f"could not read the GPU code of `{LIBRARY}`",
    ),
}  # fmt: skip
# An option, its value, the exit code, and words of the message.
OPTIONS = [
    ("--overlay-root", "torch/", 1, "`torch/` cannot be the folder for the archives"),
    ("--overlay-root", "../x", 1, "is not a relative path inside of site-packages"),
    ("--requires", "numpy =", 2, "`numpy =` is not a requirement"),
    ("--variant", "AMD-1", 2, "`AMD-1` cannot be the label"),
    ("--device-prefix", "größe", 1, "`größe` is not a valid distribution name"),
    ("--split-databases", "cublas", 2, "there is no kernel database `cublas`"),
    ("--targets", "gfx9999", 2, "unknown GPU target or family `gfx9999`"),
]


@pytest.mark.parametrize(
    "case", [*BROKEN, *OPTIONS], ids=lambda case: case if isinstance(case, str) else "=".join(case[:2])
)
def test_what_cannot_be_split_is_said_and_left_alone(
    rocwheel: Rocwheel, compiled: Compiled, case: str | tuple[str, str, int, str], tmp_path: Path
) -> None:
    change, words = BROKEN.get(case, (dict, ""))
    option, value, code, words = ("--jobs", "2", 1, words) if case in BROKEN else case
    wheel = hip_wheels.write_wheel(tmp_path / "broken", change(hip_wheels.members(compiled)))
    content = wheel.read_bytes()
    output = tmp_path / "output"
    failed = rocwheel.run("split", wheel, "--output", output, option, value, expect=code).says(words)
    assert "defect of rocwheel" not in failed.stderr
    assert not output.exists()
    assert wheel.read_bytes() == content


def test_the_output_is_not_the_folder_of_the_wheel(rocwheel: Rocwheel, wheel: Path) -> None:
    before = sorted(wheel.parent.iterdir())
    rocwheel.run("split", wheel, "--output", wheel.parent, expect=2).says("has the same name")
    assert sorted(wheel.parent.iterdir()) == before


def test_wheels_and_artifacts_do_not_mix(rocwheel: Rocwheel, wheel: Path, tmp_path: Path) -> None:
    failed = rocwheel.run("split", wheel, tmp_path, "--output", tmp_path / "o", expect=2)
    assert "wheels and artifacts cannot be split together" in failed.stderr
    failed = rocwheel.run("split", tmp_path, "--output", tmp_path / "o", "--variant", "amd", expect=2)
    assert "`--variant` is for wheels" in failed.stderr


def test_todays_flags(rocwheel: Rocwheel, wheel: Path, tmp_path: Path) -> None:
    rocwheel.run(
        *["compat", "split_python_wheels", "--input", wheel, "--output-dir", tmp_path],
        *["--device-package-prefix", "amd-demo-device", "--overlay-root", "demo/", "--wheel-type", "torch-fat"],
        *["--device-requires-dist", "rocm-sdk-device-@GFXARCH@ == 7.1", "numpy", "--compression", "zstd"],
        *["--compression-level", 1, "-j", 2, "--verbose", "--generate-variant-wheel"],
        *["--clang-offload-bundler", "/usr/bin/clang-offload-bundler"],
    ).says("`--clang-offload-bundler` has no effect")
    assert (tmp_path / FILE_NAME).is_file() and (tmp_path / FILE_NAME.replace(".whl", "-variant.whl")).is_file()
    assert "rocm-bootstrap" in host(tmp_path).headers("Requires-Dist")
    requires = Read(tmp_path / FILE_NAME.replace("demo_hip-", "amd_demo_device_gfx942-")).headers("Requires-Dist")
    assert requires == [f"{NAME} == {VERSION}", "rocm-sdk-device-gfx942 == 7.1", "numpy"]
    rocwheel.run("compat").prints("split_python_wheels", "split_artifacts")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "real" in metafunc.fixturenames:
        everything = metafunc.config.getoption("--set") == "all"
        metafunc.parametrize("real", REAL if everything else SMALL)


def test_real_wheels(rocwheel: Rocwheel, real: str, tmp_path: Path) -> None:
    version, targets = REAL[real]
    real = real.partition("-")[0]
    cache = CACHE / "wheels"
    run(REPOSITORY / "scripts/fetch-wheels", cache, f"{real.replace('_', '-')}=={version}")
    (wheel,) = cache.glob(f"{real}-{version}-*.whl")
    parts = tmp_path / "parts"
    document = rocwheel.json("split", wheel, "--output", parts)
    (done,) = document["wheels"]
    assert done["outcome"]["verification"]["differences"] == []
    assert len([one for one in done["outcome"]["wheels"] if one["kind"] == "device"]) == targets
    assert (done["outcome"]["growth"] is not None) == real.startswith("jax")
    for read in wheels(parts):
        read.check_record()
    # Side by side in one folder, by both installers, for the Python that the wheel is for.
    paths = [read.path for read in wheels(parts)]
    common = ["--no-deps", "--no-index", "--python-version", "3.12", "--target"]
    platforms: list[str] = []
    for tag in sorted({part for path in paths for part in path.stem.split("-")[-1].split(".")}):
        platforms += ["--platform", tag]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--implementation", "cp"]
    abis = [part for abi in ("cp312", "abi3", "none") for part in ("--abi", abi)]
    run(*pip, *abis, *platforms, *common, tmp_path / "pip", *paths)
    uv = [TOOLS / "uv", "pip", "install", "--quiet", "--no-cache", "--python-platform", "x86_64-manylinux_2_40"]
    run(*uv, *common, tmp_path / "uv", *paths)
    installed = {path for path in files(tmp_path / "pip") if "__pycache__" not in path}
    for read in wheels(parts):
        promised = {name for name in read.payload() if not name.endswith("/")}
        assert promised <= installed, read.path.name
    ours = {path for path in files(tmp_path / "uv") if "__pycache__" not in path and ".dist-info/" not in path}
    assert ours - {".lock"} == {path for path in installed if ".dist-info/" not in path}
    # And back: what an independent reader finds in the libraries is what it found there before.
    # Code that was compressed becomes so again: that of pjrt has 2.4 GB.
    compress = ["--compress"] if real.startswith("jax") else []
    rocwheel.run("fuse", *paths, "--output", tmp_path / "fat", *compress)
    before, (after,) = Read(wheel), wheels(tmp_path / "fat")
    after.check_record()
    assert after.payload() == before.payload()
    code = {name: code_objects(before, name, tmp_path) for name in before.payload() if ".so" in name}
    assert sum(map(len, code.values())) > 0
    for name, bundles in code.items():
        assert code_objects(after, name, tmp_path) == bundles, name


def code_objects(wheel: Read, name: str, scratch: Path) -> list[list[tuple[str, str]]]:
    """For each bundle of a library the ids and hashes of its code objects, sorted."""
    library, section = scratch / "library", scratch / "section"
    with wheel.archive.open(name) as source, open(library, "wb") as target:
        shutil.copyfileobj(source, target)
    section.unlink(missing_ok=True)
    run(*"objcopy -O binary --only-section=.hip_fatbin".split(), library, section)
    # A view: bundles of gigabytes are not copied.
    content, bundles, place = memoryview(section.read_bytes() if section.exists() else b""), [], 0
    while (found := re.compile(rb"[^\0]").search(content, place)) is not None:
        place = found.start()
        raw, length = content[place:], 0
        if raw[:4] == b"CCOB":
            version, method, length = struct.unpack_from("<HHQ", content, place + 4)
            assert (version, method) == (3, 1)
            packed = scratch / "bundle.zst"
            packed.write_bytes(content[place + 32 : place + length])
            run("zstd", "--quiet", "--force", "--decompress", "--memory=512MB", packed, "-o", scratch / "bundle")
            raw = memoryview((scratch / "bundle").read_bytes())
        assert raw[:24] == b"__CLANG_OFFLOAD_BUNDLE__"
        (count,) = struct.unpack_from("<Q", raw, 24)
        entries, at, end = [], 32, 32
        for _ in range(count):
            offset, size, id_length = struct.unpack_from("<QQQ", raw, at)
            if size > 0:
                target = raw[at + 24 : at + 24 + id_length].tobytes().decode()
                entries.append((target, hashlib.sha256(raw[offset : offset + size]).hexdigest()))
                end = max(end, offset + size)
            at += 24 + id_length
        bundles.append(sorted(entries))
        place += length or max(end, at)
    return bundles


def big_wheel(compiled: Compiled, folder: Path) -> Path:
    """A wheel whose split takes a while: 64 MB of noise and a library."""
    noise = random.Random(7).randbytes(64 << 20)
    return hip_wheels.write_wheel(folder, {**hip_wheels.members(compiled), "demo/noise.bin": noise})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "terminate"])
def test_a_split_interrupted_leaves_nothing(
    rocwheel: Rocwheel, compiled: Compiled, tmp_path: Path, number: int
) -> None:
    wheel, output = big_wheel(compiled, tmp_path), tmp_path / "out"
    words = ("split", wheel, "--output", output)
    rocwheel.interrupted(*words, when=lambda: any(output.glob(".rocwheel-split-*/*")), number=number)
    assert files(output) == set()


def test_a_full_disk_leaves_nothing(rocwheel: Rocwheel, compiled: Compiled, tmp_path: Path) -> None:
    """32 MB for a wheel of 64."""
    wheel, disk = big_wheel(compiled, tmp_path), tmp_path / "disk"
    result = on_a_disk("32m", disk, rocwheel.binary, "split", wheel, "--output", disk / "out")
    assert f"cannot write `{disk}/out/" in result.stderr and "hint: free space on the file system" in result.stderr
    assert ".rocwheel" not in result.stderr, "a temporary folder is named"
    assert result.stdout == "", f"left behind: {result.stdout}"


def test_a_failure_of_the_second_wheel_leaves_nothing_of_the_first(
    rocwheel: Rocwheel, wheel: Path, compiled: Compiled, tmp_path: Path
) -> None:
    contents = hip_wheels.members(compiled)
    contents[f"{INFO}/METADATA"] = contents[f"{INFO}/METADATA"].replace(NAME.encode(), b"Demo.Other")
    second = hip_wheels.write_wheel(tmp_path / "other", contents, FILE_NAME.replace("demo_hip", "demo_other"))
    output = tmp_path / "out"
    (output / second.name).mkdir(parents=True)
    said = rocwheel.run("split", wheel, second, "--output", output, expect=1).stderr
    assert f"could not move a finished wheel to `{output / second.name}`" in said
    assert files(output) == set()
    (output / second.name).rmdir()
    rocwheel.run("split", wheel, second, "--output", output)
    assert {wheel.name, second.name} < files(output)
