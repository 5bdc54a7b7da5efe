"""`gemm`: C = activation(A B + bias)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tessera.core.dtypes import bf16
from tessera.core.mistakes import OperandMismatch
from tessera.kernels import schedules
from tessera.kernels.launches import Launch, Prepared, machine_of, variant
from tessera.kernels.operands import (
    as_result,
    extents,
    operand,
    optional,
    output,
    require,
    require_floats,
    require_rank,
    require_same_dtype,
    result_dtype,
)
from tessera.kernels.tiles.matrix import GELU, RELU, SILU, matrix_product, matrix_product_with_bias
from tessera.runtime.arrays import rows_aligned

if TYPE_CHECKING:
    from typing import Unpack

    from tessera.core.dtypes import DType
    from tessera.kernels.launches import How
    from tessera.kernels.operands import Operand
    from tessera.runtime.arrays import AnyArray

ACTIVATIONS: Final = {None: 0, "relu": RELU, "gelu": GELU, "silu": SILU}


def gemm(
    a: Any, b: Any, out: Any = None, *, transpose_a: bool = False, transpose_b: bool = False, bias: Any = None,
    activation: str | None = None, dtype: DType | str | None = None, **how: Unpack[How],
) -> Any:  # fmt: skip
    """Return activation(a @ b + bias), in `out` where it is given.

    a: [M, K], or [K, M] with `transpose_a`; b: [K, N], or [N, K] with `transpose_b`; both of one float type of at most
    32 bits.  Views with swapped axes (`b.T`) are used as they lie, nothing is copied.
    bias: [N] of any such type; activation: "relu", "gelu" (exact) or "silu"
    dtype: of the result where `out` is not given; None: that of `a`, bf16 where that has 8 bits.  Sums are f32, rounded
    once at the end; GPUs sum 128 products of floats of 8 bits at a time in less (`schedule={"promote": 0}`: all).
    Raises OperandMismatch for operands that do not fit.
    """
    prepared = prepare_gemm(
        a, b, out, transpose_a=transpose_a, transpose_b=transpose_b, bias=bias, activation=activation, dtype=dtype,
        **how,
    )  # fmt: skip
    return prepared.run(how.get("stream"))


def prepare_gemm(
    a: Any, b: Any, out: Any = None, *, transpose_a: bool = False, transpose_b: bool = False, bias: Any = None,
    activation: str | None = None, dtype: DType | str | None = None, **how: Unpack[How],
) -> Prepared[Any]:  # fmt: skip
    """`gemm` up to its launch."""
    left, right, added = operand(a, "a"), operand(b, "b"), optional(bias, "bias")
    require_rank(left, 2, "a matrix")
    require_rank(right, 2, "a matrix")
    require_floats((left, right, added))
    require_same_dtype(left, right)
    (m, k), (k2, n) = _sizes(left, transpose_a), _sizes(right, transpose_b)
    require(k == k2, f"{m} x {k} times {k2} x {n}", "a's columns must be b's rows")
    require(min(m, k, n) > 0, f"{m} x {k} times {k2} x {n} is empty", "give them elements")
    if added is not None:
        require(added.shape == (n,), f"bias is {extents(added.shape)}, and the result has {n} columns")
    if activation not in ACTIVATIONS:
        raise OperandMismatch(f"{activation!r} is no activation", hint='choose "relu", "gelu" or "silu"')
    result = output(out, left, (m, n), result_dtype(dtype, bf16 if left.dtype.is_storage else left.dtype))
    machine = machine_of(left)
    first, flipped_a = _as_it_lies(left, transpose_a)
    second, flipped_b = _as_it_lies(right, transpose_b)
    fixed = {"TRANSPOSE_A": flipped_a, "TRANSPOSE_B": flipped_b, "ACTIVATION": ACTIVATIONS[activation]}
    default = schedules.gemm_schedule(machine, m, n, k, left.dtype, heavy=activation == "gelu")
    if left.dtype.is_storage and machine.is_gpu:
        along_k = not flipped_a and flipped_b and rows_aligned(left.view) and rows_aligned(_untransposed(right.view))
        default = schedules.byte_schedule(default, along_k=along_k)
    chosen = variant(
        matrix_product if added is None else matrix_product_with_bias, machine, default,
        schedules.space(schedules.GEMM_SPACE, machine), how, **fixed,
    )  # fmt: skip
    middle = () if added is None else (added.value,)
    launch = Launch(chosen, (first, second, *middle, result.value))
    return Prepared((launch,), lambda: as_result(result, left))


def _sizes(matrix: Operand, transposed: bool) -> tuple[int, int]:
    rows, columns = matrix.shape
    return (columns, rows) if transposed else (rows, columns)


def _untransposed(view: AnyArray) -> AnyArray:
    """A matrix with its contiguous axis last."""
    return view.T if view.strides[0] == view.itemsize != view.strides[1] else view


def _as_it_lies(matrix: Operand, transposed: bool) -> tuple[Any, bool]:
    """The matrix with its contiguous axis last, and whether the kernel has to swap its axes."""
    step = matrix.view.itemsize
    down, along = matrix.view.strides
    if down == step and along != step and hasattr(matrix.value, "T"):
        return matrix.value.T, not transposed
    return matrix.value, transposed
