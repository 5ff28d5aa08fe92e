"""What the source archive of the tool has to hold, without building it."""

import os
import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
EMBEDDING = re.compile(r'include_(?:str|bytes)!\(\s*(?:concat!\(\s*)?"(\.\./[^"]*)"')


def test_what_the_crates_embed_is_in_the_source_archive() -> None:
    """maturin packs crates by their folders. What they take from elsewhere, pyproject.toml has to
    name."""
    settings = (REPOSITORY / "pyproject.toml").read_text()
    included = re.findall(r'\{ path = "([\w/]+)/\*\*/\*", format = "sdist" \}', settings)
    elsewhere = set()
    for source in (REPOSITORY / "crates").rglob("*.rs"):
        crate = source.relative_to(REPOSITORY).parts[:3]
        for path in EMBEDDING.findall(source.read_text()):
            place = Path(os.path.normpath(source.parent / path)).relative_to(REPOSITORY)
            # A crate that another one depends on is in the archive as well.
            if place.parts[:3] != crate and place.parts[0] != "crates":
                elsewhere.add(place)
    assert {"data", "python"} <= {place.parts[0] for place in elsewhere}, "the expression finds them"
    for place in elsewhere:
        assert any(place.is_relative_to(folder) for folder in included), f"{place} would be missing"
        assert place.parts[:2] != ("python", "tests"), f"{place} is left out of the archive"


def test_a_release_is_made_of_what_is_committed(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", REPOSITORY.as_uri(), clone], check=True)
    # As they are now, whether they are committed or not.
    script = clone / "scripts/dist"
    script.write_bytes((REPOSITORY / "scripts/dist").read_bytes())
    script.chmod(0o755)
    (clone / "README.md").write_text("changed\n")
    refused = subprocess.run([script, "--output", tmp_path / "dist"], capture_output=True, text=True)
    assert refused.returncode == 1 and "README.md" in refused.stderr and "--dirty" in refused.stderr, refused
    assert not (tmp_path / "dist").exists() and not (clone / "target").exists()
    unknown = subprocess.run([script, "--help"], capture_output=True, text=True)
    assert unknown.returncode == 1 and "usage: scripts/dist" in unknown.stderr
