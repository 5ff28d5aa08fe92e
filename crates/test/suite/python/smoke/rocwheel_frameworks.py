"""Checks of what is built on torch: vision, audio, Triton, apex, flash-attention."""

from __future__ import annotations

import importlib.util
import math
import os

from rocwheel_checks import check, compiles, near, sample, skip
from rocwheel_launches import compile_launches, stand_in_for

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
    import torch
    from rocwheel_kernels import scaled_sum

    count = 10_007
    a, b = torch.arange(float(count), device="cuda"), torch.ones(count, device="cuda")
    out = torch.empty_like(a)
    scaled_sum[((count + 255) // 256,)](a, b, out, count, BLOCK=256)
    assert torch.equal(out, a * 2 + b)


def wave_of(target: str) -> int:
    """How many threads a wave has: CDNA and GCN are gfx9 and older, RDNA is newer."""
    return 32 if target.startswith(("gfx10", "gfx11", "gfx12")) else 64


def check_code(code: bytes, what: str) -> None:
    """It is ELF for AMD's GPUs."""
    assert code[:4] == b"\x7fELF" and code[18:20] == (224).to_bytes(2, "little"), f"{what} is no code for AMD's GPUs"
    print(what, len(code), "bytes")


@compiles("triton")
def triton_compile(target: str) -> None:
    import inspect

    import triton
    from rocwheel_kernels import COMPILED
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    for kernel, types, constants in COMPILED:
        if "constexprs" in inspect.signature(ASTSource.__init__).parameters:
            source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), constants)
        else:
            source = ASTSource(kernel, types, constants)
        try:
            compiled = triton.compile(source, target=GPUTarget("hip", target, wave_of(target)))
        except Exception as error:
            raise RuntimeError(f"`{kernel.__name__}` is not compiled for {target}: {error}") from error
        check_code(compiled.asm["hsaco"], kernel.__name__)


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


@compiles("flash_attn", "triton")
def flash_attn_compile(target: str) -> None:
    """Its own code launches its kernels, on tensors without numbers."""
    os.environ["FLASH_ATTENTION_TRITON_AMD_ENABLE"] = "TRUE"
    beside = stand_in_for("torch", "einops")
    import torch
    import triton
    from triton.backends.compiler import GPUTarget

    launched = []

    def seen(name: str, code: bytes) -> None:
        check_code(code, name)
        launched.append(name)

    compile_launches(GPUTarget("hip", target, wave_of(target)), seen)
    import flash_attn
    from flash_attn.flash_attn_interface import flash_attn_gpu

    print(flash_attn.__version__, "beside triton", triton.__version__, "and", beside)
    for causal in (True, False):
        q, k, v, *d = (torch.empty((2, 128, 4, 64), dtype=torch.float16, device="meta") for _ in range(7))
        # Causal or not, without windows, bias, dropout and softcap.
        rest = (None, 0.0, 0.125, causal, -1, -1, 0.0, False, None)
        out, sums, _, state = flash_attn_gpu.fwd(q, k, v, None, *rest)
        assert launched, "forward has launched no kernel of triton"
        forward = len(launched)
        flash_attn_gpu.bwd(d[3], q, k, v, out, sums, *d[:3], *rest, state)
        assert len(launched) > forward, "backward has launched no kernel of triton"


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
