"""`rocwheel kernels` of addresses finds the code of a downloaded file, without a download. The
archives are written here, by Python."""

import random
import struct
import subprocess
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest
from buckets import Bucket
from delta_stream import Ranges
from serving import served
from test_kernels import code_objects

import hip_wheels
from command import Rocwheel, run

MEGABYTE = 1 << 20
# Pages and buckets have addresses with `%2B`.
FILE = "demo_code-1.0+rocm7.2-py3-none-linux_x86_64.whl"
ADDRESS = FILE.replace("+", "%2B")
NOISE = random.Random(5)


def compress(code: bytes) -> bytes:
    return subprocess.run(["zstd", "--quiet", "--stdout"], input=code, stdout=subprocess.PIPE, check=True).stdout


def write_kpack(path: Path, codes: dict[str, bytes], pack: Callable[[bytes], bytes] | None) -> None:
    """The two forms of the format: code as it is, and frames with their lengths."""
    stored = [pack(code) if pack else code for code in codes.values()]
    body, blobs = b"", []
    if pack:
        body = struct.pack("<I", len(stored)) + b"".join(struct.pack("<I", len(one)) + one for one in stored)
        more = {"compression_scheme": "zstd-per-kernel", "zstd_offset": 64, "zstd_size": len(body)}
    else:
        for one in stored:
            blobs.append({"offset": 64 + len(body), "size": len(one)})
            body += one
        more = {"compression_scheme": "none", "blobs": blobs}
    table = {
        "format_version": 1,
        "group_name": "demo",
        "gfx_arch_family": "demo",
        "gfx_arches": sorted(codes),
        "toc": {
            "lib/libdemo.so#0": {
                target: {"type": "hsaco", "ordinal": number, "original_size": len(code)}
                for number, (target, code) in enumerate(codes.items())
            }
        },
        **more,
    }
    path.write_bytes((b"KPAK" + struct.pack("<IQ", 1, 64 + len(body))).ljust(64, b"\0") + body + msgpack.packb(table))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel of some 30 MB that has GPU code in every form, and parts of it as
    files."""
    folder = tmp_path_factory.mktemp("site")
    compiled = hip_wheels.Compiled.make(tmp_path_factory.mktemp("compiled"))
    wide = compiled.folder / "wide.so"
    codes = {
        name.partition("--")[2]: path.read_bytes() + NOISE.randbytes(MEGABYTE)
        for name, path in code_objects(wide, tmp_path_factory.mktemp("codes"))
    }
    assert len(codes) >= 3
    write_kpack(folder / "plain.kpack", codes, None)
    write_kpack(folder / "packed.kpack", codes, compress)
    (compiled.folder / "noise").write_bytes(NOISE.randbytes(3 * MEGABYTE))
    run("objcopy", "--add-section", f".more={compiled.folder / 'noise'}", wide, folder / "libwide.so")
    (target, code) = next(iter(codes.items()))
    (folder / "one.hsaco").write_bytes(code)
    stored = ["plain.kpack", "packed.kpack", "libwide.so", "one.hsaco"]
    info = "demo_code-1.0+rocm7.2.dist-info"
    texts = {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: demo-code\nVersion: 1.0+rocm7.2\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n",
        f"{info}/RECORD": b"",
        "demo/text.py": b"x = 1\n" * 1000,
        "demo/libnarrow.so": (compiled.folder / "narrow.so").read_bytes(),
        "demo/packed.hsaco": code,
    }
    with zipfile.ZipFile(folder / FILE, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in stored:
            archive.write(folder / name, f"demo/{name}", zipfile.ZIP_STORED)
        for name, content in texts.items():
            archive.writestr(name, content)
    (folder / "index.html").write_text(f'<!DOCTYPE html><html><body><a href="{ADDRESS}">{FILE}</a></body></html>')
    assert target in codes and (folder / FILE).stat().st_size > 12 * MEGABYTE
    return folder


def kernels(rocwheel: Rocwheel, *arguments: object, **options) -> dict:
    return rocwheel.json("kernels", *arguments, **options)


def listed(said: dict) -> Counter:
    """What tables say of each code object."""
    return Counter(
        (file["member"], file["kind"], code["target"], code["entry"], code["bundle"], code["size"])
        for file in said["files"]
        for code in file["code_objects"]
    )


def test_a_wheel_at_an_address_is_not_downloaded(rocwheel: Rocwheel, site: Path) -> None:
    handler = type("Counting", (Ranges,), {"sent": []})
    local = kernels(rocwheel, site / FILE)
    with served(site, handler) as address:
        said = kernels(rocwheel, f"{address}/{ADDRESS}")
        whole = sum(length for _, length in handler.sent)
        assert said["files"][0]["path"] == f"{address}/{ADDRESS}"
    assert listed(said) == listed(local) and len(listed(said)) > 10
    assert whole < MEGABYTE, (whole, (site / FILE).stat().st_size)
    # Sizes in a compressed archive are shares, which add up.
    assert (said["totals"]["size"], said["totals"]["kernels"]) == (local["totals"]["size"], None)
    assert local["totals"]["kernels"] > 0
    assert abs(said["totals"]["stored"] - local["totals"]["stored"]) < 100
    assert said["totals"]["faults"] == 0


def test_files_and_indexes_at_an_address(rocwheel: Rocwheel, site: Path, bucket: Bucket) -> None:
    handler = type("Counting", (Ranges,), {"sent": []})
    with served(site, handler) as address:
        for name in ("plain.kpack", "packed.kpack", "libwide.so", "one.hsaco"):
            handler.sent.clear()
            said, local = kernels(rocwheel, f"{address}/{name}"), kernels(rocwheel, site / name)
            assert listed(said) == listed(local) and listed(local), name
            assert sum(length for _, length in handler.sent) < MEGABYTE / 2, name
        assert listed(kernels(rocwheel, f"{address}/")) == listed(kernels(rocwheel, site / FILE))
        people = rocwheel.run("kernels", f"{address}/one.hsaco", "--targets", "gfx90a,gfx942,gfx1100")
        assert "kernel" not in people.stderr and people.stdout.split("\n")[1].split()[2] == "-"
    rocwheel.run("release", "upload", "--to", "s3://wheels/night", site / FILE, environment=bucket.environment)
    for address in ("s3://wheels/night", f"s3://wheels/night/{FILE}"):
        said = kernels(rocwheel, address, environment=bucket.environment)
        assert listed(said) == listed(kernels(rocwheel, site / FILE)), address


def test_what_would_have_to_be_downloaded_is_reported(rocwheel: Rocwheel, site: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(site / FILE) as source, zipfile.ZipFile(tmp_path / FILE, "w", zipfile.ZIP_DEFLATED) as copy:
        for info in source.infolist():
            copy.writestr(info.filename, source.read(info), zipfile.ZIP_DEFLATED)
    with served(tmp_path, type("Counting", (Ranges,), {"sent": []})) as address:
        said = rocwheel.run("kernels", f"{address}/{ADDRESS}", expect=3)
        for name in ("plain.kpack", "packed.kpack", "libwide.so"):
            assert f"{ADDRESS}:demo/{name}`: it is compressed, so " in said.stderr
        assert "3 files were not read, and may have code: download what has them" in said.stderr
        assert "libnarrow.so`" not in said.stderr and "one.hsaco`" not in said.stderr
        (tmp_path / "bad.kpack").write_bytes(b"KPAK" + bytes(100))
        assert "bad.kpack`: " in rocwheel.run("kernels", f"{address}/bad.kpack", expect=1).stderr
        (tmp_path / FILE).write_bytes((site / FILE).read_bytes()[: 2 * MEGABYTE])
        rocwheel.run("kernels", f"{address}/{ADDRESS}", expect=1).says(f"{ADDRESS}`: ")
        assert "the server answers 404" in rocwheel.run("kernels", f"{address}/absent.whl", expect=1).stderr
        usage = rocwheel.run("kernels", "--by", "kernel", f"{address}/{ADDRESS}", expect=2)
        assert "is not read, so it has no kernels" in usage.stderr
    # A server without ranges sends all of it, which is not taken.
    with served(site) as address:
        assert "to a request for a range" in rocwheel.run("kernels", f"{address}/{ADDRESS}", expect=1).stderr
