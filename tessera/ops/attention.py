"""`flash_attention` and its backward pass: attention without ever holding a matrix of all scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, overload

from tessera.core.base.dtypes import f32
from tessera.ops.recipes.launch_recipe import Launch, LaunchRecipe, machine_of, require_known, variant
from tessera.ops.recipes.recipe_cache import Part, repeated, single_launch
from tessera.ops.tiles.attention import (
    attention_backward_keys,
    attention_backward_product,
    attention_backward_queries,
    attention_delta,
    attention_forward,
    attention_forward_with_lse,
)
from tessera.performance import schedules
from tessera.performance.machine_kind import MachineKind
from tessera.runtime.memory.operands import (
    as_result,
    empty,
    extents,
    operand,
    output,
    require,
    require_disjoint,
    require_floats,
    require_rank,
    require_same_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Unpack

    from tessera.ops.recipes.launch_recipe import ScheduleArguments
    from tessera.runtime.memory.operands import Operand

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
_LAYOUT = "an array [batch, heads, length, width]"


@dataclass(frozen=True, slots=True)
class _Attention(Generic[A_co]):
    """Checked operands.  scale: with log2(e) in it; share: query heads that use one head of keys."""

    q: Operand[A_co]
    k: Operand[A_co]
    v: Operand[A_co]
    causal: bool
    scale: float
    share: int
    machine: MachineKind


@overload
def flash_attention(
    q: A, k: A, v: A, out: A | None = None, *, causal: bool = False, scale: float | None = None,
    lse: Literal[False] = False, **how: Unpack[ScheduleArguments],
) -> A: ...  # fmt: skip
@overload
def flash_attention(
    q: A, k: A, v: A, out: A | None = None, *, causal: bool = False, scale: float | None = None, lse: Literal[True],
    **how: Unpack[ScheduleArguments],
) -> tuple[A, A]: ...  # fmt: skip
@overload
def flash_attention(
    q: A, k: A, v: A, out: A | None = None, *, causal: bool = False, scale: float | None = None, lse: bool,
    **how: Unpack[ScheduleArguments],
) -> A | tuple[A, A]: ...  # fmt: skip
def flash_attention(
    q: A, k: A, v: A, out: A | None = None, *, causal: bool = False, scale: float | None = None, lse: bool = False,
    **how: Unpack[ScheduleArguments],
) -> A | tuple[A, A]:  # fmt: skip
    """Return softmax(scale q k^T) v, in `out` where it is given; with `lse` a pair (result, log-sum-exp).

    q: [batch, heads, queries, width]; k and v: [batch, key heads, keys, width], heads a multiple of key heads: head h
    uses key head h // (heads // key heads).  All of one float type of at most 32 bits; weights are rounded to it.
    causal: query i sees the keys up to i + (keys - queries); there must be as many keys as queries, or more
    scale: None: 1 / sqrt(width).  The log-sum-exp is an f32 array [batch, heads, queries], natural logarithm.
    Raises OperandMismatch for operands that do not fit, OverlappingArrays where `out` lies in one of theirs.
    """
    prepare = lambda: prepare_flash_attention(q, k, v, out, causal=causal, scale=scale, lse=lse, **how)  # noqa: E731
    return repeated(("flash_attention", causal, scale, lse), (q, k, v, out), how, prepare)


def prepare_flash_attention(
    q: A, k: A, v: A, out: A | None = None, *, causal: bool = False, scale: float | None = None, lse: bool = False,
    **how: Unpack[ScheduleArguments],
) -> LaunchRecipe[A | tuple[A, A]]:  # fmt: skip
    """Prepare `flash_attention` up to its launch; raises what it raises."""
    require_known(how, schedules.parameters(schedules.ATTENTION_SPACE))
    given = _checked(q, k, v, causal, scale)
    result = output(out, given.q, given.q.shape, given.q.dtype)
    require_disjoint(result, given.q, given.k, given.v)
    forward = attention_forward_with_lse if lse else attention_forward
    chosen = variant(
        forward, given.machine,
        schedules.forward_schedule(
            given.machine, given.q.shape[2], given.k.shape[2], given.q.shape[3], given.q.dtype, causal=causal
        ),
        schedules.space(schedules.ATTENTION_SPACE, given.machine), how, CAUSAL=causal,
    )  # fmt: skip
    if not lse:
        parts = (*map(Part, range(4)), given.scale, given.share)
        return single_launch(chosen, parts, (given.q, given.k, given.v), result, disjoint=True)
    inputs = (given.q.value, given.k.value, given.v.value, result.value)
    row_lse = empty(given.q, given.q.shape[:3], f32)
    launch = Launch(chosen, (*inputs, row_lse.value, given.scale, given.share))
    return LaunchRecipe((launch,), lambda: (as_result(result, given.q), as_result(row_lse, given.q)))


def flash_attention_backward(
    grad: A, q: A, k: A, v: A, out: A, lse: A, *, causal: bool = False, scale: float | None = None,
    **how: Unpack[ScheduleArguments],
) -> tuple[A, A, A]:  # fmt: skip
    """Return the gradients (dq, dk, dv) for `grad`, the gradient of `out`.

    out, lse: what `flash_attention(q, k, v, ..., lse=True)` returned, with the same `causal` and `scale`
    Everything is added in one fixed order, without atomics: the same bits in every run.
    On sm_90, gradients of scores take up to 2 GiB of the device's memory meanwhile.
    Raises OperandMismatch for operands that do not fit.
    """
    prepared = prepare_flash_attention_backward(grad, q, k, v, out, lse, causal=causal, scale=scale, **how)
    return prepared.run(how.get("stream"))


def prepare_flash_attention_backward(
    grad: A, q: A, k: A, v: A, out: A, lse: A, *, causal: bool = False, scale: float | None = None,
    **how: Unpack[ScheduleArguments],
) -> LaunchRecipe[tuple[A, A, A]]:  # fmt: skip
    """Prepare `flash_attention_backward` up to its launches, with the memory that they need besides."""
    require_known(how, schedules.parameters(schedules.BACKWARD_SPACE))
    given = _checked(q, k, v, causal, scale)
    do, o, row_lse = operand(grad, "grad"), operand(out, "out"), operand(lse, "lse")
    for array in (do, o):
        require(array.shape == given.q.shape, f"{array.name} is {extents(array.shape)}, not {extents(given.q.shape)}")
    require_same_dtype(given.q, do, o)
    machine, rows = given.machine, given.q.shape[:3]
    require(
        row_lse.shape == rows and row_lse.dtype == f32,
        f"lse is {row_lse.dtype} {extents(row_lse.shape)}",
        "pass what came",
    )
    length = -(-rows[2] // schedules.DELTA_ROWS) * schedules.DELTA_ROWS
    base, delta = (empty(given.q, (*rows[:2], length), f32) for _ in range(2))
    preprocess = variant(attention_delta, machine, {"BM": schedules.DELTA_ROWS}, {}, {})
    dq, dk, dv = (empty(array, array.shape, array.dtype) for array in (given.q, given.k, given.v))
    arrays = (given.q, given.k, given.v, do, base, delta, dq, dk, dv)
    launches = (
        Launch(preprocess, (o.value, do.value, row_lse.value, base.value, delta.value)),
        *_gradients(given, arrays, how),
    )
    return LaunchRecipe(
        launches,
        lambda: (as_result(dq, given.q), as_result(dk, given.k), as_result(dv, given.v)),
    )


def _gradients(
    given: _Attention[object], arrays: Sequence[Operand[object]], how: ScheduleArguments
) -> Iterator[Launch]:
    """Yield the launches after the first; arrays: q, k, v, the gradient, its two vectors, dq, dk, dv.

    Where there is room for the gradients of the scores of one key head or more, they are kept, of as many at a time as
    fit, and dq is a plain product; otherwise dq computes them once more.
    """
    machine, causal, (q, k) = given.machine, given.causal, arrays[:2]
    batch, groups, keys, width = k.shape
    schedule = schedules.backward_schedule(machine, q.shape[2], keys, width, q.dtype)
    space = schedules.space(schedules.BACKWARD_SPACE, machine)
    scores = (given.share, keys, arrays[4].shape[2])
    heads = batch * groups
    together = schedules.heads_together(machine, q.dtype, heads, math.prod(scores), width)
    if together < heads and not all(array.sliceable for array in arrays):
        together = 0
    blocks = schedules.backward_product_schedule(q.shape[2], keys, (how.get("schedule") or {}).get("BN"))
    over_keys = variant(
        attention_backward_keys, machine, schedule, space, how, CAUSAL=causal, KEPT=together > 0, ROWS=blocks["BM"]
    )
    scale = (given.scale, given.share)
    if not together:
        schedule = schedules.backward_queries_schedule(machine, q.shape[2], keys, width, q.dtype)
        over_queries = variant(attention_backward_queries, machine, schedule, space, how, CAUSAL=causal)
        unused = empty(q, (1,) * 5, q.dtype)
        *inputs, dq, dk, dv = (array.value for array in arrays)
        yield Launch(over_keys, (*inputs, unused.value, dk, dv, *scale))
        yield Launch(over_queries, (*inputs, dq, *scale))
        return
    product = variant(attention_backward_product, machine, blocks, {}, {}, CAUSAL=causal)
    shape = (batch, groups) if together == heads else (1, together)
    kept = empty(q, (*shape, *scores), q.dtype).value
    for first in range(0, heads, together):
        *inputs, dq, dk, dv = (array.part(first, together, heads) for array in arrays)
        yield Launch(over_keys, (*inputs, kept, dk, dv, *scale))
        yield Launch(product, (kept, inputs[1], dq, *scale))


def _checked(q: A, k: A, v: A, causal: bool, scale: float | None) -> _Attention[A]:
    one, two, three = operand(q, "q"), operand(k, "k"), operand(v, "v")
    for array in (one, two, three):
        require_rank(array, 4, _LAYOUT)
        require(array.view.size > 0, f"{array.name} is {extents(array.shape)}: empty", "give it elements")
    require_floats((one, two, three))
    require_same_dtype(one, two, three)
    batch, heads, queries, width = one.shape
    require(two.shape == three.shape, f"k is {extents(two.shape)} and v {extents(three.shape)}", "they must agree")
    groups, keys = two.shape[1:3]
    require(two.shape[0] == batch, f"q holds {batch} sequences and k {two.shape[0]}")
    require(two.shape[3] == width, f"queries are {width} wide and keys {two.shape[3]}")
    require(heads % groups == 0, f"{heads} query heads cannot share {groups} key heads evenly", "give a multiple")
    require(not causal or queries <= keys, f"{queries} queries cannot look back on {keys} keys", "give more keys")
    chosen = 1 / math.sqrt(width) if scale is None else float(scale)
    require(chosen > 0 and math.isfinite(chosen), f"scale is {chosen}", "give a positive number")
    return _Attention(one, two, three, causal, chosen * math.log2(math.e), heads // groups, machine_of(one))
