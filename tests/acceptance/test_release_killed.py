"""A few killed publishers and one reader; `test_release_killed_real.py` has many."""

from pathlib import Path

from killed_publishers import kill_promotions, kill_publishers, publish_while_people_read
from serving import served

from command import Rocwheel


def test_a_killed_publication_breaks_nothing(rocwheel: Rocwheel, tmp_path: Path) -> None:
    kill_publishers(rocwheel, tmp_path, 5)


def test_a_killed_promotion_breaks_nothing(rocwheel: Rocwheel, tmp_path: Path) -> None:
    kill_promotions(rocwheel, tmp_path, 5)


def test_readers_never_fail(rocwheel: Rocwheel, tmp_path: Path) -> None:
    with served(tmp_path) as address:
        publish_while_people_read(rocwheel, tmp_path, lambda stream: f"{address}/{stream.relative_to(tmp_path)}/", 3)
