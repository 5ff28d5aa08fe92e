"""Servers on the loopback: of a folder, of what a test answers, and programs of others."""

import socket
import subprocess
import threading
import time
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


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextmanager
def daemon(command: list[object], port: int, log: Path, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program that listens on a port, until the end of the block."""
    with log.open("wb") as output:
        words = [str(word) for word in command]
        started = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **options)
    try:
        wait_for(port, started, log)
        yield started
    finally:
        started.terminate()
        started.wait(30)


def wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while True:
        assert server.poll() is None, f"the server ended:\n{log.read_text()}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            assert time.monotonic() < end, f"no server on port {port}:\n{log.read_text()}"
            time.sleep(0.05)
