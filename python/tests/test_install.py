"""pip and uv: the packages they install, their caches, and the files they leave behind when they
uninstall."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from conftest import make_distribution
from fixtures import UV, VERSION, Environment, run, selector_sdist

BOTH = pytest.mark.parametrize("installer", ["pip", "uv"])
COMPLETE = "rocm[libraries,device-gfx942,device-gfx1100,devel]"


def bare_files(environment: Environment) -> list[str]:
    """The files of a new environment, apart from programs."""
    return [name for name in environment.files() if not name.startswith("bin/")]


@BOTH
def test_the_variable_and_the_extras_decide(distribution: Path, tmp_path: Path, installer: str) -> None:
    environment = Environment(tmp_path / "venv", distribution, installer)
    environment.install("rocm")
    assert environment.installed() == ["rocm", "rocm_sdk_core"]
    environment = Environment(tmp_path / "another", distribution, installer)
    environment.install("rocm[device]", ROCM_SDK_TARGET_FAMILY="gfx942")
    assert environment.installed() == ["rocm", "rocm_sdk_core", "rocm_sdk_device_gfx942", "rocm_sdk_libraries"]
    assert (environment.directory / "bin" / "rocm-sdk").exists()


@BOTH
def test_a_folder_of_packages_passes_its_test(distribution: Path, tmp_path: Path, installer: str) -> None:
    """`--target` puts programs into the folder itself, and pip's RECORD says elsewhere."""
    environment, folder = Environment(tmp_path / "venv", distribution, installer), tmp_path / "folder"
    environment.install("--target", str(folder), "rocm[libraries]")
    assert (folder / "bin/rocm-sdk").exists()
    said = environment.rocm_sdk("test", "--verify", check=False, PYTHONPATH=str(folder))
    assert said.returncode == 0, said.stdout
    (folder / "bin/rocm-sdk").unlink()
    said = environment.rocm_sdk("test", check=False, PYTHONPATH=str(folder))
    assert said.returncode == 1 and "bin/rocm-sdk is missing" in said.stdout


@BOTH
def test_an_unavailable_target_stops_the_installation(distribution: Path, tmp_path: Path, installer: str) -> None:
    environment = Environment(tmp_path / "venv", distribution, installer)
    result = environment.install("rocm[device]", check=False, ROCM_SDK_TARGET_FAMILY="gfx950")
    assert result.returncode != 0
    # uv wraps long lines.
    said = " ".join((result.stdout + result.stderr).split())
    assert "ROCM_SDK_TARGET_FAMILY=gfx950 is not available in the distribution" in said, said


@BOTH
def test_a_promoted_source_distribution_is_what_is_installed(
    distribution: Path, tmp_path: Path, installer: str, binaries: Path
) -> None:
    """Release tools edit the texts of the source distribution (version, remaining targets) and
    repack it."""
    wheels = make_distribution(tmp_path / "candidate", binaries, version="6.4.0rc1")
    tree = tmp_path / "candidate" / "rocm"
    for name in (
        "PKG-INFO",
        "src/rocm.egg-info/PKG-INFO",
        "src/rocm.egg-info/requires.txt",
        "src/rocm_sdk/_dist_info.py",
    ):
        text = (tree / name).read_text().replace("6.4.0rc1", VERSION)
        kept = [line for line in text.splitlines() if "AVAILABLE_TARGET_FAMILIES.append('gfx1100')" not in line]
        text = "\n".join(kept).replace("DEFAULT_TARGET_FAMILY = 'gfx1100'", 'DEFAULT_TARGET_FAMILY = "gfx942"')
        (tree / name).write_text(text + "\n")
    promoted = tmp_path / "promoted"
    shutil.copytree(distribution, promoted, ignore=shutil.ignore_patterns("rocm-*"))
    selector_sdist(tree, promoted)
    assert not list(wheels.glob(f"rocm-{VERSION}.tar.gz"))
    environment = Environment(tmp_path / "venv", promoted, installer)
    environment.install("rocm[device]")
    assert environment.installed() == ["rocm", "rocm_sdk_core", "rocm_sdk_device_gfx942", "rocm_sdk_libraries"]
    assert environment.rocm_sdk("version").stdout == f"{VERSION}\n"
    result = environment.install("rocm[device-gfx1100]", check=False)
    assert "rocm_sdk_device_gfx1100" not in environment.installed(), result.stdout


@BOTH
def test_a_warm_cache_keeps_the_choice_but_not_of_named_targets(
    distribution: Path, tmp_path: Path, installer: str
) -> None:
    """Both cache the wheel they built (C11), and no backend can prevent it. Hence the extras with
    target names, and the command in the README that clears the cache entry."""
    cache = tmp_path / "cache"
    first = Environment(tmp_path / "first", distribution, installer, cache=cache)
    first.install("rocm[device]", ROCM_SDK_TARGET_FAMILY="gfx1100")
    second = Environment(tmp_path / "second", distribution, installer, cache=cache)
    second.install("rocm[device]", ROCM_SDK_TARGET_FAMILY="gfx942")
    assert "rocm_sdk_device_gfx1100" in second.installed(), (
        "if this fails, the caches got better: tell it in the README"
    )
    # Targets that are named are right with any cache.
    second.install("rocm[device-gfx942]")
    assert "rocm_sdk_device_gfx942" in second.installed()
    # Without the cache entry the variable has an effect again.
    clear_cache(installer, cache, second)
    third = Environment(tmp_path / "third", distribution, installer, cache=cache)
    third.install("rocm[device]", ROCM_SDK_TARGET_FAMILY="gfx942")
    assert "rocm_sdk_device_gfx942" in third.installed()
    assert "rocm_sdk_device_gfx1100" not in third.installed()


def clear_cache(installer: str, cache: Path, environment: Environment) -> None:
    """The command in the README."""
    if installer == "pip":
        run([sys.executable, "-m", "pip", "--cache-dir", cache, "cache", "remove", "rocm"], env=environment.variables())
    else:
        run([UV, "--cache-dir", cache, "cache", "clean", "rocm"], env=environment.variables())


@pytest.mark.parametrize("mode", ["hardlink", "symlink", "copy"])
@BOTH
def test_uninstalling_in_any_order_leaves_no_file(
    distribution: Path, tmp_path: Path, installer: str, mode: str
) -> None:
    environment = Environment(tmp_path / "venv", distribution, installer)
    environment.install(COMPLETE)
    everything = tmp_path / "everything"
    environment.rocm_sdk("init", "--link-mode", mode)
    # With bytecode, like an installation that has been used.
    environment.rocm_sdk("test", "-q")
    environment.execute("import runpy; runpy.run_path('/dev/null'); import _rocm_sdk_devel, rocm_sdk.tests")
    shutil.copytree(environment.directory, everything, symlinks=True)
    parts = ["rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-gfx942", "rocm-sdk-devel"]
    orders = [parts, parts[::-1], [parts[3], parts[2], parts[0], parts[1]], [parts[2], parts[3], parts[1], parts[0]]]
    for order in orders[:1] if mode == "copy" else orders:
        if not environment.directory.exists():
            shutil.copytree(everything, environment.directory, symlinks=True)
        # pip processes the names in the given order, uv in its own.
        order = ["rocm", "rocm-sdk-device-gfx1100", *order]
        for names in [order] if installer == "pip" else [[name] for name in order]:
            environment.uninstall(*names)
        assert bare_files(environment) == [], order
        shutil.rmtree(environment.directory)


def test_files_that_are_links_into_the_cache(distribution: Path, tmp_path: Path) -> None:
    """uv's `--link-mode symlink`: nothing may be searched for beside the target of a link, or
    written through it."""
    environment = Environment(tmp_path / "venv", distribution, "uv", cache=tmp_path / "cache")
    environment.install(COMPLETE, "--link-mode", "symlink")
    assert (environment.site / "rocm_sdk" / "_devel.py").is_symlink()
    result = environment.rocm_sdk("test", "--verify")
    assert "ok    rocm-sdk-libraries lib/librocblas.so.4: 3 objects" in result.stdout
    tree = environment.site / "_rocm_sdk_devel"
    core = environment.site / "_rocm_sdk_core" / "lib" / "libamdhip64.so.6"
    assert (tree / "lib" / "libamdhip64.so").samefile(core)
    assert environment.rocm_sdk("init", "--verify").returncode == 0
    environment.uninstall(*(name.replace("_", "-") for name in environment.installed()))
    assert bare_files(environment) == []
    # The cache is intact: it can be installed from again.
    environment.install(COMPLETE, "--link-mode", "symlink")
    assert environment.rocm_sdk("test", "--verify").returncode == 0


@pytest.mark.parametrize("installed", ["hardlink", "symlink", "copy", "clone"])
def test_uv_s_link_modes_and_ours(distribution: Path, tmp_path: Path, installed: str) -> None:
    """Files that uv installs can be those of its cache, or links to them. No operation on the tree
    may change them."""
    cache = tmp_path / "cache"
    environment = Environment(tmp_path / "venv", distribution, "uv", cache=cache)
    environment.install(COMPLETE, "--link-mode", installed)

    def cached() -> dict[Path, tuple[bytes, int]]:
        files = [path for path in cache.rglob("*") if path.is_file() and not path.is_symlink()]
        kept = [path for path in files if path.suffix in (".py", ".6", ".4", ".co", ".tar") or path.name == "RECORD"]
        return {path: (path.read_bytes(), path.stat().st_mode) for path in kept}

    before = cached()
    assert len(before) > 10
    for mode in ("hardlink", "symlink", "copy", "symlink", "hardlink"):
        environment.rocm_sdk("init", "--link-mode", mode)
        assert environment.rocm_sdk("init", "--verify").stdout.endswith(", 0 problems\n")
        assert cached() == before, mode
    environment.rocm_sdk("init", "--link-mode", "symlink")
    environment.uninstall("rocm-sdk-core")
    environment.uninstall(*(name.replace("_", "-") for name in environment.installed()))
    assert bare_files(environment) == []
    assert cached() == before


def test_a_package_installed_again_brings_its_links_back(distribution: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", distribution, "pip")
    environment.install(COMPLETE)
    environment.rocm_sdk("init", "--link-mode", "symlink")
    library = environment.site / "_rocm_sdk_devel" / "lib" / "libamdhip64.so"
    assert library.is_symlink()
    environment.install("rocm-sdk-core", "--force-reinstall", "--no-deps")
    assert not library.is_symlink(), "it went with its package"
    shown = environment.rocm_sdk("init", "--verify", check=False)
    assert shown.returncode == 1 and "link-missing _rocm_sdk_devel/lib/libamdhip64.so: " in shown.stdout
    environment.rocm_sdk("path", "--root")
    assert library.is_symlink() and library.exists()
    assert environment.rocm_sdk("test", "--verify").returncode == 0
    # And the command that is recommended for a damaged file works.
    header = environment.site / "_rocm_sdk_devel" / "include" / "top.h"
    header.write_text("?")
    assert "truncated _rocm_sdk_devel/include/top.h" in environment.rocm_sdk("init", "--repair", check=False).stdout
    environment.install(f"rocm-sdk-devel=={VERSION}", "--force-reinstall", "--no-deps")
    environment.rocm_sdk("init")
    assert environment.rocm_sdk("init", "--verify").stdout.endswith(", 0 problems\n")


def test_one_device_package_leaves_the_others_alone(distribution: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", distribution, "uv")
    environment.install(COMPLETE)
    environment.rocm_sdk("init")
    environment.uninstall("rocm-sdk-device-gfx1100")
    code = "import rocm_sdk; print(rocm_sdk.find_libraries('rocblas')[0].name)"
    assert environment.execute(code).stdout == "librocblas.so.4\n"
    kernels = environment.site / "_rocm_sdk_devel" / "lib" / "rocblas" / "library"
    assert [path.name for path in kernels.iterdir()] == ["K_gfx942.co"]
    assert environment.rocm_sdk("test").returncode == 0


@pytest.mark.parametrize(("installer", "order"), [("uv", "again"), ("uv", "newer"), ("pip", "newer")])
def test_devel_can_be_installed_again_and_upgraded(
    distribution: Path, tmp_path: Path, installer: str, order: str, binaries: Path
) -> None:
    environment = Environment(tmp_path / "venv", distribution, installer)
    environment.install(COMPLETE)
    environment.rocm_sdk("init")
    if order == "again":
        environment.install("rocm-sdk-devel", "--reinstall" if installer == "uv" else "--force-reinstall", "--no-deps")
    else:
        environment.wheels = make_distribution(tmp_path / "newer", binaries, version="6.4.1")
        environment.install(COMPLETE, "--upgrade")
    environment.rocm_sdk("init")
    tree = environment.site / "_rocm_sdk_devel"
    assert sorted(path.name for path in (tree / "lib" / "rocblas" / "library").iterdir()) == [
        "K_gfx1100.co",
        "K_gfx942.co",
    ]
    result = environment.rocm_sdk("test", "--verify", check=False)
    assert result.returncode == 0, result.stdout
    environment.uninstall(*(name.replace("_", "-") for name in environment.installed()))
    assert bare_files(environment) == []
