"""What a directory tree holds, in a form that two trees can be compared in, and how a file gets
into it."""

import hashlib
import os
import stat
from pathlib import Path


def put(path: Path, content: str | bytes = "", mode: int | None = None) -> Path:
    """Writes a file, and makes the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    if mode is not None:
        path.chmod(mode)
    return path


def digest_file(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def snapshot(root: Path) -> dict[str, tuple]:
    """Relative path → kind, permission bits and content (files), target (links) or nothing
    (directories)."""
    found = {}
    for directory, names, files in os.walk(root):
        for name in names + files:
            path = Path(directory, name)
            status = path.lstat()
            relative = str(path.relative_to(root))
            if stat.S_ISLNK(status.st_mode):
                found[relative] = ("link", os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                found[relative] = ("directory", stat.S_IMODE(status.st_mode))
            else:
                found[relative] = ("file", stat.S_IMODE(status.st_mode), digest_file(path))
    return found


def files(root: Path) -> set[str]:
    """Relative paths of everything under a root that is not a directory."""
    return {path for path, entry in listing(root).items() if entry != "directory"}


def listing(root: Path) -> dict[str, str]:
    """Relative path → `directory` or `file` (links are files), without reading any content."""
    found = {}
    for directory, names, plain in os.walk(root):
        for name in names + plain:
            path = Path(directory, name)
            is_directory = path.is_dir() and not path.is_symlink()
            found[str(path.relative_to(root))] = "directory" if is_directory else "file"
    return found


def differences(left: dict[str, object], right: dict[str, object]) -> list[str]:
    """What differs between two snapshots, one line a path, for a message."""
    return [
        f"{path}: {left.get(path, 'missing')} and {right.get(path, 'missing')}"
        for path in sorted(left.keys() | right.keys())
        if left.get(path) != right.get(path)
    ]
