"""`transpose`: the last two axes swapped, as a new array."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from tessera.ops.recipes.launch_recipe import machine_of, require_known, variant
from tessera.ops.recipes.recipe_cache import Part, repeated, single_launch
from tessera.ops.tiles.transposition import transpose_matrices
from tessera.performance import schedules
from tessera.runtime.memory.operands import extents, operand, output, require, require_disjoint, require_flat

if TYPE_CHECKING:
    from typing import Unpack

    from tessera.ops.recipes.launch_recipe import LaunchRecipe, ScheduleArguments


A = TypeVar("A")


def transpose(x: A, out: A | None = None, **how: Unpack[ScheduleArguments]) -> A:
    """Return `x` with its last two axes swapped and every element moved, in `out` where it is given.

    x: [..., M, N] of any type; the result is [..., N, M].  Raises OperandMismatch for operands that do not fit,
    OverlappingArrays where `out` lies in x.
    """
    return repeated(("transpose",), (x, out), how, lambda: prepare_transpose(x, out, **how))


def prepare_transpose(x: A, out: A | None = None, **how: Unpack[ScheduleArguments]) -> LaunchRecipe[A]:
    """Prepare `transpose` up to its launch; raises what it raises."""
    require_known(how, schedules.parameters(schedules.TRANSPOSE_SPACE))
    given = operand(x, "x")
    require(len(given.shape) >= 2, f"x has {len(given.shape)} axes", "give a matrix, or several")
    require(given.view.size > 0, f"x is {extents(given.shape)}: empty", "give it elements")
    *outer, m, n = given.shape
    result = output(out, given, (*outer, n, m), given.dtype)
    require_disjoint(result, given)
    require(result.dtype == given.dtype, f"out holds {result.dtype} and x {given.dtype}", "convert one of them")
    machine = machine_of(given)
    space = schedules.space(schedules.TRANSPOSE_SPACE, machine)
    chosen = variant(transpose_matrices, machine, schedules.transpose_schedule(machine), space, how)
    count = math.prod(outer)
    require_flat(result, (count, n, m))
    parts = (Part(0, shape=(count, m, n)), Part(1, shape=(count, n, m)))
    return single_launch(chosen, parts, (given,), result, disjoint=True)
