"""`gemm`: C = activation(A B + bias)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from typing import Unpack

    from tessera.core.dtypes import DType
    from tessera.kernels.launches import How
    from tessera.kernels.operands import Operand

ACTIVATIONS: Final = {None: 0, "relu": RELU, "gelu": GELU, "silu": SILU}


def gemm(
    a: Any, b: Any, out: Any = None, *, transpose_a: bool = False, transpose_b: bool = False, bias: Any = None,
    activation: str | None = None, dtype: DType | str | None = None, **how: Unpack[How],
) -> Any:  # fmt: skip
    """Return activation(a @ b + bias), in `out` where it is given.

    a: [M, K], or [K, M] with `transpose_a`; b: [K, N], or [N, K] with `transpose_b`; both of one float type of at most
    32 bits.  Views with swapped axes (`b.T`) are used as they lie, nothing is copied.
    bias: [N] of any such type; activation: "relu", "gelu" (exact) or "silu"
    dtype: of the result where `out` is not given; None: that of `a`.  Sums are f32, rounded once at the end.
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
    result = output(out, left, (m, n), result_dtype(dtype, left.dtype))
    machine = machine_of(left)
    first, flipped_a = _as_it_lies(left, transpose_a)
    second, flipped_b = _as_it_lies(right, transpose_b)
    fixed = {"TRANSPOSE_A": flipped_a, "TRANSPOSE_B": flipped_b, "ACTIVATION": ACTIVATIONS[activation]}
    default = schedules.gemm_schedule(machine, m, n, k, left.dtype, heavy=activation == "gelu")
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


def _as_it_lies(matrix: Operand, transposed: bool) -> tuple[Any, bool]:
    """The matrix with its contiguous axis last, and whether the kernel has to swap its axes."""
    step = matrix.view.itemsize
    down, along = matrix.view.strides
    if down == step and along != step and hasattr(matrix.value, "T"):
        return matrix.value.T, not transposed
    return matrix.value, transposed
