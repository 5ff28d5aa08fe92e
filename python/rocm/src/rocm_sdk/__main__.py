"""The command `rocm-sdk`: what is installed, where it is, and whether it works.

Answers go to stdout, everything else to stderr. Exit status: 0 done, 1 a check failed or something is missing, 2 wrong
usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys

from . import _contents, _devel, _devices, _dist_info


def main(arguments: list[str] | None = None) -> int:
    """Runs the command with the arguments of the process, or those given; the answer is the exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (ImportError, _devel.DevelError, OSError, ValueError) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rocm-sdk", description="The ROCm that is installed as Python packages.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    path = commands.add_parser("path", help="print where the devel tree is (expands it if needed)")
    which = path.add_mutually_exclusive_group(required=True)
    which.add_argument("--root", action="store_const", const=".", dest="subfolder", help="the tree itself: ROCM_PATH")
    which.add_argument("--bin", action="store_const", const="bin", dest="subfolder", help="its programs")
    which.add_argument("--cmake", action="store_const", const="lib/cmake", dest="subfolder", help="CMAKE_PREFIX_PATH")
    path.set_defaults(run=_path)

    init = commands.add_parser("init", help="expand the devel package, and add the files of new device packages to it")
    init.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    init.set_defaults(run=_init)

    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)

    targets = commands.add_parser("targets", help="print the GPU targets this ROCm was built for")
    targets.set_defaults(run=_targets)

    test = commands.add_parser("test", help="check that everything installed is complete, loads and answers")
    test.add_argument("--verify", action="store_true", help="compare the hash of every file, not only its size")
    test.add_argument("-q", "--quiet", action="store_true", help="print failures, what was skipped, and the counts")
    test.set_defaults(run=_test)
    return parser


def _path(options: argparse.Namespace) -> int:
    print((_devel.get_devel_root() / options.subfolder).resolve())
    _advise()
    return 0


def _init(options: argparse.Namespace) -> int:
    root = _devel.get_devel_root(quiet=options.quiet)
    if not options.quiet:
        print(f"Devel contents expanded to '{root}'")
        _advise()
    return 0


def _version(options: argparse.Namespace) -> int:
    print(_dist_info.__version__)
    _advise()
    return 0


def _targets(options: argparse.Namespace) -> int:
    print(";".join(_devices.distribution_targets()))
    _advise()
    return 0


def _test(options: argparse.Namespace) -> int:
    from .tests import run

    return run(_contents.site_directory(), verify=options.verify, quiet=options.quiet)


def _advise() -> None:
    """Says on stderr if the GPU of this machine has no kernels: whichever command is tried first tells."""
    try:
        complaint = _devices.complaint()
    except (ImportError, OSError, ValueError):
        # Advice must not make a command fail that has done its work; `rocm-sdk test` says what is wrong.
        return
    if complaint is not None:
        print(f"WARNING: {complaint}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
