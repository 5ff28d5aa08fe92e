"""Two small frameworks of C, the second built against the first, and installations of ROCm that say
which they are."""

import zipfile
from pathlib import Path

from trees import put

RECIPE = """
schema = 1
name = "{name}"
summary = "A framework of one C file"
distribution = "cells_{name}"
source = "{name}"
{after}
platforms = ["linux"]
backends = ["rocm"]
any-python = ["rocm"]
work-on = "copy"

[version-file]
path = "version.txt"

[[version]]
text = "${{source.version}}+rocm${{rocm.minor}}torch${{torch.minor}}"

[[environment]]
set = {{ ROCM = "${{rocm.root}}", TORCH = "${{torch.minor}}", VERSION = "${{version}}", TARGETS = "${{targets.comma}}" }}

[[step]]
name = "wheel"
timeout = "5m"
run = ["${{python}}", "make.py"]

[output]
wheel = "dist/*.whl"
install = true

[[check]]
name = "call"
run = ["${{python}}", "-c", "import cells_{name}; print(cells_{name}.built_for())"]
expect = 'ROCm \\d'
{fresh}

[[cost]]
memory-per-job = 0.2
disk = 0.1
cpus = 1
time = "20m"
"""

# Compiles one file against the ROCm that is named, and packs it as wheels are packed.
MAKE = '''
import base64, hashlib, os, pathlib, subprocess, sys, time, zipfile
name, version, torch = {name!r}, os.environ["VERSION"], os.environ["TORCH"]
time.sleep({seconds})
if (os.environ["ROCM"].rpartition("-")[2], torch) in {failing!r}:
    print("c++: fatal error: Killed signal terminated program cc1plus")
    sys.exit(1)
before = ""
if {needs!r}:
    import cells_base
    before = cells_base.built_for()
    assert f"torch {{torch}}" in before, before
command = ["cc", "-shared", "-fPIC", "-O1", "-o", "library.so", "library.c", "-I", os.environ["ROCM"] + "/include"]
subprocess.run([*command, f"-DTORCH={{torch}}", f"-DTARGETS={{os.environ['TARGETS']}}"], check=True)
python = f"""import ctypes, pathlib
library = ctypes.CDLL(pathlib.Path(__file__).with_name("library.so"))
library.built_for.restype = ctypes.c_char_p
before = {{before!r}}
def built_for():
    return library.built_for().decode()
"""
info = f"cells_{{name}}-{{version}}.dist-info"
files = {{
    f"cells_{{name}}/__init__.py": python.encode(),
    f"cells_{{name}}/library.so": pathlib.Path("library.so").read_bytes(),
    f"{{info}}/METADATA": f"Metadata-Version: 2.1\\nName: cells_{{name}}\\nVersion: {{version}}\\n".encode(),
    f"{{info}}/WHEEL": b"Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: false\\nTag: py3-none-manylinux_2_17_x86_64\\n",
}}
pathlib.Path("dist").mkdir(exist_ok=True)
rows = ""
with zipfile.ZipFile(f"dist/cells_{{name}}-{{version}}-py3-none-manylinux_2_17_x86_64.whl", "w") as wheel:
    for path, content in files.items():
        wheel.writestr(zipfile.ZipInfo(path), content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        rows += f"{{path}},sha256={{digest}},{{len(content)}}\\n"
    wheel.writestr(zipfile.ZipInfo(f"{{info}}/RECORD"), rows + f"{{info}}/RECORD,,\\n")
'''

LIBRARY = """
#include <rocm-of-the-test.h>
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
const char *built_for(void) { return "ROCm " ROCM ", torch " TEXT_OF(TORCH) ", " TEXT_OF(TARGETS); }
"""


def write(root: Path, rocm: list[str], failing: set[tuple[str, str]] = frozenset(), seconds: float = 0.0) -> None:
    """Writes recipes, sources and installations of ROCm. `failing`: ROCm and torch for which `base`
    cannot be built."""
    for name, after, fresh in (("base", "", "fresh = true"), ("top", 'after = ["base"]', "")):
        put(root / "recipes" / f"{name}.toml", RECIPE.format(name=name, after=after, fresh=fresh))
        source = root / "sources" / name
        put(source / "version.txt", "1.0\n")
        (source / "library.c").write_text(LIBRARY)
        fails = sorted(failing) if name == "base" else []
        (source / "make.py").write_text(MAKE.format(name=name, failing=fails, seconds=seconds, needs=name == "top"))
    for version in rocm:
        prefix = root / f"rocm-{version}"
        for folder in ("bin", "include", ".info"):
            (prefix / folder).mkdir(parents=True)
        (prefix / ".info/version").write_text(f"{version}.0\n")
        (prefix / "include/rocm-of-the-test.h").write_text(f'#define ROCM "{version}"\n')


def options(root: Path, rocm: list[str], torch: list[str]) -> list[str]:
    """The command line for every combination."""
    return [
        *("build", "base", "top", "--recipes", str(root / "recipes"), "--source-root", str(root / "sources")),
        *("--rocm", ",".join(rocm), "--torch", ",".join(torch), "--rocm-sdk", f"prefix={root}/rocm-{{rocm}}"),
        *("--gpu-targets", "gfx942", "--output", str(root / "out")),
    ]


def names(rocm: list[str], torch: list[str], failing: set[tuple[str, str]] = frozenset()) -> set[str]:
    """The wheels that there are to be."""
    return {
        f"cells_{name}-1.0+rocm{one}torch{other}-py3-none-manylinux_2_17_x86_64.whl"
        for name in ("base", "top")
        for one in rocm
        for other in torch
        if (one, other) not in failing
    }


def check(wheel: Path) -> None:
    """A wheel holds what its name says, and was built after the one that it needs."""
    label = wheel.name.split("+rocm")[1].split("-")[0]
    rocm, torch = label.split("torch")
    with zipfile.ZipFile(wheel) as archive:
        library = next(name for name in archive.namelist() if name.endswith("/library.so"))
        text = f"ROCm {rocm}, torch {torch}, gfx942".encode()
        assert text in archive.read(library), wheel.name
        if wheel.name.startswith("cells_top"):
            assert text in archive.read("cells_top/__init__.py"), wheel.name
