"""`release mirror`: a closed set of packages in a folder, from which pip and uv install without any
network."""

import gzip
import json
import sys
from pathlib import Path

import pytest
from serving import Answers, served

import small_index
from command import UV, Rocwheel, run

# Nothing listens there: an installer that asks anybody else fails.
NOWHERE = {"HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": ""}


@pytest.fixture
def indexes(rocwheel: Rocwheel, tmp_path: Path) -> list[Path]:
    """ROCm's own packages, and those that they require from elsewhere; two indexes."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    small_index.write_wheel(
        ours, "torch", "2.9.0+rocm7", "Requires-Dist: rocm[libraries]==7.1.0", "Requires-Dist: sympy"
    )
    small_index.write_wheel(ours, "torch", "2.8.0+rocm7")
    small_index.write_wheel(
        ours, "rocm", "7.1.0", "Provides-Extra: libraries", "Provides-Extra: device-gfx942",
        "Provides-Extra: device-gfx1100", 'Requires-Dist: rocm-sdk-libraries==7.1.0; extra == "libraries"',
        'Requires-Dist: rocm-sdk-device-gfx942==7.1.0; extra == "device-gfx942"',
        'Requires-Dist: rocm-sdk-device-gfx1100==7.1.0; extra == "device-gfx1100"',
    )  # fmt: skip
    for name in ("rocm_sdk_libraries", "rocm_sdk_device_gfx942", "rocm_sdk_device_gfx1100"):
        small_index.write_wheel(ours, name, "7.1.0")
    small_index.write_sdist(ours)
    for name, version in (("sympy", "1.13"), ("sympy", "1.14"), ("unrelated", "1.0")):
        small_index.write_wheel(theirs, name, version)
    for folder in (ours, theirs):
        rocwheel.run("index", "build", folder)
    return [ours, theirs]


def mirror(rocwheel: Rocwheel, indexes: list[Path], folder: Path, *more: object, expect: int = 0):
    path = {"PATH": f"{UV.parent}:/usr/bin:/bin", **NOWHERE}
    words = ["release", "mirror", *indexes, "--to", folder, *more]
    return run(rocwheel.binary, *words, environment=path, expect=expect)


def distributions(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".whl", ".gz"))


def test_a_mirror_is_closed_and_installs_without_a_network(
    rocwheel: Rocwheel, indexes: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "mirror"
    words = ["--package", "torch", "--package", "rocm[libraries]", "--package", "rocm-demo", "--target", "gfx942"]
    made = json.loads(mirror(rocwheel, indexes, folder, *words, "--python", "3.11,3.12", "--json").stdout)
    assert distributions(folder) == [
        "rocm-7.1.0-py3-none-any.whl", "rocm_demo-1.0.tar.gz", "rocm_sdk_device_gfx942-7.1.0-py3-none-any.whl",
        "rocm_sdk_libraries-7.1.0-py3-none-any.whl", "sympy-1.14-py3-none-any.whl",
        "torch-2.9.0+rocm7-py3-none-any.whl",
    ]  # fmt: skip
    assert {(each["python"], len(each["packages"])) for each in made["sets"]} == {("3.11", 6), ("3.12", 6)}
    for path in folder.glob("*.whl"):
        assert (folder / f"{path.name}.metadata").is_file()
    index = (folder / "simple").as_uri()
    wanted = ["torch", "rocm[libraries,device-gfx942]", "rocm-demo"]
    for name, words in (
        ("pip", [sys.executable, "-m", "pip", "install", "--isolated", "--no-cache-dir", "--quiet"]),
        ("uv", [UV, "pip", "install", "--no-config", "--no-cache", "--quiet"]),
    ):
        target = tmp_path / name
        run(*words, "--index-url", index, "--target", target, *wanted, environment=NOWHERE)
        assert (target / "torch.py").is_file() and (target / "rocm_sdk_device_gfx942.py").is_file(), name
    # On arrival.
    assert "the mirror is as it was made" in rocwheel.run("release", "mirror", "--verify", folder).stdout
    (folder / "sympy-1.14-py3-none-any.whl").write_bytes(b"other")
    (folder / "more.txt").write_text("more\n")
    (folder / "simple/torch/index.html").unlink()
    bad = rocwheel.run("release", "mirror", "--verify", folder, expect=1)
    for said in (
        "`sympy-1.14-py3-none-any.whl` has other bytes",
        "`more.txt` is not listed",
        "torch/index.html` is missing",
    ):
        assert said in bad.stderr


def test_a_second_run_fetches_what_is_new_and_removes_the_rest(
    rocwheel: Rocwheel, indexes: list[Path], tmp_path: Path
) -> None:
    folder = tmp_path / "mirror"
    mirror(rocwheel, indexes, folder, "--package", "torch")
    small_index.write_wheel(indexes[1], "sympy", "1.15")
    rocwheel.run("index", "build", indexes[1])
    damaged = folder / "rocm-7.1.0-py3-none-any.whl"
    damaged.write_bytes(b"other")
    report = json.loads(mirror(rocwheel, indexes, folder, "--package", "torch", "--json").stdout)["report"]
    assert report["fetched"] == ["rocm-7.1.0-py3-none-any.whl", "sympy-1.15-py3-none-any.whl"]
    assert report["removed"] == ["sympy-1.14-py3-none-any.whl"] and report["kept"] == 2
    assert not (folder / "sympy-1.14-py3-none-any.whl.metadata").exists()
    assert "1.14" not in (folder / "simple/sympy/index.html").read_text()
    rocwheel.run("release", "mirror", "--verify", folder)


def test_withdrawals_and_the_status_of_projects_are_mirrored(
    rocwheel: Rocwheel, indexes: list[Path], tmp_path: Path
) -> None:
    (indexes[1] / "index-status.toml").write_text(
        "[[yanked]]\nproject = 'sympy'\nversion = '1.13'\nreason = 'loses <data>'\n"
        "[project.sympy]\nstatus = 'deprecated'\nreason = 'use numpy'\n"
    )
    rocwheel.run("index", "build", indexes[1])
    folder = tmp_path / "mirror"
    mirror(rocwheel, indexes, folder, "--package", "sympy==1.13", "--package", "rocm")
    page = json.loads((folder / "simple/sympy/index.v1_json").read_text())
    assert page["files"][0]["yanked"] == "loses <data>"
    assert page["project-status"] == {"status": "deprecated", "reason": "use numpy"}
    assert 'data-yanked="loses &lt;data&gt;"' in (folder / "simple/sympy/index.html").read_text()
    assert "yanked" not in (folder / "simple/rocm/index.html").read_text()
    # What is taken back there is taken back here.
    (indexes[1] / "index-status.toml").unlink()
    rocwheel.run("index", "build", indexes[1])
    mirror(rocwheel, indexes, folder, "--package", "sympy==1.13", "--package", "rocm")
    assert "yanked" not in (folder / "simple/sympy/index.html").read_text()
    rocwheel.run("release", "mirror", "--verify", folder)


class PackedPages(Answers):
    """Sends pages as gzip whatever was asked for, as storage behind a CDN does, to those who have
    the token."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not self.path.partition("?")[0].endswith("/"):
            super().do_GET()
        elif not self.path.endswith("/?token=x"):
            self.send_error(403)
        elif not (path / "index.html").is_file():
            self.send_error(404)
        else:
            self.reply(gzip.compress((path / "index.html").read_bytes()), Content_Encoding="gzip")


@pytest.mark.parametrize("name", ["", "theirs="])
def test_packed_pages_behind_a_token_are_read_as_uv_reads_them(
    rocwheel: Rocwheel, indexes: list[Path], tmp_path: Path, name: str
) -> None:
    (indexes[1] / "index-status.toml").write_text("[[yanked]]\nproject = 'sympy'\nversion = '1.13'\nreason = 'why'\n")
    rocwheel.run("index", "build", indexes[1])
    folder = tmp_path / "mirror"
    with served(indexes[1], PackedPages) as address:
        words = ("release", "mirror", f"{name}{address}/simple/?token=x", "--to", folder, "--package", "sympy==1.13")
        run(rocwheel.binary, *words, environment={"PATH": f"{UV.parent}:/usr/bin:/bin"})
    page = json.loads((folder / "simple/sympy/index.v1_json").read_text())
    assert page["files"][0]["yanked"] == "why"


def test_what_cannot_be_mirrored_is_named(rocwheel: Rocwheel, indexes: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "mirror"
    unknown = mirror(rocwheel, indexes, folder, "--package", "no-such-package", expect=1).stderr
    assert "no-such-package" in unknown and "Python 3.12" in unknown
    assert not folder.exists() or distributions(folder) == []
    dry = mirror(rocwheel, indexes, folder, "--package", "torch", "--dry-run")
    assert "4 files" in dry.stderr and not folder.exists()
    small_index.write_wheel(indexes[1], "sympy", "1.14", "Summary: other bytes than the page says")
    wrong = mirror(rocwheel, indexes, folder, "--package", "torch", expect=1).stderr
    assert "`sympy-1.14-py3-none-any.whl`: its SHA-256 is" in wrong and "but the index says" in wrong
    assert len(distributions(folder)) == 3, "the others stay for the next run"
    (folder / "mine-1.0-py3-none-any.whl").write_bytes(b"mine")
    foreign = mirror(rocwheel, indexes, folder, "--package", "rocm", expect=1).stderr
    assert "mine-1.0-py3-none-any.whl" in foreign and "choose another folder" in foreign
    rocwheel.run("release", "mirror", "--verify", tmp_path, expect=1).says("has no `mirror.json`")
