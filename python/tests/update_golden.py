"""Writes the golden files anew: `python tests/update_golden.py`, after the shipped files or their metadata changed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fixtures import selector_tree

GOLDEN = Path(__file__).parent / "golden"
SHAPES = ("split", "fat", "per-family")
EGG_INFO_FILES = ("requires.txt", "SOURCES.txt", "dependency_links.txt", "entry_points.txt", "top_level.txt")


def generated(tree: Path) -> dict[str, str]:
    """The generated texts of a selector's tree; PKG-INFO without the README that follows its headers."""
    texts = {name: (tree / "src" / "rocm.egg-info" / name).read_text() for name in EGG_INFO_FILES}
    header, _, _ = (tree / "PKG-INFO").read_text().partition("\n\n")
    return {"PKG-INFO": header + "\n", **texts}


def main() -> None:
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as directory:
            tree = selector_tree(Path(directory, "rocm"), (GOLDEN / shape / "tail.py").read_text())
            for name, text in generated(tree).items():
                (GOLDEN / shape / name).write_text(text)


if __name__ == "__main__":
    main()
