"""Bad input: a clear error that names the file, a non-zero exit, nothing half-written, inputs
untouched."""

import contextlib
import json
import os
import shutil
import sys
import time
from importlib.metadata import Distribution
from pathlib import Path

import pytest

import synthetic
from command import Result, Rocwheel, on_a_disk, run, unprivileged
from packages import PackageSet
from small_index import write_wheel
from synthetic import BASE, Member, file_member, hard_link_member, link_member, write_artifact, write_deb
from trees import files, put, snapshot

FAILED = 1
USAGE = 2


def assert_clear(result: Result, *named: object) -> None:
    """The message is an error of ours that names what is wrong, not a crash."""
    assert "error: " in result.stderr, result.stderr
    for word in ("panicked", "RUST_BACKTRACE", "Traceback"):
        assert word not in result.stderr, result.stderr
    for name in named:
        assert str(name) in result.stderr, f"{name} is not named:\n{result.stderr}"


def assert_nothing_left(output: Path) -> None:
    """Archives that were unpacked and verified may stay for the next run; nothing else, and none of
    them in part."""
    unpacked = output / ".rocwheel/artifacts"
    kept = {str(one.relative_to(output)) for one in unpacked.glob("*") if (one / "complete").is_file()}
    left = {name for name in files(output) if not any(Path(name).is_relative_to(one) for one in kept)}
    if kept:
        left.discard(".rocwheel/lock")
    assert left == set(), f"left behind: {sorted(left)}"


def refuse_package(rocwheel: Rocwheel, artifacts: Path, *named: object, arguments: tuple[object, ...] = ()) -> Result:
    """`rocwheel package` refuses these artifacts, names the culprit, writes nothing and touches
    nothing."""
    before = snapshot(artifacts)
    output = artifacts.parent / "output"
    result = rocwheel.package(artifacts, output, *arguments, expect=FAILED)
    assert_clear(result, *named)
    assert_nothing_left(output)
    assert snapshot(artifacts) == before, "the input was changed"
    return result


def refuse_import(rocwheel: Rocwheel, deb: Path, *named: object, arguments: tuple[object, ...] = ()) -> Result:
    """`rocwheel artifact import` refuses this package, names it, writes nothing and touches
    nothing."""
    before = snapshot(deb.parent)
    output = deb.parent.parent / "imported"
    result = rocwheel.import_debs([deb], output, *arguments, expect=FAILED)
    assert_clear(result, deb.name, *named)
    assert_nothing_left(output)
    assert snapshot(deb.parent) == before, "the input was changed"
    return result


# -- artifacts
# ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["blas_lib", "blas_lib_gfx942_more", "_lib_generic", "blas__generic"])
def test_malformed_artifact_names(rocwheel: Rocwheel, artifacts: Path, name: str) -> None:
    """A directory with a manifest is meant as an artifact: dropping it silently loses its files."""
    write_artifact(artifacts, name, "stage", {"lib/data.txt": "x\n"})
    refuse_package(rocwheel, artifacts, name)


def test_missing_base_artifact(rocwheel: Rocwheel, artifacts: Path) -> None:
    shutil.rmtree(artifacts / "base_lib_generic")
    refuse_package(rocwheel, artifacts, "therock_manifest.json")


def test_missing_artifact_manifest(rocwheel: Rocwheel, artifacts: Path) -> None:
    (artifacts / "blas_lib_generic/artifact_manifest.txt").unlink()
    refuse_package(rocwheel, artifacts, "blas_lib_generic")


@pytest.mark.parametrize("line", ["../outside", "/etc", "stage/../../outside"])
def test_artifact_manifest_that_points_outside(rocwheel: Rocwheel, artifacts: Path, line: str) -> None:
    (artifacts / "blas_lib_generic/artifact_manifest.txt").write_text(f"{line}\n")
    refuse_package(rocwheel, artifacts, "blas_lib_generic", line)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rocm_package_version": 7}', '{"rocm_package_version": "seven"}'])
def test_manifest_that_is_none(rocwheel: Rocwheel, artifacts: Path, text: str) -> None:
    (artifacts / "base_lib_generic" / BASE / "share/therock/therock_manifest.json").write_text(text)
    refuse_package(rocwheel, artifacts, "therock_manifest.json")


def test_manifest_that_promises_a_target_that_is_not_there(rocwheel: Rocwheel, artifacts: Path) -> None:
    shutil.rmtree(artifacts / "blas_lib_gfx942")
    refuse_package(rocwheel, artifacts, "gfx942", arguments=("--targets", "gfx942,gfx1100"))


def test_link_out_of_the_artifact(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("not yours\n")
    (artifacts / "blas_lib_generic/math-libs/BLAS/rocBLAS/stage/lib/leak.txt").symlink_to(secret)
    refuse_package(rocwheel, artifacts, "leak.txt")


def test_one_path_in_two_artifacts(rocwheel: Rocwheel, artifacts: Path) -> None:
    for name in ("rand_lib_generic", "fft_lib_generic"):
        write_artifact(artifacts, name, "math-libs/stage", {"lib/shared.txt": name})
    refuse_package(rocwheel, artifacts, "lib/shared.txt", "rand_lib_generic", "fft_lib_generic")


def test_damaged_library(rocwheel: Rocwheel, artifacts: Path) -> None:
    library = artifacts / "blas_lib_generic/math-libs/BLAS/rocBLAS/stage/lib/librocblas.so.5.1"
    library.write_bytes(library.read_bytes()[:4000])
    refuse_package(rocwheel, artifacts, "librocblas.so")


def test_library_that_needs_something_missing(rocwheel: Rocwheel, artifacts: Path) -> None:
    shutil.rmtree(artifacts / "core-hip_lib_generic")
    shutil.rmtree(artifacts / "core-hip_dev_generic")
    refuse_package(rocwheel, artifacts, "libamdhip64.so.7", "librocblas.so")


def archived(artifacts: Path, archives: Path, suffix: str) -> Path:
    """The artifacts as GNU tar packs them."""
    archives.mkdir()
    option = "--zstd" if suffix == "tar.zst" else "--xz"
    for artifact in sorted(artifacts.iterdir()):
        members = ["artifact_manifest.txt", *sorted(entry.name for entry in artifact.iterdir() if entry.is_dir())]
        words = ("--file", archives / f"{artifact.name}.{suffix}", "--directory", artifact)
        run("tar", "--create", option, *words, *members)
    return archives


@pytest.mark.parametrize("suffix", ["tar.zst", "tar.xz"])
def test_truncated_archive(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path, suffix: str) -> None:
    archives = archived(artifacts, tmp_path / "archives", suffix)
    rocwheel.package(archives, tmp_path / "whole")
    rocwheel.package(artifacts, tmp_path / "exploded")
    assert snapshot(tmp_path / "whole/dist") == snapshot(tmp_path / "exploded/dist")

    culprit = archives / f"blas_lib_generic.{suffix}"
    culprit.write_bytes(culprit.read_bytes()[:-200])
    refuse_package(rocwheel, archives, culprit.name)


def test_archive_that_is_not_what_its_checksum_says(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    archives = archived(artifacts, tmp_path / "archives", "tar.zst")
    (archives / "blas_lib_generic.tar.zst.sha256sum").write_text("0" * 64 + "\n")
    refuse_package(rocwheel, archives, "blas_lib_generic.tar.zst")


def test_unreadable_file(public: Path, compiled: synthetic.Compiled) -> None:
    artifacts = synthetic.write_artifacts(public / "artifacts", compiled)
    for path in artifacts.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o005 if path.is_dir() else path.stat().st_mode | 0o004)
    culprit = artifacts / "blas_lib_gfx942/math-libs/BLAS/rocBLAS/stage/lib/rocblas/library/TensileLibrary_gfx942.dat"
    culprit.chmod(0)
    command = [*unprivileged(), public / "rocwheel", "package", "--artifacts", artifacts, "--output", public / "output"]
    result = run(*command, expect=FAILED)
    assert_clear(result, culprit.name, "Permission denied")
    assert_nothing_left(public / "output")


def test_unreadable_folder_of_earlier_wheels(public: Path, compiled: synthetic.Compiled) -> None:
    """An unreadable folder is a warning, because reuse only saves time."""
    artifacts = synthetic.write_artifacts(public / "artifacts", compiled)
    run("chmod", "-R", "a+rX", artifacts)
    locked = public / "earlier/locked"
    locked.mkdir(parents=True)
    locked.chmod(0)
    (public / "earlier/loop").symlink_to("loop")
    command = [*unprivileged(), public / "rocwheel", "package", "--artifacts", artifacts, "--output", public / "output"]
    result = run(*command, "--reuse", public / "earlier", environment={"ROCWHEEL_CACHE": str(public / "cache")})
    assert f"not searched for earlier wheels: failed to read directory `{locked}`: Permission denied" in result.stderr
    assert "loop" not in result.stderr and list((public / "output/dist").iterdir())


def test_artifacts_that_are_not_there(rocwheel: Rocwheel, tmp_path: Path) -> None:
    result = rocwheel.package(tmp_path / "nowhere", tmp_path / "output", expect=FAILED)
    assert_clear(result, tmp_path / "nowhere")
    assert_nothing_left(tmp_path / "output")


def test_no_artifacts_at_all(rocwheel: Rocwheel, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refuse_package(rocwheel, tmp_path / "empty", tmp_path / "empty")


# -- packages
# -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    directory = tmp_path / "inbox"
    directory.mkdir()
    return directory


@pytest.mark.parametrize("kept", [0, 4, 8, 60, 132, 200, 1000, -1000, -2])
def test_truncated_package(rocwheel: Rocwheel, debs: list[Path], inbox: Path, kept: int) -> None:
    """A real package cut off at its start, in a header, in the control part, in the data and just
    before its end."""
    whole = next(deb for deb in debs if deb.name.startswith("rocminfo_"))
    cut = inbox / whole.name
    cut.write_bytes(whole.read_bytes()[:kept])
    refuse_import(rocwheel, cut, arguments=("--version", "5.2.3"))


def test_not_a_package(rocwheel: Rocwheel, inbox: Path) -> None:
    (inbox / "letter.deb").write_text("Dear packager,\n" * 100)
    refuse_import(rocwheel, inbox / "letter.deb")


def test_package_that_is_not_there(rocwheel: Rocwheel, inbox: Path, tmp_path: Path) -> None:
    result = rocwheel.import_debs([inbox / "absent.deb"], tmp_path / "imported", expect=FAILED)
    assert_clear(result, "absent.deb")
    assert_nothing_left(tmp_path / "imported")


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ([file_member("./../../escaped.txt")], "escaped.txt"),
        ([file_member("/escaped.txt")], "escaped.txt"),
        ([file_member("./usr/lib/../../../escaped.txt")], "escaped.txt"),
        ([hard_link_member("./usr/lib/hard", "../../../../etc/passwd")], "etc/passwd"),
        ([link_member("./usr/lib/out.so", "../../../../escaped.so")], "usr/lib/out.so"),
        ([hard_link_member("./usr/lib/hard", "./usr/lib/absent")], "usr/lib/hard"),
    ],
    ids=["parent", "absolute", "parent inside", "hard link out", "link out", "hard link to nothing"],
)
def test_member_that_leaves_the_tree(rocwheel: Rocwheel, inbox: Path, members: list[Member], named: str) -> None:
    harmless = file_member("./usr/lib/x86_64-linux-gnu/libamdhip64.txt")
    deb = write_deb(inbox / "libamdhip64-5_5.2.3-8_amd64.deb", [harmless, *members])
    refuse_import(rocwheel, deb, named)
    for escaped in (inbox.parent / "escaped.txt", Path("/escaped.txt"), Path("/tmp/escaped.txt")):
        assert not escaped.exists()


@pytest.mark.parametrize(
    ("members", "named"),
    [
        ([link_member("./usr/share/door", "/tmp"), file_member("./usr/share/door/escaped.txt")], "usr/share/door"),
        ([link_member("./usr/share/passwords", "/etc/passwd")], "usr/share/passwords"),
    ],
    ids=["through a link", "absolute"],
)
def test_link_that_leads_nowhere(rocwheel: Rocwheel, inbox: Path, members: list[Member], named: str) -> None:
    """A package's links are read as in a root of its own: one that finds nothing there is left out
    and listed, never followed."""
    harmless = file_member("./usr/lib/x86_64-linux-gnu/libamdhip64.txt")
    deb = write_deb(inbox / "libamdhip64-5_5.2.3-8_amd64.deb", [harmless, *members])
    output = inbox.parent / "imported"
    report = json.loads(rocwheel.import_debs([deb], output, "--json").stdout)
    lost = {one["path"]: one["target"] for one in report["skipped"]}
    assert lost.get(named, "").startswith("/"), report["skipped"]
    said = rocwheel.import_debs([deb], output).stderr
    assert f"warning: skipped the link `{named}` of libamdhip64-5 to `{lost[named]}`: " in said, said
    assert [path for path in output.rglob("*") if path.is_symlink()] == []
    assert not Path("/tmp/escaped.txt").exists()


def test_many_links_that_lead_nowhere(rocwheel: Rocwheel, inbox: Path, tmp_path: Path) -> None:
    """The first are said, the rest counted; `-v` says all."""
    links = [link_member(f"./usr/bin/tool{index:02}", f"/etc/alternatives/tool{index}") for index in range(15)]
    harmless = file_member("./usr/lib/x86_64-linux-gnu/libamdhip64.txt")
    deb = write_deb(inbox / "libamdhip64-5_5.2.3-8_amd64.deb", [harmless, *links])
    said = rocwheel.import_debs([deb], tmp_path / "imported").stderr
    assert said.count("skipped the link") == 10, said
    assert "warning: and 5 more such links; `--json` lists all\n" in said
    assert rocwheel.import_debs([deb], tmp_path / "imported", "-v").stderr.count("skipped the link") == 15


def test_names_that_could_steer_a_terminal(rocwheel: Rocwheel, artifacts: Path, inbox: Path) -> None:
    """Escape sequences and line breaks in names come out as text, and no wheel gets them."""
    files = {"lib/\x1b[31mtwo\nlines.txt": "x\n", "lib/qu\"ote's, $(x) `y`.txt": "x\n"}
    write_artifact(artifacts, "rand_lib_generic", "math-libs/stage", files)
    result = rocwheel.run("artifact", "verify", artifacts).prints("two\\nlines.txt", "qu\"ote's, $(x) `y`.txt")
    assert "\x1b" not in result.stdout + result.stderr
    refused = refuse_package(rocwheel, artifacts, "cannot be packaged under its name")
    assert "\x1b" not in refused.stderr
    deb = write_deb(inbox / "libamdhip64-5_5.2.3-8_amd64.deb", [file_member("./usr/share/two\nlines")])
    refuse_import(rocwheel, deb, "holds a character that no file here may have")


def test_names_with_quotes_survive(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    name = "qu\"ote's, $(x) `y`.txt"
    write_artifact(artifacts, "rand_lib_generic", "math-libs/stage", {f"lib/{name}": "x\n"})
    write_artifact(artifacts, "rand_dev_generic", "math-libs/stage", {f"include/{name}": "x\n"})
    rocwheel.package(artifacts, tmp_path / "output")
    wheel = next((tmp_path / "output/dist").glob("rocm_sdk_libraries-*"))
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--target", tmp_path / "installed", wheel)
    assert (tmp_path / "installed/_rocm_sdk_libraries/lib" / name).read_text() == "x\n"
    installed = Distribution.at(next((tmp_path / "installed").glob("*.dist-info")))
    assert f"_rocm_sdk_libraries/lib/{name}" in {str(one) for one in installed.files}


def test_a_very_deep_tree(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    """As deep as Linux lets a path be, in a directory and in an archive; deeper is an error that
    says so."""
    stage = artifacts / "blas_lib_generic/math-libs/BLAS/rocBLAS/stage"
    here = os.open(stage, os.O_DIRECTORY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        there = os.open("d", os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = there
    rocwheel.run("artifact", "archive", artifacts, "--output", tmp_path / "archives")
    rocwheel.package(tmp_path / "archives", tmp_path / "output", "--dry-run", "--scratch", tmp_path)
    for _ in range(1000):
        os.mkdir("d", dir_fd=here)
        there = os.open("d", os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = there
    os.close(here)
    result = rocwheel.package(artifacts, tmp_path / "output", expect=FAILED)
    assert_clear(result, "File name too long", "the path is longer than the system allows")
    assert_nothing_left(tmp_path / "output")
    run("rm", "-rf", artifacts)


def has_open(process: int, file: Path) -> bool:
    """Whether a process reads a file now."""
    links = Path(f"/proc/{process}/fd").iterdir()
    with contextlib.suppress(FileNotFoundError):  # closed meanwhile
        return any(link.resolve() == file for link in links)
    return False


def test_input_that_shrinks_while_it_is_read(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    """A library of a build that still goes on: no wheel of mixed contents."""
    large = artifacts / "blas_lib_generic/math-libs/BLAS/rocBLAS/stage/lib/large.bin"
    with open(large, "wb") as file:
        file.truncate(40 << 30)
    process = rocwheel.start("package", "--artifacts", artifacts, "--output", tmp_path / "output")
    deadline = time.monotonic() + 60
    # Planning reads samples of large files; a wheel is written only after that.
    wheels = tmp_path / "output"
    while not (has_open(process.pid, large) and any(wheels.rglob("*.whl"))):
        assert time.monotonic() < deadline and process.poll() is None, "it was never read"
        time.sleep(0.05)
    os.truncate(large, 1 << 20)
    _, said = process.communicate(timeout=120)
    assert process.returncode == FAILED, said
    assert "changed while it was read" in said and "large.bin" in said, said
    assert_nothing_left(tmp_path / "output")


@pytest.mark.parametrize("command", ["archive", "flatten", "list", "package", "verify"])
def test_unreadable_artifact(public: Path, compiled: synthetic.Compiled, command: str) -> None:
    """An artifact that cannot be entered is not left out silently, whatever the command."""
    artifacts = synthetic.write_artifacts(public / "artifacts", compiled)
    run("chmod", "-R", "a+rX", artifacts)
    (artifacts / "blas_lib_generic").chmod(0)
    words = ["package", "--artifacts"] if command == "package" else ["artifact", command]
    to = [] if command in ("list", "verify") else ["--output", public / "output"]
    result = run(*unprivileged(), public / "rocwheel", *words, artifacts, *to, expect=FAILED)
    assert "blas_lib_generic" in result.stdout + result.stderr and "Permission denied" in result.stdout + result.stderr
    assert_nothing_left(public / "output")


def test_the_same_package_twice(rocwheel: Rocwheel, inbox: Path, tmp_path: Path) -> None:
    """Two versions of one package have the same paths: an error with both owners."""
    first = write_deb(inbox / "libamdhip64-5_1_amd64.deb", [file_member("./usr/share/doc/a/x.txt", b"1")], version="1")
    second = write_deb(inbox / "libamdhip64-5_2_amd64.deb", [file_member("./usr/share/doc/a/x.txt", b"2")], version="2")
    result = rocwheel.import_debs([first, second], tmp_path / "imported", expect=FAILED)
    assert_clear(result, first.name, second.name)
    assert_nothing_left(tmp_path / "imported")


def test_no_room_for_temporary_files(rocwheel: Rocwheel, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "dist", "a", "1.0")
    variables = {"TMPDIR": str(tmp_path / "gone")}
    rocwheel.run("audit", wheel, expect=1, environment=variables).says(
        f"cannot make a temporary directory in `{tmp_path}/gone`", "in TMPDIR, or with `--scratch`"
    )
    rocwheel.run("audit", wheel, "--scratch", tmp_path, environment=variables)


def test_library_that_no_package_holds(rocwheel: Rocwheel, debs: list[Path], tmp_path: Path) -> None:
    """Without libelf the HSA runtime cannot load: the error says so, and what to add."""
    without = [deb for deb in debs if not deb.name.startswith("libelf1")]
    result = rocwheel.import_debs(without, tmp_path / "imported", expect=FAILED)
    assert_clear(result, "libelf.so.1", "libhsa-runtime64", "libelf1")
    assert_nothing_left(tmp_path / "imported")


# -- outputs
# ------------------------------------------------------------------------------------------------------------


PIPE = "ff-1-py3-none-any.whl"
READERS_OF_FILES = [
    command.replace("PIPE", PIPE).split()
    for command in (
        "audit PIPE|audit .|edit PIPE --version 2|edit ff-1.tar.gz --version 2|repair PIPE|split PIPE|"
        "prune PIPE --keep gfx942|fuse PIPE|kernels PIPE|kernels libff.so|diff PIPE ff-1.tar.gz|index build .|"
        "release publish . --to store --stream nightly|artifact import --deb ff.deb|"
        "artifact import --tarball ff-1.tar.gz|artifact verify .|test report .|test report junit.xml|"
        "test report good.xml --verdict v --wheel PIPE --targets gfx942"
    ).split("|")
]


@pytest.mark.parametrize("words", READERS_OF_FILES, ids=" ".join)
def test_pipes_are_not_waited_for(rocwheel: Rocwheel, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Opening a named pipe waits for a writer, which never comes here."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name in (PIPE, "ff-1.tar.gz", "ff.deb", "libff.so", "junit.xml"):
        os.mkfifo(folder / name)
    put(folder / "good.xml", "<testsuite><testcase name='a'/></testsuite>")
    without_output = ("audit", "kernels", "diff", "index", "release", "test")
    given = words if words[0] in without_output or words[1] == "verify" else (*words, "--output", "../out")
    said = rocwheel.run(*given, cwd=folder, expect=FAILED, timeout=60)
    assert "panicked" not in said.stderr and said.stderr.strip()
    assert not files(tmp_path / "out")


def test_output_that_is_not_ours(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    output = tmp_path / "thesis"
    (output / "dist").mkdir(parents=True)
    (output / "dist/chapter-1.txt").write_text("years of work\n")
    before = snapshot(output)
    assert_clear(rocwheel.package(artifacts, output, expect=FAILED), output)
    assert snapshot(output) == before


def test_output_that_is_a_link(rocwheel: Rocwheel, artifacts: Path, inbox: Path, tmp_path: Path) -> None:
    """A link to a directory stays one; a link to nothing is refused."""
    deb = write_deb(inbox / "libamdhip64-5_5.2.3-8_amd64.deb", [file_member("./usr/lib/libamdhip64.txt")])
    commands = {
        "import": ["artifact", "import", "--deb", deb],
        "archive": ["artifact", "archive", artifacts],
        "flatten": ["artifact", "flatten", artifacts],
        "package": ["package", "--artifacts", artifacts],
    }
    for name, command in commands.items():
        link, real = tmp_path / f"{name}-link", tmp_path / f"{name}-real"
        link.symlink_to(real)
        result = rocwheel.run(*command, "--output", link, expect=FAILED)
        assert_clear(result, f"{name}-link", "which does not exist")
        assert not real.exists()
        real.mkdir()
        for _ in range(2):
            rocwheel.run(*command, "--output", link)
        assert link.is_symlink() and files(real), name


def test_import_output_that_is_not_ours(rocwheel: Rocwheel, debs: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "thesis"
    put(output / "chapter-1.txt", "years of work\n")
    before = snapshot(output)
    assert_clear(rocwheel.import_debs(debs, output, expect=FAILED), output)
    assert snapshot(output) == before


def test_output_that_is_a_file(rocwheel: Rocwheel, artifacts: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x\n")
    assert_clear(rocwheel.package(artifacts, tmp_path / "file", expect=FAILED), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "x\n"


def test_read_only_output(public: Path, compiled: synthetic.Compiled) -> None:
    synthetic.write_artifacts(public / "artifacts", compiled)
    run("chmod", "-R", "a+rX", public / "artifacts")
    (public / "closed").mkdir(mode=0o555)
    inputs_and_output = ["--artifacts", public / "artifacts", "--output", public / "closed/output"]
    command = [*unprivileged(), public / "rocwheel", "package", *inputs_and_output]
    assert_clear(run(*command, expect=FAILED), "closed", "Permission denied")


def test_full_disk(rocwheel: Rocwheel, package_set: PackageSet, tmp_path: Path) -> None:
    """A file system of 8 MiB, in a mount namespace of its own: the error names the output, and no
    part of a wheel stays."""
    disk = tmp_path / "disk"
    words = ("package", "--artifacts", package_set.artifacts, "--output", disk / "output")
    result = on_a_disk("8m", disk, rocwheel.binary, *words)
    assert_clear(result, f"no space is left on the disk of `{disk}/output`", "hint: make room on that disk")
    assert ".rocwheel" not in result.stderr, "the message names a file that is gone by now"
    wheels = [line for line in result.stdout.splitlines() if line.startswith(f"{disk}/") and ".whl" in line]
    assert all(line.endswith(".whl") for line in wheels), f"temporary files are left: {wheels}"


@pytest.mark.parametrize("command", ["archive", "flatten", "import"])
def test_full_disk_elsewhere(rocwheel: Rocwheel, tmp_path: Path, command: str) -> None:
    """The other commands that write, on 2 MiB: nothing is left but what was there."""
    disk, noise = tmp_path / "disk", os.urandom(4 << 20)
    write_artifact(tmp_path / "artifacts", "blas_lib_generic", "stage", {"lib/noise.bin": noise})
    deb = write_deb(tmp_path / "libamdhip64-5_5.2.3-8_amd64.deb", [file_member("./usr/lib/libamdhip64.bin", noise)])
    inputs = ["--deb", deb] if command == "import" else [tmp_path / "artifacts"]
    result = on_a_disk("2m", disk, rocwheel.binary, "artifact", command, *inputs, "--output", disk / "output")
    assert_clear(result, disk / "output", "hint: make room on th")
    assert result.stdout == "", f"left behind: {result.stdout}"


# -- usage
# --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["package"],
        ["package", "--artifacts"],
        ["package", "--artifacts", "a", "--output", "b", "--shape", "round"],
        ["package", "--artifacts", "a", "--output", "b", "--jobs", "many"],
        ["artifact", "import", "--output", "b"],
        ["frobnicate"],
    ],
    ids=" ".join,
)
def test_wrong_usage(rocwheel: Rocwheel, tmp_path: Path, arguments: list[str]) -> None:
    assert_clear(rocwheel.run(*arguments, expect=USAGE, cwd=tmp_path))
    assert_nothing_left(tmp_path)
