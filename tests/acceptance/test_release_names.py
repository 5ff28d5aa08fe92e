"""`rocwheel release publish --public-index`: which names of a set others have, or could
register."""

import json
from pathlib import Path

from serving import Answers, served
from test_chooser import write_wheel as tagged_wheel
from test_release_publish import publish, rocm

from command import Rocwheel


def states(said: str) -> dict[str, dict]:
    return {one.pop("name"): one for one in json.loads(said)["public-names"]}


def test_names_on_a_public_index_are_reported(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist = rocm(tmp_path / "dist", "7.2.0")
    public = tmp_path / "public"
    tagged_wheel(public, "rocm", "7.2.0", "1-py3-none-any")
    tagged_wheel(public, "rocm", "7.1.0", "9-py3-none-any")
    tagged_wheel(public, "rocm-sdk-core", "99.0", "py3-none-any")
    rocwheel.run("index", "build", public)
    words = ("--dry-run", "--public-index", public)
    said = publish(rocwheel, dist, tmp_path / "store", *words).stderr
    assert "for `rocm==7.2.0`, an installer with both indexes may take `rocm-7.2.0-1-py3-none-any.whl`" in said
    assert "has higher versions of `rocm-sdk-core`" in said
    assert "2 names are free" in said and "`rocm-sdk-device-gfx1100`, `rocm-sdk-device-gfx942`" in said
    told = rocwheel.run(
        *("--json", "release", "publish", dist, "--to", tmp_path / "store", "--stream", "nightly"), *words
    )
    registered = {"version": "7.2.0", "state": "registered"}
    assert states(told.stdout) == {
        "rocm": {**registered, "against-pins": ["rocm-7.2.0-1-py3-none-any.whl"], "higher": []},
        "rocm-sdk-core": {**registered, "against-pins": [], "higher": ["rocm_sdk_core-99.0-py3-none-any.whl"]},
        **{f"rocm-sdk-device-{gpu}": {"version": "7.2.0", "state": "free"} for gpu in ("gfx942", "gfx1100")},
    }


class Broken(Answers):
    """Lists projects, and has no page of any but one."""

    def do_GET(self) -> None:
        body = b'<!DOCTYPE html><a href="rocm/">rocm</a>' if self.path == "/simple/" else b"no"
        self.reply(body, {"/simple/": 200, "/simple/rocm/": 403}.get(self.path, 404))


def test_what_an_index_does_not_answer_is_unknown(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist = rocm(tmp_path / "dist", "7.2.0")
    with served(tmp_path, Broken) as address:
        words = ("--dry-run", "--public-index")
        said = publish(rocwheel, dist, tmp_path / "store", *words, f"{address}/simple/").stderr
        assert f"whether {address}/simple/ has `rocm` is unknown: the server answers 403" in said
        # Without a list of projects, every name would seem free.
        refused = publish(rocwheel, dist, tmp_path / "store", *words, f"{address}/", expect=1).stderr
        assert f"cannot read the index `{address}/`" in refused and "the server answers 404" in refused
        assert "names are free" not in refused
