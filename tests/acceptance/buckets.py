"""An S3 server of others (moto), and a server in front of it that forwards requests, refuses those
that a test names, and tells the test of those that were answered."""

import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit

from serving import Answers, daemon, free_port, running

SECRET = "never-to-be-shown"
KEYS = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
# Headers of one connection, and those that this server writes itself.
OWN = {"connection", "content-length", "date", "host", "server", "transfer-encoding"}


@dataclass(frozen=True)
class Bucket:
    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        return {**KEYS, "AWS_ENDPOINT_URL": self.endpoint}

    def ask(self, method: str, key: str, body: bytes | None = None) -> tuple[bytes, dict[str, str]]:
        """A request as another tool would send it. moto checks no signature, but wants one."""
        scope = "Credential=AKIATEST/20261123/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
        headers = {"Authorization": f"AWS4-HMAC-SHA256 {scope}", "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{self.endpoint}/wheels{key}", body, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read(), {name.lower(): value for name, value in answer.headers.items()}


@contextmanager
def moto(folder: Path) -> Iterator[str]:
    port = free_port()
    with daemon([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port], port, folder / "log"):
        yield f"http://127.0.0.1:{port}"


def forget(endpoint: str) -> Bucket:
    """Empties the server."""
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/moto-api/reset", method="POST"), timeout=30).close()
    return Bucket(endpoint)


class RefusingBucket(ThreadingHTTPServer):
    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), Forwarding)
        self.endpoint = endpoint
        # Status and code by the end of the path of a GET request.
        self.refusals: dict[str, tuple[int, str]] = {}
        self.refused = 0
        # Called with method and path when a request was done, before its answer is handed on.
        self.done: Callable[[str, str], None] = lambda _method, _path: None


class Forwarding(Answers):
    protocol_version = "HTTP/1.1"
    server: RefusingBucket

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        for ending, (status, code) in self.server.refusals.items():
            if path.endswith(ending):
                self.server.refused += 1
                body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
                return self.reply(body, status, "application/xml")
        return self.forward()

    def forward(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0))) if self.command == "PUT" else None
        headers = {name: value for name, value in self.headers.items() if name.lower() not in OWN}
        request = urllib.request.Request(self.server.endpoint + self.path, sent, headers, method=self.command)
        try:
            answer = urllib.request.urlopen(request, timeout=30)
        except HTTPError as error:
            answer = error
        with answer:
            body, kept = answer.read(), dict(answer.headers.items())
        self.server.done(self.command, urlsplit(self.path).path)
        headers = {name: value for name, value in kept.items() if name.lower() not in OWN}
        if self.command == "HEAD" and "Content-Length" in kept:
            headers["Content-Length"] = kept["Content-Length"]
        self.reply(body, answer.status, None, **headers)

    do_HEAD = do_PUT = do_DELETE = forward


@contextmanager
def refusing(endpoint: str) -> Iterator[RefusingBucket]:
    server = RefusingBucket(endpoint)
    with running(server) as server.address:
        yield server
