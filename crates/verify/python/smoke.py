"""Sample computations of what is installed: `rocwheel test smoke` starts each in its own process.

`smoke.py list NAME…` prints, as JSON, the checks of the named packages (without names, of all that
are installed), and `smoke.py gpus` the GPUs. `smoke.py run CHECK [ARGUMENT]` runs one: exit code 0
is a pass, 77 with a line `SKIP …` means that it cannot say anything here, anything else is a
failure.

Needs Python 3.10 and no package but the one that is tested. Results are compared with exact numbers
or with the same computation on the CPU in double precision.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

SKIP = 77

CHECKS: dict[str, tuple[Callable, str, bool]] = {}
"""Name → function, package, and whether it needs a GPU."""

NEEDS = {"torch": (), "torchvision": ("torch",), "torchaudio": ("torch",), "triton": ("torch",)}
NEEDS |= {"apex": ("torch",), "flash_attn": ("torch",), "rocm": ()}
"""Import packages that can be tested, and what their checks import besides."""


def check(package: str, *, gpu: bool) -> Callable[[Callable], Callable]:
    def register(function: Callable) -> Callable:
        name = function.__name__.removeprefix(f"{package}_")
        CHECKS[f"{package}.{name}"] = (function, package, gpu)
        return function

    return register


def skip(reason: str) -> None:
    print("SKIP", reason)
    sys.exit(SKIP)


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


# torch


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
    target = getattr(properties, "gcnArchName", "").split(":")[0]
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


# torchvision and torchaudio


@check("torchvision", gpu=False)
def torchvision_cpu() -> None:
    import torch
    import torchvision

    print(torchvision.__version__)
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [50, 50, 60, 60]])
    assert torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5).tolist() == [0, 2]


@check("torchvision", gpu=False)
def torchvision_images() -> None:
    import torch
    from torchvision import io

    image = (sample(3, 20, 30).abs() * 60).clamp(0, 255).to(torch.uint8)
    assert torch.equal(io.decode_png(io.encode_png(image)), image), "PNG changes the image"
    assert io.decode_jpeg(io.encode_jpeg(image)).shape == image.shape


@check("torchvision", gpu=True)
def torchvision_operators() -> None:
    import torch
    import torchvision

    points = sample(200, 2).abs() * 50
    boxes, scores = torch.cat([points, points + 20], 1).float(), sample(200, seed=1).float()
    expected = torchvision.ops.nms(boxes, scores, 0.3)
    assert torch.equal(torchvision.ops.nms(boxes.cuda(), scores.cuda(), 0.3).cpu(), expected)
    features, rois = sample(1, 3, 32, 32).float(), torch.tensor([[0.0, 2, 2, 20, 25]])
    near(torchvision.ops.roi_align(features.cuda(), rois.cuda(), 7), torchvision.ops.roi_align(features, rois, 7), 1e-4)
    model = torchvision.models.resnet18(weights=None).eval()
    image = sample(1, 3, 64, 64).float()
    with torch.no_grad():
        near(model.cuda()(image.cuda()), model.cpu()(image), 2e-2)


@check("torchaudio", gpu=False)
def torchaudio_cpu() -> None:
    import torch
    import torchaudio

    print(torchaudio.__version__)
    times = torch.arange(16000, dtype=torch.float64) / 16000
    wave = torch.sin(2 * math.pi * 440 * times)[None]
    half = torchaudio.functional.resample(wave, 16000, 8000)
    near(half[:, 100:-100], wave[:, ::2][:, 100:-100], 5e-3)


@check("torchaudio", gpu=True)
def torchaudio_spectrum() -> None:
    import torchaudio

    wave = sample(1, 8000).float()
    transform = torchaudio.transforms.MelSpectrogram(sample_rate=8000, n_fft=400, n_mels=32)
    near(transform.to("cuda")(wave.cuda()), transform.to("cpu")(wave), 1e-3)


# triton


@check("triton", gpu=False)
def triton_import() -> None:
    import triton

    print(triton.__version__)


@check("triton", gpu=True)
def triton_kernel() -> None:
    import tempfile

    import torch

    # The compiler of Triton reads the source of a kernel from its file.
    text = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def kernel(a, b, out, count, BLOCK: tl.constexpr):\n"
        "    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    mask = at < count\n"
        "    tl.store(out + at, tl.load(a + at, mask=mask) * 2 + tl.load(b + at, mask=mask), mask=mask)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rocwheel_kernel.py").write_text(text)
        sys.path.insert(0, folder)
        import rocwheel_kernel

        count = 10_007
        a, b = torch.arange(float(count), device="cuda"), torch.ones(count, device="cuda")
        out = torch.empty_like(a)
        rocwheel_kernel.kernel[((count + 255) // 256,)](a, b, out, count, BLOCK=256)
        assert torch.equal(out, a * 2 + b)


# apex


@check("apex", gpu=False)
def apex_import() -> None:
    import apex

    print(apex.__file__)


@check("apex", gpu=True)
def apex_layer_norm() -> None:
    import torch
    from apex.normalization import FusedLayerNorm

    if importlib.util.find_spec("fused_layer_norm_cuda") is None:
        skip("apex was built without its extensions")
    x = sample(16, 64)
    near(FusedLayerNorm(64).cuda()(x.float().cuda()), torch.nn.functional.layer_norm(x, (64,)), 1e-4)


@check("apex", gpu=True)
def apex_adam() -> None:
    import torch
    from apex.optimizers import FusedAdam

    if importlib.util.find_spec("amp_C") is None:
        skip("apex was built without its extensions")
    results = []
    for optimizer in (FusedAdam, torch.optim.AdamW):
        value = torch.nn.Parameter(sample(100).float().cuda())
        stepper = optimizer([value], lr=0.1, weight_decay=0)
        for _ in range(3):
            stepper.zero_grad()
            (value**2).sum().backward()
            stepper.step()
        results.append(value)
    near(results[0], results[1], 1e-4)


# flash-attention: the import of the package, the module of the CK build, and both on a GPU


def flash_attention(variable: str) -> None:
    os.environ["FLASH_ATTENTION_TRITON_AMD_ENABLE"] = variable
    import torch
    from flash_attn import flash_attn_func

    q, k, v = (sample(2, 128, 4, 64, seed=seed) for seed in range(3))
    turned = [part.transpose(1, 2) for part in (q, k, v)]
    expected = torch.nn.functional.scaled_dot_product_attention(*turned, is_causal=True).transpose(1, 2)
    parts = [part.to("cuda", torch.float16) for part in (q, k, v)]
    near(flash_attn_func(*parts, causal=True), expected, 5e-2)


def has_ck() -> bool:
    return importlib.util.find_spec("flash_attn_2_cuda") is not None


@check("flash_attn", gpu=False)
def flash_attn_import() -> None:
    if not has_ck():
        os.environ["FLASH_ATTENTION_TRITON_AMD_ENABLE"] = "TRUE"
    import flash_attn

    print(flash_attn.__version__)


@check("flash_attn", gpu=False)
def flash_attn_module() -> None:
    if not has_ck():
        skip("this wheel is a build for Triton, without flash_attn_2_cuda")
    import flash_attn_2_cuda
    import torch  # noqa: F401

    print(flash_attn_2_cuda.__file__)


@check("flash_attn", gpu=True)
def flash_attn_ck() -> None:
    if not has_ck():
        skip("this wheel is a build for Triton, without flash_attn_2_cuda")
    flash_attention("FALSE")


@check("flash_attn", gpu=True)
def flash_attn_triton() -> None:
    import torch

    if torch.version.hip is None:
        skip("the Triton backend is for AMD GPUs")
    if importlib.util.find_spec("triton") is None:
        skip("triton is not installed")
    flash_attention("TRUE")


# ROCm's own wheels


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed() -> dict[str, importlib.metadata.Distribution]:
    found: dict[str, importlib.metadata.Distribution] = {}
    for distribution in importlib.metadata.distributions():
        with contextlib.suppress(Exception):
            found.setdefault(normal(distribution.metadata["Name"]), distribution)
    return found


def is_rocm(name: str) -> bool:
    return name == "rocm" or name.startswith(("rocm-sdk", "rocm-profiler"))


NOT_LOADED = re.compile(
    r"clang_rt|libLLVMOffload|libroctracer|librocprofiler-sdk-|librocprofv3|libOpenCL|libcltrace|/llvm/|/hip_plugin|/python"
)
"""Libraries that only a compiler, a profiler or another program loads."""


def libraries(distribution: importlib.metadata.Distribution) -> Iterator[Path]:
    """What has to load: `_contents.json` says it for our packages, RECORD for others."""
    files = [Path(str(file)) for file in distribution.files or ()]
    base = Path(str(distribution.locate_file("")))
    contents = [base / path for path in files if path.name == "_contents.json"]
    if contents and contents[0].is_file():
        table = json.loads(contents[0].read_text())
        for row in table.get("libraries", ()):
            if row.get("load"):
                yield base / table["platform_package"] / row["path"]
        return
    for path in files:
        is_library = re.search(r"\.so(\.\d+)*$", path.name) and path.parent.name in ("lib", "lib64")
        if is_library and not path.name.endswith(".so") and not NOT_LOADED.search(str(path)):
            yield base / path


def requirement_parser() -> Callable | None:
    for name in ("packaging.requirements", "pip._vendor.packaging.requirements"):
        with contextlib.suppress(Exception):
            return importlib.import_module(name).Requirement
    return None


@check("rocm", gpu=False)
def rocm_requirements() -> None:
    """Everything that an installed package wants of ROCm is installed, with its extras."""
    packages = installed()
    parse = requirement_parser()
    if parse is None:
        skip("neither `packaging` nor pip is installed, so requirements cannot be read")
    todo = [(name, frozenset()) for name in packages]
    seen, missing = set(todo), []
    while todo:
        name, extras = todo.pop()
        for text in packages[name].requires or ():
            wanted = parse(text)
            if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in (extras or {""})):
                continue
            other = normal(wanted.name)
            if not is_rocm(other):
                continue
            found = packages.get(other)
            if found is None or not wanted.specifier.contains(found.version, prereleases=True):
                has = f"{found.version} is installed" if found else "it is not installed"
                missing.append(f"{name} requires {text}: {has}")
                continue
            step = (other, frozenset(wanted.extras))
            if step not in seen:
                seen.add(step)
                todo.append(step)
    assert not missing, "; ".join(missing)


@check("rocm", gpu=False)
def rocm_files() -> None:
    """Every file of RECORD exists with its size."""
    wrong = []
    for name, distribution in installed().items():
        if is_rocm(name):
            for file in distribution.files or ():
                path = Path(distribution.locate_file(file))
                if not path.exists():
                    wrong.append(f"{file} is missing")
                elif file.size is not None and path.stat().st_size != file.size:
                    wrong.append(f"{file} has {path.stat().st_size} bytes and not {file.size}")
    assert not wrong, "; ".join(wrong[:20])


def rocm_load(path: str) -> None:
    """One library, in this process alone."""
    assert Path(path).exists(), f"{path} is missing"
    ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL | os.RTLD_NOW)


def hip_library() -> str | None:
    for name, distribution in installed().items():
        if is_rocm(name):
            for file in distribution.files or ():
                if re.fullmatch(r"libamdhip64\.so\.\d+", Path(str(file)).name):
                    return str(distribution.locate_file(file))
    return None


class Hip:
    """The runtime through ctypes, without torch."""

    def __init__(self) -> None:
        path = hip_library()
        assert path, "no installed package has libamdhip64.so"
        self.library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.library, name)(*arguments)
        assert code == 0, f"{name} returned error {code}"

    def count(self) -> int:
        number = ctypes.c_int()
        self.call("hipGetDeviceCount", ctypes.byref(number))
        return number.value


@check("rocm", gpu=True)
def rocm_memory() -> None:
    hip = Hip()
    assert hip.count() >= 1
    size = 1 << 20
    there, back = ctypes.create_string_buffer(os.urandom(size), size), ctypes.create_string_buffer(size)
    device = ctypes.c_void_p()
    hip.call("hipMalloc", ctypes.byref(device), ctypes.c_size_t(size))
    hip.call("hipMemcpy", device, there, ctypes.c_size_t(size), 1)
    hip.call("hipMemcpy", back, device, ctypes.c_size_t(size), 2)
    assert there.raw == back.raw, "memory comes back changed"
    hip.call("hipMemset", device, 7, ctypes.c_size_t(size))
    hip.call("hipMemcpy", back, device, ctypes.c_size_t(size), 2)
    assert back.raw == b"\7" * size
    hip.call("hipFree", device)


# The list


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


def main() -> None:
    mode, *rest = sys.argv[1:]
    if mode == "gpus":
        found, reason = gpus()
        print("\nROCWHEEL " + json.dumps({"gpus": found, "reason": reason}))
        return
    if mode == "list":
        unknown = [name for name in rest if name not in NEEDS]
        chosen = [name for name in NEEDS if name in rest or (not rest and is_here(name))]
        missing = [name for name in chosen if not is_here(name)]
        missing += [need for name in chosen for need in NEEDS[name] if not is_here(need) and need not in missing]
        rows = [{"id": name, "gpu": gpu} for name, (_, package, gpu) in CHECKS.items() if package in chosen]
        loads = []
        if "rocm" in chosen:
            for name, distribution in sorted(installed().items()):
                if is_rocm(name):
                    loads += [{"id": f"rocm.load[{path.name}]", "path": str(path)} for path in libraries(distribution)]
            if not loads:
                missing.append("libraries of ROCm")
        answer = {"checks": rows, "loads": loads, "missing": missing, "unknown": unknown, "known": list(NEEDS)}
        print("\nROCWHEEL " + json.dumps(answer))
        return
    name, *arguments = rest
    if name == "rocm.load":
        rocm_load(*arguments)
    else:
        CHECKS[name][0](*arguments)


if __name__ == "__main__":
    main()
