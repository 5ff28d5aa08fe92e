"""Launches of Triton kernels that are compiled for a GPU which is not here, and not run; and what
stands for torch where it is not installed."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import math
import sys
import types
from collections.abc import Callable


class Meta(type):
    def __getattr__(cls, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn

    def __call__(cls, *_values: object, **_more: object) -> type:
        return StandIn

    __getitem__ = __call__


class StandIn(metaclass=Meta):
    """Takes any call, and has any attribute."""


class Tensor:
    """Shape, strides and type of numbers that are nowhere."""

    device = None

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = shape, dtype

    def stride(self, at: int | None = None) -> int | tuple[int, ...]:
        strides = tuple(math.prod(self.shape[place + 1 :]) for place in range(len(self.shape)))
        return strides if at is None else strides[at]

    def dim(self) -> int:
        return len(self.shape)

    def data_ptr(self) -> int:
        return 0

    def zero_(self) -> Tensor:
        return self


def empty(shape: tuple[int, ...], dtype: str = "torch.float32", **_more: object) -> Tensor:
    return Tensor(shape, dtype)


def empty_like(tensor: Tensor, **more: str) -> Tensor:
    return Tensor(tensor.shape, more.get("dtype", tensor.dtype))


class Module(types.ModuleType):
    __version__ = "0"
    __getattr__ = Meta.__getattr__


TORCH = {"empty": empty, "zeros": empty, "empty_like": empty_like, "zeros_like": empty_like}
TORCH |= {name: f"torch.{name}" for name in ("float16", "float32")}


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, absent: list[str]) -> None:
        self.absent = absent

    def find_spec(self, name: str, *_more: object) -> importlib.machinery.ModuleSpec | None:
        is_absent = name.partition(".")[0] in self.absent
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_absent else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Module:
        return Module(spec.name)

    def exec_module(self, module: Module) -> None:
        vars(module).update(TORCH if module.__name__ == "torch" else {})


def stand_in_for(*names: str) -> str:
    """What is beside: the first of them, or stand-ins for it and what else is absent."""
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    if names[0] not in absent:
        return f"{names[0]} {__import__(names[0]).__version__}"
    sys.meta_path.insert(0, StandIns(absent))
    return f"stand-ins for {', '.join(absent)}"


class Elsewhere:
    """As much of a driver as Triton asks when it compiles."""

    def __init__(self, target: object) -> None:
        self.target = target

    def get_current_target(self) -> object:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, *_device: int) -> int:
        return 0


def compile_launches(target: object, seen: Callable[[str, bytes], None]) -> None:
    """From now on, what is launched is compiled for the target, and its code is seen."""
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    run = JITFunction.run

    def compile_only(kernel: JITFunction, *values: object, **more: object) -> object:
        name = kernel.fn.__name__
        try:
            compiled = run(kernel, *values, **more | {"warmup": True})
        except Exception as error:
            raise RuntimeError(f"`{name}` is not compiled for {target.arch}: {error}") from error
        seen(name, compiled.asm["hsaco"])
        return compiled

    driver.set_active(Elsewhere(target))
    JITFunction.run = compile_only
