"""`rocwheel release promote --native`: Debian and RPM packages of several sets in one repository,
which apt and dnf read."""

import gzip
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_release_between import promote, staged

from command import Rocwheel, run
from trees import put, snapshot


def debian(folder: Path, *versions: str, text: str = "") -> Path:
    """A repository of `rocm-core`, made by Debian's own tools."""
    for version in versions:
        tree = folder.parents[1] / f"trees/{folder.parent.name}-{version}{text}"
        (tree / "DEBIAN").mkdir(parents=True)
        control = f"Package: rocm-core\nVersion: {version}\nArchitecture: amd64\nMaintainer: me <me@invalid>\n"
        (tree / "DEBIAN/control").write_text(f"{control}Description: a package\n of several lines\n")
        (tree / "opt/rocm").mkdir(parents=True)
        (tree / "opt/rocm/version").write_text(version + text)
        pool = folder / "pool/main"
        pool.mkdir(parents=True, exist_ok=True)
        run("dpkg-deb", "--root-owner-group", "--build", tree, pool / f"rocm-core_{version}_amd64.deb")
    lists = folder / "dists/stable/main/binary-amd64"
    lists.mkdir(parents=True)
    packages = run("apt-ftparchive", "packages", "pool", cwd=folder).stdout
    (lists / "Packages").write_text(packages)
    (lists / "Packages.gz").write_bytes(gzip.compress(packages.encode()))
    names = ("Origin=AMD", "Suite=stable", "Codename=stable", "Architectures=amd64", "Components=main")
    options = [word for name in names for word in ("-o", f"APT::FTPArchive::Release::{name}")]
    release = run("apt-ftparchive", *options, "release", "dists/stable", cwd=folder).stdout
    (folder / "dists/stable/Release").write_text(release)
    return folder


def rpm(folder: Path, *versions: str) -> Path:
    """A repository of `rocm-core`, made by rpmbuild and createrepo_c."""
    folder.mkdir(parents=True)
    for version in versions:
        build = folder.parents[1] / "rpmbuild"
        build.mkdir(exist_ok=True)
        spec = build / f"rocm-core-{version}.spec"
        spec.write_text(
            f"Name: rocm-core\nVersion: {version}\nRelease: 1\nSummary: a <package> & more\nLicense: MIT\nBuildArch: noarch\n"
            "%description\nA package.\n%install\nmkdir -p %{buildroot}/opt/rocm\n"
            f"echo {version} > %{{buildroot}}/opt/rocm/version\n%files\n/opt/rocm/version\n"
            "%changelog\n* Mon Nov 23 2026 me <me@invalid> - 1\n- first\n"
        )
        run("rpmbuild", "-bb", "--define", f"_topdir {build}", "--define", f"_rpmdir {folder}", spec)
    run("createrepo_c", "--quiet", folder)
    return folder


class Apt:
    """apt with folders of its own."""

    def __init__(self, folder: Path, repository: Path, option: str = "trusted=yes") -> None:
        for name in ("state/lists/partial", "cache/archives/partial", "etc"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "etc/sources.list").write_text(f"deb [arch=amd64 {option}] file:{repository} stable main\n")
        (folder / "status").touch()
        options = (
            f"Dir::State={folder}/state", f"Dir::State::status={folder}/status", f"Dir::Cache={folder}/cache",
            f"Dir::Etc::sourcelist={folder}/etc/sources.list", "Dir::Etc::sourceparts=/dev/null", "APT::Sandbox::User=root",
        )  # fmt: skip
        self.folder = folder
        self.options = [word for option in options for word in ("-o", option)]

    def update(self, expect: int = 0) -> str:
        # What it cannot verify is a warning only, and the old lists stay.
        return run("apt-get", *self.options, "-o", "APT::Update::Error-Mode=any", "update", expect=expect).stderr

    def versions(self) -> set[str]:
        self.update()
        madison = run("apt-cache", *self.options, "madison", "rocm-core").stdout
        return {line.split("|")[1].strip() for line in madison.splitlines()}

    def download(self, version: str) -> bytes:
        run("apt-get", *self.options, "download", f"rocm-core={version}", cwd=self.folder)
        return next(self.folder.glob(f"rocm-core_{version}_*.deb")).read_bytes()


def dnf(folder: Path, repository: Path, *words: str, check: str = "0") -> list[str]:
    """What dnf finds in the repository, or does with it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dnf.conf").write_text(
        f"[main]\ncachedir={folder}/cache\nreposdir=/nonexistent\npluginconfpath=/nonexistent\n"
        f"[rocm]\nname=rocm\nbaseurl=file://{repository}\nrepo_gpgcheck={check}\ngpgkey=file://{folder}/key.asc\n"
    )
    options = (
        *("--config", folder / "dnf.conf", "--installroot", folder / "root"),
        *"--releasever 9 --refresh --quiet -y".split(),
    )
    environment = {**os.environ, "HOME": str(folder)}
    return sorted(run("dnf", *options, *words, environment=environment, cwd=folder).stdout.split())


def rpms(folder: Path, repository: Path, **options: str) -> list[str]:
    return dnf(folder, repository, "repoquery", "--qf", "%{version}", "rocm-core", **options)


def test_packages_of_sets_are_in_one_repository(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = staged(rocwheel, tmp_path)
    one, two = tmp_path / "one", tmp_path / "two"
    debian(one / "deb", "7.12.0"), rpm(one / "rpm", "7.12.0")
    debian(two / "deb", "7.12.0", "7.13.0~rc1"), rpm(two / "rpm", "7.13.0")
    promote(rocwheel, store, "--native", one, "--dry-run").says("2 native packages", "4 lists would change")
    assert not (store / "native").exists()
    promote(rocwheel, store, "--native", one).says("2 native packages", "2 new")
    published = store / "native/release"
    apt = Apt(tmp_path / "apt", published / "deb")
    assert apt.versions() == {"7.12.0"} and rpms(tmp_path / "dnf", published / "rpm") == ["7.12.0"]
    assert "Origin: AMD" in (published / "deb/dists/stable/Release").read_text()

    # dpkg-deb writes the same bytes for the same tree only with the same time: the older package is
    # given again as it was.
    shutil.copy2(one / "deb/pool/main/rocm-core_7.12.0_amd64.deb", two / "deb/pool/main")
    shutil.rmtree(two / "deb/dists")
    debian(two / "deb")
    promote(rocwheel, store, "--native", two)
    assert apt.versions() == {"7.12.0", "7.13.0~rc1"}
    assert rpms(tmp_path / "dnf", published / "rpm") == ["7.12.0", "7.13.0"]
    for version, source in (("7.12.0", one), ("7.13.0~rc1", two)):
        assert apt.download(version) == (source / f"deb/pool/main/rocm-core_{version}_amd64.deb").read_bytes()
    dnf(tmp_path / "dnf", published / "rpm", "install", "rocm-core-7.13.0")
    assert (tmp_path / "dnf/root/opt/rocm/version").read_text() == "7.13.0\n"
    # dnf reads the files and changes of each package from the other lists.
    files = dnf(tmp_path / "dnf", published / "rpm", "repoquery", "--list", "rocm-core-7.12.0")
    assert "/opt/rocm/version" in files
    assert "first" in dnf(tmp_path / "dnf", published / "rpm", "repoquery", "--changelogs", "rocm-core-7.13.0")

    # Again: nothing is written.
    before = snapshot(published)
    promote(rocwheel, store, "--native", one).says("0 new, 0 lists changed")
    assert snapshot(published) == before


def test_signed_lists_stay_signed(rocwheel: Rocwheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "gpg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    gpg = ("gpg", "--batch", "--quiet")
    run(*gpg, "--passphrase", "", "--quick-generate-key", "lab@invalid", "rsa2048", "sign", "never")
    try:
        store = staged(rocwheel, tmp_path)
        one, two = tmp_path / "one", tmp_path / "two"
        debian(one / "deb", "7.12.0"), rpm(one / "rpm", "7.12.0")
        debian(two / "deb", "7.13.0"), rpm(two / "rpm", "7.13.0")
        promote(rocwheel, store, "--native", one, "--native-key", "lab@invalid")
        published = store / "native/release"
        before = snapshot(published)
        promote(rocwheel, store, "--native", two, expect=1).says("InRelease` is a signature", "--native-key")
        said = promote(rocwheel, store, "--native", two, "--native-key", "nobody@invalid", expect=1)
        assert "gpg failed" in said.stderr and snapshot(published) == before
        promote(rocwheel, store, "--native", two, "--native-key", "lab@invalid")
        keys = tmp_path / "dnf/key.asc"
        put(keys, run(*gpg, "--armor", "--export", "lab@invalid").stdout)
        run(*gpg, "--yes", "--output", tmp_path / "key.gpg", "--export", "lab@invalid")
        apt = Apt(tmp_path / "apt", published / "deb", f"signed-by={tmp_path}/key.gpg")
        assert apt.versions() == {"7.12.0", "7.13.0"}
        assert rpms(tmp_path / "dnf", published / "rpm", check="1") == ["7.12.0", "7.13.0"]
        # The judge would notice.
        release = published / "deb/dists/stable/InRelease"
        release.write_text(release.read_text().replace("Origin: AMD", "Origin: me"))
        assert "BADSIG" in Apt(tmp_path / "other", published / "deb", f"signed-by={tmp_path}/key.gpg").update(
            expect=100
        )
    finally:
        run("gpgconf", "--homedir", home, "--kill", "all")


def test_lists_that_are_wrong_change_nothing(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = staged(rocwheel, tmp_path)
    good, empty = tmp_path / "good", tmp_path / "empty"
    (empty / "files").mkdir(parents=True)
    (empty / "files/a").touch()
    assert "no folder `dists`" in promote(rocwheel, store, "--native", empty, expect=1).stderr
    assert not (store / "native").exists()
    debian(good / "deb", "7.12.0"), rpm(good / "rpm", "7.12.0")
    promote(rocwheel, store, "--native", good)
    before = snapshot(store / "native")

    def refused(name: str, expected: str, change: Callable[[Path], object]) -> None:
        folder = tmp_path / name
        shutil.copytree(good, folder)
        change(folder)
        promote(rocwheel, store, "--native", folder, expect=1).says(expected)
        assert snapshot(store / "native") == before

    def other(folder: Path) -> None:
        shutil.rmtree(folder / "deb")
        debian(folder / "deb", "7.12.0", text="other")

    refused("other", "is there already, with other bytes", other)
    refused("missing", "which is missing", lambda folder: next(folder.glob("deb/pool/main/*")).unlink())
    refused("absent", "which is missing", lambda folder: next(folder.glob("rpm/noarch/*")).unlink())
    package = "deb/pool/main/rocm-core_7.12.0_amd64.deb"
    refused("bytes", "is not the file that the lists describe", lambda folder: (folder / package).write_bytes(b"x"))
    lists = "deb/dists/stable/main/binary-amd64"
    refused("fields", "has an entry without", lambda folder: (folder / lists / "Packages").write_text("Package: a\n"))

    def cut(folder: Path) -> None:
        primary = next(folder.glob("rpm/repodata/*-primary.xml.*"))
        primary.write_bytes(primary.read_bytes()[:-20])

    refused("cut", "primary.xml", cut)

    def entity(folder: Path) -> None:
        primary = next(folder.glob("rpm/repodata/*-primary.xml.*"))
        bomb = '<!DOCTYPE m [<!ENTITY a "aaaa">]><metadata packages="1"><package>&a;</package></metadata>'
        primary.write_bytes(gzip.compress(bomb.encode()))

    refused("entity", "has no SHA-256", entity)
    first = "rpm/repodata/repomd.xml"
    away = (good / first).read_text().replace('href="repodata/', 'href="../../../etc/')
    refused("away", "is not in `repodata`", lambda folder: (folder / first).write_text(away))
    group = (good / first).read_text().replace('type="other"', 'type="group"')
    refused("group", "cannot be merged", lambda folder: (folder / first).write_text(group))


def test_two_runs_lose_nothing(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """What two jobs lose today, who merge the lists without a lock (D15)."""
    store = staged(rocwheel, tmp_path)
    promote(rocwheel, store)
    versions = [f"7.{minor}.0" for minor in range(6)]
    running = []
    for version in versions:
        debian(tmp_path / version / "deb", version)
        words = ["release", "promote", "--store", store, "--from", "staging", "--to", "release", "--version", "7.12.0"]
        words += ["--also-in", "*.py", "--native", tmp_path / version, "--wait", "120"]
        running.append(subprocess.Popen([rocwheel.binary, *words], stderr=subprocess.PIPE, text=True))
    for process in running:
        said = process.communicate()[1]
        assert process.returncode == 0, said
    assert Apt(tmp_path / "apt", store / "native/release/deb").versions() == set(versions)
