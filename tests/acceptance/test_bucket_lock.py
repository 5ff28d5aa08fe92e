"""The lock of a bucket: a run that was stopped for longer than its lock lives changes nothing
afterwards."""

import json
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from buckets import Bucket, refusing

from command import Rocwheel, run
from small_index import write_wheel

STREAM = ("s3://wheels/whl", "--stream", "nightly")


def dist(folder: Path, version: str) -> Path:
    """Two wheels, of which one requires the other."""
    write_wheel(folder, "beta", version)
    write_wheel(folder, "alpha", version, f"Requires-Dist: beta=={version}")
    return folder


@dataclass(frozen=True)
class Publisher:
    rocwheel: Rocwheel
    bucket: Bucket

    def release(self, *words: object) -> str:
        return run(self.rocwheel.binary, "release", *words, environment=self.bucket.environment).stderr

    def publish(self, folder: Path, *more: object) -> None:
        self.release("publish", folder, "--to", *STREAM, *more)

    def assert_whole(self, version: str) -> None:
        assert "0 problems" in self.release("verify", "s3://wheels/whl/nightly")
        page = json.loads(self.bucket.ask("GET", "/whl/nightly/beta/index.v1_json")[0])
        assert f"beta-{version}-py3-none-any.whl" in [file["filename"] for file in page["files"]]

    def overtake(self, words: tuple[object, ...], stop: tuple[str, str], folder: Path) -> None:
        """Stops a run at its first request of a method with these letters in its path, publishes a
        folder, and lets the run go on, which has to notice."""
        stopped = threading.Event()
        with refusing(self.bucket.endpoint) as proxy:
            environment = {**os.environ, **self.bucket.environment, "AWS_ENDPOINT_URL": proxy.address}
            process = self.rocwheel.start("release", *words, env=environment)

            def done(method: str, path: str) -> None:
                if method == stop[0] and stop[1] in path and not stopped.is_set():
                    process.send_signal(signal.SIGSTOP)
                    stopped.set()

            proxy.done = done
            try:
                assert stopped.wait(60), "it made no such request"
                self.publish(folder, "--wait", 120)
            finally:
                process.send_signal(signal.SIGCONT)
            said = process.communicate(timeout=120)[1]
        assert process.returncode == 4 and "another run" in said, said


@pytest.fixture
def publisher(rocwheel: Rocwheel, bucket: Bucket) -> Publisher:
    return Publisher(rocwheel, bucket)


@pytest.mark.long
def test_a_stopped_publisher_changes_nothing_afterwards(publisher: Publisher, tmp_path: Path) -> None:
    publisher.publish(dist(tmp_path / "first", "1.0"))
    late = dist(tmp_path / "late", "1.1")
    words = ("publish", late, "--to", *STREAM)
    publisher.overtake(words, ("PUT", "/.release/documents/"), dist(tmp_path / "next", "1.2"))
    publisher.assert_whole("1.2")
    publisher.publish(dist(tmp_path / "last", "1.3"))
    publisher.assert_whole("1.3")


@pytest.mark.long
def test_a_stopped_pruning_deletes_nothing_afterwards(publisher: Publisher, tmp_path: Path) -> None:
    publisher.publish(dist(tmp_path / "first", "1.0"))
    publisher.publish(dist(tmp_path / "second", "1.1"))
    publisher.release("rollback", "--to", 1, "--store", *STREAM)
    rules = b"[retention]\nversions = 1\ngrace-days = 0\n"
    publisher.bucket.ask("PUT", "/whl/nightly/.release/stream.toml", rules)
    words = ("prune", "--store", *STREAM)
    publisher.overtake(words, ("DELETE", "/whl/nightly/alpha/"), tmp_path / "second")
    publisher.assert_whole("1.1")
