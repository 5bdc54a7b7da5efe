"""`softmax`, `layernorm` and `rmsnorm` along the last axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tessera.ops.recipes.launch_recipe import machine_of, require_known, variant
from tessera.ops.recipes.recipe_cache import Part, repeated, single_launch
from tessera.ops.tiles.rows import (
    layernorm_long_rows,
    layernorm_rows,
    rmsnorm_long_rows,
    rmsnorm_rows,
    softmax_long_rows,
    softmax_rows,
)
from tessera.performance import schedules
from tessera.runtime.memory.operands import (
    extents,
    operand,
    output,
    require,
    require_flat,
    require_floats,
    rows_and_columns,
)

if TYPE_CHECKING:
    from typing import Unpack

    from tessera.kernels.kernel import Kernel
    from tessera.ops.recipes.launch_recipe import LaunchRecipe, ScheduleArguments
    from tessera.runtime.memory.operands import Operand


A = TypeVar("A")


def softmax(x: A, out: A | None = None, **how: Unpack[ScheduleArguments]) -> A:
    """Return the softmax of `x` along its last axis, in `out` where it is given.

    x: [..., columns] of a float type of at most 32 bits; computed in f32, rounded once to the type of the result.
    Raises OperandMismatch for operands that do not fit.
    """
    return repeated(("softmax",), (x, out), how, lambda: prepare_softmax(x, out, **how))


def prepare_softmax(x: A, out: A | None = None, **how: Unpack[ScheduleArguments]) -> LaunchRecipe[A]:
    """Prepare `softmax` up to its launch; raises what it raises."""
    return _prepare((softmax_rows, softmax_long_rows), operand(x, "x"), (), out, (), how)


def layernorm(
    x: A, weight: A, bias: A, out: A | None = None, *, eps: float = 1e-5, **how: Unpack[ScheduleArguments]
) -> A:  # fmt: skip
    """Return (x - mean) / sqrt(variance + eps) * weight + bias along the last axis, in `out` where it is given.

    x: [..., columns]; weight, bias: [columns]; of float types of at most 32 bits.  Computed in f32, rounded once.
    Raises OperandMismatch for operands that do not fit.
    """
    prepare = lambda: prepare_layernorm(x, weight, bias, out, eps=eps, **how)  # noqa: E731
    return repeated(("layernorm", eps), (x, weight, bias, out), how, prepare)


def prepare_layernorm(
    x: A, weight: A, bias: A, out: A | None = None, *, eps: float = 1e-5, **how: Unpack[ScheduleArguments]
) -> LaunchRecipe[A]:  # fmt: skip
    """Prepare `layernorm` up to its launch; raises what it raises."""
    vectors = (operand(weight, "weight"), operand(bias, "bias"))
    return _prepare((layernorm_rows, layernorm_long_rows), operand(x, "x"), vectors, out, (float(eps),), how)


def rmsnorm(x: A, weight: A, out: A | None = None, *, eps: float = 1e-6, **how: Unpack[ScheduleArguments]) -> A:
    """Return x / sqrt(mean(x^2) + eps) * weight along the last axis, in `out` where it is given.

    x: [..., columns]; weight: [columns]; of float types of at most 32 bits.  Computed in f32, rounded once.
    Raises OperandMismatch for operands that do not fit.
    """
    prepare = lambda: prepare_rmsnorm(x, weight, out, eps=eps, **how)  # noqa: E731
    return repeated(("rmsnorm", eps), (x, weight, out), how, prepare)


def prepare_rmsnorm(
    x: A, weight: A, out: A | None = None, *, eps: float = 1e-6, **how: Unpack[ScheduleArguments]
) -> LaunchRecipe[A]:
    """Prepare `rmsnorm` up to its launch; raises what it raises."""
    vectors = (operand(weight, "weight"),)
    return _prepare((rmsnorm_rows, rmsnorm_long_rows), operand(x, "x"), vectors, out, (float(eps),), how)


def _prepare(
    kernels: tuple[Kernel, Kernel], x: Operand[A], vectors: tuple[Operand[A], ...], out: A | None,
    numbers: tuple[float, ...], how: ScheduleArguments,
) -> LaunchRecipe[A]:  # fmt: skip
    """Prepare the launch of the kernel for short rows, or of the one for long rows, on `x` seen as a matrix."""
    require_known(how, schedules.parameters(schedules.ROWS_SPACE))
    require_floats((x, *vectors))
    rows, columns = rows_and_columns(x)
    for vector in vectors:
        require(
            vector.shape == (columns,), f"{vector.name} is {extents(vector.shape)}, and rows have {columns} elements"
        )
    result = output(out, x, x.shape, x.dtype)
    machine = machine_of(x)
    short, long = kernels
    if columns <= schedules.ROW_LIMIT:
        space = schedules.space(schedules.ROWS_SPACE, machine)
        chosen = variant(short, machine, schedules.rows_schedule(columns), space, how)
    else:
        chosen = variant(long, machine, {}, {}, how, BLOCK=schedules.LONG_BLOCK)
    shape = (rows, columns)
    require_flat(result, shape)
    last = len(vectors) + 1
    parts = (Part(0, shape=shape), *map(Part, range(1, last)), Part(last, shape=shape), *numbers)
    return single_launch(chosen, parts, (x, *vectors), result)
