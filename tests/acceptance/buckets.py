"""S3 servers of others (moto, LocalStack), and servers in front of them: one forwards requests,
refuses those that a test names, and tells the test of those that were answered; the other kills."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit

from serving import Answers, daemon, free_port, running

from command import UV, run

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


@contextmanager
def localstack(folder: Path) -> Iterator[str]:
    """The S3 of LocalStack, which shares no code with moto, in a virtual environment of its own."""
    venv, port = folder / "venv", free_port()
    run(UV, "venv", "--quiet", "--python", sys.executable, venv)
    # 4.14 does not run on Python 3.11, and 4.12 not with what it requires as that is now.
    wanted = ("localstack-core[base-runtime]==4.12.0", "--exclude-newer", "2025-12-13")
    run(UV, "pip", "install", "--quiet", "--python", venv / "bin/python", *wanted)
    settings = {
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "SERVICES": "s3",
        "FILESYSTEM_ROOT": str(folder),
        # It downloads nothing and reports nothing.
        **dict.fromkeys(("DISABLE_EVENTS", "SKIP_INFRA_DOWNLOADS", "SKIP_SSL_CERT_DOWNLOAD"), "1"),
    }
    command = [venv / "bin/python", "-m", "localstack.runtime.main"]
    with daemon(command, port, folder / "log", env={**os.environ, "HOME": str(folder), **settings}, cwd=folder):
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
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0))) if self.command in ("PUT", "POST") else None
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

    do_HEAD = do_PUT = do_POST = do_DELETE = forward


@contextmanager
def refusing(endpoint: str) -> Iterator[RefusingBucket]:
    server = RefusingBucket(endpoint)
    with running(server) as server.address:
        yield server


# What a request changes, by the end of its path.
CHANGES = {
    "probe": r"/\.rocwheel/probe",
    "file": r"\.whl",
    "file beside": r"\.whl\.\w+",
    "description": r"/\.release/(documents|statements)/\w+\.json",
    "set": r"/\.release/sets/[^/]+\.json",
    "snapshot": r"/\.release/snapshots/\d+\.json",
    "pending": r"/\.release/pending\.json",
    "page for people": r"/(chooser\.html|\.release/chooser\.json)",
    "page": r"/index\.(html|v1_html|v1_json)",
    "head": r"/\.release/head\.json",
}
VERBS = {"PUT": "write", "DELETE": "delete"}


class KillingBucket(RefusingBucket):
    """Forwards the requests of one run, one at a time, and kills its process group at one of them:
    the server has done it, or has got only half of its body, and the run never gets an answer. Its
    clock is more than a minute ahead, so the lock of a killed run has ended."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(endpoint)
        self.RequestHandlerClass = Killing
        self.done, self.alone = self.count, threading.Lock()

    def start(self, start: Callable[[], subprocess.Popen[str]], last: int | None, is_cut: bool) -> None:
        """Starts a run, which is killed at its request number `last`. With `is_cut`, the server
        gets half of that."""
        with self.alone:
            self.process, self.last, self.is_cut = start(), last, is_cut
            self.is_killed = self.has_lock = False
            # The last change when each request was done.
            self.phases: list[str] = []

    def count(self, method: str, path: str) -> None:
        phase, is_lock = self.phases[-1] if self.phases else "nothing written", path.endswith("/index.lock")
        self.has_lock |= phase == "take lock" and not is_lock
        if is_lock and method == "PUT":
            phase = "give lock back" if self.has_lock else "take lock"
        elif method in VERBS:
            (kind,) = [kind for kind, end in CHANGES.items() if re.search(f"{end}$", path)]
            phase = f"{VERBS[method]} {kind}"
        self.phases.append(phase)
        if len(self.phases) == self.last:
            self.kill()

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.is_killed = True

    def handle_error(self, *request: object) -> None:
        # A killed run takes no answers.
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*request)


class Killing(Forwarding):
    server: KillingBucket

    def date_time_string(self, _timestamp: float | None = None) -> str:
        return super().date_time_string(time.time() + 61)

    def forward(self) -> None:
        with self.server.alone:
            if self.server.is_killed:
                self.close_connection = True
            elif self.server.is_cut and self.command == "PUT" and len(self.server.phases) + 1 == self.server.last:
                self.server.kill()
                self.send_half()
            else:
                super().forward()

    do_HEAD = do_PUT = do_POST = do_DELETE = forward

    def send_half(self) -> None:
        lines = [f"{self.command} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items())]
        body = self.rfile.read(int(self.headers["Content-Length"]) // 2)
        address = urlsplit(self.server.endpoint)
        with socket.create_connection((address.hostname, address.port), timeout=30) as connection:
            connection.sendall("".join(f"{line}\r\n" for line in [*lines, ""]).encode() + body)
        self.close_connection = True
