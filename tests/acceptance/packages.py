"""A set of packages made from .deb files: where it lies and what its wheels are."""

import base64
import csv
import hashlib
import io
import json
import re
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from command import Rocwheel, run


@dataclass(frozen=True)
class PackageSet:
    debs: list[Path]
    artifacts: Path
    output: Path
    # What `artifact import --json` printed.
    imported: dict

    @property
    def dist(self) -> Path:
        return self.output / "dist"

    @cached_property
    def wheels(self) -> list[Path]:
        return sorted(self.dist.glob("*.whl"))

    @cached_property
    def sdist(self) -> Path:
        (sdist,) = self.dist.glob("rocm-*.tar.gz")
        return sdist

    @cached_property
    def device_packages(self) -> list[str]:
        """The device wheels' requirement names, `rocm-sdk-device-gfx90a` and so on; none in shape
        fat."""
        names = {wheel.name.partition("-")[0] for wheel in self.wheels}
        return sorted(name.replace("_", "-") for name in names if name.startswith("rocm_sdk_device_"))

    def wheel(self, distribution: str) -> Path:
        (wheel,) = self.dist.glob(f"{distribution}-*.whl")
        return wheel

    @cached_property
    def manifest(self) -> dict:
        base = self.artifacts / "base_lib_generic/base/aux-overlay/stage/share/therock"
        return json.loads((base / "therock_manifest.json").read_text())


def fetch_debs(suite: str, directory: Path, which: str) -> list[Path]:
    """The .deb files of a Debian release, from the cache or through the machine's own apt."""
    run(Path(__file__).resolve().parents[2] / "scripts/fetch-rocm", suite, directory, which)
    return sorted(directory.glob("*.deb"))


def fetch_wheels(directory: Path, *requirements: str) -> Path:
    """Real wheels from PyPI; those that are there already are kept."""
    run(Path(__file__).resolve().parents[2] / "scripts/fetch-wheels", directory, *requirements)
    return directory


def listed_wheel(directory: Path, name: str) -> Path:
    """The wheel of a distribution, in the version of the list in scripts/fetch-wheels: other tests
    bring others."""
    script = (Path(__file__).resolve().parents[2] / "scripts/fetch-wheels").read_text()
    version = re.search(rf"^    {name.replace('_', '-')}==(\S+)$", script, re.MULTILINE)[1]
    (wheel,) = fetch_wheels(directory).glob(f"{name}-{version}-*.whl")
    return wheel


def make_package_set(rocwheel: Rocwheel, debs: list[Path], directory: Path, *arguments: object) -> PackageSet:
    imported = json.loads(rocwheel.import_debs(debs, directory / "artifacts", "--json").stdout)
    made = PackageSet(debs, directory / "artifacts", directory / "packages", imported)
    rocwheel.package(made.artifacts, made.output, *arguments)
    return made


def unexplained(packages: PackageSet) -> list[dict]:
    """What an import of a release that we know should have nothing to say about."""
    lost = [one for one in packages.imported["skipped"] if "target" in one]
    kinds = ("unresolved", "unknown", "unlisted_loads", "kept_names")
    return lost + [one for kind in kinds for one in packages.imported[kind]]


def record_problems(wheel: Path) -> list[str]:
    """What is wrong with a wheel's RECORD, read by PEP 376 and the wheel format, file by file."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        (record,) = [name for name in names if name.endswith(".dist-info/RECORD")]
        rows = {name: (digest, size) for name, digest, size in csv.reader(io.StringIO(archive.read(record).decode()))}
        problems = [f"{name} is in RECORD and not in the wheel" for name in rows.keys() - set(names)]
        problems += [f"{name} is in the wheel and not in RECORD" for name in set(names) - rows.keys()]
        problems += (
            [f"{name} is there twice" for name in names if names.count(name) > 1]
            if len(names) != len(set(names))
            else []
        )
        if names[-1] != record:
            problems.append(f"the last member is {names[-1]}, not RECORD")
        for name in names:
            if name == record:
                continue
            digest, length = hashlib.sha256(), 0
            with archive.open(name) as member:
                while chunk := member.read(1 << 20):
                    digest.update(chunk)
                    length += len(chunk)
            expected = "sha256=" + base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
            if rows.get(name) != (expected, str(length)):
                problems.append(f"{name} has {expected},{length} and RECORD says {rows.get(name)}")
    return problems


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return archive.read(name).decode()
