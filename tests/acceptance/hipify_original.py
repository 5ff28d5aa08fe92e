"""Runs the original on trees: build_amd.py of a PyTorch tree, and hipify as an extension's setup.py
calls it.

Run as a program, it is the second: hipify_original.py PACKAGE TREE FOLDERS IGNORES [SOURCES...],
where PACKAGE is a folder torch/utils/hipify, and FOLDERS and IGNORES are lists with commas.
"""

import contextlib
import importlib
import io
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

CODE = ".cu", ".cpp", ".cc"


def sources(tree: Path, below: str) -> list[Path]:
    """What an extension would compile."""
    return sorted(path for path in (tree / below).rglob("*") if path.suffix in CODE)


def build_amd(tree: Path, hip: Path | None = None) -> None:
    """The tree's own script; `hip` is a folder with lib/.hipInfo."""
    environment = {key: value for key, value in os.environ.items() if key != "HIP_PATH"}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"} | ({"HIP_PATH": str(hip)} if hip else {})
    script = tree / "tools/amd_build/build_amd.py"
    subprocess.run([sys.executable, script], cwd=tree, env=environment, check=True, capture_output=True)


def extension(
    package: Path, tree: Path, only: list[Path], folders: list[str], ignores: list[str] | None = None
) -> None:
    """In a process of its own: the original remembers what it did. A pattern of `ignores` begins
    with `*`."""
    command = [sys.executable, __file__, package, tree, ",".join(folders), ",".join(ignores or []), *only]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True)


def second_algorithm(tree: Path, package: Path) -> None:
    """Makes a tree of torch 2.6 one with the second algorithm and the settings that went with it.

    No source of 2.11 or later can be had from a registry.
    """
    shutil.rmtree(tree / "torch/utils/hipify")
    shutil.copytree(package, tree / "torch/utils/hipify")
    script = tree / "tools/amd_build/build_amd.py"
    text = script.read_text()
    text, found = re.subn(
        r"(?s)def is_hip_clang.*?(?=# TODO)", "def is_hip_clang() -> bool:\n    return True\n\n\n", text
    )
    assert found == 1
    for here, more in (
        ('    "torch/*",\n', '    "torch/csrc/stable/*",\n    "test/cpp/c10d/*",\n'),
        ('    "torch/csrc/jit/tensorexpr/ir_printer.cpp",\n', '    "torch/csrc/jit/ir/ir.h",\n'),
        ("    extra_files=[\n", '        "torch/_inductor/codegen/cuda/device_op_overrides.py",\n'),
    ):
        assert text.count(here) == 1, here
        text = text.replace(here, here + more)
    script.write_text(text)


def main() -> None:
    package, tree, folders, ignores, *only = sys.argv[1:]
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(package).parent))
    hipify = importlib.import_module(f"{Path(package).name}.hipify_python")
    tree = os.path.realpath(tree)
    more = {"ignores": [pattern for pattern in ignores.split(",") if pattern]}
    if only:
        more |= {"extra_files": [os.path.realpath(path) for path in only], "hipify_extra_files_only": True}
        more["header_include_dirs"] = [folder for folder in folders.split(",") if folder]
    with contextlib.redirect_stdout(io.StringIO()):
        hipify.hipify(tree, output_directory=tree, includes=[f"{tree}/*"], is_pytorch_extension=True, **more)


if __name__ == "__main__":
    main()
