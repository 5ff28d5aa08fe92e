"""`rocwheel audit` on wheels for musllinux says of every file what musl's own loader says: Debian's
package `musl`."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from command import Rocwheel, run
from linked_wheels import write_wheel

LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **paths) {
    if (dlopen(paths[1], RTLD_NOW)) return 0;
    puts(dlerror());
    return 1;
}
"""


@dataclass(frozen=True)
class Library:
    path: str
    needs: tuple[str, ...] = ()
    search_path: str = ""
    soname: str = ""
    tag: str = "--enable-new-dtags"


MODULE = "demo/_m.cpython-312-x86_64-linux-musl.so"

# The first one is loaded.
CASES: dict[str, tuple[bool, list[Library]]] = {
    "DT_RUNPATH counts for what the needed ones need": (True, [
        Library(MODULE, ("libnear.so",), "$ORIGIN/lib"),
        Library("demo/lib/libnear.so", ("libdeep.so",)),
        Library("demo/lib/libdeep.so"),
    ]),
    "DT_RPATH does too": (True, [
        Library(MODULE, ("libnear.so",), "$ORIGIN/lib", tag="--disable-new-dtags"),
        Library("demo/lib/libnear.so", ("libdeep.so",)),
        Library("demo/lib/libdeep.so"),
    ]),
    "a search path of a needed one hides nobody else's": (True, [
        Library(MODULE, ("libnear.so",), "$ORIGIN/lib"),
        Library("demo/lib/libnear.so", ("libdeep.so",), "$ORIGIN/nowhere"),
        Library("demo/lib/libdeep.so"),
    ]),
    "the folder of a file is not searched": (False, [Library(MODULE, ("libnear.so",)), Library("demo/libnear.so")]),
    "a search path counts for nobody beside": (False, [
        Library(MODULE, ("libnear.so", "libdeep.so"), "$ORIGIN/lib"),
        Library("demo/lib/libnear.so", (), "$ORIGIN/deep"),
        Library("demo/lib/deep/libdeep.so"),
    ]),
    "what is loaded already is known by the name it was asked for": (True, [
        Library(MODULE, ("libnear.so", "libmiddle.so"), "$ORIGIN/lib"),
        Library("demo/lib/libnear.so", ("libdeep.so",), "$ORIGIN/deep"),
        Library("demo/lib/libmiddle.so", ("libdeep.so",)),
        Library("demo/lib/deep/libdeep.so"),
    ]),
    "a SONAME is no name": (False, [
        Library(MODULE, ("libnear.so", "libother.so"), "$ORIGIN/lib"),
        Library("demo/lib/libnear.so", soname="libother.so"),
    ]),
    # Every system of musllinux has zlib, and a search path comes before what the system has.
    "a grafted library of the system's is the one that is loaded": (False, [
        Library(MODULE, ("libz.so.1",), "$ORIGIN/lib"),
        Library("demo/lib/libz.so.1", ("libdeep.so",)),
        Library("demo/lib/deep/libdeep.so"),
    ]),
    "what a grafted one needs is found by its search path": (True, [
        Library(MODULE, ("libz.so.1",), "$ORIGIN/lib"),
        Library("demo/lib/libz.so.1", ("libdeep.so",), "$ORIGIN/deep"),
        Library("demo/lib/deep/libdeep.so"),
    ]),
    "one that was grafted and not brought in by the first is loaded too": (False, [
        Library(MODULE, ("libnear.so",), "$ORIGIN/lib"),
        Library("demo/lib/libnear.so", ("libz.so.1",)),
        Library("demo/lib/libz.so.1", ("libdeep.so",)),
        Library("demo/lib/deep/libdeep.so"),
    ]),
    "its own C library is looked for nowhere": (True, [
        Library(MODULE, ("libc.musl-x86_64.so.1",), "$ORIGIN/lib"),
        Library("demo/lib/libc.musl-x86_64.so.1", ("libdeep.so",)),
        Library("demo/lib/deep/libdeep.so"),
    ]),
}  # fmt: skip


def build(library: Library, root: Path) -> None:
    """Links against stand-ins for what it needs, so that nothing but the names is taken from
    them."""
    stubs = root / "stubs"
    stubs.mkdir(exist_ok=True)
    for name in library.needs:
        run("musl-gcc", "-shared", "-x", "c", "/dev/null", "-o", stubs / name, f"-Wl,-soname,{name}")
    path = root / "site" / library.path
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["-shared", "-fPIC", "-x", "c", "/dev/null", "-o", path, "-L", stubs, "-Wl,--no-as-needed"]
    words += [f"-Wl,{library.tag}"] + [f"-l:{name}" for name in library.needs]
    words += [f"-Wl,-soname,{library.soname or path.name}"]
    if library.search_path:
        words.append(f"-Wl,-rpath,{library.search_path}")
    run("musl-gcc", *words)


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loader")
    (folder / "load.c").write_text(LOADER)
    run("musl-gcc", "-o", folder / "load", folder / "load.c")
    return folder / "load"


@pytest.mark.parametrize("name", CASES)
def test_the_search_is_that_of_musl(rocwheel: Rocwheel, loader: Path, tmp_path: Path, name: str) -> None:
    loads, libraries = CASES[name]
    for library in libraries:
        build(library, tmp_path)
    site = tmp_path / "site"
    said = run(loader, site / libraries[0].path, expect=0 if loads else 1)
    files = {library.path: (site / library.path).read_bytes() for library in libraries}
    wheel = write_wheel(tmp_path, files, "musllinux_1_2_x86_64", python="cp312-cp312")
    report = rocwheel.json("audit", wheel)
    missing = report["scenarios"][0]["missing"]
    # Its words: Error loading shared library libnear.so: No such file or directory (needed by …)
    assert [name for name in missing if f"library {name}:" in said.stdout] == missing
    assert bool(missing) != loads, report["findings"]
