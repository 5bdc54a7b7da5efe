"""Operators that libraries have: convolutions, transforms, decompositions, sparse products, random numbers, fp8."""

# Libraries of GPUs are not installed where types are checked: what comes from them is unknown.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false, reportUntypedFunctionDecorator=false
# pyright: reportUnknownArgumentType=false
# ruff: noqa: E731, PLW0108, E501

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import torch
from torch.nn import functional

from graph_measure import Case, normal
from tessera import fp8_e4m3, graph, op, scale

CONVOLUTIONS: Final[dict[str, tuple[tuple[int, ...], tuple[int, ...], int, int, float | None]]] = {
    "conv 3x3 c64 56": ((256, 64, 56, 56), (64, 64, 3, 3), 1, 1, None),
    "conv 3x3 c128 28": ((256, 128, 28, 28), (128, 128, 3, 3), 1, 1, 0.95),
    "conv 3x3 c256 14": ((256, 256, 14, 14), (256, 256, 3, 3), 1, 1, 0.95),
    "conv 3x3 c512 7": ((256, 512, 7, 7), (512, 512, 3, 3), 1, 1, 0.95),
    "conv 1x1 c64-256 56": ((256, 64, 56, 56), (256, 64, 1, 1), 1, 0, None),
    "conv 7x7 s2 c3 224": ((256, 3, 224, 224), (64, 3, 7, 7), 2, 3, None),
}
"""Image, filters, stride, padding, goal; channels last in memory where the operator has such a layout."""


def library_cases(_: bool) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield the rows: names, and what makes them."""
    for name in CONVOLUTIONS:
        yield name, partial(_convolution, name)
    yield "fft2d 4096", _fft
    yield "fft2d, product, ifft2d 4096", _filtered
    for dtype in ("f32", "f64"):
        yield f"cholesky 8192 {dtype}", partial(_cholesky, dtype)
    yield "svd 2048 f32", _svd
    yield "spmm 16384 1 % x 128", _spmm
    yield "randn 256M", partial(_random, "randn")
    yield "uniform 256M", partial(_random, "uniform")
    yield "poisson 64M rate 4", partial(_random, "poisson")
    for size in (4096, 8192):
        yield f"fp8 rows {size}", partial(_fp8, size)


def _convolution(name: str) -> Case:
    image, filters, stride, padding, goal = CONVOLUTIONS[name]
    torch.backends.cudnn.benchmark = True
    x = normal(*image).to(memory_format=torch.channels_last)
    w = normal(*filters, scale=(filters[1] * filters[2] * filters[3]) ** -0.5).to(memory_format=torch.channels_last)
    last = "layout" in inspect.signature(op.conv2d.function).parameters
    keywords: dict[str, Any] = {"layout": "NHWC"} if last else {}
    mine = graph.module("conv")(lambda x, w: op.conv2d(x, w, stride=stride, padding=padding, **keywords))
    given = [t.permute(0, 2, 3, 1) if last else t for t in (x, w)]
    peer = lambda: functional.conv2d(x, w, stride=stride, padding=padding)
    rows = (image[2] + 2 * padding - filters[2]) // stride + 1
    work = 2.0 * image[0] * rows * rows * filters[0] * filters[1] * filters[2] * filters[3]

    def part(y: Any) -> Any:
        first = y[:2]
        return (
            first.permute(0, 3, 1, 2)
            if last and first.shape[-1] == filters[0] and first.shape[1] != filters[0]
            else first
        )

    return Case(name, work, "TFLOP/s", {"tessera": lambda: mine(*given), "cudnn": peer},
                lambda: functional.conv2d(x[:2].double(), w.double(), stride=stride, padding=padding), part, mine, goal)  # fmt: skip


def _stacked(pair: Any) -> Any:
    """Return [2, ...], the real and the imaginary part, of a pair or of complex numbers, of a few rows."""
    real, imaginary = (pair.real, pair.imag)
    return torch.stack([real[:64], imaginary[:64]])


def _fft() -> Case:
    whole = torch.randn(4096, 4096, device="cuda", dtype=torch.complex64)
    given = op.Complex.of(whole)
    return Case("fft2d 4096", 4.0 * whole.numel() * 8, "GB/s",
                {"tessera": lambda: op.fft2d(given), "cufft": lambda: torch.fft.fft2(whole)},
                lambda: _stacked(torch.fft.fft2(whole.to(torch.complex128))), _stacked, op.fft2d, 1.0, 1e-5)  # fmt: skip


def _filtered() -> Case:
    whole, factor = (torch.randn(4096, 4096, device="cuda", dtype=torch.complex64) for _ in range(2))
    given, other = op.Complex.of(whole), op.Complex.of(factor)

    @graph.module("filtered")
    def mine(given: Any, other: Any) -> Any:
        return op.ifft2d(op.fft2d(given) * other)

    def theirs(whole: Any, factor: Any) -> Any:
        return torch.fft.ifft2(torch.fft.fft2(whole) * factor)

    return Case("fft2d, product, ifft2d 4096", 8.0 * whole.numel() * 8, "GB/s",
                {"tessera": lambda: mine(given, other), "cufft": lambda: theirs(whole, factor)},
                lambda: _stacked(theirs(whole.to(torch.complex128), factor.to(torch.complex128))), _stacked, mine, 1.4, 1e-5)  # fmt: skip


def _cholesky(dtype: str) -> Case:
    size = 8192
    root = torch.randn(size, size, device="cuda", dtype=torch.float64)
    given = (root @ root.T / size + torch.eye(size, device="cuda")).to(
        {"f32": torch.float32, "f64": torch.float64}[dtype]
    )
    del root
    return Case(f"cholesky 8192 {dtype}", size**3 / 3, "TFLOP/s",
                {"tessera": lambda: op.cholesky(given), "cusolver": lambda: torch.linalg.cholesky(given)},
                lambda: given[-256:].double(), lambda y: y[-256:].double() @ y.double().T, op.cholesky,
                1.7 if dtype == "f32" else 1.0, 2e-6 if dtype == "f32" else 1e-14)  # fmt: skip


def _svd() -> Case:
    given = torch.randn(2048, 2048, device="cuda")
    return Case("svd 2048 f32", 2048**3 * 4, "TFLOP/s",
                {"tessera": lambda: op.svd(given), "cusolver": lambda: torch.linalg.svd(given, full_matrices=False)},
                lambda: given.double(), lambda made: (made[0].double() * made[1].double()) @ made[2].double(), op.svd,
                None, 1e-5)  # fmt: skip


def _spmm() -> Case:
    size, share = 16384, 0.01
    dense = torch.randn(size, 128, device="cuda")
    sparse = (torch.randn(size, size, device="cuda") * (torch.rand(size, size, device="cuda") < share)).to_sparse_csr()
    values, columns, starts = sparse.values(), sparse.col_indices(), sparse.crow_indices()
    whole = sparse.to_dense()[:512].double()
    return Case("spmm 16384 1 % x 128", 2.0 * values.numel() * 128, "TFLOP/s",
                {"tessera": lambda: op.spmm(values, columns, starts, dense), "cusparse": lambda: sparse @ dense},
                lambda: whole @ dense.double(), lambda y: y[:512], op.spmm)  # fmt: skip


def _random(kind: str) -> Case:
    """Random numbers have no reference: their mean and variance are compared with what they should be."""
    size = 1 << (26 if kind == "poisson" else 28)
    rates = torch.full((size if kind == "poisson" else 0,), 4.0, device="cuda")
    key = torch.tensor([7, 9], dtype=torch.uint32, device="cuda")
    ours, theirs, mean, variance = {
        "randn": (lambda k: op.randn((size,), k), lambda: torch.randn(size, device="cuda"), 0.0, 1.0),
        "uniform": (lambda k: op.uniform((size,), k), lambda: torch.rand(size, device="cuda"), 0.5, 1 / 12),
        "poisson": (lambda k: op.poisson(4.0, (size,), k, dtype="i32"),
                    lambda: torch.poisson(rates), 4.0, 4.0),
    }[kind]  # fmt: skip
    mine = graph.module(kind)(ours)
    name = {"poisson": "poisson 64M rate 4"}.get(kind, f"{kind} 256M")
    return Case(name, 4.0 * size, "GB/s", {"tessera": lambda: mine(key), "torch": theirs},
                lambda: torch.tensor([1 + mean, variance]).cuda(),
                lambda y: torch.stack([1 + y.double().mean(), y.double().var()]), mine,
                None if kind == "poisson" else 1.0, 1e-3)  # fmt: skip


def _fp8(size: int) -> Case:
    x, w = normal(size, size), normal(size, size)
    rows = fp8_e4m3 @ scale(block=(1, 0))
    left, right = op.quantize(x, rows), op.quantize(w, rows)
    mine = graph.module("fp8")(lambda a, b: op.matmul(a, b.T).astype("bf16"))
    a8, b8 = (held.codes.view(torch.float8_e4m3fn) for held in (left, right))
    sa, sb = left.scales.reshape(-1, 1), right.scales.reshape(1, -1)
    peer = lambda: torch._scaled_mm(a8, b8.T, scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16)
    exact = lambda: (a8[:64].double() * sa[:64].double()) @ (b8.double() * sb.double().reshape(-1, 1)).T
    return Case(f"fp8 rows {size}", 2.0 * size**3, "TFLOP/s",
                {"tessera": lambda: mine(left, right), "cublas": peer}, exact, lambda y: y[:64], mine, 1.0)  # fmt: skip
