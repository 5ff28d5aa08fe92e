"""The list of checks, and what checks have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable

SKIP, NOT_RUN = 77, 78

CHECKS: dict[str, tuple[Callable, str, bool]] = {}
"""Name → function, package, and whether it needs a GPU."""

NEEDS = {"torch": (), "torchvision": ("torch",), "torchaudio": ("torch",), "triton": ("torch",)}
NEEDS |= {"apex": ("torch",), "flash_attn": ("torch",), "rocm": ()}
"""Import packages that can be tested, and what their checks import besides."""

COMPILES: dict[str, tuple[Callable[[str], None], tuple[str, ...]]] = {}
"""Package → function that compiles kernels of it for a GPU target, which need not be here, and what
it imports besides."""


def check(package: str, *, gpu: bool) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        name = function.__name__.removeprefix(f"{package}_")
        CHECKS[f"{package}.{name}"] = (function, package, gpu)
        return function

    return register


def compiles(package: str, *needs: str) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        COMPILES[package] = function, needs
        return function

    return register


def skip(reason: str) -> None:
    print("SKIP", reason)
    sys.exit(SKIP)


def not_run(reason: str) -> None:
    """For a check that would say something, and cannot: it is no pass."""
    print("NOT RUN", reason)
    sys.exit(NOT_RUN)


def near(result: object, expected: object, tolerance: float) -> None:
    """The largest error, relative to the largest number that was expected."""
    import torch

    result, expected = result.detach().double().cpu(), expected.detach().double().cpu()
    assert result.shape == expected.shape, f"shape {tuple(result.shape)}, expected {tuple(expected.shape)}"
    assert torch.isfinite(result).all(), "the result has numbers that are not finite"
    error = ((result - expected).abs().max() / expected.abs().max().clamp(min=1e-30)).item()
    assert error <= tolerance, f"relative error {error:.3g}, allowed {tolerance:.3g}"


def sample(*shape: int, seed: int = 0) -> object:
    """The same numbers everywhere."""
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
