"""Loads one library in a new process and prints, as JSON, the files that were loaded. Run as a
script:

    python -I -S _load.py LIBRARY [DLL_DIRECTORY]...

Each library gets its own process, because an earlier library could hide that the next one is not
found. The folders are those in which Windows searches for DLLs.
"""

import ctypes
import json
import os
import sys


def mapped_objects() -> "list[str]":
    """The ELF files that this process has mapped; empty without /proc (Windows)."""
    paths = set()
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                parts = line.rstrip("\n").split(maxsplit=5)
                if len(parts) == 6 and parts[5].startswith("/"):
                    paths.add(parts[5])
    except FileNotFoundError:
        return []
    return sorted(path for path in paths if is_elf(path))


def is_elf(path: str) -> bool:
    """True for an ELF file. Programs map other files too: caches, tables of characters."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def main() -> None:
    before = set(mapped_objects())
    answer: dict[str, object]
    try:
        if os.name == "nt":
            for folder in sys.argv[2:]:
                os.add_dll_directory(folder)
        ctypes.CDLL(sys.argv[1])
        answer = {"error": None, "loaded": [path for path in mapped_objects() if path not in before]}
    except OSError as problem:
        answer = {"error": str(problem), "loaded": []}
    # Libraries print text while they load, so the result is the last line. They may also fail at
    # exit without a GPU, which is not tested.
    os.write(1, ("\n" + json.dumps(answer)).encode("utf-8", "surrogateescape"))
    os._exit(0)


if __name__ == "__main__":
    main()
