"""Sample computations of what is installed: `rocwheel test smoke` starts each in its own process.

`smoke list NAME…` prints, as JSON, the checks of the named packages (without names, of all that are
installed), and `smoke gpus` the GPUs. `smoke compiles TARGETS NAME…` lists what compiles kernels
for GPU targets, which need not be here. `smoke run CHECK [ARGUMENT]` runs one: exit code 0 with a
last line `ROCWHEEL passed` is a pass, 77 with a line `SKIP …` means that it has nothing to say
here, 78 with `NOT RUN …` that it cannot say it, and anything else is a failure.

Needs Python 3.10 and no package but the one that is tested. Results are compared with exact numbers
or with the same computation on the CPU in double precision.
"""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path

import rocwheel_frameworks  # noqa: F401
import rocwheel_torch  # noqa: F401
from rocwheel_checks import CHECKS, COMPILES, NEEDS
from rocwheel_rocm import Hip, hip_library, installed, is_rocm, libraries, rocm_load


def is_here(package: str) -> bool:
    if package == "rocm":
        return any(is_rocm(name) for name in installed())
    with contextlib.suppress(Exception):
        return importlib.util.find_spec(package) is not None
    return False


def gpus() -> tuple[list[dict], str]:
    """The GPUs that the installed runtime sees, or why there are none."""
    if is_here("torch"):
        import torch

        if not torch.cuda.is_available():
            kind = f"HIP {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
            has = kind if torch.version.hip or torch.version.cuda else "the CPU alone"
            return [], f"torch {torch.__version__} is for {has} and sees no GPU"
        found = []
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            target = getattr(properties, "gcnArchName", "").split(":")[0] if torch.version.hip else ""
            capability = "" if target else "sm_{}{}".format(*torch.cuda.get_device_capability(index))
            variable = "HIP_VISIBLE_DEVICES" if torch.version.hip else "CUDA_VISIBLE_DEVICES"
            facts = {"product": torch.cuda.get_device_name(index), "target": target or capability, "variable": variable}
            found.append(facts)
        return found, "torch sees no GPU"
    if hip_library():
        try:
            count = Hip().count()
        except (AssertionError, OSError) as error:
            return [], f"the HIP runtime sees no GPU: {error}"
        return [{"product": "", "target": "", "variable": "HIP_VISIBLE_DEVICES"}] * count, "HIP sees no GPU"
    return [], "neither torch nor the HIP runtime is installed"


def named(libraries: list[tuple[str, Path]]) -> list[dict]:
    """Libraries with the names of their checks; where two have one file name, with their package
    and path."""
    count = collections.Counter(path.name for _, path in libraries)
    names = [path.name if count[path.name] == 1 else f"{package}: {path}" for package, path in libraries]
    return [{"id": f"rocm.load[{name}]", "path": str(path)} for name, (_, path) in zip(names, libraries, strict=True)]


def main() -> None:
    mode, *rest = sys.argv[1:]
    if mode == "gpus":
        found, reason = gpus()
        print("\nROCWHEEL " + json.dumps({"gpus": found, "reason": reason}))
        return
    if mode in ("list", "compiles"):
        targets = rest.pop(0).split(",") if mode == "compiles" else []
        needs = {name: row[1] for name, row in COMPILES.items()} if targets else NEEDS
        unknown = [name for name in rest if name not in needs]
        chosen = [name for name in needs if name in rest or (not rest and is_here(name))]
        missing = [name for name in chosen if not is_here(name)]
        missing += [need for name in chosen for need in needs[name] if not is_here(need) and need not in missing]
        ordered = [(name, *row) for one in chosen for name, row in CHECKS.items() if row[1] == one]
        rows = [{"id": name, "gpu": gpu} for name, _, _, gpu in ordered if not targets]
        rows += [{"id": f"{name}.compile[{target}]", "gpu": False} for name in chosen for target in targets]
        loads = []
        if "rocm" in chosen:
            for name, distribution in sorted(installed().items()):
                if is_rocm(name):
                    loads += [(name, path) for path in libraries(distribution)]
            if not loads:
                missing.append("libraries of ROCm")
        answer = {"checks": rows, "loads": named(loads), "missing": missing, "unknown": unknown, "known": list(needs)}
        print("\nROCWHEEL " + json.dumps(answer))
        return
    name, *arguments = rest
    package, compiled, target = name.partition(".compile[")
    if name == "rocm.load":
        rocm_load(*arguments)
    elif compiled:
        # What an earlier run compiled is not taken.
        with tempfile.TemporaryDirectory() as cache:
            os.environ["TRITON_CACHE_DIR"] = cache
            COMPILES[package][0](target.removesuffix("]"))
    else:
        CHECKS[name][0](*arguments)
    # What is imported may end the process with code 0.
    print("\nROCWHEEL passed", flush=True)


if __name__ == "__main__":
    main()
