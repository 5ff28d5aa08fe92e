"""Counts the bytes that `rocwheel release get` downloads of one set of wheels with another at hand.

In: the built binary, and the .deb files of two Debian releases. Out: a table on stdout and the same
as JSON in a file. The pairs are the two releases; two builds of the newer one that differ in their
version; and two of which a share of the libraries has other bytes too, in every 64 KiB of their
largest section. The index is served by nginx, and every wheel is compared with the original.
Beside what was transferred there is the size of the description in it, and for comparison the bytes
of the members that the older wheel does not have: what a program would transfer that knows members
and nothing smaller.
"""

import argparse
import filecmp
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from measuring import MEGABYTE, measure, options, write_figures
from nightly import change_share


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


class Server:
    """nginx on a free port, with the configuration that rocwheel prints."""

    def __init__(self, rocwheel: Path, root: Path, state: Path) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        state.mkdir(parents=True)
        words = (rocwheel, "index", "server", "nginx", "--root", root, "--address", f"127.0.0.1:{port}")
        printed = subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True).stdout
        (state / "nginx.conf").write_text(printed)
        found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        if not found:
            sys.exit("error: nginx is not installed")
        rights = ["-g", "user root;"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen([found, "-e", "stderr", "-p", f"{state}/", "-c", state / "nginx.conf", *rights])
        self.address = f"http://127.0.0.1:{port}/"
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("error: nginx does not answer")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def compare(settings: argparse.Namespace, name: str, old: Path, new: Path) -> dict:
    """Publishes the new wheels and gets them with the old ones at hand."""
    work = settings.work / name.replace(" ", "-")
    shutil.rmtree(work, ignore_errors=True)
    dist = work / "dist"
    dist.mkdir(parents=True)
    for file in (*new.glob("*.whl"), *new.glob("*.tar.gz")):
        os.link(file, dist / file.name)
    words = ("--quiet", "release", "publish", dist, "--to", work / "store", "--stream", "nightly", "--delta")
    published = measure(settings.rocwheel, *words, stdout=subprocess.DEVNULL, env=settings.environment)
    server = Server(settings.rocwheel, work / "store/nightly", work / "nginx")
    rows, seconds = [], 0.0
    try:
        for wheel in sorted(dist.glob("*.whl")):
            begin = time.monotonic()
            words = (settings.rocwheel, "--quiet", "--json", "release", "get", wheel.name, "--have", old,
                     "--index", server.address, "--output", work / "out")  # fmt: skip
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
    finally:
        server.stop()
    total = {key: sum(row[key] for row in rows) for key in ("size", "transferred", "description", "members")}
    for row in [*rows, {"wheel": "all", **total}]:
        share = row["transferred"] / row["size"]
        figures = (row["size"], row["transferred"], row["description"], row["members"])
        print(f"  {row['wheel'].partition('-')[0]:<34}" + "".join(f"{figure / MEGABYTE:11.3f}" for figure in figures)
              + f"{share:9.2%}", flush=True)  # fmt: skip
    shutil.rmtree(work)
    return {"wheels": rows, **total, "publish seconds": published.wall, "get seconds": seconds}


def package(settings: argparse.Namespace, artifacts: Path, name: str, *words: object) -> Path:
    output = settings.work / name
    everything = (settings.rocwheel, "--quiet", "--no-progress", "package", "--artifacts", artifacts,
                  "--output", output, *words)  # fmt: skip
    measure(*everything, stdout=subprocess.DEVNULL, env=settings.environment)
    return output / "dist"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--old", type=Path, required=True, help=".deb files of a release")
    parser.add_argument("--new", type=Path, required=True, help=".deb files of the next one")
    parser.add_argument("--share", type=float, default=0.05, help="of bytes that another build changes")
    settings = parser.parse_args()
    settings.work = settings.work.absolute()
    settings.environment = {**os.environ, "ROCWHEEL_CACHE": str(settings.work / "cache")}
    shutil.rmtree(settings.work, ignore_errors=True)
    settings.work.mkdir(parents=True)
    sets = {}
    for name, folder in (("old", settings.old), ("new", settings.new)):
        debs = sorted(folder.glob("*.deb"))
        if not debs:
            sys.exit(f"error: no .deb files in {folder}")
        words = (settings.rocwheel, "--quiet", "--no-progress", "artifact", "import", "--deb", *debs)
        measure(*words, "--output", settings.work / f"{name}-artifacts", stdout=subprocess.DEVNULL)
        sets[name] = package(settings, settings.work / f"{name}-artifacts", name)
    artifacts = settings.work / "new-artifacts"
    sets["version"] = package(settings, artifacts, "version", "--version", "9.9.9")
    change_share(artifacts, settings.share)
    sets["build"] = package(settings, artifacts, "build", "--version", "9.9.9")
    header = ("size MB", "got MB", "list MB", "members MB")
    print(f"{'':36}" + "".join(f"{name:>11}" for name in header) + f"{'share':>9}")
    results = {}
    pairs = {
        "two releases": ("old", "new"),
        "two versions of one build": ("new", "version"),
        f"two builds, {settings.share:.0%} changed": ("new", "build"),
    }
    for name, (old, new) in pairs.items():
        print(name)
        results[name] = compare(settings, name, sets[old], sets[new])
    write_figures(settings, results)


if __name__ == "__main__":
    main()
