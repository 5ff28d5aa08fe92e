"""`rocwheel release promote`: a set gets another version, as a whole or not at all. The strictest
judge is `package` itself: what is promoted has to be what it would have made with that version. In
the long run, real wheels, beside the tool of TheRock."""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import small_wheels
from test_kernels import MEASURE

import synthetic
from command import CACHE, REPOSITORY, TOOLS, Rocwheel, run
from environment import Environment
from packages import record_problems

OLD, NEW = "7.12.0rc1", "7.12.0"

COMMIT = "efed3c3b10a5aabbccddeeff0011223344556677"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_artifacts(root: Path, compiled: synthetic.Compiled, version: str) -> Path:
    """The synthetic set, of a build that calls itself `version`, also in a file of the devel
    tree."""
    synthetic.write_artifacts(root, compiled)
    stage = root / "base_lib_generic" / synthetic.BASE
    (stage / "share/therock/therock_manifest.json").write_text(
        synthetic.manifest(rocm_package_version=version, rocm_version="7.12.0")
    )
    synthetic.write_artifact(
        root,
        "base_dev_generic",
        synthetic.BASE,
        {
            "lib/cmake/rocm/version.py": f"VERSION = '{version}'\n",
            f"lib/cmake/rocm-{version}/config.cmake": "# nothing\n",
            "lib/cmake/rocm/zz.cmake": "# the last\n" * 100,
        },
    )
    return root


@pytest.fixture(scope="module")
def sets(
    rocwheel: Rocwheel, compiled: synthetic.Compiled, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path, Path]:
    """The set as a release candidate, the promoted one, and the set packaged as the release."""
    root = tmp_path_factory.mktemp("sets")
    made = {}
    for version in (OLD, NEW):
        artifacts = write_artifacts(root / f"artifacts-{version}", compiled, version)
        rocwheel.package(artifacts, root / version, "--version", version, "--selector", "both")
        dist = root / f"all-{version}"
        dist.mkdir()
        for folder in ("dist", "dist-wheel"):
            for path in (root / version / folder).iterdir():
                (dist / path.name).write_bytes(path.read_bytes())
        made[version] = dist
    rocwheel.run("release", "promote", made[OLD], "--version", NEW, "--output", root / "promoted")
    return made[OLD], root / "promoted", made[NEW]


def members(path: Path) -> dict[str, bytes]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() if member.isfile() else b"" for member in archive}


def test_the_result_is_what_package_makes_of_that_version(sets: tuple[Path, Path, Path]) -> None:
    old, promoted, new = sets
    assert names(promoted) == sorted([*names(new), "promotion.intoto.json"])
    assert all(OLD in name for name in names(old))
    for path in sorted(new.iterdir()):
        made, expected = members(promoted / path.name), members(path)
        assert made.keys() == expected.keys(), path.name
        assert {name for name in made if made[name] != expected[name]} == set(), path.name
        # zlib's stream depends on how many bytes come at a time; the archive in it does not.
        read = gzip.decompress if path.suffix == ".gz" else bytes
        assert read((promoted / path.name).read_bytes()) == read(path.read_bytes()), path.name


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_the_promoted_set_installs_and_says_its_version(
    sets: tuple[Path, Path, Path], tmp_path: Path, installer: str
) -> None:
    _, promoted, _ = sets
    environment = Environment.create(tmp_path / "venv", installer)
    environment.install(promoted, "rocm[libraries,device-all,devel]")
    assert set(environment.installed().values()) == {NEW}
    environment.check()
    assert environment.run("rocm-sdk", "version").stdout.strip() == NEW
    environment.run("rocm-sdk", "init")
    root = Path(environment.run("rocm-sdk", "path", "--root").stdout.strip())
    assert (root / "lib/cmake/rocm/version.py").read_text() == f"VERSION = '{NEW}'\n"
    assert (root / f"lib/cmake/rocm-{NEW}/config.cmake").is_file()
    assert (root / "lib/rocblas/library/TensileLibrary_gfx942.dat").is_file()


def test_foreign_tools_are_content_and_nothing_says_the_old_version(sets: tuple[Path, Path, Path]) -> None:
    _, promoted, _ = sets
    wheels = sorted(promoted.glob("*.whl"))
    assert [problem for wheel in wheels for problem in record_problems(wheel)] == []
    run(TOOLS / "twine", "check", "--strict", *wheels, *promoted.glob("*.tar.gz"))
    for path in promoted.iterdir():
        if path.suffix in (".whl", ".gz"):
            for name, content in members(path).items():
                assert OLD not in name and OLD.encode() not in content, (path.name, name)


def test_the_statement_names_both_sides(sets: tuple[Path, Path, Path]) -> None:
    old, promoted, _ = sets
    statement = json.loads((promoted / "promotion.intoto.json").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert subjects == {path.name: digest(path) for path in promoted.iterdir() if path.suffix != ".json"}
    build = statement["predicate"]["buildDefinition"]
    materials = {one["name"]: one["digest"]["sha256"] for one in build["resolvedDependencies"]}
    assert materials == {path.name: digest(path) for path in old.iterdir()}
    assert build["externalParameters"] == {"from": OLD, "to": NEW, "targets": None}
    assert {one["from"].replace(OLD, NEW) for one in build["internalParameters"]["files"]} == set(subjects)


def test_only_some_targets_stay(rocwheel: Rocwheel, sets: tuple[Path, Path, Path], tmp_path: Path) -> None:
    old, _, _ = sets
    output = tmp_path / "out"
    before = {path.name: digest(path) for path in old.iterdir()}
    rocwheel.run("release", "promote", old, "--version", NEW, "--keep-targets", "gfx942", "--output", output)
    assert {path.name: digest(path) for path in old.iterdir()} == before, "inputs stay"
    assert not [name for name in names(output) if "gfx1100" in name]
    for path in [*output.glob("*.whl"), *output.glob("*.tar.gz")]:
        for name, content in members(path).items():
            if Path(name).name in ("METADATA", "PKG-INFO", "requires.txt", "_dist_info.py"):
                # Descriptions and docstrings name targets as examples.
                text = content.decode().split("\n__version__ = ")[-1]
                text = text if name.endswith((".py", ".txt")) else text.split("\n\n")[0]
                assert "gfx1100" not in text, (path.name, name)
    environment = Environment.create(tmp_path / "venv", "uv")
    # The wheel of the selector is for any machine.
    environment.install(output, "rocm[libraries,device-all]")
    assert environment.installed().keys() == {"rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-gfx942"}
    said = rocwheel.run("release", "promote", old, "--version", NEW, "--keep-targets", "gfx90a", "--dry-run", expect=2)
    assert "the set has nothing for gfx90a, only for gfx1100, gfx942" in said.stderr
    # Without another version, only the targets go.
    rocwheel.run("release", "promote", old, "--keep-targets", "gfx1100", "--output", tmp_path / "same")
    assert all(OLD in name for name in names(tmp_path / "same") if name != "promotion.intoto.json")


def torch(folder: Path, version: str, rocm: str, *more: str, **texts: str) -> Path:
    """A wheel with the files of torch that name its ROCm."""
    required = [f'rocm[libraries]=={rocm}; platform_system == "Linux"', *more]
    contents = {
        "torch/version.py": f"__version__ = '{version}'\nhip = '7.12.53211'\n",
        "torch/_rocm_init.py": f"import rocm_sdk\nrocm_sdk.initialize_process(check_version='{rocm}')\n",
        f"torch-{version}.dist-info/sboms/a.cdx.json": f'{{"purl": "pkg:pypi/torch@{version.replace("+", "%2B")}"}}\n',
        f"torch-{version}.data/scripts/torchrun": "#!python\n",
        **texts,
    }
    metadata = small_wheels.core_metadata("torch", version, required)
    more = {"tag": "cp312-cp312-linux_x86_64", "date": (2026, 1, 2, 3, 4, 6)}
    return small_wheels.pack(folder, "torch", version, contents, metadata=metadata, **more)


def test_frameworks_name_the_new_set(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """torch's own `a0` stays, and `rc1` is not part of `rc10`."""
    dist, output = tmp_path / "dist", tmp_path / "out"
    torch(dist, f"2.14.0a0+rocm{OLD}", OLD)
    small_wheels.write_wheel(dist, "rocm", OLD, f"rocm-sdk-core=={OLD}")
    small_wheels.write_wheel(dist, "rocm-sdk-core", OLD)
    (dist / "rocm-core_7.12.0~pre1_amd64.deb").write_bytes(b"deb")
    (dist / "rocm_bootstrap-0.3-py3-none-any.whl").write_bytes(b"not even a wheel")
    said = rocwheel.run("release", "promote", dist, "--version", NEW, "--output", output, expect=1)
    assert "rocm_sdk_core.py`: line 1: VERSION" in said.stderr and "--also-in" in said.stderr
    assert not output.exists()
    also = ("--also-in", "rocm*.py", "--beside", tmp_path)
    said = rocwheel.run("release", "promote", dist, "--version", NEW, "--output", output, *also, expect=1)
    assert '`rocm[libraries]==7.12.0; platform_system == "Linux"`, and `rocm` has no extra `libraries`' in said.stderr
    (dist / f"rocm-{OLD}-py3-none-any.whl").unlink()
    small_wheels.write_wheel(tmp_path / "there", "rocm", NEW)
    also = ("--also-in", "rocm*.py", "--beside", tmp_path / "there")
    said = rocwheel.run("release", "promote", dist, "--version", NEW, "--dry-run", *also)
    assert f"-__version__ = '2.14.0a0+rocm{OLD}'\n+__version__ = '2.14.0a0+rocm{NEW}'" in said.stdout
    assert not output.exists()
    # As TheRock's open change #7347 does it: torch takes every later patch of its ROCm.
    floating = ("--rocm-lock", "minor", *also)
    said = rocwheel.run("release", "promote", dist, "--version", "7.12.0rc2", "--dry-run", *floating, expect=2)
    assert "only a release has patches" in said.stderr
    rocwheel.run("release", "promote", dist, "--version", NEW, "--output", tmp_path / "floating", *floating)
    made = members(tmp_path / "floating" / f"torch-2.14.0a0+rocm{NEW}-cp312-cp312-linux_x86_64.whl")
    assert (
        'Requires-Dist: rocm[libraries]==7.12.*; platform_system == "Linux"'
        in made[f"torch-2.14.0a0+rocm{NEW}.dist-info/METADATA"].decode()
    )
    assert b"check_version='7.12.*'" in made["torch/_rocm_init.py"]
    assert made["torch/version.py"].decode().startswith(f"__version__ = '2.14.0a0+rocm{NEW}'")
    rocwheel.run("release", "promote", dist, "--version", NEW, "--output", output, *also)
    assert names(output) == [
        "promotion.intoto.json",
        "rocm-core_7.12.0~pre1_amd64.deb",
        "rocm_bootstrap-0.3-py3-none-any.whl",
        f"rocm_sdk_core-{NEW}-py3-none-any.whl",
        f"torch-2.14.0a0+rocm{NEW}-cp312-cp312-linux_x86_64.whl",
    ]
    made = members(output / f"torch-2.14.0a0+rocm{NEW}-cp312-cp312-linux_x86_64.whl")
    assert made["torch/_rocm_init.py"].decode().count(f"'{NEW}'") == 1
    assert made["torch/version.py"].decode() == f"__version__ = '2.14.0a0+rocm{NEW}'\nhip = '7.12.53211'\n"
    assert f"torch-2.14.0a0+rocm{NEW}.data/scripts/torchrun" in made
    assert f'2.14.0a0%2Brocm{NEW}"' in made[f"torch-2.14.0a0+rocm{NEW}.dist-info/sboms/a.cdx.json"].decode()
    with zipfile.ZipFile(output / f"torch-2.14.0a0+rocm{NEW}-cp312-cp312-linux_x86_64.whl") as archive:
        assert archive.getinfo(f"torch-2.14.0a0+rocm{NEW}.dist-info/WHEEL").compress_type == zipfile.ZIP_STORED
    assert record_problems(output / f"torch-2.14.0a0+rocm{NEW}-cp312-cp312-linux_x86_64.whl") == []


@pytest.mark.parametrize(
    ("old", "new", "framework", "expected"),
    [
        ("7.12.0rc1.post1", "7.12.0", "2.14.0+rocm7.12.0rc1.post1", "2.14.0+rocm7.12.0.post1"),
        ("7.13.0a20260430", "7.13.0rc1", "2.14.0+rocm7.13.0a20260430", "2.14.0+rocm7.13.0rc1"),
        ("10.1.0a20260811+bkc.20260814", "10.1.0", "2.14.0+rocm10.1.0a20260811.bkc.20260814", "2.14.0+rocm10.1.0"),
        (f"7.12.0.dev0+{COMMIT}", "7.12.0rc1", f"2.14.0+devrocm7.12.0.dev0.{COMMIT}", "2.14.0+rocm7.12.0rc1"),
    ],
)
def test_every_kind_of_version_is_promoted(
    rocwheel: Rocwheel, tmp_path: Path, old: str, new: str, framework: str, expected: str
) -> None:
    dist, output = tmp_path / "dist", tmp_path / "out"
    torch(dist, framework, old)
    small_wheels.write_wheel(dist, "rocm-sdk-core", old)
    core = new + (".post1" if ".post1" in old else "")
    small_wheels.write_wheel(tmp_path / "there", "rocm", core)
    rocwheel.run(
        "release", "promote", dist, "--version", new, "--output", output, "--also-in", "*.py",
        "--beside", tmp_path / "there",
    )  # fmt: skip
    wheel = output / f"torch-{expected}-cp312-cp312-linux_x86_64.whl"
    made = members(wheel)
    assert made["torch/version.py"].decode().startswith(f"__version__ = '{expected}'\n")
    assert f"check_version='{core}'" in made["torch/_rocm_init.py"].decode()
    metadata = made[f"torch-{expected}.dist-info/METADATA"].decode()
    assert f"\nVersion: {expected}\n" in metadata and f"rocm[libraries]=={core};" in metadata
    assert (output / f"rocm_sdk_core-{core}-py3-none-any.whl").is_file()


def test_what_cannot_be_promoted_is_named_and_nothing_is_written(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist, output = tmp_path / "dist", tmp_path / "out"

    def refused(*arguments: object, expect: int = 1) -> str:
        said = rocwheel.run("release", "promote", dist, "--version", NEW, "--output", output, *arguments, expect=expect)
        assert not output.exists()
        return said.stderr

    dist.mkdir()
    assert "cannot tell the version of the set" in refused()
    small_wheels.write_wheel(dist, "rocm-sdk-core", OLD)
    small_wheels.write_wheel(dist, "rocm-sdk-libraries", "7.12.0rc10")
    assert "there are several, 7.12.0rc1, 7.12.0rc10" in refused()
    error = refused("--set-version", OLD)
    assert "`rocm_sdk_libraries-7.12.0rc10-py3-none-any.whl`: 7.12.0rc10 is not of the set 7.12.0rc1" in error
    (dist / "rocm_sdk_libraries-7.12.0rc10-py3-none-any.whl").unlink()
    (dist / "notes.txt").write_text("x")
    small_wheels.write_wheel(dist / "more", "rocm", OLD)
    error = refused()
    assert "`notes.txt`: it is no wheel" in error and "`more`: it is a folder with packages" in error
    error = refused("--ignore", "notes.txt", "--ignore", "more")
    assert "1 place still says version 7.12.0rc1" in error and "`rocm_sdk_core.py`: line 1" in error
    rocwheel.run(
        *("release", "promote", dist, "--version", "7.12.0a1", "--output", output),
        *"--ignore notes.txt --ignore more".split(),
        expect=2,
    ).says("7.12.0rc1 cannot be promoted to 7.12.0a1: that version is older")
    lying = small_wheels.write_wheel(dist, "rocm-profiler", OLD, said="7.12.0rc2")
    assert "its METADATA says version `7.12.0rc2`" in refused("--ignore", "notes.txt", "--ignore", "more")
    lying.write_bytes(lying.read_bytes()[:-30])
    assert "rocm_profiler" in refused("--ignore", "notes.txt", "--ignore", "more")


def test_tarballs_get_the_version_inside_too(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist, output = tmp_path / "dist", tmp_path / "out"
    dist.mkdir()

    def write(name: str, build_format: int) -> None:
        with tarfile.open(dist / name, "w:gz", format=build_format) as archive:
            for path, text in {
                ".info/version": OLD + "\n",
                "share/therock/therock_manifest.json": synthetic.manifest(rocm_package_version=OLD),
                f"share/{'long/' * 40}file": "x" * 5000,
                f"lib/rocm-{OLD}/{'long/' * 40}data.bin": "\0" + "y" * 900,
            }.items():
                member = tarfile.TarInfo(path)
                member.size, member.mtime, member.mode, member.uname = len(text), 1_700_000_000, 0o640, "builder"
                archive.addfile(member, io.BytesIO(text.encode()))
            link = tarfile.TarInfo("lib/link")
            link.type, link.linkname = tarfile.SYMTYPE, f"rocm-{OLD}/x"
            archive.addfile(link)

    write(f"therock-dist-linux-gfx94X-dcgpu-{OLD}.tar.gz", tarfile.PAX_FORMAT)
    write(f"therock-dist-linux-gfx110X-all-{OLD}.tar.gz", tarfile.GNU_FORMAT)
    rocwheel.run("release", "promote", dist, "--version", NEW, "--output", output)
    for name in ("gfx94X-dcgpu", "gfx110X-all"):
        path = output / f"therock-dist-linux-{name}-{NEW}.tar.gz"
        made = members(path)
        assert made[".info/version"].decode() == NEW + "\n"
        assert json.loads(made["share/therock/therock_manifest.json"])["rocm_package_version"] == NEW
        assert made[f"share/{'long/' * 40}file"] == b"x" * 5000
        assert made[f"lib/rocm-{NEW}/{'long/' * 40}data.bin"] == b"\0" + b"y" * 900
        with tarfile.open(path) as archive:
            member = archive.getmember(f"lib/rocm-{NEW}/{'long/' * 40}data.bin")
            assert (member.mtime, member.mode, member.uname) == (1_700_000_000, 0o640, "builder")
            assert archive.getmember("lib/link").linkname == f"rocm-{NEW}/x"
        unpacked = tmp_path / name
        unpacked.mkdir()
        run("tar", "--extract", "--file", path, "--directory", unpacked)
        assert (unpacked / f"lib/rocm-{NEW}").is_dir()
    rocwheel.run(
        "release", "promote", dist, "--keep-targets", "gfx94X-dcgpu", "--version", NEW, "--output", tmp_path / "one"
    )
    assert [name for name in names(tmp_path / "one") if "gfx110X" in name] == []


def test_binaries_that_say_the_version_are_reported_and_stay(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist, output = tmp_path / "dist", tmp_path / "out"
    binary = f"\x7fELF\0{OLD}\0" + "x" * (17 << 20) + OLD
    torch(dist, f"2.14.0+rocm{OLD}", OLD, **{"torch/small.bin": f"\0{OLD}", "torch/large.bin": binary})
    small_wheels.write_wheel(tmp_path / "there", "rocm", NEW)
    said = rocwheel.run(
        "release", "promote", dist, "--version", NEW, "--output", output, "--beside", tmp_path / "there", "--no-audit"
    )
    assert "`torch/small.bin` is no text and says 7.12.0rc1 once" in said.stderr
    assert "`torch/large.bin` is no text and says 7.12.0rc1 2 times" in said.stderr
    statement = json.loads((output / "promotion.intoto.json").read_text())
    assert len(statement["predicate"]["buildDefinition"]["internalParameters"]["accepted"]) == 2


def test_the_script_of_today_by_its_name(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    script = ("compat", "promote_packages.py", "--input-dir", dist)
    small_wheels.write_sdist(dist, "rocm", OLD)
    (dist / "rocm_bootstrap-0.3-py3-none-any.whl").write_bytes(b"x")
    rocwheel.run(*script, "--src-version-type", "a", expect=2).says("have version 7.12.0rc1")
    rocwheel.run(*script)
    assert names(dist) == [
        "promotion.intoto.json",
        f"rocm-{NEW}.tar.gz",
        f"rocm-{OLD}.tar.gz",
        "rocm_bootstrap-0.3-py3-none-any.whl",
    ]
    said = rocwheel.run(*script, "--match-files", "*rc1*", "--dest-version", "rc2", "--delete-old-on-success")
    assert re.search(r"runs `rocwheel release promote .*--version 7.12.0rc2 --remove-old`", said.stderr), said.stderr
    assert f"rocm-{OLD}.tar.gz" not in names(dist) and "rocm-7.12.0rc2.tar.gz" in names(dist)
    rocwheel.run(*script, "--skip-version-promotion", expect=2)


__all__ = ["sets"]


SCRIPT = "build_tools/packaging/promote_packages.py"

LARGE = "jax_rocm7_pjrt-0.12.0-py3-none-manylinux_2_27_x86_64.whl"


def candidate(rocwheel: Rocwheel, name: str, folder: Path) -> Path:
    """A real wheel of PyPI with the version that frameworks of a candidate have."""
    rocwheel.run("edit", CACHE / "wheels" / name, "--local-version", f"rocm{OLD}", "--output", folder, "--no-audit")
    (edited,) = folder.glob("*.whl")
    return edited


def packed(path: Path) -> dict[str, tuple[int, int, int]]:
    with zipfile.ZipFile(path) as archive:
        return {one.filename: (one.CRC, one.compress_size, one.file_size) for one in archive.infolist()}


@pytest.mark.long
@pytest.mark.parametrize("name", [LARGE, "onnxruntime_rocm-1.22.2.post3-cp312-cp312-manylinux_2_34_x86_64.whl"])
def test_a_real_wheel_keeps_its_libraries(rocwheel: Rocwheel, tmp_path: Path, name: str) -> None:
    dist, output = tmp_path / "dist", tmp_path / "out"
    old = candidate(rocwheel, name, dist)
    rocwheel.run("release", "promote", dist, "--version", NEW, "--output", output)
    (new,) = output.glob("*.whl")
    assert new.name == old.name.replace(OLD, NEW)
    before = {member.replace(OLD, NEW): value for member, value in packed(old).items()}
    after = packed(new)
    assert before.keys() == after.keys()
    changed = {member for member in after if after[member] != before[member]}
    info = f"{'-'.join(new.name.split('-')[:2])}.dist-info"
    assert changed <= {f"{info}/METADATA", f"{info}/RECORD"} | {one for one in changed if one.endswith(".py")}
    assert record_problems(new) == []
    environment = Environment.create(tmp_path / "venv", "uv")
    if "py3" in name:
        run(TOOLS / "uv", "pip", "install", "--no-deps", "--python", environment.python, new)


@pytest.mark.long
def test_a_large_wheel_needs_little_memory(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist, output = tmp_path / "dist", tmp_path / "out"
    candidate(rocwheel, LARGE, dist)
    command = [rocwheel.binary, "release", "promote", dist, "--version", NEW, "--output", output]
    said = run(sys.executable, "-c", MEASURE, *command)
    peak = int(said.stderr.strip().splitlines()[-1])
    assert peak < 200_000, f"{peak} kB"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """TheRock's tool and a Python that has what it needs."""
    checkout = Path(run(REPOSITORY / "scripts/fetch-therock").stdout.strip())
    venv = tmp_path_factory.mktemp("peer") / "venv"
    run(TOOLS / "uv", "venv", "--quiet", "--python", os.path.realpath(sys.executable), venv)
    run(
        *(TOOLS / "uv", "pip", "install", "--python", venv / "bin/python"),
        *"packaging==25.0 pkginfo installer wheel==0.45.1".split(),
    )
    return venv / "bin/python", checkout / SCRIPT


@pytest.mark.long
def test_what_both_tools_change_is_the_same(rocwheel: Rocwheel, script: tuple[Path, Path], tmp_path: Path) -> None:
    """The peer misses places and packs everything again; what it changes, we change in the same
    way."""
    python, peer = script
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    dist = tmp_path / "dist"
    torch(dist, f"2.14.0a0+rocm{OLD}", OLD)
    small_wheels.write_wheel(tmp_path / "there", "rocm", NEW)
    shutil.copytree(dist, theirs)
    bin_folder = str(Path(python).parent)
    run(python, peer, "--input-dir", theirs, environment={"PATH": f"{bin_folder}:{os.environ['PATH']}"})
    rocwheel.run("release", "promote", dist, "--version", NEW, "--output", ours, "--beside", tmp_path / "there")
    name = f"torch-2.14.0a0+rocm{NEW}-cp312-cp312-linux_x86_64.whl"
    assert name in names(theirs) and name in names(ours)
    made, expected = members(ours / name), members(theirs / name)
    info = f"torch-2.14.0a0+rocm{NEW}.dist-info"
    # Places that the peer misses, and files that it writes anew.
    missed, anew = {f"{info}/sboms/a.cdx.json"}, {f"{info}/RECORD", f"{info}/WHEEL"}
    assert made.keys() == expected.keys()
    assert {one for one in made if made[one] != expected[one]} - anew == missed
    assert OLD.encode() in expected[f"{info}/sboms/a.cdx.json"]


# Members that name the version or targets and that the peer does not change.
MISSED = ("_contents.json", "_devel.tar", "/.devel_links/", "/_device_", "/dist_info.json")


@pytest.mark.long
def test_the_packages_of_rocm_are_those_of_the_peer(
    rocwheel: Rocwheel, sets: tuple[Path, Path, Path], script: tuple[Path, Path], tmp_path: Path
) -> None:
    """With a target less: extras, pins, lists and the default target are the same."""
    python, peer = script
    ours, theirs, dist = tmp_path / "ours", tmp_path / "theirs", tmp_path / "dist"
    # The peer knows the selector as a source distribution only.
    for folder in (dist, theirs):
        shutil.copytree(sets[0], folder, ignore=shutil.ignore_patterns("rocm-*.whl"))
    environment = {"PATH": f"{Path(python).parent}:{os.environ['PATH']}"}
    run(python, peer, "--input-dir", theirs, "--multi-arch-targets", "gfx942", environment=environment)
    rocwheel.run("release", "promote", dist, "--version", NEW, "--keep-targets", "gfx942", "--output", ours)
    promoted = [name for name in names(ours) if not name.endswith(".json")]
    assert promoted == [name for name in names(theirs) if OLD not in name]
    for name in promoted:
        made, expected = members(ours / name), members(theirs / name)
        missed = {one for one in made if any(part in one for part in MISSED)}
        anew = {one for one in made if one.endswith((".dist-info/RECORD", ".dist-info/WHEEL"))}
        files = {one for one in made if made[one] or one in expected}
        assert files - {one for one in files if one.endswith("/")} <= expected.keys() | missed, name
        differs = {one for one in expected if one in made and made[one] != expected[one]} - missed - anew
        assert differs == set(), name
