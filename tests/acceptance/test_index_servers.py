"""An index of `rocwheel index build` behind real servers, read by real installers."""

import gzip
import hashlib
import http.client
import json
import os
import re
import sys
import urllib.parse
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pypi_simple
import pytest

from command import UV, Result, Rocwheel, download, run
from small_index import BETWEEN, Servers, write_index, write_wheel

JSON, HTML = "application/vnd.pypi.simple.v1+json", "application/vnd.pypi.simple.v1+html"
PLAIN_HTML = "text/html; charset=utf-8"
# What pip 26 and uv 0.13 send.
PIP, UV_ACCEPT = f"{JSON}, {HTML}; q=0.1, text/html; q=0.01", f"{JSON}, {HTML};q=0.2, text/html;q=0.01"
FOREVER = "public, max-age=31536000, immutable"
OLD_RELEASE = {"torch": "2.9.1+rocm7.1", "rocm": "7.1.0", "rocm-sdk-core": "7.1.0"}
NEW_RELEASE = {"torch": "2.10.0+rocm7.2", "rocm": "7.2.0", "rocm-sdk-core": "7.2.0"}
# What the function for CloudFront should answer, and the servers do.
NEGOTIATION = [
    (PIP, "index.v1_json", JSON),
    (UV_ACCEPT, "index.v1_json", JSON),
    ("Application/Vnd.PyPI.Simple.Latest+JSON", "index.v1_json", JSON),
    (f"{HTML}, text/html;q=0.5", "index.v1_html", HTML),
    ("text/html", "index.html", PLAIN_HTML),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "index.html", PLAIN_HTML),
    ("application/json", "index.html", PLAIN_HTML),
    (None, "index.html", PLAIN_HTML),
]


# Settings of this machine for pip and uv do not count here.
OUR_SETTINGS = {name: "" for name in os.environ if re.match("(PIP|UV)_", name)}


def pip(command: str, *arguments: object, expect: int = 0, environment: dict[str, str] | None = None) -> Result:
    options = ("--isolated", "--no-cache-dir", "--disable-pip-version-check")
    return run(sys.executable, "-m", "pip", command, *options, *arguments, expect=expect, environment=environment)


@dataclass(frozen=True)
class Hosts:
    flat: Path
    structured: Path
    # `nginx flat` and so on, each ending in `/`.
    addresses: dict[str, str]
    servers: Servers

    def index(self, kind: str, layout: str = "flat") -> str:
        return self.addresses[f"{kind} {layout}"] + ("simple/" if layout == "flat" else "")

    def old_pip(self, command: str, *arguments: object) -> None:
        pip(command, *arguments, environment={"PYTHONPATH": str(self.servers.scratch / "pip")})

    def uv(self, command: str, *arguments: object, expect: int = 0) -> Result:
        options = ("--no-config", "--cache-dir", self.servers.scratch / "uv", "--python", sys.executable)
        return run(UV, "pip", command, *options, *arguments, expect=expect, environment=OUR_SETTINGS)


@pytest.fixture(scope="module")
def hosts(rocwheel: Rocwheel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    scratch = tmp_path_factory.mktemp("servers")
    roots = {"flat": scratch / "a flat index", "structured": scratch / "structured"}
    download(scratch, "pip==23.2.1")
    with zipfile.ZipFile(scratch / "pip-23.2.1-py3-none-any.whl") as wheel:
        wheel.extractall(scratch / "pip")
    with Servers(rocwheel, scratch) as servers:
        addresses = {}
        for layout, root in roots.items():
            write_index(rocwheel, root, layout)
            for kind in ("nginx", "caddy", "apache", "plain", "file"):
                addresses[f"{kind} {layout}"] = servers.start(kind, root)
        yield Hosts(**roots, addresses=addresses, servers=servers)


def installed(target: Path) -> dict[str, str]:
    """Names and versions of what is installed in a folder."""
    found = [re.fullmatch(r"(.+)-([^-]+)\.dist-info", folder.name) for folder in target.glob("*.dist-info")]
    return {match[1].replace("_", "-"): match[2] for match in found}


def locked(text: str) -> dict[str, tuple[str, set[str]]]:
    """Version and hashes of each requirement of a lock file."""
    found = re.findall(r"^([\w-]+)==(\S+)((?: \\\n +--hash=sha256:\w+)+)", text, re.M)
    return {name: (version, set(re.findall(r"sha256:(\w+)", hashes))) for name, version, hashes in found}


def hashes_of(root: Path, release: dict[str, str]) -> dict[str, tuple[str, set[str]]]:
    def digest(name: str, version: str) -> str:
        (wheel,) = root.rglob(f"{name.replace('-', '_')}-{version}-*.whl")
        return hashlib.sha256(wheel.read_bytes()).hexdigest()

    return {name: (version, {digest(name, version)}) for name, version in release.items()}


KINDS = pytest.mark.parametrize("kind", ["nginx", "caddy", "apache", "plain", "file"])
SERVERS = pytest.mark.parametrize("kind", ["nginx", "caddy", "apache"])


@KINDS
def test_a_release_is_installed_by_hash(hosts: Hosts, kind: str, tmp_path: Path) -> None:
    source = ("--index-url", hosts.index(kind))
    requirement = tmp_path / "requirement.txt"
    requirement.write_text("torch\n")
    lock = tmp_path / "lock.txt"
    hosts.uv("compile", "--quiet", "--generate-hashes", *source, requirement, "--output-file", lock)
    assert locked(lock.read_text()) == hashes_of(hosts.flat, NEW_RELEASE)
    # On a page in HTML, uv finds the times in `data-upload-time`.
    older = hosts.uv("compile", "--generate-hashes", *source, requirement, "--exclude-newer", BETWEEN)
    assert locked(older.stdout) == hashes_of(hosts.flat, OLD_RELEASE)

    by_hash = (*source, "--require-hashes", "--requirement", lock)
    hosts.uv("install", *by_hash, "--target", tmp_path / "uv")
    hosts.old_pip("install", *by_hash, "--target", tmp_path / "old", "--no-compile")
    assert installed(tmp_path / "uv") == installed(tmp_path / "old") == NEW_RELEASE
    pip("download", *by_hash, "--dest", tmp_path / "files")
    files = list((tmp_path / "files").iterdir())
    assert len(files) == 3 and all(file.read_bytes() == (hosts.flat / file.name).read_bytes() for file in files)


@KINDS
def test_a_release_is_installed_by_name(hosts: Hosts, kind: str, tmp_path: Path) -> None:
    source = ("--index-url", hosts.index(kind, "structured"))
    pip("install", *source, "--target", tmp_path / "pip", "--no-compile", "torch")
    hosts.uv("install", *source, "--target", tmp_path / "uv", "torch")
    assert installed(tmp_path / "pip") == installed(tmp_path / "uv") == NEW_RELEASE
    hosts.old_pip("download", *source, "--dest", tmp_path / "files", "torch")
    assert len(list((tmp_path / "files").iterdir())) == 3


def test_debians_pip_takes_a_name_in_any_spelling(rocwheel: Rocwheel, tmp_path: Path) -> None:
    """pip 22.3 to 23.1 compare the Name in METADATA of `data-dist-info-metadata` with the name that
    was typed, letter by letter."""
    download(tmp_path, "pip==23.0.1")
    with zipfile.ZipFile(tmp_path / "pip-23.0.1-py3-none-any.whl") as wheel:
        wheel.extractall(tmp_path / "old")
    write_wheel(tmp_path / "dist", "Foo_Bar", "1.0")
    rocwheel.run("index", "build", tmp_path / "dist")
    words = ("--index-url", (tmp_path / "dist/simple").as_uri() + "/", "--target", tmp_path / "target", "foo.bar")
    pip("install", *words, environment={"PYTHONPATH": str(tmp_path / "old")})
    assert (tmp_path / "target/Foo_Bar.py").exists()


def test_a_source_distribution_is_built(hosts: Hosts, tmp_path: Path) -> None:
    pip("install", "--index-url", hosts.index("nginx"), "--target", tmp_path / "pip", "rocm-demo")
    hosts.uv("install", "--index-url", hosts.index("caddy"), "--target", tmp_path / "uv", "rocm-demo")
    assert installed(tmp_path / "pip") == installed(tmp_path / "uv") == {"rocm-demo": "1.0"}


@SERVERS
def test_the_page_for_find_links(hosts: Hosts, kind: str, tmp_path: Path) -> None:
    """pip asks for it as for any page, so the server must not insist on a form in JSON."""
    source = ("--no-index", "--find-links", hosts.addresses[f"{kind} flat"])
    pip("download", *source, "--dest", tmp_path, "--no-deps", "torch")
    hosts.uv("install", *source, "--target", tmp_path / "uv", "torch")
    assert (tmp_path / "torch-2.10.0+rocm7.2-py3-none-any.whl").is_file()
    assert installed(tmp_path / "uv") == NEW_RELEASE


def test_pip_knows_upload_times_from_json(hosts: Hosts, tmp_path: Path) -> None:
    arguments = ("--dest", tmp_path, "--no-deps", "--uploaded-prior-to", BETWEEN, "torch")
    for kind in ("nginx", "caddy", "apache"):
        pip("download", "--index-url", hosts.index(kind), *arguments)
        (wheel,) = tmp_path.iterdir()
        assert wheel.name == "torch-2.9.1+rocm7.1-py3-none-any.whl"
        wheel.unlink()
    refused = pip("download", "--index-url", hosts.index("plain"), *arguments, expect=1)
    assert "upload" in refused.stderr and "PEP 700" in refused.stderr or "upload-time" in refused.stderr


def ask(address: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    """What a server answers, redirects as they are."""
    parts = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
    method = headers.pop("method", "GET")
    connection.request(method, parts.path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def vary(answer: http.client.HTTPResponse) -> set[str]:
    return {part.strip().lower() for line in answer.headers.get_all("Vary", []) for part in line.split(",")}


@SERVERS
def test_the_server_chooses_the_page(hosts: Hosts, kind: str) -> None:
    for page in ("simple", "simple/torch"):
        address = f"{hosts.addresses[f'{kind} flat']}{page}/"
        for accept, file, media_type in NEGOTIATION:
            answer, body = ask(address, **({"Accept": accept} if accept else {}))
            assert (answer.status, answer.headers["Content-Type"]) == (200, media_type), accept
            assert body == (hosts.flat / page / file).read_bytes()
            assert "accept" in vary(answer)
            assert answer.headers["Cache-Control"] == "no-cache"
    packed, body = ask(address, Accept=PIP, Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip" and vary(packed) >= {"accept", "accept-encoding"}
    assert gzip.decompress(body) == (hosts.flat / "simple/torch/index.v1_json").read_bytes()
    again, body = ask(address, Accept=PIP, If_None_Match=ask(address, Accept=PIP)[0].headers["ETag"])
    assert (again.status, body) == (304, b"") and again.headers["Cache-Control"] == "no-cache"
    moved, _ = ask(hosts.addresses[f"{kind} flat"] + "simple/torch")
    # Apache knows no other form than with a host.
    moved_host = urllib.parse.urlsplit(address).netloc
    assert (
        moved.status in (301, 308)
        and moved.headers["Location"].removeprefix(f"http://{moved_host}") == "/simple/torch/"
    )


@SERVERS
def test_files_are_kept_and_missing_ones_are_404(hosts: Hosts, kind: str) -> None:
    address = hosts.addresses[f"{kind} flat"]
    wheel = "torch-2.10.0+rocm7.2-py3-none-any.whl"
    content = (hosts.flat / wheel).read_bytes()
    quoted = urllib.parse.quote(wheel)
    assert "%2B" in quoted
    files = {
        quoted: "application/zip",
        f"{quoted}.metadata": "text/plain; charset=utf-8",
        "rocm_demo-1.0.tar.gz": "application/gzip",
    }
    for name, media_type in files.items():
        answer, body = ask(address + name, Accept_Encoding="gzip")
        assert answer.status == 200 and answer.headers["Content-Type"] == media_type
        assert answer.headers["Cache-Control"] == FOREVER
        assert "Content-Encoding" not in answer.headers
        assert body == (hosts.flat / urllib.parse.unquote(name)).read_bytes()
    part, body = ask(address + quoted, Range="bytes=-100")
    assert (part.status, body) == (206, content[-100:]) and part.headers["Cache-Control"] == FOREVER
    head, _ = ask(address + quoted, method="HEAD")
    assert (head.status, head.headers["Content-Length"]) == (200, str(len(content)))

    (hosts.flat / "without a page").mkdir(exist_ok=True)
    (record,) = (hosts.flat / ".rocwheel").rglob("torch.json")
    hidden = [".rocwheel", ".rocwheel/", str(record.relative_to(hosts.flat)), "%2Erocwheel/"]
    for name in ["simple/absent/", "absent.whl", "absent.whl.metadata", "without%20a%20page/", *hidden]:
        for accept in (PIP, "text/html"):
            answer, _ = ask(address + name, Accept=accept)
            assert (answer.status, answer.headers["Cache-Control"]) == (404, "no-cache"), name
    assert ask(address + quoted, method="DELETE")[0].status == 405 and (hosts.flat / wheel).is_file()


@SERVERS
def test_a_foreign_reader_finds_the_same_in_both_forms(hosts: Hosts, kind: str) -> None:
    def read(accept: str, project: str) -> list[dict]:
        with pypi_simple.PyPISimple(hosts.index(kind), accept=accept) as client:
            page = client.get_project_page(project)
            assert page.repository_version == "1.4"
            names = ("filename", "url", "project", "version", "package_type", "digests", "requires_python", "is_yanked")
            return [{name: getattr(one, name) for name in (*names, "metadata_digests")} for one in page.packages]

    forms = (pypi_simple.ACCEPT_JSON_ONLY, pypi_simple.ACCEPT_HTML_ONLY)
    for project in (*NEW_RELEASE, "rocm-demo"):
        json_form, html_form = (read(accept, project) for accept in forms)
        assert json_form == html_form and len(json_form) == {"torch": 3, "rocm-demo": 1}.get(project, 2)
    with pypi_simple.PyPISimple(hosts.index(kind)) as client:
        assert client.get_index_page().projects == ["rocm", "rocm-demo", "rocm-sdk-core", "torch"]
        newest = client.get_project_page("torch").packages[-1]
        assert (newest.version, newest.requires_python) == ("2.11.0+rocm7.2", ">=3.99")
        wheel = hosts.flat / newest.filename
        assert newest.size == wheel.stat().st_size and newest.upload_time.isoformat() == "2026-06-01T00:00:00+00:00"
        metadata = client.get_package_metadata_bytes(newest)
        assert metadata == wheel.with_name(f"{wheel.name}.metadata").read_bytes()


def test_a_wrong_type_hides_the_project(hosts: Hosts, tmp_path: Path) -> None:
    """The types of a server that knows nothing of package indexes."""
    wrong = hosts.servers.start("nginx", hosts.flat, (f"{JSON} v1_json", "application/json v1_json"))
    source = ("--index-url", f"{wrong}simple/")
    hosts.uv("install", *source, "--target", tmp_path / "uv", "torch", expect=1).says("application/json")
    missed = pip("download", *source, "--dest", tmp_path, "torch", expect=1)
    assert "application/json" in missed.stderr and "No matching distribution found for torch" in missed.stderr


def cloudfront(source: str, *events: dict) -> list[dict]:
    """What the function answers, run by node; names that CloudFront lacks are not used by it."""
    program = f"{source}\nprocess.stdout.write(JSON.stringify(JSON.parse(process.argv[1]).map(handler)));"
    return json.loads(run("node", "-e", program, json.dumps(events)).stdout)


def viewer_request(uri: str, *accept: str) -> dict:
    """An event as AWS documents it: header names in lower case, `multiValue` for repeated ones."""
    headers: dict = {"host": {"value": "d111111abcdef8.cloudfront.net"}}
    if accept:
        headers["accept"] = {"value": accept[0]}
    if len(accept) > 1:
        headers["accept"]["multiValue"] = [{"value": value} for value in accept]
    context = {
        "distributionDomainName": "d111111abcdef8.cloudfront.net",
        "distributionId": "EDFDVBD6EXAMPLE",
        "eventType": "viewer-request",
        "requestId": "EXAMPLEntjQpEXAMPLE_SG5Z-EXAMPLEPmPfEXAMPLEu3EqEXAMPLE==",
    }
    request = {"method": "GET", "uri": uri, "querystring": {}, "headers": headers, "cookies": {}}
    return {"version": "1.0", "context": context, "viewer": {"ip": "198.51.100.11"}, "request": request}


def test_the_function_for_cloudfront(rocwheel: Rocwheel, hosts: Hosts) -> None:
    source = rocwheel.run("index", "server", "cloudfront", "--root", hosts.flat).stdout
    asked = [viewer_request("/simple/torch/", *([accept] if accept else [])) for accept, _, _ in NEGOTIATION]
    answers = cloudfront(source, *asked)
    assert [one["uri"] for one in answers] == [f"/simple/torch/{file}" for _, file, _ in NEGOTIATION]
    # All else of the request is as it came.
    assert [{**one, "uri": "/simple/torch/"} for one in answers] == [event["request"] for event in asked]
    wheel = "/torch-2.10.0%2Brocm7.2-py3-none-any.whl"
    repeated, find_links, file, hidden, encoded, moved, other = cloudfront(
        source,
        viewer_request("/simple/", "text/html", JSON),
        viewer_request("/", PIP),
        viewer_request(wheel, "*/*"),
        viewer_request("/.rocwheel/index/torch.json"),
        viewer_request("/%2Erocwheel/"),
        viewer_request("/simple/torch"),
        viewer_request("//example.invalid"),
    )
    assert repeated["uri"] == "/simple/index.v1_json"
    assert find_links["uri"] == "/index.html" and file["uri"] == wheel and other["uri"] == "//example.invalid"
    assert hidden["statusCode"] == encoded["statusCode"] == 404
    assert (moved["statusCode"], moved["headers"]) == (301, {"location": {"value": "/simple/torch/"}})
    for uri, varies in (("/simple/torch/", True), ("/simple/torch/index.v1_json", True), (wheel, False)):
        event = viewer_request(uri, PIP)
        event["context"]["eventType"] = "viewer-response"
        event["response"] = {"statusCode": 200, "headers": {"etag": {"value": '"1"'}}, "cookies": {}}
        (answer,) = cloudfront(source, event)
        assert answer["headers"]["etag"] == {"value": '"1"'} and ("vary" in answer["headers"]) == varies


def test_the_function_knows_the_pages_in_html_only(rocwheel: Rocwheel, hosts: Hosts, tmp_path: Path) -> None:
    def pages(root: Path, *uris: str) -> list[str]:
        source = rocwheel.run("index", "server", "cloudfront", "--root", root).stdout
        return [answer["uri"] for answer in cloudfront(source, *(viewer_request(uri, PIP) for uri in uris))]

    assert pages(hosts.structured, "/", "/torch/") == ["/index.v1_json", "/torch/index.v1_json"]
    for family in ("gfx110X-all", "gfx94X-dcgpu"):
        write_wheel(tmp_path / family, "torch", "2.10.0+rocm7.2")
    rocwheel.run("index", "build", tmp_path, "--layout", "families")
    uris = ("/gfx94X-dcgpu/", "/gfx94X-dcgpu/simple/", "/gfx110X-all/", "/gfx110X-all/simple/torch/")
    files = ("index.html", "index.v1_json", "index.html", "index.v1_json")
    assert pages(tmp_path, *uris) == [uri + file for uri, file in zip(uris, files, strict=True)]


def test_what_cannot_be_served_is_refused(rocwheel: Rocwheel, hosts: Hosts, tmp_path: Path) -> None:
    rocwheel.run("index", "server", "nginx", "--root", tmp_path, expect=2).says(f"rocwheel index build {tmp_path}")
    odd = tmp_path / "costs $5"
    odd.symlink_to(hosts.flat)
    for kind in ("nginx", "caddy", "apache"):
        refused = rocwheel.run("index", "server", kind, "--root", odd, expect=2)
        assert "costs $5" in refused.stderr and refused.stdout == ""
    for arguments in (("cloudfront", "--address", "127.0.0.1:80"), ("nginx", "--address", "8000"), ("lighttpd",)):
        assert rocwheel.run("index", "server", *arguments, "--root", hosts.flat, expect=2).stdout == ""
