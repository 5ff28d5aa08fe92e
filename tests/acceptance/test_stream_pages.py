"""Pages of a stream beside those of projects: the page for people in Chromium, and views by Python
and GPU target, which pip, uv and pypi-simple read."""

import os
import random
import re
import shutil
import signal
import time
from pathlib import Path

import pypi_simple
from browser import Browser
from serving import served
from test_chooser import OWN, OWN_TAG, clean_environment, fragment, installed, shell_words, write_release, write_wheel
from test_index import assert_every_link_is_true, pip, uv
from test_release_publish import change

from command import Rocwheel, run
from trees import differences, put, snapshot

NOW = "2026-11-20T01:02:03Z"
LATER = "2026-11-21T01:02:03Z"
VIEWS = 'views = ["python", "target"]\n'
CHOICE = {"package": "torch", "gpu": "gfx1100", "python": OWN, "system": "linux-x86_64"}


def publish(rocwheel: Rocwheel, dist: Path, store: Path, *words: object, **options):
    """Without an audit: these wheels have no binaries."""
    words = ("--to", store, "--stream", "nightly", "--allow", "holes", *words)
    return rocwheel.run("release", "publish", dist, *words, **options)


def write_linux_release(folder: Path, rocm: str, torch: str) -> None:
    """The whole release for Linux: a stream refuses torch for a system without its ROCm."""
    write_release(folder, rocm, torch)
    for wheel in folder.glob("*win_amd64.whl"):
        wheel.unlink()


def with_views(store: Path) -> Path:
    settings = store / "nightly/.release/stream.toml"
    put(settings, VIEWS)
    return store / "nightly"


def text(browser: Browser, name: str) -> str:
    return browser.run("return document.getElementById(arguments[0]).innerText", name)


def test_people_choose_from_a_stream(rocwheel: Rocwheel, browser: Browser, tmp_path: Path) -> None:
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    write_linux_release(tmp_path / "one", "7.1.0", "2.9.1")
    publish(rocwheel, tmp_path / "one", store, "--now", NOW)
    page = f"{stream.as_uri()}/chooser.html"
    assert '<form action="chooser.html">' in (stream / "index.html").read_text()
    browser.open(page + fragment(**CHOICE))
    assert "torch[device-gfx1100]==2.9.1+rocm7.1.0" in text(browser, "code")
    assert browser.run("return document.getElementById('changes').hidden"), "the first publication changes nothing"
    write_linux_release(tmp_path / "two", "7.2.0", "2.10.0")
    publish(rocwheel, tmp_path / "two", store, "--now", LATER)
    for installer in ("pip", "uv"):
        browser.open(page + fragment(**CHOICE, installer=installer))
        command = shell_words(text(browser, "code"))
        assert "torch[device-gfx1100]==2.10.0+rocm7.2.0" in command
        target = tmp_path / installer
        command += ["--target", str(target)] if installer == "uv" else []
        run(*command, environment=clean_environment(PIP_TARGET=str(target)))
        assert "amd-torch-device-gfx1100-2.10.0+rocm7.2.0" in installed(target)
    shown = text(browser, "changes")
    assert shown.startswith("Since 2026-11-20 (publication 1)") and "torch 2.10.0+rocm7.2.0" in shown
    change(rocwheel, "yank", store, "rocm-sdk-core==7.2.0", "--reason", "loses data <b>", "--now", LATER)
    browser.open(page + fragment(**CHOICE))
    assert "2.9.1+rocm7.1.0" in text(browser, "code"), "withdrawn versions are not offered"
    assert "loses data" not in text(browser, "code") and "rocm-sdk-core 7.2.0" in text(browser, "changes")
    assert [line for line in browser.console() if "favicon" not in line] == []
    # What is kept is only a memory.
    before = (stream / "chooser.html").read_bytes()
    (stream / ".release/chooser.json").write_text("{}")
    change(rocwheel, "rollback", store, "--to", "1", "--now", LATER)
    assert (stream / "chooser.html").read_bytes() != before
    browser.open(page + fragment(**CHOICE))
    assert "2.9.1+rocm7.1.0" in text(browser, "code")


def test_views_of_a_stream(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = tmp_path / "store"
    stream = with_views(store)
    write_linux_release(tmp_path / "one", "7.1.0", "2.9.1")
    publish(rocwheel, tmp_path / "one", store, "--now", NOW)
    assert_every_link_is_true(stream)
    assert {path.name for path in (stream / "by_target").iterdir()} == {"gfx942", "gfx1100"}
    assert not (stream / "by_target/gfx942/amd-torch-device-gfx1100").exists()
    names = {path.name for path in (stream / "by_python" / OWN_TAG / "torch").iterdir()}
    assert names == {"index.html", "index.v1_html", "index.v1_json"}
    with served(stream) as address:
        view = f"{address}/by_python/{OWN_TAG}/"
        pip("install", "--quiet", "--index-url", view, "--target", tmp_path / "pip", "torch[device-gfx942]")
        view = f"{address}/by_target/gfx942/"
        uv("pip", "install", "--default-index", view, "--target", tmp_path / "uv", "torch[device-gfx942]")
        for folder in ("pip", "uv"):
            assert "amd-torch-device-gfx942-2.9.1+rocm7.1.0" in installed(tmp_path / folder)
        with pypi_simple.PyPISimple(view, accept=pypi_simple.ACCEPT_HTML_ONLY) as client:
            assert set(client.get_index_page().projects) >= {"torch", "rocm", "amd-torch-device-gfx942"}
            packages = client.get_project_page("torch").packages
            assert all(package.url.startswith(f"{address}/torch/") for package in packages)
    # A Python that is new has the packages for every Python too.
    tag = "cp39-cp39-manylinux_2_28_x86_64"
    write_wheel(tmp_path / "two", "torchaudio", "1.0+rocm7.1.0", tag, "Requires-Dist: rocm==7.1.0")
    publish(rocwheel, tmp_path / "two", store, "--now", LATER)
    assert (stream / "by_python/cp39/rocm/index.html").exists() and assert_every_link_is_true(stream)
    change(rocwheel, "rollback", store, "--to", "1", "--now", LATER)
    assert not (stream / "by_python/cp39/torchaudio").exists()
    assert not (stream / "by_python/cp39/index.html").exists()
    assert_every_link_is_true(stream)
    rocwheel.run("release", "verify", stream)
    page, first = stream / "by_target/gfx942/torch/index.v1_json", stream / f"by_python/{OWN_TAG}/index.html"
    page.write_text(page.read_text().replace("../../../torch/", "../../torch/"))
    first.write_text(first.read_text().replace('<a href="torch/">torch</a>', ""))
    (stream / "by_target/gfx1100/rocm/index.html").unlink()
    said = rocwheel.run("release", "verify", stream, expect=1)
    for problem in (
        "`by_target/gfx942/torch/index.v1_json` does not list what the snapshot does",
        f"`by_python/{OWN_TAG}/index.html` does not list the projects of the snapshot",
        "`by_target/gfx1100/rocm/index.html` is missing",
    ):
        assert problem in said.stdout + said.stderr, said


def test_pages_that_the_snapshot_does_not_have_are_problems(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = tmp_path / "store"
    stream = with_views(store)
    write_linux_release(tmp_path / "one", "7.1.0", "2.9.1")
    publish(rocwheel, tmp_path / "one", store, "--now", NOW)
    verified = rocwheel.json("release", "verify", stream)
    assert verified["problems"] == [] and verified["unverified"] == ["chooser.html"]
    assert "`chooser.html` was not verified" in rocwheel.run("release", "verify", stream).stderr
    wheel = write_wheel(tmp_path / "evil/evil", "evil", "1.0", "py3-none-any")
    rocwheel.run("index", "build", tmp_path / "evil", "--layout", "structured")
    for folder in (stream, stream / "by_target/gfx942"):
        shutil.copytree(tmp_path / "evil/evil", folder / "evil")
    # Neither is what a killed publication leaves on any page, nor are notes of a person.
    shutil.copy(wheel, stream / "rocm")
    (stream / "evil/README").write_text("notes\n")
    said = rocwheel.run("release", "verify", stream, expect=1)
    names = ("index.html", "index.v1_html", "index.v1_json", wheel.name)
    problems = {f"`{folder}evil/{name}` is not listed" for folder in ("", "by_target/gfx942/") for name in names}
    assert set(said.stdout.splitlines()) == problems


def test_views_go_with_their_rule(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = tmp_path / "store"
    stream = with_views(store)
    write_linux_release(tmp_path / "one", "7.1.0", "2.9.1")
    publish(rocwheel, tmp_path / "one", store, "--now", NOW)
    (stream / ".release/stream.toml").write_text('views = ["target"]\n')
    write_wheel(tmp_path / "two", "other", "1.0", "py3-none-any")
    publish(rocwheel, tmp_path / "two", store, "--now", LATER)
    assert not (stream / "by_python").exists() and (stream / "by_target/gfx942/torch/index.html").exists()
    assert (stream / "by_target/gfx942/other/index.html").exists()
    (stream / ".release/stream.toml").write_text(VIEWS)
    write_wheel(tmp_path / "three", "third", "1.0", "py3-none-any")
    publish(rocwheel, tmp_path / "three", store, "--now", LATER)
    assert (stream / f"by_python/{OWN_TAG}/torch/index.html").exists()
    assert_every_link_is_true(stream)
    (stream / ".release/stream.toml").write_text("")
    change(rocwheel, "yank", store, "third==1.0", "--reason", "x", "--now", LATER)
    assert not (stream / "by_python").exists() and not (stream / "by_target").exists()
    assert_every_link_is_true(stream)


def test_a_stream_from_before_gets_the_button(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """An older version of rocwheel has written the first page, and no page for people."""
    store, stream = tmp_path / "store", tmp_path / "store/nightly"
    write_wheel(tmp_path / "one", "demo", "1.0", "py3-none-any")
    publish(rocwheel, tmp_path / "one", store, "--now", NOW)
    button = '<form action="chooser.html"><button>'
    for page in stream.glob("index.*html"):
        text = page.read_text()
        assert button in text
        page.write_text(re.sub("<form.*</form>\n", "", text))
    for old in ("chooser.html", ".release/chooser.json"):
        (stream / old).unlink()
    write_wheel(tmp_path / "two", "demo", "2.0", "py3-none-any")
    publish(rocwheel, tmp_path / "two", store, "--now", LATER)
    for page in stream.glob("index.*html"):
        assert button in page.read_text()
    rocwheel.run("release", "verify", stream)


def test_views_and_the_page_survive_kills(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, clean = tmp_path / "store", tmp_path / "clean"
    for place in (store, clean):
        with_views(place)
    write_linux_release(tmp_path / "one", "7.1.0", "2.9.1")
    write_linux_release(tmp_path / "two", "7.2.0", "2.10.0")
    for place in (store, clean):
        publish(rocwheel, tmp_path / "one", place, "--now", NOW)
    began = time.monotonic()
    publish(rocwheel, tmp_path / "two", clean, "--now", LATER)
    takes = time.monotonic() - began
    chosen = random.Random(20261123)
    for _ in range(10):
        words = ("--to", store, "--stream", "nightly", "--allow", "holes", "--now", LATER)
        process = rocwheel.start("release", "publish", tmp_path / "two", *words)
        time.sleep(chosen.uniform(0, takes))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert_every_link_is_true(store / "nightly")
    publish(rocwheel, tmp_path / "two", store, "--now", LATER)

    def pages(place: Path) -> dict:
        return {name: text for name, text in snapshot(place).items() if ".release" not in os.fspath(name)}

    left = {name: text for name, text in pages(store).items() if ".rocwheel" not in os.fspath(name)}
    assert differences(pages(clean), left) == []
