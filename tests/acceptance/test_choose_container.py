"""From the name of a card to `rocwheel test smoke`, in a fresh container that has Python and
reaches nothing but the indexes of the test."""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import served
from test_choose import write, write_pair
from test_smoke import TORCH

import engines
from command import Result, Rocwheel, own_suite
from engines import Engine

IMAGE = "rocwheel/fresh:1"
# What a person types who has nothing, and then the line that is printed.
TYPED = """
python3 -m venv /v
. /v/bin/activate
rocwheel choose torch --index {index} --public-index {public} --gpu '{card}' --installer pip >/line
sh -e /line
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engines.docker(tmp_path_factory.mktemp("docker")) as engine:
        engine.import_root(engines.root(own_suite()), IMAGE)
        yield engine


def in_container(engine: Engine, rocwheel: Rocwheel, script: str, expect: int = 0) -> Result:
    """Nothing listens at the address of the proxy: who asks anybody else fails."""
    variables = [f"--env={name}_proxy=http://127.0.0.1:9" for name in ("http", "https")]
    mount = f"--volume={rocwheel.binary}:/usr/local/bin/rocwheel:ro"
    words = ["run", "--rm", "--network=host", "--env=no_proxy=127.0.0.1", *variables, mount, *engine.options]
    return engine.run(*words, IMAGE, "sh", "-ec", script, expect=expect)


def test_one_line_leads_from_a_card_to_a_tested_installation(
    engine: Engine, rocwheel: Rocwheel, tmp_path: Path
) -> None:
    own, public = tmp_path / "own", tmp_path / "public"
    said = in_container(engine, rocwheel, "python3 -c 'import sys; print(sys.version_info.minor)'")
    tag = f"cp3{said.stdout.strip()}"
    # The newest torch lacks its part for the card.
    for version, more in (("2.9.1", {}), ("2.10.0", {"promised": ("gfx1100",)})):
        targets = () if more else ("gfx1100", "gfx942")
        rocm = f"7.{version.split('.')[1]}.0"
        write_pair(own, version, rocm, targets, "filelock", tag=f"{tag}-{tag}-manylinux_2_28_x86_64", **more)
    for wheel in own.glob("torch-*.whl"):
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr("torch/__init__.py", TORCH)
    write(public, "filelock", "3.20.0", tag="py3-none-any")
    for folder in (own, public):
        rocwheel.run("index", "build", folder)
    with served(own) as ours, served(public) as theirs:
        typed = {"index": f"{ours}/simple/", "public": f"{theirs}/simple/"}
        smoke = "cat /line; pip list --format freeze; rocwheel test smoke torch -k import"
        said = in_container(engine, rocwheel, TYPED.format(card="RX 7900 XTX", **typed) + smoke)
        line = next(line for line in said.stdout.splitlines() if line.startswith("pip install"))
        assert "'torch[device-gfx1100]==2.9.1+rocm7.9.0'" in line or "torch==2.9.1+rocm7.9.0" in line
        for installed in ("amd-torch-device-gfx1100==2.9.1", "rocm-sdk-device-gfx1100==7.9.0", "filelock==3.20.0"):
            assert installed in said.stdout
        assert "gfx942==" not in said.stdout and "passed" in said.stdout + said.stderr
        # The computations need the GPU, which the container does not have: that is no pass.
        alone = in_container(engine, rocwheel, TYPED.format(card="RX 7900 XTX", **typed) + "rocwheel test smoke", 1)
        assert "sees no GPU" in alone.stdout + alone.stderr
        # A card for which the index has nothing: no line, and nothing is installed.
        refused = in_container(engine, rocwheel, TYPED.format(card="RX 9070 XT", **typed), 1)
        assert "gfx1201" in refused.stderr and "pip install" not in refused.stdout
        unknown = in_container(engine, rocwheel, TYPED.format(card="RX 1", **typed), 2)
        assert "`RX 1`" in unknown.stderr
