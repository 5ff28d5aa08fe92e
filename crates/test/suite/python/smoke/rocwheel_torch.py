"""Checks of torch."""

from __future__ import annotations

import importlib.util
import os

from rocwheel_checks import check, near, sample, skip


@check("torch", gpu=False)
def torch_import() -> None:
    import torch

    print(torch.__version__, "HIP", torch.version.hip, "CUDA", torch.version.cuda)
    print(torch.__config__.show())


@check("torch", gpu=False)
def torch_cpu_matmul() -> None:
    import torch

    one = torch.arange(6.0).reshape(2, 3)
    assert (one @ one.T).tolist() == [[5.0, 14.0], [14.0, 50.0]]
    near(sample(200, 300).float() @ sample(300, 100).float(), sample(200, 300) @ sample(300, 100), 1e-5)


@check("torch", gpu=False)
def torch_cpu_lapack() -> None:
    import torch

    matrix = sample(50, 50)
    left, values, right = torch.linalg.svd(matrix)
    near(left @ torch.diag(values) @ right, matrix, 1e-10)


@check("torch", gpu=False)
def torch_cpu_autograd() -> None:
    import torch

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x**3).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0, 27.0]


@check("torch", gpu=True)
def torch_device() -> None:
    import torch

    assert torch.cuda.is_available(), "torch does not see the GPU"
    properties = torch.cuda.get_device_properties(0)
    print(properties)
    # In builds for CUDA `gcnArchName` is the name of the product, if it exists.
    target = properties.gcnArchName.split(":")[0] if torch.version.hip else ""
    built = [name.split(":")[0] for name in torch.cuda.get_arch_list()]
    generic = [name for name in built if name.endswith("-generic")]
    assert not target or target in built or generic, f"torch has no kernels for {target}, only for {', '.join(built)}"
    assert torch.ones(3, device="cuda").sum().item() == 3.0


@check("torch", gpu=True)
def torch_matmul() -> None:
    import torch

    one = torch.arange(6.0, device="cuda").reshape(2, 3)
    assert (one @ one.T).tolist() == [[5.0, 14.0], [14.0, 50.0]]
    a, b = sample(300, 500), sample(500, 200, seed=1)
    for kind, tolerance in (
        (torch.float64, 1e-12),
        (torch.float32, 2e-3),
        (torch.float16, 1e-2),
        (torch.bfloat16, 3e-2),
    ):
        near(a.to("cuda", kind) @ b.to("cuda", kind), a @ b, tolerance)
    near(torch.bmm(a.cuda()[None], b.cuda()[None])[0], a @ b, 1e-12)


@check("torch", gpu=True)
def torch_elementwise() -> None:
    x = sample(10_007)
    near((x.cuda().sin() * 2 + x.cuda().exp()).float(), x.sin() * 2 + x.exp(), 1e-5)
    near(x.cuda().sort().values, x.sort().values, 0)
    near(x.cuda().cumsum(0), x.cumsum(0), 1e-10)


@check("torch", gpu=True)
def torch_convolution() -> None:
    import torch
    import torch.nn.functional as functional

    x, w = sample(2, 4, 19, 17), sample(8, 4, 3, 3, seed=1)
    expected = functional.conv2d(x, w, padding=1)
    near(functional.conv2d(x.float().cuda(), w.float().cuda(), padding=1), expected, 2e-3)
    layout = torch.channels_last
    fast = functional.conv2d(
        x.float().cuda().to(memory_format=layout), w.float().cuda().to(memory_format=layout), padding=1
    )
    near(fast, expected, 2e-3)
    back = sample(4, 8, 3, 3, seed=2)
    near(functional.conv_transpose2d(x.float().cuda(), back.float().cuda()), functional.conv_transpose2d(x, back), 2e-3)
    # Without it the process may not end (TheRock #999).
    torch.cuda.synchronize()


@check("torch", gpu=True)
def torch_autograd() -> None:
    import torch

    gradients = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(20, 30), torch.nn.GELU(), torch.nn.LayerNorm(30), torch.nn.Linear(30, 5)
        )
        model = model.double().to(device)
        loss = torch.nn.functional.cross_entropy(model(sample(16, 20).to(device)), torch.arange(16).to(device) % 5)
        loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        near(other, one, 1e-8)


@check("torch", gpu=True)
def torch_attention() -> None:
    import torch
    import torch.nn.functional as functional

    q, k, v = (sample(2, 4, 128, 64, seed=seed) for seed in range(3))
    expected = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    for kind in (torch.float16, torch.bfloat16):
        parts = [part.to("cuda", kind) for part in (q, k, v)]
        near(functional.scaled_dot_product_attention(*parts, is_causal=True), expected, 5e-2)


@check("torch", gpu=True)
def torch_fft() -> None:
    import torch

    x = sample(8, 240)
    near(torch.fft.irfft(torch.fft.rfft(x.cuda())), x, 1e-10)
    near(torch.view_as_real(torch.fft.fft(x.float().cuda())), torch.view_as_real(torch.fft.fft(x)), 1e-4)


@check("torch", gpu=True)
def torch_solve() -> None:
    import torch

    a, b = sample(40, 40) + 40 * torch.eye(40, dtype=torch.float64), sample(40, 3, seed=1)
    near(torch.linalg.solve(a.cuda(), b.cuda()), torch.linalg.solve(a, b), 1e-9)
    q, r = torch.linalg.qr(a.cuda())
    near(q @ r, a, 1e-10)


@check("torch", gpu=True)
def torch_sparse() -> None:
    import torch

    dense = sample(50, 60) * (sample(50, 60, seed=1) > 1)
    other = sample(60, 7, seed=2)
    near(torch.sparse.mm(dense.cuda().to_sparse(), other.cuda()), dense @ other, 1e-10)


@check("torch", gpu=True)
def torch_random() -> None:
    import torch

    torch.manual_seed(1)
    one = torch.randn(1_000_000, device="cuda")
    assert abs(one.mean().item()) < 0.01, f"mean {one.mean().item()}"
    assert abs(one.std().item() - 1) < 0.01, f"deviation {one.std().item()}"
    torch.manual_seed(1)
    assert torch.equal(one, torch.randn(1_000_000, device="cuda")), "the same seed gives other numbers"


@check("torch", gpu=True)
def torch_streams_and_graphs() -> None:
    import torch

    x = torch.zeros(1000, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            x += 1
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x += 1
    x.zero_()
    for _ in range(4):
        graph.replay()
    torch.cuda.synchronize()
    assert x.unique().tolist() == [4.0]


@check("torch", gpu=True)
def torch_collectives() -> None:
    import torch
    import torch.distributed as distributed

    if not distributed.is_available() or not distributed.is_nccl_available():
        skip("torch was built without RCCL and NCCL")
    store = distributed.HashStore()
    distributed.init_process_group("nccl", store=store, rank=0, world_size=1)
    x = torch.arange(4.0, device="cuda")
    distributed.all_reduce(x)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    distributed.destroy_process_group()


@check("torch", gpu=True)
def torch_compile() -> None:
    import shutil

    import torch

    if importlib.util.find_spec("triton") is None:
        skip("triton is not installed")
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")):
        skip("triton needs a C compiler, and there is none")

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2 + 1, dim=-1).sum(0)

    x = sample(64, 128)
    near(torch.compile(function)(x.float().cuda()), function(x), 1e-4)
