"""Kernels that fold contributions of several ranks, element by element, in the order of a reduction tree.

A kernel is made for each order: `x0` to `x7` are the contributions' slices, `y0` what they make, and `y1` to `y3`
copies of it; all may lie in the memory of peers.  One pass reads every contribution once, in the tree's order of
evaluation, so that only as many values are live as the tree is deep.
"""

import hashlib
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final, cast

import tessera
from tessera.core.base.dtypes import DType
from tessera.core.placement.reduction_rules import RankReduction, ReduceOp
from tessera.core.placement.reduction_trees import Fold, contributions
from tessera.frontend.syntax.source_file import read_cell
from tessera.kernels.kernel import Kernel

_WARPS: Final = 4
_BLOCKS: Final = ((2, 4096), (16, 1024))
"""Elements of a group of 4 warps for up to so many contributions: all of a group's loads are under way at once."""
_LEAST_BLOCK: Final = 512

_STEPS: Final[dict[ReduceOp, str]] = {
    "sum": "{a} + {b}", "mean": "{a} + {b}", "prod": "{a} * {b}",
    "and": "{a} & {b}", "or": "{a} | {b}", "xor": "{a} ^ {b}",
}  # fmt: skip
_OF_INTEGERS: Final[dict[ReduceOp, str]] = {
    "max": "tile.where({a} > {b}, {a}, {b})",
    "min": "tile.where({a} < {b}, {a}, {b})",
}
_OF_BOOL: Final[dict[ReduceOp, str]] = {"max": "{a} | {b}", "min": "{a} & {b}"}
# NaN where either is.  Of equal numbers only zeros differ: they add to 0 unless both are -0, negated to -0 unless both
# are 0.
_OF_FLOATS: Final[dict[ReduceOp, str]] = {
    "max": (
        "tile.where({a} > {b}, {a}, tile.where({b} > {a}, {b}, "
        "tile.where({a} == {b}, tile.where({a} == 0, {a} + {b}, {a}), {a} + {b})))"
    ),
    "min": (
        "tile.where({a} < {b}, {a}, tile.where({b} < {a}, {b}, "
        "tile.where({a} == {b}, tile.where({a} == 0, -(-{a} + -{b}), {a}), {a} + {b})))"
    ),
}


def fold_kernel(fold: Fold, reduction: RankReduction, root_of: int | None, outputs: int = 1) -> Kernel:
    """Return the kernel that folds contributions, numbered from 0 in the order of `fold`.

    root_of: the number of leaves where the result is the root, which is finished and rounded to the type of `y0`;
        None: the result is a partial node, of the accumulator's type
    outputs: how many arrays get the result
    """
    finish = None if root_of is None else reduction.scale(root_of)
    halves = reduction.dtype.is_float and reduction.dtype.bits == 16
    return _kernel(fold, reduction.op, reduction.accumulator, root_of is not None, finish, outputs, halves)


@lru_cache(maxsize=512)
def _kernel(
    fold: Fold, op: ReduceOp, accumulator: DType, is_root: bool, scale: float | None, outputs: int, halves: bool
) -> Kernel:  # fmt: skip
    count = len(contributions(fold))
    block = next((size for most, size in _BLOCKS if count <= most), _LEAST_BLOCK)
    text = fold_text(fold, op, accumulator, is_root=is_root, scaled=scale is not None, outputs=outputs, halves=halves)
    names: dict[str, object] = {
        "tile": tessera.tile, "tensor": tessera.tensor, "mut": tessera.mut, "BLOCK": block,
        "ACCUMULATOR": accumulator, "NAN": math.nan, "SCALE": scale,
    }  # fmt: skip
    cell = read_cell(
        text, f"<fold of {count} by {op} in {accumulator}, {hashlib.sha256(text.encode()).hexdigest()[:8]}>"
    )
    exec(cell.compile(), names)  # noqa: S102 - the text is ours
    return Kernel(cast("Callable[..., object]", names["fold"])).variant(num_warps=_WARPS)


def fold_text(
    fold: Fold, op: ReduceOp, accumulator: DType, *, is_root: bool, scaled: bool, outputs: int = 1,
    halves: bool = False,
) -> str:  # fmt: skip
    """Return the source of a fold; `halves`: the elements are floats of 16 bits."""
    numbers = contributions(fold)
    lines: list[str] = []
    result = _emit(fold, _step(op, accumulator), lines)
    if scaled:
        lines.append(f"{result} = {result} * SCALE")
    one_nan = f"{result} = tile.where({result} != {result}, NAN, {result})"
    if is_root and accumulator.is_float:
        lines.append(one_nan)
    lines.append(f"{result} = tile.cast({result}, y0.dtype)")
    if is_root and halves:  # the conversions of GPUs have a NaN of their own
        lines.append(one_nan)
    lines += [f"y{number}[i : i + BLOCK] = {result}" for number in range(outputs)]
    inputs = [f"x{number}: tensor" for number in sorted(numbers)]
    parameters = ", ".join([*inputs, *(f"y{number}: mut[tensor]" for number in range(outputs))])
    body = "\n".join(f"        {line}" for line in lines)
    return f"def fold({parameters}):\n    for i in tile.range(y0.shape[0], step=BLOCK):\n{body}\n"


def _step(op: ReduceOp, accumulator: DType) -> str:
    if op in _STEPS:
        return _STEPS[op]
    table = _OF_FLOATS if accumulator.is_float else _OF_INTEGERS if accumulator.is_integer else _OF_BOOL
    return table[op]


def _emit(fold: Fold, step: str, lines: list[str]) -> str:
    """Add the lines that compute a fold, a contribution read where it is used first; return the name of its value."""
    name = f"v{len(lines)}"
    if isinstance(fold, int):
        lines.append(f"{name} = tile.cast(x{fold}[i : i + BLOCK], ACCUMULATOR)")
        return name
    left, right = (_emit(part, step, lines) for part in fold)
    name = f"v{len(lines)}"
    lines.append(f"{name} = {step.format(a=left, b=right)}")
    return name
