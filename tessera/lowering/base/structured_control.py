"""Loops and branches as structured control flow, built with Python functions for their bodies."""

from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.indices import Indices

LANES: Final = 16
"""Lanes of the vectors that loops run in; the row of a scratch tile is padded to a multiple of it."""

Body = Callable[[Index, list[ir.Value]], Sequence[ir.Value]]
VectorBody = Callable[[Index, int, int | None], None]


# Unrolled by LLVM, a row of vectors becomes so many accesses that comparing them with each other takes most of the
# compile time (0.13 of 0.29 s for a product of 128 x 256 x 256, November 2026); bodies are as long as they should be.
_ROLLED: Final = {"loop_annotation": "#llvm.loop_annotation<unroll = <disable = true>>"}


def for_range(
    emitter: Emitter,
    lower: Index,
    upper: Index,
    step: int,
    body: Body,
    initial: Sequence[ir.Value] = (),
) -> list[ir.Value]:
    """Emit `for index in range(lower, upper, step)` and return the carried values after it.

    `body(index, carried)` emits one iteration and returns the next carried values.  A loop known to run once is
    emitted without a loop.
    """
    if isinstance(lower, int) and isinstance(upper, int) and 0 < upper - lower <= step:
        return list(body(lower, list(initial)))
    at = Indices(emitter)
    types = [value.type for value in initial]
    loop = emitter.create(
        "scf.for",
        [at.value(lower), at.value(upper), at.value(step), *initial],
        types,
        _ROLLED,
        regions=1,
    )
    arguments = [emitter.type("i64"), *types]
    block = loop.regions[0].blocks.append(*arguments, arg_locs=[emitter.location] * len(arguments))
    with emitter.at(block):
        emitter.create("scf.yield", body(block.arguments[0], list[ir.Value](block.arguments)[1:]))
    return list(loop.results)


def branch(
    emitter: Emitter,
    condition: ir.Value,
    then: Callable[[], Sequence[ir.Value]],
    otherwise: Callable[[], Sequence[ir.Value]] = lambda: (),
    results: Sequence[str] = (),
) -> list[ir.Value]:
    """Emit `if condition: then() else: otherwise()`; both return values of the types `results`."""
    op = emitter.create("scf.if", [condition], results, regions=2)
    for region, body in zip(op.regions, (then, otherwise), strict=True):
        with emitter.at(region.blocks.append()):
            emitter.create("scf.yield", body())
    return list(op.results)


def run_either(
    emitter: Emitter, condition: ir.Value, then: Callable[[], None], otherwise: Callable[[], None] | None = None
) -> None:
    """Emit `if condition: then() else: otherwise()`, without values."""
    op = emitter.create("scf.if", [condition], (), regions=2)
    for region, body in zip(op.regions, (then, otherwise), strict=True):
        if body is not None:
            with emitter.at(region.blocks.append()):
                body()
                emitter.create("scf.yield")


def for_points(
    emitter: Emitter, shape: Sequence[int], skipped: Sequence[int], body: Callable[[tuple[Index, ...]], None]
) -> None:
    """Emit nested loops over every axis of `shape` but the `skipped` ones, whose indices are given as 0."""

    def emit(axis: int, point: tuple[Index, ...]) -> None:
        if axis == len(shape):
            body(point)
        elif axis in skipped or shape[axis] == 1:
            emit(axis + 1, (*point, 0))
        else:
            for_range(emitter, 0, shape[axis], 1, lambda index, _: emit(axis + 1, (*point, index)) or ())

    emit(0, ())


def for_vectors(emitter: Emitter, extent: int, lanes: int, body: VectorBody) -> None:
    """Emit `body(index, lanes, valid)` for the vectors that cover `extent` elements.

    `valid` is None for whole vectors, and the number of lanes inside for a last, partial one.  `lanes` of 0 means
    one element at a time.
    """
    step = max(1, lanes)
    whole = extent - extent % step
    if whole:
        for_range(emitter, 0, whole, step, lambda index, _: body(index, lanes, None) or ())
    if whole < extent:
        body(whole, lanes, extent - whole)


def lanes_for(extent: int, element_bytes: int = 4) -> int:
    """Return how many lanes run over `extent` elements whose widest type has `element_bytes`; 0 for one element."""
    if extent == 1:
        return 0
    if extent < LANES:
        return 1 << (extent - 1).bit_length()
    wide = LANES * max(1, 4 // element_bytes)
    while extent % wide:
        wide //= 2
    return max(wide, LANES)


def padded(extent: int) -> int:
    """Return how many elements a row of `extent` elements takes in a scratch tile, so that whole vectors fit."""
    lanes = lanes_for(extent)
    return -(-extent // max(1, lanes)) * max(1, lanes)
