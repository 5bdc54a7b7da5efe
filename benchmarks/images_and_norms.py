"""Pools, transposed convolutions, resampling, normalizations, orders and activations on a GPU, beside PyTorch.

python benchmarks/images_and_norms.py
"""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# ruff: noqa: E501

import json
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch.nn import functional

import tessera
from tessera import graph, op

Tensor: TypeAlias = Any  # of torch
Row: TypeAlias = tuple[str, Callable[..., Tensor], Callable[..., Tensor], tuple[Tensor, ...]]
_SAMPLES, _CALLS = 11, 3


def _normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device="cuda", dtype=dtype)


def image_rows() -> list[Row]:
    """Return operators on images: a name, ours, PyTorch's, operands."""
    x, y = _normal(64, 64, 112, 112), _normal(64, 128, 28, 28)
    short = torch.bfloat16
    last, filters = _normal(64, 28, 28, 128, dtype=short), _normal(128, 4, 4, 64, dtype=short)

    def transposed_last(x: Tensor, w: Tensor) -> Tensor:
        first, weight = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
        return functional.conv_transpose2d(first, weight, None, 2, 1).permute(0, 2, 3, 1)

    return [
        ("max_pool2d 3x3, stride 2", lambda x: op.max_pool2d(x, 3, 2, 1), lambda x: functional.max_pool2d(x, 3, 2, 1), (x,)),
        ("max_pool2d 2x2", lambda x: op.max_pool2d(x, 2), lambda x: functional.max_pool2d(x, 2), (x,)),
        ("avg_pool2d 2x2", lambda x: op.avg_pool2d(x, 2), lambda x: functional.avg_pool2d(x, 2), (x,)),
        ("avg_pool2d 3x3, stride 1", lambda x: op.avg_pool2d(x, 3, 1, 1), lambda x: functional.avg_pool2d(x, 3, 1, 1), (x,)),
        ("adaptive_avg_pool2d 1", lambda x: op.adaptive_avg_pool2d(x, 1), lambda x: functional.adaptive_avg_pool2d(x, 1), (x,)),
        ("adaptive_avg_pool2d 7", lambda x: op.adaptive_avg_pool2d(x, 7), lambda x: functional.adaptive_avg_pool2d(x, 7), (x,)),
        ("interpolate nearest, 2", lambda x: op.interpolate(x, scale_factor=2),
         lambda x: functional.interpolate(x, scale_factor=2), (x,)),
        ("interpolate bilinear, 2", lambda x: op.interpolate(x, scale_factor=2, mode="bilinear"),
         lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), (x,)),
        ("conv_transpose2d 4x4, stride 2, f32", lambda x, w: op.conv_transpose2d(x, w, stride=2, padding=1),
         lambda x, w: functional.conv_transpose2d(x, w, None, 2, 1), (y, _normal(128, 64, 4, 4))),
        ("conv_transpose2d 2x2, stride 2, f32", lambda x, w: op.conv_transpose2d(x, w, stride=2),
         lambda x, w: functional.conv_transpose2d(x, w, None, 2), (y, _normal(128, 64, 2, 2))),
        ("conv_transpose2d 4x4, stride 2, bf16, NHWC",
         lambda x, w: op.conv_transpose2d(x, w, stride=2, padding=1, layout="NHWC"), transposed_last, (last, filters)),
        ("conv3d 3x3x3, 16 to 32, f32", lambda x, w: op.conv3d(x, w, padding=1),
         lambda x, w: functional.conv3d(x, w, None, 1, 1), (_normal(8, 16, 32, 32, 32), _normal(32, 16, 3, 3, 3))),
        ("conv1d 9, 64 to 64, f32", lambda x, w: op.conv1d(x, w, padding=4),
         lambda x, w: functional.conv1d(x, w, None, 1, 4), (_normal(64, 64, 4096), _normal(64, 64, 9))),
    ]  # fmt: skip


def array_rows() -> list[Row]:
    """Return normalizations, activations, orders and reductions: a name, ours, PyTorch's, operands."""
    x, w, long, square = _normal(64, 64, 112, 112), torch.rand(64, device="cuda"), _normal(1 << 26), _normal(4096, 4096)
    return [
        ("batch_norm of statistics", lambda x, w: op.batch_norm(x, None, None, w, w),
         lambda x, w: functional.batch_norm(x, None, None, w, w, True), (x, w)),
        ("batch_norm", lambda x, w: op.batch_norm(x, w, w, w, w), lambda x, w: functional.batch_norm(x, w, w, w, w), (x, w)),
        ("group_norm 8", lambda x, w: op.group_norm(x, 8, w, w), lambda x, w: functional.group_norm(x, 8, w, w), (x, w)),
        ("instance_norm", lambda x, w: op.instance_norm(x, w, w),
         lambda x, w: functional.instance_norm(x, weight=w, bias=w), (x, w)),
        *((f"{name}, 64M", getattr(op, name), getattr(functional, name), (long,))
          for name in ("mish", "gelu", "elu", "hardswish", "softsign")),
        ("expm1, 64M", op.expm1, torch.expm1, (long,)), ("log1p, 64M", op.log1p, torch.log1p, (long.abs(),)),
        ("sort of rows", op.sort, lambda x: torch.sort(x)[0], (square,)),
        ("top_k 16 of rows", lambda x: op.top_k(x, 16).values, lambda x: torch.topk(x, 16)[0], (square,)),
        ("prod of rows", lambda x: op.prod(x, -1), lambda x: torch.prod(x, -1), (square,)),
        ("std of rows", lambda x: op.std(x, -1, ddof=1), lambda x: torch.std(x, -1), (square,)),
        ("flip of rows", lambda x: op.flip(x, 1), lambda x: torch.flip(x, (1,)), (square,)),
        ("roll", lambda x: op.roll(x, 7, 1), lambda x: torch.roll(x, 7, 1), (square,)), ("tril", op.tril, torch.tril, (square,)),
        ("any of rows", lambda x: op.any(x > 4, 1), lambda x: (x > 4).any(1), (square,)),
    ]  # fmt: skip


def median_us(call: Callable[..., Tensor], operands: tuple[Tensor, ...]) -> float:
    """Return the median microseconds of a call on the device."""
    for _ in range(3):
        call(*operands)
    samples: list[float] = []
    for _ in range(_SAMPLES):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(_CALLS):
            call(*operands)
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) / _CALLS * 1e3)
    return round(sorted(samples)[_SAMPLES // 2], 1)


def main() -> None:
    """Check the results, time both in turn, and print the figures."""
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = False, True
    tessera.configure(target="cuda")
    rows: list[dict[str, object]] = []
    for name, ours, peer, operands in (*image_rows(), *array_rows()):
        made = graph.module("row")(ours)
        torch.testing.assert_close(made(*operands), peer(*operands), atol=2e-2, rtol=2e-2)
        times = median_us(made, operands), median_us(peer, operands)
        kernels = made.inspect_ir("schedule").count("kernel ")
        rows.append({"operator": name, "tessera": times[0], "torch": times[1], "kernels": kernels})
    facts = {
        "date": time.strftime("%Y-%m-%d"), "card": torch.cuda.get_device_name(), "torch": torch.__version__,
        "method": f"medians of {_SAMPLES} samples of {_CALLS} calls, CUDA events, random normal inputs; us",
    }  # fmt: skip
    print(json.dumps({"facts": facts, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
