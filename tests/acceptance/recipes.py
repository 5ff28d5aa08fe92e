"""Recipes of a few lines."""

import json


def recipe(
    name: str,
    body: str,
    backend: str = "rocm",
    *,
    version: str | None = "1.0",
    wheel: bool = True,
    any_python: bool = True,
) -> str:
    """A recipe for one backend; `body` begins with what more stands at its top. Only that of ROCm
    needs ROCm."""
    keys = {"name": name, "summary": "For a test", "source": name, "platforms": ["linux"], "backends": [backend]}
    keys |= {"distribution": name} if wheel else {}
    keys |= {"any-python": [backend]} if any_python else {}
    keys |= {} if backend == "rocm" else {"without-sdk": [backend]}
    # Strings and lists of strings are written in TOML as in JSON.
    head = "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
    tail = f'\n[[version]]\ntext = "{version}"\n' if version else ""
    output = '\n[output]\nwheel = "dist/*.whl"\n' if wheel else ""
    return f"schema = 1\n{head}{body}{tail}{output}"
