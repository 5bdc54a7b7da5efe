"""`gemm`: C = activation(A B + bias)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from tessera.core.base.dtypes import COMPUTE_TYPES, bf16
from tessera.core.errors.catalog import OperandMismatch
from tessera.ops.recipes.launch_recipe import LaunchRecipe, MatmulArguments, machine_of, require_known, variant
from tessera.ops.recipes.recipe_cache import Part, repeated, single_launch
from tessera.ops.tiles.matrix import GELU, RELU, SILU, matrix_product, matrix_product_with_bias
from tessera.performance import schedules
from tessera.runtime.arrays.host import rows_aligned
from tessera.runtime.memory.operands import (
    as_result,
    extents,
    operand,
    optional,
    output,
    require,
    require_disjoint,
    require_floats,
    require_rank,
    require_same_dtype,
    result_dtype,
)

if TYPE_CHECKING:
    from typing import Unpack

    from tessera.core.base.dtypes import ComputeType, DType
    from tessera.runtime.arrays.host import AnyArray
    from tessera.runtime.memory.operands import Operand

ACTIVATIONS: Final = {None: 0, "relu": RELU, "gelu": GELU, "silu": SILU}


A = TypeVar("A")


def gemm(
    a: A, b: A, out: A | None = None, *, transpose_a: bool = False, transpose_b: bool = False, bias: A | None = None,
    activation: str | None = None, dtype: DType | str | None = None, **how: Unpack[MatmulArguments],
) -> A:  # fmt: skip
    """Return activation(a @ b + bias), in `out` where it is given.

    a: [M, K], or [K, M] with `transpose_a`; b: [K, N], or [N, K] with `transpose_b`; both of one float type of at most
    32 bits.  Views with swapped axes (`b.T`) are used as they lie, nothing is copied.
    bias: [N] of any such type; activation: "relu", "gelu" (exact) or "silu"
    dtype: of the result where `out` is not given; None: that of `a`, bf16 where that has 8 bits.  Sums are f32, rounded
    once at the end; GPUs sum 128 products of floats of 8 bits at a time in less
        (`schedule={"promotion_interval": 0}`: all).
    compute: "tf32" (or `tessera.tf32`): the elements of f32 operands are rounded to 10 bits of mantissa, for which GPUs
    have tensor cores; None: f32 are multiplied as they are
    Where K is 0, sums are 0; a result without elements needs no launch.
    Raises OperandMismatch for operands that do not fit, OverlappingArrays where `out` lies in one of theirs.
    """
    prepare = lambda: prepare_gemm(  # noqa: E731
        a, b, out, transpose_a=transpose_a, transpose_b=transpose_b, bias=bias, activation=activation, dtype=dtype,
        **how,
    )  # fmt: skip
    what = ("gemm", transpose_a, transpose_b, activation, dtype)
    return repeated(what, (a, b, bias, out), how, prepare)


def prepare_gemm(
    a: A, b: A, out: A | None = None, *, transpose_a: bool = False, transpose_b: bool = False, bias: A | None = None,
    activation: str | None = None, dtype: DType | str | None = None, **how: Unpack[MatmulArguments],
) -> LaunchRecipe[A]:  # fmt: skip
    """Prepare `gemm` up to its launch; raises what it raises."""
    require_known(how, schedules.parameters(schedules.GEMM_SPACE), MatmulArguments)
    left, right, added = operand(a, "a"), operand(b, "b"), optional(bias, "bias")
    require_rank(left, 2, "a matrix")
    require_rank(right, 2, "a matrix")
    require_floats((left, right, added))
    require_same_dtype(left, right)
    (m, k), (k2, n) = _sizes(left, transpose_a), _sizes(right, transpose_b)
    require(k == k2, f"{m} x {k} times {k2} x {n}", "a's columns must be b's rows")
    if added is not None:
        require(added.shape == (n,), f"bias is {extents(added.shape)}, and the result has {n} columns")
    if activation not in ACTIVATIONS:
        raise OperandMismatch(f"{activation!r} is no activation", hint='choose "relu", "gelu" or "silu"')
    rounded = _compute(how.get("compute"), left.dtype)
    result = output(out, left, (m, n), result_dtype(dtype, bf16 if left.dtype.is_storage else left.dtype))
    require_disjoint(result, left, right, added)
    if not result.view.size:
        return LaunchRecipe((), lambda: as_result(result, left))
    machine = machine_of(left)
    turned = [_lies_turned(left), _lies_turned(right)]
    flipped_a, flipped_b = transpose_a != turned[0], transpose_b != turned[1]
    fixed = {
        "TRANSPOSE_A": flipped_a, "TRANSPOSE_B": flipped_b, "ACTIVATION": ACTIVATIONS[activation], "COMPUTE": rounded,
    }  # fmt: skip
    lying = [_untransposed(x.view) for x in (left, right)]
    aligned = all(map(rows_aligned, lying))
    pays = schedules.padding_pays(machine, m, n, k)
    # What has no gaps can be copied to aligned rows first.
    ready = aligned or (pays and all(rows_aligned(view) or view.flags.c_contiguous for view in lying))
    default = schedules.gemm_schedule(
        machine, m, n, k, left.dtype, heavy=activation == "gelu", rounded=rounded is not None
    )
    if left.dtype.is_storage and machine.is_gpu:
        along_k = not flipped_a and flipped_b and ready
        default = schedules.byte_schedule(default, along_k=along_k, aligned=aligned, added=added is not None)
    if rounded is not None and machine.is_gpu:
        default = schedules.rounded_schedule(
            machine, default, (not flipped_a, flipped_b), aligned=aligned, heavy=activation == "gelu"
        )
    if machine.is_gpu and not aligned and not pays:
        default = {**default, "pad_rows": False}
    chosen = variant(
        matrix_product if added is None else matrix_product_with_bias, machine, default,
        schedules.space(schedules.GEMM_SPACE, machine), how, **fixed,
    )  # fmt: skip
    parts = [Part(0, turned[0]), Part(1, turned[1]), *([] if added is None else [Part(2)]), Part(3)]
    return single_launch(chosen, parts, (left, right, added), result, disjoint=True)


def _compute(wanted: ComputeType | str | None, dtype: DType) -> str | None:
    """Return the name of the type that operands of type `dtype` are rounded to; None: they are not."""
    kind = COMPUTE_TYPES.get(wanted) if isinstance(wanted, str) else wanted
    if wanted is not None and kind is None:
        raise OperandMismatch(
            f"{wanted!r} is nothing to compute products in", hint=f"compute= takes {', '.join(COMPUTE_TYPES)}"
        )
    require(kind is None or kind.operand_dtype == dtype, f"compute={kind} rounds f32, and a is {dtype}", "leave it out")
    return None if kind is None else kind.name


def _sizes(matrix: Operand[object], transposed: bool) -> tuple[int, int]:
    rows, columns = matrix.shape
    return (columns, rows) if transposed else (rows, columns)


def _untransposed(view: AnyArray) -> AnyArray:
    """Return a matrix with its contiguous axis last."""
    return view.T if view.strides[0] == view.itemsize != view.strides[1] else view


def _lies_turned(matrix: Operand[object]) -> bool:
    """Return whether the first axis of a matrix is the contiguous one, so that the kernel takes its axes swapped."""
    down, along = matrix.view.strides
    return down == matrix.view.itemsize != along and hasattr(matrix.value, "T")
