"""`artifact push` and `artifact fetch` with buckets, and the scripts of TheRock that they stand
for. In the long run, the other side is artifact_manager.py itself: ROCWHEEL_THEROCK names a
checkout; scripts/fetch-therock makes one."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from buckets import Bucket, forget, refusing
from test_artifact_fetch import FOLDER, RUN, fetch, home, names, store, visible, web  # noqa: F401

from command import REPOSITORY, Rocwheel, run
from linked_wheels import write_wheel

# ruff: noqa: F811


@pytest.fixture
def buckets(server: str) -> Bucket:
    bucket = forget(server)
    for name in ("therock-ci-artifacts", "therock-nightly-artifacts"):
        request_bucket(bucket, name)
    return bucket


def request_bucket(bucket: Bucket, name: str) -> None:
    run(
        "curl", "--silent", "--fail-with-body", "--request", "PUT", f"{bucket.endpoint}/{name}",
        "--header", "Authorization: AWS4-HMAC-SHA256 Credential=AKIATEST/20261123/us-east-1/s3/aws4_request, "
        "SignedHeaders=host, Signature=0",
    )  # fmt: skip


def test_a_bucket_of_therock_is_found_by_release_type(
    rocwheel: Rocwheel, artifacts: Path, buckets: Bucket, home: dict[str, str], tmp_path: Path
) -> None:
    signed = {**home, **buckets.environment}
    outputs = tmp_path / "outputs"
    push = ["artifact", "push", artifacts, "--to", "s3://therock-nightly-artifacts", "--run-id", RUN]
    run(rocwheel.binary, *push, environment={**signed, "GITHUB_OUTPUT": str(outputs)})
    said = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    assert said["bucket"] == "therock-nightly-artifacts" and said["aws_region"] == "us-east-1"
    assert said["artifacts"] == f"s3://therock-nightly-artifacts/{FOLDER}"
    words = ["--run-id", RUN, "--release-type", "nightly", "--repository", "ROCm/rockrel"]
    fetched = fetch(rocwheel, signed, *words, "--output", tmp_path / "out", "--json")
    assert visible(tmp_path / "out") == visible(artifacts)
    assert json.loads(fetched.stdout)["source"] == f"s3://therock-nightly-artifacts/{FOLDER}"
    elsewhere = fetch(rocwheel, signed, "--run-id", RUN, "--dry-run", expect=1)
    assert "therock-ci-artifacts" in elsewhere.stderr and "nightly builds run in `ROCm/rockrel`" in elsewhere.stderr
    # Without credentials the bucket is read as everybody reads it.
    public = {**home, "AWS_ENDPOINT_URL": buckets.endpoint}
    fetch(rocwheel, public, *words, "--dry-run")


def test_a_refusal_of_a_bucket_is_not_temporary(
    rocwheel: Rocwheel, artifacts: Path, buckets: Bucket, home: dict[str, str], tmp_path: Path
) -> None:
    signed = {**home, **buckets.environment}
    place = "s3://therock-nightly-artifacts"
    run(rocwheel.binary, "artifact", "push", artifacts, "--to", place, "--run-id", RUN, environment=signed)
    words = ["--run-id", RUN, "--from", place, "--output", tmp_path / "out"]
    with refusing(buckets.endpoint) as server:
        through = {**signed, "AWS_ENDPOINT_URL": server.address}
        for status, code, advice in ((403, "ExpiredToken", "renew them"), (404, "NoSuchKey", "")):
            server.refusals = {"blas_lib_gfx942.tar.zst": (status, code)}
            said = fetch(rocwheel, through, *words, expect=1)
            assert code in said.stderr and advice in said.stderr, said.stderr
            assert "tried 4 times" not in said.stderr and "run it again" not in said.stderr
        server.refusals = {}
        fetch(rocwheel, through, *words)
    assert visible(tmp_path / "out") == visible(artifacts)


def test_the_documents_lines_do_what_they_say(
    rocwheel: Rocwheel, artifacts: Path, buckets: Bucket, home: dict[str, str], tmp_path: Path
) -> None:
    """Those of TheRock's build guide and packaging page, after `rocwheel compat`."""
    signed = {**home, **buckets.environment, "HOME": str(tmp_path), "RUN_ID": RUN, "ARTIFACT_GROUP": "gfx110X-all"}
    signed |= {
        "ARTIFACTS_DIR": str(tmp_path / "artifacts-dir"),
        "PATH": f"{rocwheel.binary.parent}:{os.environ['PATH']}",
    }
    build = tmp_path / "build"
    shutil.copytree(artifacts, build / "artifacts", symlinks=True)

    def line(text: str, expect: int = 0, **more: str):
        return run("bash", "-euc", text, environment={**signed, **more}, cwd=tmp_path, expect=expect)

    line(f"rocwheel compat artifact_manager push --run-id {RUN} --stage all --build-dir build --platform linux")
    line(f"rocwheel compat fetch_artifacts.py --run-id={RUN} --target=gfx110X-all --output-dir=$HOME/one/artifacts")
    kept = [path.name for path in artifacts.iterdir() if not path.name.endswith("gfx942")]
    assert names(tmp_path / "one/artifacts") == sorted(kept)
    line(
        "rocwheel compat fetch_artifacts --run-id=${RUN_ID} --artifact-group=${ARTIFACT_GROUP} --output-dir=${ARTIFACTS_DIR}"
    )
    assert names(tmp_path / "artifacts-dir") == sorted(kept)
    line(
        "rocwheel compat artifact_manager fetch --stage all --output-dir=two --run-id=${RUN_ID} --platform linux "
        '--amdgpu-families "gfx94X-dcgpu;gfx110X-all" --amdgpu-targets "gfx942,gfx1100"'
    )
    assert visible(tmp_path / "two/artifacts") == visible(artifacts)
    line(
        f"rocwheel compat install_rocm_from_artifacts --run-id {RUN} --amdgpu-family gfx110X-all --blas --output-dir rocm"
    )
    assert (tmp_path / "rocm/lib/librocblas.so.5").exists()
    assert (tmp_path / "rocm/lib/rocblas/library/TensileLibrary_gfx1100.dat").exists()
    assert not (tmp_path / "rocm/lib/rocblas/library/TensileLibrary_gfx942.dat").exists()
    # What exits 0 in the scripts.
    gone = line(f"rocwheel compat fetch_artifacts --run-id={RUN} nothing_like_this", expect=1)
    assert "has nothing for `regex:nothing_like_this`" in gone.stderr
    assert line("rocwheel compat fetch_artifacts --run-id=1", expect=1).stderr
    bootstrap = line(f"rocwheel compat artifact_manager fetch --run-id {RUN} --output-dir x --bootstrap", expect=2)
    assert "continue with today's script" in bootstrap.stderr


def test_copy_brings_what_stages_made_to_another_run(
    rocwheel: Rocwheel, artifacts: Path, buckets: Bucket, home: dict[str, str], tmp_path: Path
) -> None:
    """As TheRock's workflows do for stages that a pull request does not change."""
    run_, ci = {**home, **buckets.environment, "GITHUB_RUN_ID": "88"}, "s3://therock-ci-artifacts"
    rocwheel.run("artifact", "push", artifacts, "--to", ci, "--run-id", RUN, environment=run_)
    made = ("blas", "base")
    (tmp_path / "BUILD_TOPOLOGY.toml").write_text(
        "[artifacts.blas]\nartifact_group = 'math'\n[artifacts.base]\nartifact_group = 'core'\n"
        "[artifact_groups]\nmath = {}\ncore = {}\n"
        "[build_stages]\nmath-libs.artifact_groups = ['math']\nruntime.artifact_groups = ['core']\n"
        "empty.artifact_groups = []\n"
    )
    copy = ["compat", "artifact_manager", "copy", "--source-run-id", RUN, "--amdgpu-families=gfx110X-all"]

    def copied(*words: str, expect: int = 0) -> str:
        return rocwheel.run(*copy, *words, environment=run_, cwd=tmp_path, expect=expect).stderr

    for words, expect, reason in (
        (["--stage", "math-libs,maths"], 2, "there is no stage `maths`"),
        (["--stage", "empty"], 2, "make no artifacts"),
        (["--stage", ""], 2, "make no artifacts"),
        (["--stage", "runtime", "--source-run-id", "1"], 2, "cannot be used multiple times"),
        (["--stage", "math-libs", "--json"], 2, "leave `--json` out"),
        (["--stage", "math-libs", "--dry-run"], 0, f"`rocwheel artifact push --to {ci} --run-id 88 --platform linux`"),
    ):
        assert reason in copied(*words, expect=expect)
    with pytest.raises(AssertionError):
        fetch(rocwheel, run_, "--run-id", "88", "--dry-run")
    assert "--include 'regex:^(base|blas)_'" in copied("--stage", "math-libs,runtime")
    fetch(rocwheel, run_, "--run-id", "88", "--output", tmp_path / "out")
    kept = [path.name for path in artifacts.iterdir() if path.name.startswith(made) and "gfx942" not in path.name]
    assert names(tmp_path / "out") == sorted(kept) != []


def test_the_release_type_names_bucket_and_role(
    rocwheel: Rocwheel, artifacts: Path, buckets: Bucket, home: dict[str, str], tmp_path: Path
) -> None:
    outputs = tmp_path / "outputs"
    signed = {**home, **buckets.environment, "AWS_REGION": "", "GITHUB_OUTPUT": str(outputs)}
    push = ["artifact", "push", *artifacts.iterdir(), "--run-id", "77", "--release-type", "nightly"]
    run(rocwheel.binary, *push, environment=signed)
    said = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    assert said["bucket"] == "therock-nightly-artifacts" and said["aws_region"] == "us-east-2"
    assert said["iam_role"] == "arn:aws:iam::692859939525:role/therock-nightly"
    assert said["artifacts"] == "s3://therock-nightly-artifacts/77-linux"
    words = ["artifact", "fetch", "--run-id", "77", "--release-type", "nightly", "--output", tmp_path / "back"]
    fetched = run(rocwheel.binary, *words, environment=signed)
    assert names(tmp_path / "back") == sorted(path.name for path in artifacts.iterdir()), fetched.stderr
    rocwheel.run(*push, "--to", tmp_path, expect=2).says("cannot be used with")
    rocwheel.run(*push[:-2], expect=2).says("--to")


def test_pages_of_folders_are_what_other_scripts_read(
    rocwheel: Rocwheel, store: Path, buckets: Bucket, home: dict[str, str], tmp_path: Path
) -> None:
    dist = tmp_path / "dist"
    (dist / "sub").mkdir(parents=True)
    for name in ("a+b-1.whl", "sub/c-1.tar.gz", "notes.txt"):
        (dist / name).write_text(name)
    rocwheel.run("compat", "indexer", dist, "--filter", "*.whl", "*.tar.gz", "--recursive")
    page = (dist / "index.html").read_text()
    assert 'href="a%2Bb-1.whl"' in page and 'href="sub/index.html"' in page and "notes.txt" not in page
    assert 'href="c-1.tar.gz"' in (dist / "sub/index.html").read_text()
    (store / "logs/math").mkdir(parents=True)
    (store / "logs/math/build.log").write_text("log\n")
    words = ["compat", "generate_s3_index", "--run-id", RUN, "--output-dir", store.parent]
    rocwheel.run(*words, "--include-intermediate-dirs")
    assert 'href="math/index.html"' in (store / "logs/index.html").read_text()
    assert 'href="logs/index.html"' in (store / "index.html").read_text()
    signed = {**home, **buckets.environment}
    tarball = tmp_path / "therock-dist-linux-gfx94X-dcgpu-7.1.tar.gz"
    tarball.write_bytes(b"\x1f\x8b")
    upload = ["release", "upload", tarball, "--to", "s3://therock-nightly-artifacts/v4/tarball"]
    outputs = tmp_path / "outputs"
    run(rocwheel.binary, *upload, environment={**signed, "GITHUB_OUTPUT": str(outputs)})
    (urls,) = [line for line in outputs.read_text().splitlines() if line.startswith("tarball_urls=")]
    url = json.loads(urls.partition("=")[2])["multiarch"]
    assert url == f"{buckets.endpoint}/therock-nightly-artifacts/v4/tarball/{tarball.name}"
    tar = ["compat", "index_generation_s3_tar", "--bucket", "therock-nightly-artifacts", "--directory", "v4/tarball"]
    run(rocwheel.binary, *tar, environment=signed, cwd=tmp_path)
    array = (tmp_path / "index.html").read_text().split("const files = ")[1].split(";\n")[0]
    (entry,) = json.loads(array)
    assert entry["name"] == tarball.name and entry["mtime"] > 1e9
    missing = run(rocwheel.binary, *tar[:-1], "nowhere", environment=signed, cwd=tmp_path, expect=2)
    assert "has no `.tar.gz` files" in missing.stderr


def test_packages_of_a_run_go_beside_its_artifacts(rocwheel: Rocwheel, home: dict[str, str], tmp_path: Path) -> None:
    dist = tmp_path / "packages/dist"
    dist.mkdir(parents=True)
    (dist / "rocm-7.1.tar.gz").write_bytes(b"x")
    outputs = tmp_path / "outputs"
    words = ["compat", "upload_python_packages", "--input-packages-dir", tmp_path / "packages", "--run-id", RUN]
    both = {**home, "GITHUB_OUTPUT": str(outputs)}
    run(rocwheel.binary, *words, "--multiarch", "--output-dir", tmp_path / "out", environment=both)
    assert (tmp_path / "out" / FOLDER / "python/rocm-7.1.tar.gz").read_bytes() == b"x"
    said = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
    assert said["kpack_split"] == "true" and said["package_find_links_url"].endswith(f"{FOLDER}/python/index.html")
    page = tmp_path / "out" / FOLDER / "python/index.html"
    run(rocwheel.binary, "compat", "indexer", dist, "--filter", "*.whl", "*.tar.gz", environment=home)
    assert page.read_text() == (dist / "index.html").read_text(), "as the indexer would have made it before"
    (dist / "rocm-7.1.tar.gz").write_bytes(b"y")
    refused = run(rocwheel.binary, *words, "--multiarch", "--output-dir", tmp_path / "out", environment=both, expect=2)
    assert "has other contents" in refused.stderr
    assert "`--artifact-group` is missing" in run(rocwheel.binary, *words, environment=both, expect=2).stderr


def test_each_folder_of_packages_has_a_page_that_pip_installs_from(
    rocwheel: Rocwheel, home: dict[str, str], tmp_path: Path
) -> None:
    """Packages for several families are in a folder for each. pip takes the address of the step."""
    packages, outputs = tmp_path / "packages", tmp_path / "outputs"
    words = ["compat", "upload_python_packages", "--input-packages-dir", packages, "--run-id", RUN]
    words += ["--output-dir", tmp_path / "out"]
    write_wheel(packages, {"demo.py": b""}, name="demo", version="1.0")
    run(rocwheel.binary, *words, "--artifact-group", "gfx110X-all", environment={**home, "GITHUB_OUTPUT": str(outputs)})
    (url,) = [line for line in outputs.read_text().splitlines() if line.startswith("package_find_links_url=")]
    found = [sys.executable, "-m", "pip", "download", "--no-index", "--no-deps", "--find-links", url.partition("=")[2]]
    run(*found, "demo", "--dest", tmp_path / "downloaded")
    assert [path.name.split("-")[0] for path in (tmp_path / "downloaded").iterdir()] == ["demo"]
    for family in ("gfx110X-all", "gfx94X-dcgpu"):
        write_wheel(tmp_path / "families/dist" / family, {"demo.py": b""}, name="demo", version="1.0")
    words[words.index(packages)] = tmp_path / "families"
    said = run(rocwheel.binary, *words, "--multiarch", environment=home).stdout
    top = tmp_path / "out" / FOLDER / "python"
    pages = sorted(str(path.relative_to(top)) for path in top.rglob("index.html"))
    assert pages == ["gfx110X-all/index.html", "gfx94X-dcgpu/index.html"]
    assert all(f"{FOLDER}/python/{page}" in said for page in pages)
    # A plan writes none.
    run(rocwheel.binary, *words[:-1], tmp_path / "planned", "--multiarch", "--dry-run", environment=home)
    assert not (tmp_path / "planned").exists()


# Their tests that fail on our command: the first six replace a function inside of the script, where
# no other program is; the others are rows of docs/deviations.md.
DIFFERENT = {
    "test_push_fails_when_all_uploads_fail",
    "test_push_fails_when_some_uploads_fail",
    "test_push_fails_when_compression_fails",
    "test_fetch_fails_when_download_fails",
    "test_fetch_fails_when_extraction_fails",
    "test_copy_fails_when_copy_fails",
    "test_push_succeeds_when_precompressed_artifact_is_missing_sha256sum",
    "test_shared_cache_skips_redownload",
    "test_copy_invalid_stage_exits_with_error",
    "test_copy_transfers_sha256sum_files",
}


@pytest.fixture(scope="module")
def manager() -> list[object]:
    """The words that start the script."""
    checkout = subprocess.run([REPOSITORY / "scripts/fetch-therock"], capture_output=True, text=True, check=True)
    script = Path(checkout.stdout.strip()) / "build_tools/artifact_manager.py"
    assert script.is_file(), script
    return [sys.executable, script]


def built(artifacts: Path, folder: Path) -> Path:
    """A build tree whose artifacts are all of the topology."""
    (folder / "build").mkdir()
    (folder / "build/artifacts").symlink_to(artifacts)
    return folder / "build"


@pytest.mark.long
def test_what_their_script_pushed_into_a_bucket_is_fetched(
    rocwheel: Rocwheel,
    manager: list[object],
    artifacts: Path,
    buckets: Bucket,  # noqa: F811
    home: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    signed = {**home, **buckets.environment, "GITHUB_REPOSITORY": "ROCm/TheRock", "RELEASE_TYPE": "ci"}
    push = ["push", "--stage", "all", "--build-dir", built(artifacts, tmp_path), "--run-id", RUN]
    run(*manager, *push, "--platform", "linux", "--compression-type", "xz", environment=signed)
    fetch(rocwheel, signed, "--run-id", RUN, "--output", tmp_path / "out")
    assert visible(tmp_path / "out") == visible(artifacts)
    words = ["--run-id", RUN, "--targets", "gfx1100", "--components", "lib", "--output", tmp_path / "some"]
    fetch(rocwheel, signed, *words)
    assert names(tmp_path / "some") == [
        "base_lib_generic", "blas_lib_generic", "blas_lib_gfx1100", "core-hip_lib_generic",
    ]  # fmt: skip


@pytest.mark.long
def test_both_scripts_read_each_other_through_a_directory(
    rocwheel: Rocwheel,
    manager: list[object],
    artifacts: Path,
    home: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    push = ["push", "--stage", "all", "--build-dir", built(artifacts, tmp_path), "--run-id", RUN]
    local = {**os.environ, **home}
    run(*manager, *push, "--compression-type", "xz", "--local-staging-dir", theirs, environment=local)
    fetch(rocwheel, home, "--run-id", RUN, "--from", theirs, "--output", tmp_path / "out")
    assert visible(tmp_path / "out") == visible(artifacts)
    rocwheel.run("artifact", "push", artifacts, "--to", ours, "--run-id", RUN, "--compression", "xz")
    words = ["fetch", "--stage", "all", "--run-id", RUN, "--platform", "linux", "--local-staging-dir", ours]
    words += ["--amdgpu-targets", "gfx942,gfx1100", "--output-dir", tmp_path / "read"]
    run(*manager, *words, environment=local)
    assert visible(tmp_path / "read/artifacts") == visible(artifacts)


@pytest.mark.long
def test_their_tests_pass_on_our_command(
    rocwheel: Rocwheel,
    manager: list[object],
    home: dict[str, str],  # noqa: F811
    tmp_path: Path,
) -> None:
    tools = manager[1].parent
    environment = {**home, "ROCWHEEL_BINARY": str(rocwheel.binary), "PYTHONPATH": f"{Path(__file__).parent}:{tools}"}
    options = ["-q", "-p", "no:cacheprovider", "-p", "therock_shim", "--noconftest", "--rootdir", tmp_path]
    pytest = [sys.executable, "-m", "pytest", *options, tools / "tests/artifact_manager_tool_test.py"]
    ran = run(*pytest, environment=environment, cwd=tmp_path, expect=1).stdout
    assert set(re.findall(r"^FAILED \S*::(\w+)", ran, re.MULTILINE)) == DIFFERENT, ran
    assert re.search(r"^10 failed, 26 passed in ", ran, re.MULTILINE), ran
