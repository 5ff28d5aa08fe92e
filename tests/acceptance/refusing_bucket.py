"""A server in front of an S3 server: it forwards requests, refuses those that a test names, and
tells the test of those that were answered."""

import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.parse import urlsplit

# Headers of one connection, and those that this server writes itself.
OWN = {"connection", "content-length", "date", "host", "server", "transfer-encoding"}


class RefusingBucket(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, endpoint: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.endpoint = endpoint
        self.address = f"http://127.0.0.1:{self.server_port}"
        # Status and code by the end of the path of a GET request.
        self.refusals: dict[str, tuple[int, str]] = {}
        self.refused = 0
        # Called with method and path when a request was done, before its answer is handed on.
        self.done: Callable[[str, str], None] = lambda _method, _path: None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RefusingBucket

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.forward()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        for ending, (status, code) in self.server.refusals.items():
            if path.endswith(ending):
                self.server.refused += 1
                body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
                self.reply(status, {"Content-Type": "application/xml"}, body)
                return
        self.forward()

    def do_PUT(self) -> None:
        self.forward()

    def do_DELETE(self) -> None:
        self.forward()

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
        length = kept.get("Content-Length") if self.command == "HEAD" else None
        headers = {name: value for name, value in kept.items() if name.lower() not in OWN}
        self.reply(answer.status, headers, body, length)

    def reply(self, status: int, headers: dict[str, str], body: bytes, length: str | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def refusing(endpoint: str) -> Iterator[RefusingBucket]:
    server = RefusingBucket(endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
