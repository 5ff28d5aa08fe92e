"""`audit --install-check` and `[install-check]` of a stream: whether pip and uv bring what was
built. pip does install it, in fresh environments."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import choose_indexes as made
import pytest
from choose_indexes import COMPILED, LINUX, write, write_pair
from serving import Answers, served
from test_choose import OWN, Case, Forbidden, Login, case
from test_chooser import installed, write_wheel
from test_chooser_lines import STRANGER, install
from test_release_publish import publish, requires, rocm

from command import UV, Result, Rocwheel, with_uv
from small_index import write_sdist

__all__ = ["case"]
HERE = with_uv()


def cuda_wins(own: Path, public: Path) -> None:
    """torch for CUDA has a higher version, and the requirement takes any."""
    write_pair(own, "2.9.1", "7.1.0", ("gfx942",))
    write(own, "mine", "1.0", "torch>=2.9")
    write(public, "torch", "2.10.0", "nvidia-cublas-cu12")
    write(public, "nvidia-cublas-cu12", "12.8", tag=LINUX)


def needs_cuda(own: Path, public: Path) -> None:
    made.cuda_only(own, public)
    write(own, "mine", "1.0", "vllm")


def higher_build(own: Path, _: Path) -> None:
    write(own, "mine", "1.0", tag="py3-none-any")
    write_wheel(own, "mine", "1.0", "9-py3-none-any")


def higher_post(own: Path, public: Path) -> None:
    write(own, "mine", "1.0", tag="py3-none-any")
    write_wheel(public, "mine", "1.0.post1", "py3-none-any", STRANGER)


def nobody_has(own: Path, _: Path) -> None:
    write(own, "mine", "1.0", "nobody-has-this", tag="py3-none-any")


def a_newer_one(own: Path, _: Path) -> None:
    write_pair(own, "2.9.1", "7.1.0", ("gfx942",))
    write_pair(own, "2.10.0", "7.2.0", ("gfx942",))


def source(own: Path, _: Path) -> None:
    write(own, "mine", "1.0", "rocm-demo", tag="py3-none-any")
    write_sdist(own)


class Audited(Case):
    def audit(self, wheel: str, *more: object, expect: int = 0, path: str = "") -> Result:
        words = ["--install-check", self.own, *more]
        words += [] if "--public-index" in more else ["--public-index", self.public]
        (built,) = self.own.glob(f"{wheel}.whl")
        return self.rocwheel.run("audit", built, *words, expect=expect, environment={"PATH": path} if path else HERE)


@pytest.fixture
def audited(case: Case) -> Audited:
    return Audited(case.rocwheel, case.own, case.public)


@pytest.mark.parametrize(("make", "wheel", "answer", "words"), [
    (made.strangers, "torch-2*", "no", "`rocm-99.0-py3-none-any.whl` of the public index, which may be anybody's, wins"),
    (made.closed_strangers, "torch-2*", "no", f"`rocm-7.1.0-99-{LINUX}.whl` of the public index"),
    (higher_post, "mine*", "no", "`mine-1.0.post1-py3-none-any.whl` of the public index wins"),
    (higher_build, "mine-1.0-py3*", "no", "`mine-1.0-9-py3-none-any.whl` of the index wins"),
    (cuda_wins, "mine*", "no", "`torch` would come from the public index, as a build for CUDA"),
    (needs_cuda, "mine*", "no", "a requirement would come from the public index, as a build for CUDA"),
    (made.no_parts, "torch*", "no", "amd-torch-device-gfx1100"),
    (made.registered_part, "torch*", "no", "`amd-torch-device-gfx1100` is not in the index"),
    (nobody_has, "mine*", "no", "nobody-has-this"),
    (made.needs_filelock, "torch*", "yes", "`pip install 'torch[device-gfx942]' 'rocm[device-gfx942]'` brings torch 2.9.1"),
    (a_newer_one, "torch-2.9*", "yes", "`pip install 'torch[device-gfx942]==2.9.1+rocm7.1.0'"),
    (source, "mine*", "yes", "`uv pip install mine` brings mine 1.0, rocm-demo 1.0; whether it loads was not looked at"),
    (made.windows, "torch*", "yes", "on Windows, Python 3.12, `pip install torch` brings"),
], ids=lambda one: one.__name__ if callable(one) else "")  # fmt: skip
def test_what_installers_bring(
    audited: Audited, make: Callable[[Path, Path], None], wheel: str, answer: str, words: str, tmp_path: Path
) -> None:
    audited.make(make)
    expect = 0 if answer == "yes" and make is not made.windows else 1
    said = json.loads(audited.audit(wheel, "--json", expect=expect).stdout)
    check = said["install_check"]
    assert {cell["answer"] for cell in check["cells"]} == {answer} and len(check["left_out"]) > 2, check
    assert ("RW037" in {finding["code"] for finding in said["findings"]}) == (answer == "no")
    audited.audit(wheel, expect=expect).prints(f"\n{answer}: on ", words)
    cell = check["cells"][0]
    if make in (made.windows, higher_build, source) or (cell["command"].startswith("uv") and answer == "no"):
        return
    # The same by hand.
    own, public = (f"{folder.as_uri()}/simple/" for folder in (audited.own, audited.public))
    by_uv = f"uv {cell['command']} --index {own} --default-index {public} --index-strategy first-index"
    commands = {"pip": f"{cell['command']} --index-url {own} --extra-index-url {public}", "uv": by_uv}
    for installer in commands if answer == "yes" else ["pip"]:
        (tmp_path / installer).mkdir()
        found = install(commands[installer], installer, "", f"{audited.public.as_uri()}/", tmp_path / installer)
        names = {name.lower() for name in installed(found) if not name.startswith("pip-")}
        foreign = [path for path in found.glob("*/METADATA") if STRANGER in path.read_text()]
        if answer == "yes":
            assert names == {f"{member['name']}-{member['version']}" for member in cell["brings"]} and not foreign
        else:
            assert foreign or any(name.startswith("nvidia-") for name in names), names


def test_it_loads_only_where_the_loader_was_asked(audited: Audited, tmp_path: Path) -> None:
    """Of a wheel that is not in the index yet, beside others of its name that are."""
    audited.make(made.needs_filelock)
    write(audited.own, "mine", "1.0", "filelock", tag="py3-none-any")
    with_public = ("--with", audited.public)
    told = f"on RHEL 8 and Ubuntu 25.10, Python {OWN}, `pip install mine` brings mine 1.0, filelock 3.20"
    for more, loads in [
        ((), "; whether it loads was not looked at"),
        ((*with_public, "--python", OWN), ", and it loads"),
        (("--python", OWN, "--with", tmp_path), "; whether it loads was not looked at"),
    ]:
        text = audited.audit("mine*", *more, *(() if "--python" in more else ("--python", OWN))).stdout
        assert f"yes: {told}{loads}\n" in text, text
    assert "warning RW038 public-name" in text and "`mine` is free on the public index" in text
    log = tmp_path / "audit.sarif"
    audited.audit("mine*", "--public-index", "no", "--sarif", log, expect=1)
    rules = [result["ruleId"] for result in json.loads(log.read_text())["runs"][0]["results"]]
    assert "RW037" in rules and "RW038" not in rules


@pytest.mark.parametrize(("handler", "expect", "words"), [
    (Login, 1, "as the page of a login has"), (Forbidden, 1, "the server answers 403"), (404, 1, "rocm-sdk-core"),
    (403, 1, "the server answers 403 for `rocm-sdk-core`"), (500, 3, "it is not known whether"),
], ids=str)  # fmt: skip
def test_an_index_that_does_not_answer(audited: Audited, handler: object, expect: int, words: str) -> None:
    audited.make(made.needs_filelock)

    class Refusing(Answers):
        def do_GET(self) -> None:
            if "/simple/rocm-sdk-core/" in self.path:
                self.send_error(handler)
            else:
                super().do_GET()

    with served(audited.own, Refusing if isinstance(handler, int) else handler) as address:
        (wheel,) = audited.own.glob("torch*.whl")
        words_of = ("--install-check", f"{address}/simple/", "--public-index", audited.public)
        said = audited.rocwheel.run("audit", wheel, *words_of, expect=expect, environment=HERE)
    assert words in said.stdout + said.stderr, said
    assert ("error RW037" in said.stdout) == (handler in (403, 404))


def test_one_installer_or_none(audited: Audited, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    audited.make(source)
    (programs / "python3").symlink_to(sys.executable)
    said = audited.audit("mine*", expect=3, path=str(programs)).stdout
    assert "a source distribution, only for its own Python" in said and "install uv" in said
    (programs / "python3").unlink()
    refused = audited.audit("mine*", expect=2, path=str(programs))
    assert "neither uv nor pip is there" in refused.stderr and refused.stdout == ""
    (programs / "uv").symlink_to(UV)
    (programs / "python").symlink_to(sys.executable)
    audited.audit("mine*", path=str(programs)).prints("yes: ", "left out: what pip takes, which is not there")


def rules(store: Path, text: str) -> None:
    path = store / "nightly/.release/stream.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"outside = ['numpy', 'filelock']\n[install-check]\n{text}\n")


def test_a_stream_takes_what_installers_bring(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, public = tmp_path / "store", tmp_path / "public"
    write(public, "filelock", "3.20", tag="py3-none-any")
    rocwheel.run("index", "build", public)
    index = f"public-index = '{public}'"
    rules(store, index)
    first = publish(rocwheel, rocm(tmp_path / "rocm", "7.2.0"), store, environment=HERE)
    assert "pip or uv brings the set on 8 combinations" in first.stderr and "4 names are free" in first.stderr
    torch = tmp_path / "torch"
    write(torch, "torch", "2.9.1+rocm7.2.0", "rocm==7.2.0", "filelock", tag=COMPILED)
    write(torch, "mine", "1.0", "torch==2.9.1+rocm7.2.0", "numpy", tag="py3-none-any")
    before = sorted(store.rglob("*"))
    for more in ((), ("--dry-run",)):
        refused = publish(rocwheel, torch, store, "--set", "torch", *more, expect=1, environment=HERE).stderr
        assert "installers do not bring `torch`\n  on RHEL 8 and Ubuntu 25.10" in refused and "numpy" in refused
        assert sorted(store.rglob("*")) == before
    (torch / "mine-1.0-py3-none-any.whl").unlink()
    publish(rocwheel, torch, store, "--set", "torch", environment=HERE)
    (tmp_path / "by-hand").mkdir()
    command = f"pip install torch --index-url {store.as_uri()}/nightly/ --extra-index-url {public.as_uri()}/simple/"
    found = installed(install(command, "pip", "", f"{public.as_uri()}/", tmp_path / "by-hand"))
    assert {"torch-2.9.1+rocm7.2.0", "rocm-7.2.0", "filelock-3.20"} <= found
    # Somebody registers a name of the set, which the stream has and the new files do not.
    write_wheel(public, "rocm-sdk-core", "7.2.0", "1-py3-none-any", STRANGER)
    rocwheel.run("index", "build", public)
    other = tmp_path / "other"
    write_wheel(other, "other", "1.0", "py3-none-any", *requires("rocm==7.2.0"))
    for rule, expect in (("blocked", 1), ("recorded", 0)):
        rules(store, f"{index}\nunresolved = '{rule}'")
        said = publish(rocwheel, other, store, "--set", "other", "--dry-run", expect=expect, environment=HERE).stderr
        assert "`rocm_sdk_core-7.2.0-1-py3-none-any.whl` of the public index, which may be anybody's, wins" in said
    nowhere = {"PATH": str(tmp_path)}
    said = publish(rocwheel, other, store, "--set", "other", "--dry-run", environment=nowhere).stderr
    assert "warning: whether installers bring the set was not looked at: neither uv nor pip is there" in said
    rules(store, index)
    said = publish(rocwheel, other, store, "--set", "other", "--dry-run", expect=2, environment=nowhere).stderr
    assert "the rules of the stream demand `[install-check]`" in said and "neither uv nor pip" in said
