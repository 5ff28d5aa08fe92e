"""Finds, loads and prepares the ROCm that is installed as Python packages.

    import rocm_sdk
    rocm_sdk.initialize_process(preload_shortnames=["amdhip64", "hiprtc"], check_version="6.4.*")

A framework calls `initialize_process` before it loads its own extension modules. Their references
to ROCm libraries then resolve to those of this environment.
"""

from __future__ import annotations

import ctypes
import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

from . import _contents, _devices, _dist_info

__version__: str = _dist_info.__version__

__all__ = ["__version__", "find_libraries", "initialize_process", "preload_libraries"]

PRELOAD_VARIABLE = "ROCM_SDK_PRELOAD_LIBRARIES"

_ALL_CDLLS: dict[str, ctypes.CDLL] = {}
_devices_were_checked = False
_dll_directories: list[object] = []


def find_libraries(*shortnames: str) -> list[Path]:
    """The files of libraries with these short names (`amdhip64`; `_dist_info.ALL_LIBRARIES` lists
    the names).

    The result has one path for each argument, in order. A library is omitted if it does not exist
    on this platform, or if it is optional and this distribution does not contain it, so only unpack
    the result if no argument can be such a name. If several files match (`libx.so`, `libx.so.1`,
    `libx.so.1.2`), the shortest name wins, then the alphabetically first: packages contain each
    library once, under its SONAME.

    Raises ModuleNotFoundError for an unknown name and for a package that is not installed (the
    message names the command that installs it), and FileNotFoundError if the distribution does not
    contain the library.
    """
    paths: list[Path] = []
    for shortname in shortnames:
        path = _find_library(shortname)
        if path is not None:
            paths.append(path)
    return paths


def _find_library(shortname: str) -> Path | None:
    library = _dist_info.ALL_LIBRARIES.get(shortname)
    if library is None:
        raise ModuleNotFoundError(f"Unknown rocm library '{shortname}'")
    if not library.pattern:
        return None
    family = _contents.installed_family(library.package)
    if library.package.is_target_specific and family is None:
        raise ModuleNotFoundError(f"{library.package.dist_package_template} is available for no GPU target")
    if library.optional and not library.package.has_py_package(family):
        return None
    module = library.package.get_py_package(family)
    assert module.__file__ is not None  # get_py_package refuses a package without files
    directory = Path(module.__file__).parent
    found = sorted((directory / library.relpath).glob(library.pattern), key=lambda path: (len(path.name), path.name))
    if found:
        return found[0]
    name = library.package.get_dist_package_name(family)
    if _is_listed(library, family):
        raise FileNotFoundError(
            f"`{library.relpath}/{library.pattern}` is missing from `{directory}`, although {name} has it. "
            f"Repair it with: pip install --force-reinstall --no-deps '{name}=={__version__}'"
        )
    if library.optional:
        return None
    raise FileNotFoundError(
        f"The library '{shortname}' is not in this distribution: {name} {__version__} in `{directory}` "
        f"has no `{library.relpath}/{library.pattern}`"
    )


def _is_listed(library: _dist_info.LibraryEntry, family: str | None) -> bool:
    pure = _contents.site_directory() / library.package.get_pure_py_package_name(family)
    listed = _contents.read_contents(pure).get("libraries", [])
    return any(library.matches(item["path"]) for item in listed)


def preload_libraries(*shortnames: str, rtld_global: bool = True) -> None:
    """Loads libraries by short name into this process, each once. Raises the errors of
    `find_libraries`.

    With `rtld_global` their symbols are available to every library that is loaded later.
    """
    _add_dll_directories_once()
    mode = ctypes.RTLD_GLOBAL if rtld_global else ctypes.RTLD_LOCAL
    for shortname in shortnames:
        if shortname in _ALL_CDLLS:
            continue
        for path in find_libraries(shortname):
            _ALL_CDLLS[shortname] = ctypes.CDLL(str(path), mode=mode)


def initialize_process(
    *,
    preload_shortnames: Sequence[str] = (),
    rtld_global: bool = True,
    env_override: bool = True,
    check_version: str | re.Pattern[str] | None = None,
    fail_on_version_mismatch: bool = False,
    **kwargs: object,
) -> None:
    """Prepares this process for a program that was compiled against ROCm.

    Loads `preload_shortnames` and then, with `env_override`, the libraries in
    `ROCM_SDK_PRELOAD_LIBRARIES` (separated by `,` or `;`). `check_version` is the version the
    program was compiled against: a string in which `*` matches any text, or a compiled expression
    that must match from the start. Another version causes a UserWarning, or a RuntimeError with
    `fail_on_version_mismatch`. Warns once per process if no kernels are installed for the GPU.
    Other keyword arguments are ignored; they are for later versions.
    """
    preload_libraries(*preload_shortnames, rtld_global=rtld_global)
    if env_override:
        _preload_from_environment(rtld_global)
    if check_version is not None:
        _check_version(check_version, fail_on_version_mismatch)
    _warn_about_devices_once()


def _preload_from_environment(rtld_global: bool) -> None:
    value = os.environ.get(PRELOAD_VARIABLE, "")
    shortnames = [name.strip() for name in re.split("[,;]", value) if name.strip()]
    try:
        preload_libraries(*shortnames, rtld_global=rtld_global)
    except (OSError, ImportError) as error:
        raise RuntimeError(f"Cannot preload the libraries that {PRELOAD_VARIABLE}={value} asks for: {error}") from error


def _check_version(expected: str | re.Pattern[str], fail: bool) -> None:
    if isinstance(expected, str):
        pattern = ".*".join(re.escape(part) for part in expected.split("*"))
        matches = re.fullmatch(pattern, __version__) is not None
        shown = expected
    else:
        matches = expected.match(__version__) is not None
        shown = expected.pattern
    if matches:
        return
    # pip takes a `*` behind the last point only, and no expression.
    is_specifier = re.fullmatch(r"\w[\w.+!-]*?(\.\*)?", shown) and isinstance(expected, str)
    command = f" with: pip install 'rocm=={shown}'" if is_specifier else "."
    message = (
        f"The program was compiled against a ROCm version matching '{shown}', "
        f"but the installed ROCm is {__version__}. Install the one it needs{command}"
    )
    if fail:
        raise RuntimeError(message)
    warnings.warn(message, UserWarning, stacklevel=3)


def _add_dll_directories_once() -> None:
    """On Windows: lets libraries and extension modules find the DLLs of all ROCm packages."""
    global _dll_directories
    if os.name == "nt" and not _dll_directories:
        # The folder is removed again when the returned object is closed.
        _dll_directories = [os.add_dll_directory(str(folder)) for folder in _contents.dll_directories()]


def _warn_about_devices_once() -> None:
    global _devices_were_checked
    if _devices_were_checked:
        return
    _devices_were_checked = True
    try:
        complaint = _devices.complaint()
    except (OSError, ValueError):
        # This check only gives advice; `rocm-sdk test` reports problems of the installation.
        return
    if complaint is not None:
        warnings.warn(complaint, UserWarning, stacklevel=3)
