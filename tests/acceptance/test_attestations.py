"""Attestations (PEP 740) beside files go into streams, and along with a promotion where the bytes
stay. pypi-simple reads them as an installer would."""

import base64
import hashlib
import json
from pathlib import Path

import pypi_simple
from serving import served
from test_release_publish import change, publish

from command import Rocwheel
from small_index import write_wheel

NOW, LATER = "2026-11-20T01:02:03Z", "2026-11-21T01:02:03Z"


def attest(wheel: Path, *, name: str = "", sha256: str = "", version: int = 1) -> Path:
    """A provenance object as PyPI has it, without a signature that anybody could verify."""
    digest = {"sha256": sha256 or hashlib.sha256(wheel.read_bytes()).hexdigest()}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name or wheel.name, "digest": digest}],
        "predicateType": "https://docs.pypi.org/attestations/publish/v1",
        "predicate": None,
    }
    encoded = base64.b64encode(json.dumps(statement).encode()).decode()
    certificate = base64.b64encode(b"certificate").decode()
    attestation = {
        "version": 1,
        "verification_material": {"certificate": certificate, "transparency_entries": [{}]},
        "envelope": {"statement": encoded, "signature": certificate},
    }
    publisher = {"kind": "GitHub", "repository": "example/example", "workflow": "release.yml"}
    bundles = [{"publisher": publisher, "attestations": [attestation]}]
    path = wheel.with_name(f"{wheel.name}.provenance")
    path.write_text(json.dumps({"version": version, "attestation_bundles": bundles}))
    return path


def set_address(stream: Path, address: str) -> None:
    settings = stream / ".release/stream.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'address = "{address}"\n')


def provenance(address: str, project: str) -> dict[str, dict | None]:
    """What pypi-simple finds, in both forms of the page."""
    found: list[dict[str, dict | None]] = []
    for accept in (pypi_simple.ACCEPT_JSON_PREFERRED, pypi_simple.ACCEPT_HTML_ONLY):
        with pypi_simple.PyPISimple(address, accept=accept) as client:
            packages = client.get_project_page(project).packages
            found.append({one.filename: client.get_provenance(one) if one.provenance_url else None for one in packages})
    assert found[0] == found[1]
    return found[0]


def test_attestations_are_on_the_pages_of_a_stream(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, dist = tmp_path / "store", tmp_path / "dist"
    stream = store / "nightly"
    stream.mkdir(parents=True)
    with served(store) as root:
        address = f"{root}/nightly/"
        wheel = write_wheel(dist, "demo", "1.0")
        attested = attest(wheel)
        # Without an address, they are stored, and a run that knows it adds the links.
        publish(rocwheel, dist, store, "--now", NOW).says("`address` of stream.toml is missing")
        assert provenance(address, "demo") == {wheel.name: None}
        set_address(stream, address)
        other = write_wheel(tmp_path / "second", "other", "1.0")
        publish(rocwheel, tmp_path / "second", store, "--now", LATER)
        assert provenance(address, "demo") == {wheel.name: json.loads(attested.read_text())}
        # More attestations of a file that the stream has.
        assert provenance(address, "other") == {other.name: None}
        attest(other)
        publish(rocwheel, tmp_path / "second", store, "--now", LATER)
        assert provenance(address, "other")[other.name] is not None
        publish(rocwheel, tmp_path / "second", store, "--now", LATER).says("published already")
    rocwheel.run("release", "verify", stream)
    beside = stream / f"demo/{wheel.name}.provenance"
    beside.write_text("{}")
    damaged = rocwheel.run("release", "verify", stream, expect=1)
    assert f"{wheel.name}.provenance` has other bytes" in damaged.stdout + damaged.stderr


def test_attestations_of_other_bytes_are_refused(rocwheel: Rocwheel, tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "dist", "demo", "1.0")
    for reason, wrong in (
        ("about other bytes", {"sha256": "0" * 64}),
        ("is about `else.whl`", {"name": "else.whl"}),
        ("of version 2", {"version": 2}),
    ):
        attest(wheel, **wrong)
        said = publish(rocwheel, tmp_path / "dist", tmp_path / "store", expect=1)
        assert reason in said.stderr and not (tmp_path / "store").exists()
        # Pages of an index with an address would link them.
        said = rocwheel.run("index", "build", tmp_path / "dist", "--url", "https://example.org/whl/", expect=1)
        assert reason in said.stderr and not (tmp_path / "dist/simple").exists()
    wheel.with_name(f"{wheel.name}.provenance").write_text("<html>")
    publish(rocwheel, tmp_path / "dist", tmp_path / "store", expect=1)


def test_a_promotion_takes_those_along_whose_bytes_stay(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store, dist = tmp_path / "store", tmp_path / "dist"
    core = write_wheel(dist, "rocm_sdk_core", "7.12.0rc1")
    write_wheel(dist, "rocm", "7.12.0rc1", "Requires-Dist: rocm-sdk-core==7.12.0rc1")
    helper = write_wheel(dist, "helper", "1.5")
    for wheel in (core, helper):
        attest(wheel)
    words = ("--to", store, "--stream", "staging", "--set", "rocm-7.12.0rc1", "--now", NOW)
    rocwheel.run("release", "publish", dist, *words)
    assert (store / f"staging/helper/{helper.name}.provenance").exists()
    with served(store) as root:
        set_address(store / "release", f"{root}/release")
        words = ("--version", "7.12.0", "--copy", "helper-*", "--also-in", "*.py", "--now", LATER)
        said = rocwheel.run("release", "promote", "--store", store, "--from", "staging", "--to", "release", *words)
        assert "attestations of 1 file are about the bytes before" in said.stderr
        found = provenance(f"{root}/release/", "helper")
        assert found[helper.name] == json.loads((dist / f"{helper.name}.provenance").read_text())
        assert set(provenance(f"{root}/release/", "rocm-sdk-core").values()) == {None}
    rocwheel.run("release", "verify", store / "release")


def test_attestations_go_with_their_file(rocwheel: Rocwheel, tmp_path: Path) -> None:
    store = tmp_path / "store"
    stream = store / "nightly"
    for version, day in (("1.0", "2026-01-01"), ("2.0", "2026-02-01")):
        attest(write_wheel(tmp_path / version, "demo", version))
        publish(rocwheel, tmp_path / version, store, "--now", f"{day}T00:00:00Z")
    (stream / ".release/stream.toml").write_text("[retention]\nversions = 1\ngrace-days = 1\n")
    change(rocwheel, "prune", store, "--now", "2026-03-01T00:00:00Z")
    change(rocwheel, "prune", store, "--now", "2026-03-05T00:00:00Z")
    left = sorted(path.name for path in (stream / "demo").glob("demo-*"))
    wheel = "demo-2.0-py3-none-any.whl"
    assert left == [wheel, f"{wheel}.metadata", f"{wheel}.provenance"]
