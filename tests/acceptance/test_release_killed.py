"""A few killed publishers and one reader; in the long run fifty killed publications, fifty killed
promotions, readers for as long as thirty publications take, and publishers to a bucket that lose
power."""

import os
import random
import re
import signal
import time
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from buckets import Bucket
from killed_publishers import (
    assert_whole,
    kill_promotions,
    kill_publishers,
    publish_while_people_read,
    publish_words,
    timed,
    write_set,
)
from serving import served

from command import Rocwheel, run


def few_or(many: int, few: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.long)])


@few_or(50, 5)
def test_killed_publications_break_nothing(rocwheel: Rocwheel, tmp_path: Path, count: int) -> None:
    kill_publishers(rocwheel, tmp_path, count)


@few_or(50, 5)
def test_killed_promotions_break_nothing(rocwheel: Rocwheel, tmp_path: Path, count: int) -> None:
    kill_promotions(rocwheel, tmp_path, count)


@few_or(30, 3)
def test_readers_never_fail(rocwheel: Rocwheel, tmp_path: Path, count: int) -> None:
    with served(tmp_path) as address:
        publish_while_people_read(
            rocwheel, tmp_path, lambda stream: f"{address}/{stream.relative_to(tmp_path)}/", count
        )


def downloaded(bucket: Bucket, prefix: str, folder: Path) -> Path:
    """What a reader sees of the bucket at this moment: pages first, as a resolver reads them."""
    listing, _ = bucket.ask("GET", f"?list-type=2&max-keys=1000&prefix={prefix}/")
    keys = [unquote(key) for key in re.findall(r"<Key>([^<]*)</Key>", listing.decode())]
    assert "<IsTruncated>true" not in listing.decode()
    for key in sorted(keys, key=lambda key: not key.endswith("index.html")):
        path = folder / key.removeprefix(f"{prefix}/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bucket.ask("GET", f"/{quote(key)}")[0])
    return folder


@pytest.mark.long
def test_publishers_to_a_bucket_are_killed(rocwheel: Rocwheel, bucket: Bucket, tmp_path: Path) -> None:
    """The lock of a killed publisher ends after a minute, and the next one finishes its work."""

    def words(version: str) -> tuple[object, ...]:
        return publish_words(write_set(tmp_path / version, version), "s3://wheels/whl", "nightly")

    def publish(version: str) -> None:
        run(rocwheel.binary, *words(version), "--wait", 180, environment=bucket.environment)

    publish("7.0.0")
    takes = timed(lambda: publish("7.0.1"))
    chosen = random.Random(20261123)
    for number in range(2, 8):
        process = rocwheel.start(*words(f"7.0.{number}"), "--wait", 180, env={**os.environ, **bucket.environment})
        # The first half of the time is the upload, without a lock.
        time.sleep(chosen.uniform(takes / 3, takes))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert_whole(downloaded(bucket, "whl/nightly", tmp_path / f"seen-{number}"), tmp_path)
    publish("7.0.99")
    assert assert_whole(downloaded(bucket, "whl/nightly", tmp_path / "seen"), tmp_path) == "7.0.99"
    said = run(rocwheel.binary, "release", "verify", "s3://wheels/whl/nightly", environment=bucket.environment)
    assert "0 problems" in said.stderr
