"""`rocwheel release upload --repository-url`: twine and uv put packages on pypiserver and devpi,
and pip installs them from there."""

import base64
import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from serving import daemon, free_port
from test_index import pip
from test_release_publish import rocm

from command import Rocwheel, run, with_uv
from small_index import write_wheel

USER, PASSWORD = "uploader", "never/to be:shown"
QUOTED = "never%2Fto%20be%3Ashown"
PROGRAMS = ("twine", "uv")


@dataclass(frozen=True)
class Host:
    """Where packages go, and the index that they are then in."""

    repository: str
    index: str

    def with_credentials(self) -> str:
        return self.repository.replace("http://", f"http://{USER}:{QUOTED}@")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hosts") / "venv"
    uv = Path(sys.executable).parent / "uv"
    run(uv, "venv", "--quiet", "--python", sys.executable, folder)
    packages = ("pypiserver==2.4.2", "passlib==1.7.4", "devpi-server==6.20.3", "setuptools<81")
    run(uv, "pip", "install", "--quiet", "--python", folder / "bin/python", *packages)
    return folder / "bin"


@pytest.fixture
def pypiserver(tools: Path, tmp_path: Path) -> Iterator[Host]:
    folder, port = tmp_path / "pypiserver", free_port()
    (folder / "packages").mkdir(parents=True)
    hashed = run("openssl", "passwd", "-apr1", PASSWORD).stdout.strip()
    (folder / "passwords").write_text(f"{USER}:{hashed}\n")
    words = ["run", "-i", "127.0.0.1", "-p", port, "-P", folder / "passwords", "-a", "update", "--disable-fallback"]
    with daemon([tools / "pypi-server", *words, folder / "packages"], port, folder / "log", cwd=folder):
        yield Host(f"http://127.0.0.1:{port}/", f"http://127.0.0.1:{port}/simple/")


def ask(method: str, address: str, body: dict, token: str | None = None) -> dict:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token:
        headers["X-Devpi-Auth"] = base64.b64encode(f"{USER}:{token}".encode()).decode()
    request = urllib.request.Request(address, json.dumps(body).encode(), headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.fixture
def devpi(tools: Path, tmp_path: Path) -> Iterator[Host]:
    folder, port = tmp_path / "devpi", free_port()
    folder.mkdir()
    run(tools / "devpi-init", "--serverdir", folder / "state", "--no-root-pypi")
    words = ["--serverdir", folder / "state", "--host", "127.0.0.1", "--port", port]
    top = f"http://127.0.0.1:{port}"
    with daemon([tools / "devpi-server", *words], port, folder / "log", cwd=folder):
        ask("PUT", f"{top}/{USER}", {"password": PASSWORD})
        token = ask("POST", f"{top}/+login", {"user": USER, "password": PASSWORD})["result"]["password"]
        ask("PUT", f"{top}/{USER}/dev", {"type": "stage", "bases": [], "volatile": False}, token)
        yield Host(f"{top}/{USER}/dev/", f"{top}/{USER}/dev/+simple/")


@pytest.fixture(params=["pypiserver", "devpi"])
def host(request: pytest.FixtureRequest) -> Host:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_set_is_uploaded_and_installed(rocwheel: Rocwheel, tmp_path: Path, host: Host, program: str) -> None:
    dist = rocm(tmp_path / "dist", "7.2.0")
    words = ("release", "upload", dist, "--repository-url", host.with_credentials(), "--with", program)
    dry = rocwheel.run(*words, "--dry-run", "--json", "-vv", environment=with_uv())
    order = [row["project"] for row in json.loads(dry.stdout)["projects"]]
    assert order[0] == "rocm-sdk-core" and order[-1] == "rocm" and len(order) == 4
    said = rocwheel.run(*words, "-vv", environment=with_uv()).says("4 files uploaded to http://127.0.0.1")
    target = tmp_path / "target"
    pip("install", "--quiet", "--index-url", host.index, "--target", target, "rocm[device-gfx942]==7.2.0")
    assert (target / "rocm_sdk_device_gfx942.py").exists()
    index = host.index.replace("http://", f"http://{USER}:{QUOTED}@")
    repeated = rocwheel.run(*words, "--check-url", index, "-vv", environment=with_uv())
    assert "4 files are at http://127.0.0.1" in repeated.stderr and "0 files uploaded" in repeated.stderr
    write_wheel(dist, "rocm_sdk_core", "7.2.0", "Summary: other bytes")
    refused = rocwheel.run(*words, "--check-url", index, "-vv", expect=1, environment=with_uv())
    assert "other contents of 1 file" in refused.stderr and "rocm_sdk_core-7.2.0-py3-none-any.whl" in refused.stderr
    for result in (dry, said, repeated, refused):
        assert PASSWORD not in result.stdout + result.stderr and QUOTED not in result.stdout + result.stderr


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_refused_upload_is_an_error_without_the_password(
    rocwheel: Rocwheel, tmp_path: Path, pypiserver: Host, program: str
) -> None:
    dist = rocm(tmp_path / "dist", "7.2.0")
    words = ("release", "upload", dist, "--repository-url", pypiserver.repository, "--with", program, "-vv")
    names = {"twine": ("TWINE_USERNAME", "TWINE_PASSWORD"), "uv": ("UV_PUBLISH_USERNAME", "UV_PUBLISH_PASSWORD")}
    user, password = names[program]
    wrong = {**with_uv(), user: USER, password: "another secret"}
    said = rocwheel.run(*words, expect=1, environment=wrong).says("did not take `rocm-sdk-core`, after 0 projects")
    assert "another secret" not in said.stdout + said.stderr
    assert not list((tmp_path / "pypiserver/packages").iterdir())
    rocwheel.run(*words, environment={**with_uv(), user: USER, password: PASSWORD})
    # An address of another host, and what is no address, have no password in their messages.
    nowhere = f"http://{USER}:{QUOTED}@127.0.0.1:{free_port()}/"
    for address, code in ((nowhere, 1), (f"ftp://{USER}:{QUOTED}@host/", 2), (QUOTED, 2)):
        options = ("--repository-url", address, "--with", program, "-vv")
        said = rocwheel.run(*words[:3], *options, expect=code, environment=with_uv())
        assert PASSWORD not in said.stderr and QUOTED not in said.stderr


def test_without_a_program_there_is_a_hint(rocwheel: Rocwheel, tmp_path: Path) -> None:
    dist = rocm(tmp_path / "dist", "7.2.0")
    nothing = {"PATH": os.fspath(tmp_path)}
    words = ("release", "upload", dist, "--repository-url", "http://127.0.0.1:1/")
    rocwheel.run(*words, expect=2, environment=nothing).says("there is no uv and no twine", "pip install uv")
