"""Indexes as other programs write, serve and name them: paths in the settings of pip and uv, first
pages with other links, servers that know GET alone, and refusals."""

import os
from base64 import b64encode
from pathlib import Path

import pytest
from serving import Answers, served
from small_wheels import write_sdist, write_wheel
from test_index import index, uv

from command import Rocwheel

OTHERS = "six-1.0-py3-none-any.whl"
OWN = "six-1.0+local-py3-none-any.whl"


@pytest.fixture
def own(rocwheel: Rocwheel, tmp_path: Path) -> Path:
    """An index in a folder with one project."""
    write_wheel(tmp_path / "own", "six", "1.0+local")
    index(rocwheel, tmp_path / "own")
    return tmp_path / "own/simple"


@pytest.fixture
def other(rocwheel: Rocwheel, tmp_path: Path) -> Path:
    """An index that has a project of the same name, as PyPI would."""
    write_wheel(tmp_path / "other", "six", "1.0")
    index(rocwheel, tmp_path / "other")
    return tmp_path / "other/simple"


def alone(**more: object) -> dict[str, str]:
    """The environment without settings of pip and uv."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    return {**kept, "PIP_CONFIG_FILE": os.devnull, **{name: str(value) for name, value in more.items()}}


def test_an_index_that_settings_name_by_its_path_is_asked(
    rocwheel: Rocwheel, own: Path, other: Path, tmp_path: Path
) -> None:
    (tmp_path / "uv.toml").write_text(f'[[index]]\nurl = "{own}"\n[[index]]\nurl = "{other}"\ndefault = true\n')
    write_wheel(tmp_path / "wheels", "user", "1.0", "six")
    settings = [
        alone(UV_INDEX=own, UV_DEFAULT_INDEX=other),
        alone(UV_INDEX=f"local={own}", UV_DEFAULT_INDEX=other.as_uri()),
        alone(UV_CONFIG_FILE=tmp_path / "uv.toml"),
        alone(PIP_EXTRA_INDEX_URL=own, PIP_INDEX_URL=other),
    ]
    for number, environment in enumerate(settings):
        output = tmp_path / f"got{number}"
        said = rocwheel.run("release", "get", "six", "--output", output, environment=environment)
        assert [path.name for path in output.glob("*.whl")] == [OWN], said.stderr
        audit = ("audit", tmp_path / "wheels/user-1.0-py3-none-any.whl", "--with", "index", "--python", "3.12")
        said = rocwheel.run(*audit, "--json", environment=environment)
        assert OWN in said.stdout and OTHERS not in said.stdout
    # uv takes the same one.
    (tmp_path / "in.txt").write_text("six\n")
    uv("pip", "compile", "--index", own, "--default-index", other, tmp_path / "in.txt").prints("six==1.0+local")
    gone = alone(UV_INDEX=tmp_path / "gone", UV_DEFAULT_INDEX=other)
    said = rocwheel.run("release", "get", "six", "--output", tmp_path / "never", expect=2, environment=gone)
    assert "/gone/` is no folder (UV_DEFAULT_INDEX, UV_INDEX)" in said.stderr
    assert not (tmp_path / "never").exists()


def test_links_of_a_first_page_need_no_slash(rocwheel: Rocwheel, own: Path) -> None:
    """python-pypi-mirror writes `NAME/index.html`."""
    (own / "index.html").write_text('<!DOCTYPE html><a href="six/index.html">six</a>')
    (own / "index.v1_json").unlink()
    with served(own.parent) as address:
        rocwheel.run("index", "check", f"{address}/simple/", "--files").says("1 project, 1 file: 0 errors")
        (own / "index.html").write_text("<!DOCTYPE html><p>nothing</p>")
        rocwheel.run("kernels", f"{address}/simple/", expect=1).says(f"`{address}/simple/` has no wheel")


def test_check_of_a_server_that_knows_get_alone(rocwheel: Rocwheel, own: Path) -> None:
    class WithoutHead(Answers):
        def do_HEAD(self) -> None:  # noqa: N802
            self.send_error(501)

    with served(own.parent, WithoutHead) as address:
        said = rocwheel.run("index", "check", f"{address}/simple/", "--files")
        assert "it answers 501 to HEAD" in said.stdout and ": 0 errors" in said.stderr
        (own.parent / OWN).unlink()
        rocwheel.run("index", "check", f"{address}/simple/", expect=1).prints("the page lists it, and it answers 404")


def test_a_refusal_to_a_user_is_no_missing_project(rocwheel: Rocwheel, own: Path, other: Path, tmp_path: Path) -> None:
    class Refusing(Answers):
        def do_GET(self) -> None:  # noqa: N802
            if self.headers.get("Authorization") == "Basic " + b64encode(b"me:right").decode():
                super().do_GET()
            else:
                self.send_error(403)

    write_wheel(tmp_path / "wheels", "user", "1.0", "six")
    with served(own.parent, Refusing) as address, served(other.parent) as public:

        def asked(user: str) -> dict[str, str]:
            place = address.replace("//", f"//{user}@") if user else address
            return alone(UV_INDEX=f"{place}/simple/", UV_DEFAULT_INDEX=f"{public}/simple/")

        get = ("release", "get", "six", "--output", tmp_path / "got")
        said = rocwheel.run(*get, expect=1, environment=asked("me:wrong"))
        assert "403 to this user" in said.stderr and "check the name and the password" in said.stderr
        audit = ("audit", tmp_path / "wheels/user-1.0-py3-none-any.whl", "--with", "index", "--python", "3.12")
        said = rocwheel.run(*audit, expect=1, environment=asked("me:wrong"))
        assert "answered with status 403" in said.stderr and "wrong" not in said.stderr
        rocwheel.run(*get, environment=asked("me:right"))
        assert [path.name for path in (tmp_path / "got").glob("*.whl")] == [OWN]
        # To a reader without a name it is what storage services say of missing files.
        rocwheel.run("release", "get", "six", "--output", tmp_path / "public", environment=asked(""))
        assert [path.name for path in (tmp_path / "public").glob("*.whl")] == [OTHERS]


def test_a_project_without_wheels(rocwheel: Rocwheel, tmp_path: Path) -> None:
    write_sdist(tmp_path / "dist", "old-style", "1.0")
    index(rocwheel, tmp_path / "dist")
    words = ("old-style", "--index", tmp_path / "dist", "--output", tmp_path / "got")
    rocwheel.run("release", "get", *words, expect=1).says("the project has no wheels", "source distributions")


def test_a_version_with_an_epoch_names_a_set(rocwheel: Rocwheel, tmp_path: Path) -> None:
    write_wheel(tmp_path / "dist", "six", "1!2.0")
    words = ("--to", tmp_path / "store", "--stream", "nightly", "--json")
    assert '"six-1-2.0"' in rocwheel.run("release", "publish", tmp_path / "dist", *words).stdout
