"""The command `rocm-sdk`: shows the installed packages and their paths, and tests them.

Results go to stdout, everything else to stderr. Exit status: 0 done, 1 a check failed or something
is missing, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys

from . import _contents, _devel, _devices, _dist_info, _links, _receipt, _verify


def main(arguments: list[str] | None = None) -> int:
    """Runs the command with the given arguments, or those of the process, and returns the exit
    status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except (ImportError, _devel.DevelError, OSError, ValueError) as error:
        if getattr(options, "json", False):
            print(json.dumps({"schema": _verify.SCHEMA, "error": str(error)}, indent=2))
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
    init.add_argument(
        "--link-mode",
        choices=[mode.value for mode in _receipt.LINK_MODES],
        help=(
            "make files of other packages appear in the tree as hard links (where there are none: as what there is), "
            "symbolic links or copies; changes a tree that is there. Named here or in the environment variable "
            f"{_links.MODE_VARIABLE}, it is that or an error"
        ),
    )
    check = init.add_mutually_exclusive_group()
    check.add_argument("--verify", action="store_true", help="only compare the tree with what was installed")
    check.add_argument("--repair", action="store_true", help="put right what can be put right here, then verify")
    init.add_argument("--json", action="store_true", help="print what there is as a JSON object")
    init.set_defaults(run=_init)

    version = commands.add_parser("version", help="print the version")
    version.set_defaults(run=_version)

    targets = commands.add_parser("targets", help="print the GPU targets this ROCm was built for")
    targets.set_defaults(run=_targets)

    doctor = commands.add_parser("doctor", help="find out why a GPU or an installed package does not work")
    doctor.add_argument("--json", action="store_true", help="print the findings as a JSON object")
    doctor.add_argument("--need-gpu", action="store_true", help="a machine without an AMD GPU is an error")
    doctor.add_argument("--index", metavar="URL", help="package index with wheels of ROCm, for the printed commands")
    doctor.set_defaults(run=_doctor)

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
    if options.verify and options.link_mode:
        print("rocm-sdk init: --verify changes nothing, so --link-mode has no meaning with it", file=sys.stderr)
        return 2
    if options.verify:
        return _print_verification(_verify.verify(), options)
    wanted = _links.wish(options.link_mode)
    asked = None if wanted is None else wanted.mode.value
    if options.repair:
        return _print_verification(_verify.repair(asked, quiet=options.quiet), options)
    root = _devel.get_devel_root(quiet=options.quiet, link_mode=asked)
    if options.json:
        receipt = _receipt.read(root)
        mode, links = (receipt.link_mode.value, receipt.counts()) if receipt else ("", {})
        print(json.dumps({"schema": _verify.SCHEMA, "root": str(root), "link_mode": mode, "links": links}, indent=2))
    elif not options.quiet:
        print(f"Devel contents expanded to '{root}'")
        _advise()
    return 0


def _print_verification(found: _verify.Verification, options: argparse.Namespace) -> int:
    if options.json:
        print(json.dumps(found.document(), indent=2))
        return 1 if found.problems else 0
    if not options.quiet:
        for problem in found.repaired:
            print(f"repaired {problem.path}: {problem.detail}")
    for problem in found.problems:
        print(f"{problem.kind} {problem.path}: {problem.detail}")
    if not options.quiet:
        for note in found.notes:
            print(f"note: {note}")
        kinds = ", ".join(f"{count} {kind}" for kind, count in found.links.items() if count)
        print(
            f"{found.files} files{f' (links: {kinds})' if kinds else ''}, {len(found.problems)} problems"
            + (f", {len(found.repaired)} repaired" if options.repair else "")
        )
    for line in found.advice():
        print(f"hint: {line}", file=sys.stderr)
    return 1 if found.problems else 0


def _version(options: argparse.Namespace) -> int:
    print(_dist_info.__version__)
    _advise()
    return 0


def _targets(options: argparse.Namespace) -> int:
    print(";".join(_devices.distribution_targets()))
    _advise()
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from . import _doctor as doctor

    return doctor.run(_contents.site_directory(), options.json, options.need_gpu, options.index)


def _test(options: argparse.Namespace) -> int:
    from .tests import run

    return run(_contents.site_directory(), verify=options.verify, quiet=options.quiet)


def _advise() -> None:
    """Warns on stderr if no kernels are installed for the GPU of this machine, in whatever command
    the user tries first."""
    try:
        complaint = _devices.complaint()
    except (ImportError, OSError, ValueError):
        # Advice must not make a command fail that is done; `rocm-sdk test` reports the problem.
        return
    if complaint is not None:
        print(f"WARNING: {complaint}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
