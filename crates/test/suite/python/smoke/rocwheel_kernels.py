"""Kernels for Triton, which reads the source of a kernel from its file."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scaled_sum(a, b, out, count, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, N803
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(out + at, tl.load(a + at, mask=mask) * 2 + tl.load(b + at, mask=mask), mask=mask)


@triton.jit
def softmax(rows, out, width, BLOCK: tl.constexpr):  # noqa: ANN001, ANN201, N803
    at = tl.arange(0, BLOCK)
    row = tl.load(rows + tl.program_id(0) * width + at, mask=at < width, other=float("-inf"))
    powers = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * width + at, powers / tl.sum(powers, 0), mask=at < width)


@triton.jit
def product(a, b, out, depth, SIZE: tl.constexpr):  # noqa: ANN001, ANN201, N803
    side = tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for begin in range(0, depth, SIZE):
        left = tl.load(a + side[:, None] * depth + begin + side[None, :])
        right = tl.load(b + (begin + side)[:, None] * SIZE + side[None, :])
        total = tl.dot(left, right, total)
    tl.store(out + side[:, None] * SIZE + side[None, :], total)


POINTERS = {"a": "*fp32", "b": "*fp32", "out": "*fp32"}
COMPILED = [
    (scaled_sum, POINTERS | {"count": "i32"}, {"BLOCK": 256}),
    (softmax, {"rows": "*fp32", "out": "*fp32", "width": "i32"}, {"BLOCK": 256}),
    (product, {"a": "*fp16", "b": "*fp16", "out": "*fp32", "depth": "i32"}, {"SIZE": 32}),
]
"""Kernel, types of its arguments, constants."""
