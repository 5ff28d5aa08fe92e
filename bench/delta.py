"""Counts the bytes that `rocwheel release get` downloads of one set of wheels with another at hand.

The pairs are the two releases; two builds of the newer one that differ in their
version; and two of which a share of the libraries has other bytes too, in every 64 KiB of their
largest section. The index is served by nginx, and every wheel is compared with the original.
Beside what was transferred there is the size of the description in it, and for comparison the bytes
of the members that the older wheel does not have: what a program would transfer that knows members
and nothing smaller.
"""

import filecmp
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from measuring import MEGABYTE, Benchmark, options, packages_in
from nightly import change_share

from command import Rocwheel
from small_index import Servers


def canonical(wheel: Path) -> str:
    return wheel.name.partition("-")[0].replace("_", "-").lower()


def member_floor(new: Path, old: Path | None) -> int:
    """Packed bytes of members that the old wheel does not have, whatever their names are."""
    key = lambda member: (member.CRC, member.file_size)  # noqa: E731
    with zipfile.ZipFile(new) as archive:
        members = archive.infolist()
    known = set()
    if old is not None:
        with zipfile.ZipFile(old) as archive:
            known = {key(member) for member in archive.infolist()}
    return sum(member.compress_size for member in members if key(member) not in known)


class Delta(Benchmark):
    def compare(self, name: str, old: Path, new: Path) -> dict:
        """Publishes the new wheels and gets them with the old ones at hand."""
        work = self.work / name.replace(" ", "-")
        dist = work / "dist"
        dist.mkdir(parents=True)
        for file in (*new.glob("*.whl"), *new.glob("*.tar.gz")):
            os.link(file, dist / file.name)
        words = ("release", "publish", dist, "--to", work / "store", "--stream", "nightly", "--delta")
        published = self.rocwheel(*words)
        (work / "nginx").mkdir()
        rows, seconds = [], 0.0
        with Servers(Rocwheel(self.settings.rocwheel), work / "nginx") as servers:
            address = servers.start("nginx", work / "store/nightly")
            for wheel in sorted(dist.glob("*.whl")):
                begin = time.monotonic()
                words = (self.settings.rocwheel, "--quiet", "--json", "release", "get", wheel.name, "--have", old,
                         "--index", address, "--output", work / "out")  # fmt: skip
                ran = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True)
                seconds += time.monotonic() - begin
                (got,) = json.loads(ran.stdout)["wheels"]
                if not filecmp.cmp(work / "out" / wheel.name, wheel, shallow=False):
                    sys.exit(f"error: {wheel.name} is another file")
                before = [path for path in old.glob("*.whl") if canonical(path) == canonical(wheel)]
                floor = member_floor(wheel, before[0] if before else None)
                delta = (work / "store/nightly" / canonical(wheel) / f"{wheel.name}.delta").stat().st_size
                rows.append({"wheel": wheel.name, "size": got["size"], "transferred": got["transferred"],
                             "description": delta, "members": floor, "method": got["method"]})  # fmt: skip
        total = {key: sum(row[key] for row in rows) for key in ("size", "transferred", "description", "members")}
        for row in [*rows, {"wheel": "all", **total}]:
            share = row["transferred"] / row["size"]
            figures = (row["size"], row["transferred"], row["description"], row["members"])
            print(f"  {row['wheel'].partition('-')[0]:<34}" + "".join(f"{figure / MEGABYTE:11.3f}" for figure in figures)
                  + f"{share:9.2%}", flush=True)  # fmt: skip
        shutil.rmtree(work)
        return {"wheels": rows, **total, "publish seconds": published.wall, "get seconds": seconds}

    def run(self) -> None:
        sets = {}
        for name, folder in (("old", self.settings.old), ("new", self.settings.new)):
            artifacts = self.work / f"{name}-artifacts"
            self.rocwheel("artifact", "import", "--deb", *packages_in(folder), "--output", artifacts)
            sets[name] = self.package(artifacts, name)
        sets["version"] = self.package(artifacts, "version", "--version", "9.9.9")
        change_share(artifacts, self.settings.share)
        sets["build"] = self.package(artifacts, "build", "--version", "9.9.9")
        header = ("size MB", "got MB", "list MB", "members MB")
        print(f"{'':36}" + "".join(f"{name:>11}" for name in header) + f"{'share':>9}")
        pairs = {
            "two releases": ("old", "new"),
            "two versions of one build": ("new", "version"),
            f"two builds, {self.settings.share:.0%} changed": ("new", "build"),
        }
        for name, (old, new) in pairs.items():
            print(name)
            self.results[name] = self.compare(name, sets[old], sets[new])

    def package(self, artifacts: Path, name: str, *words: object) -> Path:
        output = self.work / name
        self.rocwheel("package", "--artifacts", artifacts, "--output", output, *words)
        return output / "dist"


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--old", type=Path, required=True, help=".deb files of a release")
    parser.add_argument("--new", type=Path, required=True, help=".deb files of the next one")
    parser.add_argument("--share", type=float, default=0.05, help="of bytes that another build changes")
    Delta(parser.parse_args()).start()
