"""`rocwheel audit` with facts of earlier runs: whatever happened to the cache and to the wheels,
the report is that of a run without one."""

import os
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from command import Rocwheel, on_a_disk
from packages import fetch_wheels


@dataclass(frozen=True)
class Audits:
    """Some wheels, which belong to the test, and a cache."""

    rocwheel: Rocwheel
    wheels: Path
    cache: Path

    def audit(self, *arguments: object, code: int = 1, cache: Path | None = None) -> str:
        environment = {"ROCWHEEL_CACHE": str(cache or self.cache)}
        words = ("audit", "--json", "--offline", *arguments, self.wheels)
        return self.rocwheel.run(*words, environment=environment, expect=code).stdout

    def entries(self) -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (self.cache / "facts").glob("*.facts")}


@pytest.fixture(scope="module")
def real_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fetch_wheels(tmp_path_factory.mktemp("wheels"), "gafime-rocm==0.4.7", "psutil==7.2.2")


@pytest.fixture
def audits(rocwheel: Rocwheel, real_wheels: Path, tmp_path: Path) -> Audits:
    shutil.copytree(real_wheels, tmp_path / "wheels")
    return Audits(rocwheel, tmp_path / "wheels", tmp_path / "cache")


def wheel(audits: Audits, name: str) -> Path:
    (path,) = audits.wheels.glob(f"{name}-*.whl")
    return path


def test_the_report_is_the_same_and_nothing_is_read_again(audits: Audits) -> None:
    plain = audits.audit("--no-cache")
    assert not audits.cache.exists()
    assert audits.audit() == plain
    entries = audits.entries()
    assert len(entries) >= 4, "headers and the comparison with RECORD of each wheel"
    assert audits.audit() == plain
    assert audits.entries() == entries
    # Other questions about the same wheels.
    for words in (["--no-hashes"], ["--glibc", "2.17"], ["--python", "3.12"]):
        assert audits.audit(*words) == audits.audit("--no-cache", *words), words
    assert audits.audit("--why", "libc.so.6", code=0) == audits.audit("--no-cache", "--why", "libc.so.6", code=0)
    assert audits.entries() == entries


def test_facts_of_some_wheels_are_used_for_others(audits: Audits, tmp_path: Path) -> None:
    """Half of the facts come from the cache, and a wheel without hashes gets the rest later."""
    plain = audits.audit("--no-cache")
    whole = audits.wheels.rename(tmp_path / "whole")
    audits.wheels.mkdir()
    shutil.copy2(next(whole.glob("gafime_rocm-*.whl")), audits.wheels)
    audits.audit("--no-hashes")
    shutil.rmtree(audits.wheels)
    whole.rename(audits.wheels)
    assert audits.audit() == plain


def test_damaged_entries_are_no_entries(audits: Audits) -> None:
    plain = audits.audit()
    entries = sorted(audits.entries())
    contents = [path.read_bytes() for path in entries]
    damages = {
        "cut": [content[: len(content) // 2] for content in contents],
        "changed": [content[:-9] + bytes([content[-9] ^ 1]) + content[-8:] for content in contents],
        "swapped": contents[1:] + contents[:1],
        "empty": [b""] * len(contents),
        "foreign": [b"SQLite format 3\0" * 99] * len(contents),
    }
    for name, damaged in damages.items():
        for path, content in zip(entries, damaged, strict=True):
            path.write_bytes(content)
        assert audits.audit() == plain, name
        assert [path.read_bytes() for path in entries] == contents, f"{name}: written again"
    # An entry that is a folder can be neither read nor written.
    entries[0].unlink()
    entries[0].mkdir()
    assert audits.audit() == plain


def test_a_wheel_that_changes_is_read_again(audits: Audits) -> None:
    plain = audits.audit()
    assert "RW017" not in plain and "does not have the hash" not in plain
    path = wheel(audits, "psutil")
    before = path.stat()
    with zipfile.ZipFile(path) as archive:
        member = max(archive.infolist(), key=lambda member: member.compress_size)
    content = bytearray(path.read_bytes())
    content[member.header_offset + 60 + len(member.filename) + member.compress_size // 2] ^= 0x10
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = audits.audit()
    assert changed != plain and changed == audits.audit("--no-cache")
    # The old file under the same name, and another one.
    content[member.header_offset + 60 + len(member.filename) + member.compress_size // 2] ^= 0x10
    path.unlink()
    path.write_bytes(content)
    assert audits.audit() == plain
    shutil.copy(wheel(audits, "gafime_rocm"), path)
    assert (
        audits.rocwheel.run("audit", "--json", path, environment={"ROCWHEEL_CACHE": str(audits.cache)}, expect=1).stdout
        == audits.rocwheel.run("audit", "--json", "--no-cache", path, expect=1).stdout
    )


def test_a_publication_audits_with_the_same_facts(audits: Audits, tmp_path: Path) -> None:
    def refused(cache: Path) -> str:
        place = ("--to", tmp_path / "store", "--stream", "nightly", "--set", "some", "--outside", "*")
        own = {"ROCWHEEL_CACHE": str(cache)}
        ran = audits.rocwheel.run("release", "publish", audits.wheels, *place, environment=own, expect=1)
        assert "nothing was published: the audit finds" in ran.stderr
        return ran.stdout + ran.stderr

    audits.audit()
    entries = audits.entries()
    assert refused(audits.cache) == refused(tmp_path / "other")
    assert audits.entries() == entries, "nothing was read again"
    assert any((tmp_path / "other/facts").glob("*.facts")), "what was read is kept"


def test_a_full_cache_is_a_warning(audits: Audits, tmp_path: Path) -> None:
    plain = audits.audit("--no-cache")
    full = tmp_path / "full"
    command = (audits.rocwheel.binary, "audit", "--json", "--offline", audits.wheels)
    ran = on_a_disk("4k", full, *command, filled="4096", environment={"ROCWHEEL_CACHE": str(full)})
    assert ran.stdout == plain
    assert ran.stderr.count(f"cannot keep facts in `{full}/facts`") == 1


def test_a_cache_that_is_a_file_is_a_warning(audits: Audits, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert audits.audit(cache=tmp_path / "file") == audits.audit("--no-cache")


def test_runs_share_a_cache(audits: Audits) -> None:
    plain = audits.audit("--no-cache")
    with ThreadPoolExecutor() as threads:
        assert list(threads.map(lambda _: audits.audit(), range(4))) == [plain] * 4
