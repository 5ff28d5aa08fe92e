"""HTTP servers on the loopback: of a folder, and of what a test answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Answers(SimpleHTTPRequestHandler):
    """Serves files without a log; `reply` is for answers of a test."""

    def log_message(self, *_: object) -> None:
        pass

    def reply(self, body: bytes, status: int = 200, kind: str | None = "text/html", **headers: str) -> None:
        """Underscores in the names of headers are hyphens."""
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[str]:
    """The address of a server that answers until the end of the block."""
    server.daemon_threads = True
    with server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def served(folder: Path, handler: type[BaseHTTPRequestHandler] = Answers) -> Iterator[str]:
    chosen = partial(handler, directory=folder) if issubclass(handler, SimpleHTTPRequestHandler) else handler
    with running(ThreadingHTTPServer(("127.0.0.1", 0), chosen)) as address:
        yield address
