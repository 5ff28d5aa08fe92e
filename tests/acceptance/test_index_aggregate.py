"""`rocwheel index build --aggregate`: one index over those of several products. TheRock's own
`aggregate_index.py` writes the same tables in the long run."""

import json
import sys
from pathlib import Path

import pytest
from serving import served
from small_wheels import write_sdist, write_wheel
from test_index import Links, assert_every_link_is_true, pip, uv

from command import SCRIPTS, Rocwheel, run
from trees import put

NOW = "2026-11-20T01:02:03Z"
OWNERS = ("core/whl-next", "pytorch/whl-next")


@pytest.fixture
def tree(rocwheel: Rocwheel, tmp_path: Path) -> Path:
    root = tmp_path / "site"
    core, pytorch = (root / "rocm" / owner for owner in OWNERS)
    write_wheel(core / "rocm-core", "rocm-core", "7.2.0")
    write_wheel(pytorch / "torch", "torch", "2.9.1+rocm7.2", "rocm-core==7.2.0", python=">=3.9")
    write_wheel(pytorch / "torch", "torch", "2.9.0+rocm7.2", "rocm-core==7.2.0")
    (pytorch / "index-status.toml").write_text(
        '[[yanked]]\nproject = "torch"\nversion = "2.9.0+rocm7.2"\nreason = "wrong \\"kernels\\""\n'
        '[project.torch]\nstatus = "deprecated"\nreason = "old"\n'
    )
    for folder in (core, pytorch):
        rocwheel.run("index", "build", folder, "--now", NOW)
    return root


def aggregate(rocwheel: Rocwheel, root: Path, *arguments: object, owners: tuple[str, ...] = OWNERS, **options):
    return rocwheel.run("--json", "index", "build", root, "--aggregate", *owners, *arguments, **options)


def test_installers_use_it_from_any_server(rocwheel: Rocwheel, tree: Path, tmp_path: Path) -> None:
    built = json.loads(aggregate(rocwheel, tree).stdout)
    assert (built["folder"], built["projects"]) == ("rocm/whl-next", 2)
    whole = tree / "rocm/whl-next"
    assert [link["href"] for link in Links(whole / "index.html").links] == ["rocm-core/", "torch/"]
    links = Links(whole / "torch/index.html").links
    assert links[1]["href"].startswith("../../pytorch/whl-next/torch/torch-2.9.1%2Brocm7.2-py3-none-any.whl#sha256=")
    assert links[0]["data-yanked"] == 'wrong "kernels"' and links[1]["data-requires-python"] == ">=3.9"
    assert assert_every_link_is_true(whole) == 3
    page = json.loads((whole / "torch/index.v1_json").read_text())
    assert page["project-status"] == {"status": "deprecated", "reason": "old"}
    for kind in ("file", "http"):
        with served(tree) as address:
            index = f"{address if kind == 'http' else tree.as_uri()}/rocm/whl-next/"
            pip("install", "--quiet", "--index-url", index, "--target", tmp_path / f"pip-{kind}", "torch")
            uv("pip", "install", "--default-index", index, "--target", tmp_path / f"uv-{kind}", "torch")
        for tool in ("pip", "uv"):
            assert (tmp_path / f"{tool}-{kind}" / "rocm_core.py").is_file()
    rocwheel.run("index", "check", whole, "--files").says("0 errors")
    assert json.loads(aggregate(rocwheel, tree).stdout)["pages"] == []


def test_the_tables_are_for_servers_with_routes(rocwheel: Rocwheel, tree: Path) -> None:
    dry = json.loads(aggregate(rocwheel, tree, "--routes-only", "--dry-run").stdout)
    assert not (tree / "rocm/whl-next").exists() and dry["pages"]
    aggregate(rocwheel, tree, "--routes-only", "--stream", "bkc")
    assert not (tree / "rocm/whl-next/torch").exists()
    routes = json.loads((tree / "rocm-whl-next-routes.json").read_text())
    assert routes == {
        "public_base": "/rocm/whl-next",
        "routes": [
            {"owner_path": "core/whl-next", "package": "rocm-core", "target": "/rocm/core/whl-next/rocm-core/"},
            {"owner_path": "pytorch/whl-next", "package": "torch", "target": "/rocm/pytorch/whl-next/torch/"},
        ],
        "schema_version": 2,
        "stream": "bkc",
    }
    report = json.loads((tree / "validation.json").read_text())
    assert report["owners"] == {owner: {"package_count": 1} for owner in OWNERS}


def test_contradictions_are_errors(rocwheel: Rocwheel, tree: Path) -> None:
    aggregate(rocwheel, tree)
    before = (tree / "rocm/whl-next/index.html").read_bytes()
    twice = tree / "rocm/pytorch/whl-next/rocm-core"
    write_wheel(twice, "rocm-core", "7.3.0")
    rocwheel.run("index", "build", tree / "rocm/pytorch/whl-next", "--now", NOW)
    said = aggregate(rocwheel, tree, expect=1).stderr
    assert "`rocm-core` of `pytorch/whl-next` is in `core/whl-next` too" in said
    (tree / "rocm/core/whl-next/rocm-core/index.html").unlink()
    said = aggregate(rocwheel, tree, owners=("core/whl-next", "jax/whl-next"), expect=1).stderr
    assert "rocm/core/whl-next/rocm-core/index.html`: there is no such page" in said
    assert "rocm/jax/whl-next/index.html`: there is no such page" in said
    assert (tree / "rocm/whl-next/index.html").read_bytes() == before
    for wrong in ("../core", "/core", "a//b", "Core", "a b", ".."):
        assert "core/whl-next" in aggregate(rocwheel, tree, owners=(wrong,), expect=2).stderr


def test_a_page_of_others_stops_it_before_anything_is_written(rocwheel: Rocwheel, tree: Path) -> None:
    page = tree / "rocm/whl-next/torch/index.html"
    put(page, "<html>mine</html>")
    said = aggregate(rocwheel, tree, expect=1)
    assert "was not written by" in said.stderr
    assert [path for path in (tree / "rocm/whl-next").rglob("*") if path.is_file()] == [page]
    aggregate(rocwheel, tree, "--replace-pages")
    assert "torch-2.9.1" in page.read_text()


def test_projects_that_are_gone_leave(rocwheel: Rocwheel, tree: Path) -> None:
    aggregate(rocwheel, tree)
    own = tree / "rocm/whl-next/mine/index.html"
    put(own, "mine")
    aggregate(rocwheel, tree, owners=OWNERS[:1])
    assert not (tree / "rocm/whl-next/torch").exists() and own.read_text() == "mine"
    (tree / "rocm/whl-next/index.html").write_text("mine")
    assert "--replace-pages" in aggregate(rocwheel, tree, owners=OWNERS[:1], expect=1).stderr
    aggregate(rocwheel, tree, "--replace-pages", owners=OWNERS[:1])


PROJECTS = {"rocm": "core", "rocm-sdk-core": "core", "torch": "pytorch", "amd-torch-device-gfx942": "pytorch"}


@pytest.mark.long
@pytest.mark.parametrize("made", ["built", "published"])
def test_therock_aggregates_our_indexes(rocwheel: Rocwheel, tmp_path: Path, made: str) -> None:
    """TheRock's own `aggregate_index.py` judges structured indexes of ours: its strict reader of
    roots refuses what its routes could not serve."""
    script = Path(run(SCRIPTS / "fetch-therock").stdout.strip()) / "build_tools/packaging/python/aggregate_index.py"
    if not script.is_file():
        pytest.fail(f"the checkout has no {script}: fetch a newer one")
    content = tmp_path / "content"
    for name, owner in PROJECTS.items():
        folder = content / f"rocm/{owner}/whl-next" / name if made == "built" else tmp_path / "dist" / owner
        if name == "rocm":
            write_sdist(folder, name, "10.1.0a20261120")
        else:
            write_wheel(folder, name, "2.9.1+rocm10.1.0a20261120", tag="py3-none-linux_x86_64")
    for owner in ("core", "pytorch"):
        if made == "built":
            rocwheel.run("index", "build", content / f"rocm/{owner}/whl-next")
        else:
            words = ("--to", content / f"rocm/{owner}", "--stream", "whl-next", "--set", "tonight")
            rocwheel.run("release", "publish", tmp_path / "dist" / owner, *words)
    packages = "".join(f"      {name}:\n        owner_path: {owner}/whl-next\n" for name, owner in PROJECTS.items())
    manifest = tmp_path / "owners.yaml"
    manifest.write_text(
        "schema_version: 3\nstreams:\n  known: [nightly]\n  groups:\n    all: [nightly]\n  default: all\n"
        f"python_indexes:\n  - public_base: /rocm/whl-next\n    packages:\n{packages}"
    )
    options = ["--manifest", manifest, "--stream", "nightly", "--content-root", content]
    run(sys.executable, script, "generate", *options, "--output-dir", tmp_path / "out", "--strict-completeness")
    report = json.loads((tmp_path / "out/validation.json").read_text())
    assert report["content_validated"] and report["unpublished_packages"] == []
    assert {package["name"] for package in report["packages"]} == set(PROJECTS)
    # Our tables are the same, byte for byte.
    owners = sorted({f"{owner}/whl-next" for owner in PROJECTS.values()})
    rocwheel.run("index", "build", content, "--aggregate", *owners)
    for name in ("rocm-whl-next-routes.json", "validation.json"):
        assert (content / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    # It notices what ours is judged by: a project without its page.
    (content / "rocm/pytorch/whl-next/torch/index.html").unlink()
    run(sys.executable, script, "validate-content", *options, expect=1)
