"""A finding is added from outside, as CONTRIBUTING says: in a copy of the repository, which is
compiled. It needs what a contributor has: cargo and its registry."""

import hashlib
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import REPOSITORY, run

GENERATED = {"crates/check/audit/src/code.rs", "crates/check/audit/src/checks.rs", "docs/findings.md"}

ROW = """
[[finding]]
code = "{code}"
name = "unwanted-file"
severity = "warning"
title = "A file that nothing wants"
explanation = "No program looks for `unwanted.txt`."
cure = "Remove it."
"""

CHECK = """//! {code}: a file that nothing wants.

use crate::Error;
use crate::analysis::{{Context, file_name}};
use crate::check::Check;
use crate::finding::{{Code, Finding}};
use crate::options::AuditScope;

/// The check.
pub const CHECK: Check = Check {{ code: Code::UnwantedFile, scope: AuditScope::Names, run }};

fn run(context: &Context<'_>, findings: &mut Vec<Finding>) -> Result<(), Error> {{
    for (wheel, _) in context.audited() {{
        for path in context.paths(wheel).iter().filter(|path| file_name(path) == "unwanted.txt") {{
            findings.push(context.finding((Code::UnwantedFile, wheel), *path, "nothing wants it", [*path]));
        }}
    }}
    Ok(())
}}
"""

TEST = """
#[test]
fn {lower}_a_file_that_nothing_wants() {{
    let bench = Bench::new();
    let wheel = || pack("demo-1.0", "py3-none-any").with("demo/__init__.py", "");
    assert_eq!(bench.found(&[wheel().with("demo/unwanted.txt", "")]), ["{code} warning"]);
    assert_eq!(bench.found(&[wheel().with("demo/wanted.txt", "")]), NONE);
}}
"""


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A copy of the repository as it is in git, with its changes."""
    listed = run("git", "-C", REPOSITORY, "ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout
    with tempfile.TemporaryDirectory() as folder:
        for name in filter(None, listed.split("\0")):
            path = Path(folder, "checkout", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if (REPOSITORY / name).exists():
                shutil.copy2(REPOSITORY / name, path, follow_symlinks=False)
        yield Path(folder, "checkout")


def digests(checkout: Path) -> dict[str, str]:
    return {
        str(path.relative_to(checkout)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in checkout.rglob("*")
        if path.is_file()
    }


def test_a_finding_is_three_files(checkout: Path) -> None:
    before = digests(checkout)
    table = checkout / "data/findings.toml"
    code = f"RW{len(tomllib.loads(table.read_text())['finding']) + 1:03}"
    table.write_text(table.read_text() + ROW.format(code=code))
    check = checkout / f"crates/check/audit/src/checks/{code.lower()}_unwanted_file.rs"
    check.write_text(CHECK.format(code=code))
    tests = checkout / "crates/check/audit/tests/findings/files.rs"
    tests.write_text(tests.read_text() + TEST.format(code=code, lower=code.lower()))
    by_hand = {str(path.relative_to(checkout)) for path in (table, check, tests)}

    def cargo(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["cargo", "test", "--locked", "--quiet", "--package", "rocwheel-audit", *arguments],
            cwd=checkout,
            env={**os.environ, "CARGO_TARGET_DIR": str(checkout.parent / "target"), **environment},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )

    # Without what is generated the tests say which files are old.
    old = cargo("--lib", "generated", INSTA_UPDATE="no")
    assert old.returncode != 0 and all(Path(name).name in old.stdout for name in GENERATED), old.stdout + old.stderr
    written = cargo("--lib", "generated", INSTA_UPDATE="always")
    assert written.returncode == 0, written.stdout + written.stderr
    tested = cargo("--lib", "--test", "findings", INSTA_UPDATE="no")
    assert tested.returncode == 0, tested.stdout + tested.stderr
    after = digests(checkout)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed - GENERATED == by_hand and len(by_hand) == 3
    assert changed & GENERATED == GENERATED
