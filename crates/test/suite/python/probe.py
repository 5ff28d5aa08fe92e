"""Prints facts about a Python as JSON, without importing what is tested."""

import contextlib
import importlib.metadata
import importlib.util
import json
import platform
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit


def version(name: str) -> "str | None":
    """Version of an installed distribution."""
    try:
        return importlib.metadata.version(name)
    except Exception:
        return None


def torch() -> "dict | None":
    """What torch/version.py says; torch itself may take seconds to import, or hang."""
    with contextlib.suppress(Exception):
        spec = importlib.util.find_spec("torch")
        if spec is None or not spec.origin:
            return None
        text = Path(spec.origin).with_name("version.py").read_text(encoding="utf-8")
        facts = {}
        for name in ("__version__", "git_version", "hip", "cuda"):
            found = re.search(rf"^{name}[^=\n]*=\s*['\"]([^'\"]*)['\"]", text, re.MULTILINE)
            facts[name.strip("_")] = found.group(1) if found else None
        facts["version"] = facts.get("version") or version("torch")
        return facts
    return None


def installed() -> dict:
    """Everything that is installed, by its normalised name; of two the one that is imported."""
    found = {}
    for distribution in importlib.metadata.distributions():
        with contextlib.suppress(Exception):
            name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"]).lower()
            found.setdefault(name, distribution)
    return found


def wheels(distributions: dict) -> dict:
    """File name and SHA-256 of wheels whose installer wrote them down (PEP 610)."""
    found = {}
    for distribution in distributions.values():
        with contextlib.suppress(Exception):
            record = json.loads(distribution.read_text("direct_url.json") or "{}")
            archive = record.get("archive_info") or {}
            digest = (archive.get("hashes") or {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
            if digest:
                found[unquote(urlsplit(record["url"]).path).rsplit("/", 1)[-1]] = digest
    return found


def folders(distributions: dict) -> dict:
    """The folder of metadata of each distribution that has one."""
    found = {}
    for name, distribution in distributions.items():
        path = getattr(distribution, "_path", None)
        if path is not None:
            found[name] = str(path)
    return found


INSTALLED = installed()
print(
    "\nROCWHEEL "
    + json.dumps(
        {
            "python": platform.python_version(),
            "prefix": sys.prefix,
            "pytest": version("pytest") if importlib.util.find_spec("pytest") else None,
            "xdist": importlib.util.find_spec("xdist") is not None,
            "torch": torch(),
            "wheels": wheels(INSTALLED),
            "distributions": {name: distribution.version for name, distribution in INSTALLED.items()},
            "folders": folders(INSTALLED),
        }
    )
)
