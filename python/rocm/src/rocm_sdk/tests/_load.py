"""Loads one library in a process of its own and tells, as JSON, which files that brought in. Run as a script:

    python -I -S _load.py LIBRARY [DLL_DIRECTORY]...

Each library gets its own process, because one that was loaded before would hide that the next cannot find it. The folders
are those that Windows is to look for DLLs in.
"""

import ctypes
import json
import os
import sys


def mapped_objects() -> "list[str]":
    """The ELF files this process has mapped; none where there is no /proc (Windows)."""
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
    """Programs map other files, too: caches, tables of characters."""
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
    # Libraries print while they load: the answer is the last line. And they may fail at exit without a GPU, which is
    # not what is tested.
    os.write(1, ("\n" + json.dumps(answer)).encode("utf-8", "surrogateescape"))
    os._exit(0)


if __name__ == "__main__":
    main()
