"""A few killed publishers and one reader; in the long run fifty killed publications, fifty killed
promotions, readers for as long as thirty publications take, and every command that changes a
stream of a bucket, killed after each of its requests."""

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from buckets import Bucket, KillingBucket, localstack, moto
from killed_publishers import KilledCommands, downloaded, kill_promotions, kill_publishers, publish_while_people_read
from serving import running, served
from test_index import pip

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


@pytest.mark.long
@pytest.mark.parametrize("server", [moto, localstack])
def test_commands_to_a_bucket_are_killed_in_every_phase(
    rocwheel: Rocwheel, server: Callable[[Path], AbstractContextManager[str]], tmp_path: Path
) -> None:
    """ROCWHEEL_KILLS is how many are killed at least; all phases are hit."""
    count, began = int(os.environ.get("ROCWHEEL_KILLS", "160")), time.monotonic()
    with server(tmp_path) as endpoint:
        bucket, proxy = Bucket(endpoint), KillingBucket(endpoint)
        bucket.ask("PUT", "")
        with running(proxy) as proxy.address:
            killed = KilledCommands(rocwheel, bucket, proxy, tmp_path)
            killed.kill(count)
        for (name, phase), times in sorted(killed.kills.items()):
            print(f"{name:13} {times:4} times after: {phase}")
        print(f"{killed.kills.total()} kills, {killed.cut} in a request, {time.monotonic() - began:.0f} seconds")
        for stream in killed.seen:
            words = ("--store", "s3://wheels/whl", "--stream", stream)
            run(rocwheel.binary, "release", "verify", *words, environment=bucket.environment).says("0 problems")
            pruned = rocwheel.json("release", "prune", "--dry-run", *words, environment=bucket.environment)
            assert pruned["orphans"] == []
            index = tmp_path / stream
            downloaded(bucket, stream, index)
            pip("install", "--dry-run", "--index-url", f"{index.as_uri()}/", "--target", tmp_path / "none", "torch")
