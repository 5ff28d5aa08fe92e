"""DSSE envelopes, written from the protocol's text. OpenSSL signs and is the judge."""

import base64
import json
import tempfile
from pathlib import Path

from command import run


def payload(envelope: dict) -> dict:
    return json.loads(base64.b64decode(envelope["payload"]))


def signed_bytes(envelope: dict) -> bytes:
    kind, content = envelope["payloadType"].encode(), base64.b64decode(envelope["payload"])
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(content), content)


def with_openssl(words: list[object], signed: bytes, signature: bytes = b"", expect: int = 0) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "signed").write_bytes(signed)
        (folder / "signature").write_bytes(signature)
        way = ("-out" if "-sign" in words else "-sigfile", folder / "signature")
        run("openssl", "pkeyutl", *words, "-rawin", "-in", folder / "signed", *way, expect=expect)
        return (folder / "signature").read_bytes()


def sealed(document: dict, key: Path, like: dict | None = None) -> dict:
    """A document in an envelope, of the kind and with the key's name of another one, signed by a
    key."""
    like = like or {"payloadType": "application/vnd.in-toto+json", "signatures": [{"keyid": ""}]}
    envelope = {**like, "payload": base64.b64encode(json.dumps(document).encode()).decode()}
    signature = with_openssl(["-sign", "-inkey", key], signed_bytes(envelope))
    return {**envelope, "signatures": [{**like["signatures"][0], "sig": base64.b64encode(signature).decode()}]}


def opened(envelope: dict, *public: Path) -> dict:
    """What an envelope holds that these keys have signed, each by one signature, and nothing
    else."""
    for signature, key in zip(envelope["signatures"], public, strict=True):
        words = ["-verify", "-pubin", "-inkey", key]
        content = base64.b64decode(signature["sig"])
        with_openssl(words, signed_bytes(envelope), content)
        with_openssl(words, signed_bytes(envelope) + b" ", content, expect=1)
    return payload(envelope)
