"""TheRock's own `aggregate_index.py` judges structured indexes of ours: its strict reader of
roots refuses what its routes could not serve. Part of `--set all`."""

import json
import sys
from pathlib import Path

import pytest
from small_wheels import write_sdist, write_wheel

from command import Rocwheel, run

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
OWNERS = {"rocm": "core", "rocm-sdk-core": "core", "torch": "pytorch", "amd-torch-device-gfx942": "pytorch"}


@pytest.mark.parametrize("made", ["built", "published"])
def test_therock_aggregates_our_indexes(rocwheel: Rocwheel, tmp_path: Path, made: str) -> None:
    script = Path(run(SCRIPTS / "fetch-therock").stdout.strip()) / "build_tools/packaging/python/aggregate_index.py"
    if not script.is_file():
        pytest.fail(f"the checkout has no {script}: fetch a newer one")
    content = tmp_path / "content"
    for name, owner in OWNERS.items():
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
    packages = "".join(f"      {name}:\n        owner_path: {owner}/whl-next\n" for name, owner in OWNERS.items())
    manifest = tmp_path / "owners.yaml"
    manifest.write_text(
        "schema_version: 3\nstreams:\n  known: [nightly]\n  groups:\n    all: [nightly]\n  default: all\n"
        f"python_indexes:\n  - public_base: /rocm/whl-next\n    packages:\n{packages}"
    )
    options = ["--manifest", manifest, "--stream", "nightly", "--content-root", content]
    run(sys.executable, script, "generate", *options, "--output-dir", tmp_path / "out", "--strict-completeness")
    report = json.loads((tmp_path / "out/validation.json").read_text())
    assert report["content_validated"] and report["unpublished_packages"] == []
    assert {package["name"] for package in report["packages"]} == set(OWNERS)
    # Our tables are the same, byte for byte.
    owners = sorted({f"{owner}/whl-next" for owner in OWNERS.values()})
    rocwheel.run("index", "build", content, "--aggregate", *owners)
    for name in ("rocm-whl-next-routes.json", "validation.json"):
        assert (content / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    # It notices what ours is judged by: a project without its page.
    (content / "rocm/pytorch/whl-next/torch/index.html").unlink()
    run(sys.executable, script, "validate-content", *options, expect=1)
