"""A plugin of pytest for TheRock's tests of `artifact_manager.py`: `main` runs our command. Where a
test has replaced the function that unpacks, it is told afterwards what our command unpacked."""

import hashlib
import io
import os
import subprocess
import tarfile
from pathlib import Path

import artifact_manager

ARTIFACT = {"artifact_manifest.txt": "stage\n", "stage/file": "content\n"}


def real_archive() -> bytes:
    """An artifact, where the tests have bytes that nothing can unpack."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, text in ARTIFACT.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return subprocess.run(["zstd", "--stdout"], input=tar.getvalue(), capture_output=True, check=True).stdout


WRITE_BYTES, WRITE_TEXT = Path.write_bytes, Path.write_text
FAKE, REAL = b"fake zstd archive content", real_archive()
DIGESTS = [hashlib.sha256(content).hexdigest() for content in (FAKE, REAL)]
UNPACK = artifact_manager.extract_artifact


def main(arguments: list[str]) -> None:
    command = [os.environ["ROCWHEEL_BINARY"], "compat", "artifact_manager", *arguments]
    done = subprocess.run(command, text=True, capture_output=True)
    print(done.stdout, done.stderr)
    if done.returncode == 2 and "error: there is no " in done.stderr and "--exclude" in " ".join(arguments):
        raise ValueError(done.stderr)
    if done.returncode:
        raise SystemExit(done.returncode)
    if artifact_manager.extract_artifact is not UNPACK:
        output, is_flat = Path(arguments[arguments.index("--output-dir") + 1]), "--flatten" in arguments
        folder = output if is_flat else output / "artifacts"
        for path in [output / "file"] if is_flat else sorted(folder.glob("*/artifact_manifest.txt")):
            archive = folder / f"{path.parent.name}.tar.zst"
            artifact_manager.extract_artifact(artifact_manager.ExtractRequest(archive, folder, False, is_flat))


Path.write_bytes = lambda path, data: WRITE_BYTES(path, REAL if data == FAKE else data)
Path.write_text = lambda path, text, **options: WRITE_TEXT(path, text.replace(*DIGESTS), **options)
artifact_manager.main = main
