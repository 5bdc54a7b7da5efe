"""Loops and branches: `scan`, `while_`, `cond`.  Their bodies are captured once, whatever the number of trips.

The arguments have the order and the meaning that they have in JAX.
"""

from collections.abc import Callable, Sequence
from typing import Any

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import boolean
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.graph.bodies import BRANCH, LOOP, WHILE
from tessera.core.graph.graph import Tensor, Value
from tessera.graphs.bodies import Arrays, CapturedBody, arrays_in, capture_body, listed, mismatch
from tessera.graphs.function import operator
from tessera.graphs.structure import Branch, Structure, leaves_in, unflatten
from tessera.graphs.trace import Trace, trace_of
from tessera.graphs.tracer import Tracer, as_tracer, compare

Nested = Any  # an array, a number, or tuples, lists, dicts and dataclasses of these


@operator("scan")
def scan(
    f: Callable[[Nested, Nested], tuple[Nested, Nested]], init: Nested, xs: Nested = None, length: int | None = None,
    reverse: bool = False, *, recompute: bool = False,
) -> tuple[Nested, Nested]:  # fmt: skip
    """Carry a state along the first axis of arrays: `carry, y = f(carry, x)` for one slice x after the other.

    init: the first carry; a Python number in it takes the dtype that `f` makes of it
    xs: arrays with one first extent, cut into slices; None: f is called with None, `length` times
    reverse: begin at the last slice; the outputs stay in the places of their slices
    recompute: keep only the carries for the adjoint, and compute each trip again there

    Returns (the last carry, the outputs y stacked along a new first axis).  What f uses of the outside is handed to it.
    Raises OperandMismatch for extents that differ, and for a carry that comes back with other types than it went in.
    """
    trace = trace_of()
    slices = arrays_in(xs, trace)
    trips = _trips(slices, length)
    carry = arrays_in(init, trace)
    taken = [Tensor(each.dtype, each.shape[1:]) for each in slices.types]

    def capture(types: Sequence[Tensor]) -> CapturedBody:
        return capture_body(f, (carry.structure, slices.structure), (*types, *taken), types)

    carry, body = _settled(init, carry, capture, trace)
    count = len(carry.values)
    parts = _pair(body, f)
    _same_carry(carry, body, parts[0], "f")
    constants = [as_tracer(each, trace).value for each in body.captured]
    graph = body.taking(body.graph.inputs[count + len(taken) :], count + len(taken))
    given = [*constants, *(each.value for each in (*carry.values, *slices.values))]
    if trips == 0:
        made = [trace.builder.copy(each.value) for each in carry.values]
        made += [trace.builder.full(0, kind.dtype, (0, *kind.shape)) for kind in body.types[count:]]
    else:
        made = trace.builder.add_all(
            LOOP, given, (graph,), trips=trips, constants=len(constants), carried=count, reverse=bool(reverse),
            recompute=bool(recompute),
        )  # fmt: skip
    left = iter([Tracer(trace, value) for value in made])
    last = carry.put_together([next(left) for _ in range(count)])
    return last, unflatten(parts[1], lambda: next(left))


def _trips(slices: Arrays, length: int | None) -> int:
    """Return the number of slices.  Raises OperandMismatch."""
    if any(not kind.shape for kind in slices.types):
        raise OperandMismatch("xs has a number without axes, of which there are no slices", hint="close over it in f")
    extents = {kind.shape[0] for kind in slices.types}
    if length is not None and length < 0:
        raise OperandMismatch(f"length={length} is less than 0", hint="give the number of steps")
    if length is not None:
        extents.add(length)
    if len(extents) != 1:
        wrong = (
            f"the first extents are {', '.join(map(str, sorted(extents)))}" if extents else "there is nothing to scan"
        )
        raise OperandMismatch(wrong, hint="give xs with one first extent, or length= alone")
    return next(iter(extents))


def _settled(
    init: Nested, carry: Arrays, capture: Callable[[Sequence[Tensor]], CapturedBody], trace: Trace
) -> tuple[Arrays, CapturedBody]:
    """Capture a body; Python numbers of the carry take the dtype that comes back."""
    body = capture(carry.types)
    for _ in range(2):
        types = [
            new if place in carry.numbers and new.shape == old.shape else old
            for place, (old, new) in enumerate(zip(carry.types, body.types, strict=False))
        ]
        if len(body.types) < len(carry.types) or tuple(types) == carry.types:
            break
        carry = arrays_in(init, trace, types)
        body = capture(carry.types)
    return carry, body


def _pair(body: CapturedBody, f: Callable[..., object]) -> tuple[Structure, Structure]:
    result = body.result
    if not isinstance(result, Branch) or result.names or len(result.children) != 2:
        name = getattr(f, "__name__", "f")
        raise OperandMismatch(
            f"{name} returns no pair of a carry and an output", body.graph.span, "return (carry, y), or (carry, None)"
        ).with_source(body.graph.source)
    return result.children[0], result.children[1]


def _same_carry(carry: Arrays, body: CapturedBody, returned: Structure, name: str) -> None:
    """Raise OperandMismatch for a carry that comes back with other types, or arranged in another way."""
    count = leaves_in(returned)
    types = body.types[:count]
    if types == carry.types and returned == carry.structure:
        return
    before, after = listed(carry.structure, carry.types, "carry"), listed(returned, types, "carry")
    hint = "return it arranged as it came in"
    numbers = [n for n, (a, b) in enumerate(zip(carry.types, types, strict=False)) if a != b]
    wrong = numbers[0] if numbers else 0
    if numbers and carry.types[wrong].shape == types[wrong].shape:
        hint = f"convert it back with .astype('{carry.types[wrong].dtype.name}'), or begin with {types[wrong].dtype}"
    elif numbers:
        hint = "its shape must stay the same from step to step"
    message = f"the carry of {name} comes in as {before} and goes out as {after}"
    if not types:
        raise OperandMismatch(message, body.graph.span, hint)
    raise mismatch(message, (body.graph, wrong), None, "", hint)


@operator("while_loop")
def while_(cond_fun: Callable[[Nested], Array], body_fun: Callable[[Nested], Nested], init: Nested) -> Nested:
    """Return what `body_fun` makes of `init`, again and again while `cond_fun` of it holds.

    cond_fun: takes the carry and returns one bool; body_fun: takes and returns the carry, of the same types
    init: the first carry; a Python number in it takes the dtype that comes back

    After each step the host reads one bool, so that a GPU waits for it.  It has derivatives forwards (`jvp`), and none
    backwards: how many steps would have to be kept is not known; `op.scan` has both.
    Raises OperandMismatch for a condition that is no bool, and for a carry that comes back with other types.
    """
    trace = trace_of()
    carry = arrays_in(init, trace)

    def capture(types: Sequence[Tensor]) -> CapturedBody:
        return capture_body(body_fun, (carry.structure,), types, types)

    carry, body = _settled(init, carry, capture, trace)
    if not carry.values:
        raise OperandMismatch(
            "while_ carries no array, so that its condition never changes", hint="pass arrays as init"
        )
    _same_carry(carry, body, body.result, "body_fun")
    condition = capture_body(lambda *given: _as_bool(cond_fun(*given), "cond_fun"), (carry.structure,), carry.types)
    count = len(carry.values)
    inner = (*condition.graph.inputs[count:], *body.graph.inputs[count:])
    constants = [as_tracer(each, trace).value for each in (*condition.captured, *body.captured)]
    graphs = condition.taking(inner, count), body.taking(inner, count)
    made = trace.builder.add_all(
        WHILE, (*constants, *(each.value for each in carry.values)), graphs, constants=len(constants), carried=count
    )
    return carry.put_together([Tracer(trace, value) for value in made])


def _as_bool(value: object, name: str) -> object:
    """Return a condition as one bool.  Raises OperandMismatch for what is no array of one element."""
    if isinstance(value, bool):
        return value
    given = as_tracer(value)
    if given.size != 1:
        raise OperandMismatch(
            f"{name} is {given.value.type}, and a condition is one bool",
            hint="reduce it: op.max(...) > 0, or use op.where",
        )
    number = given.reshape(())
    return number if number.dtype == boolean else compare("ne", number, 0)


@operator("cond")
def cond(
    pred: Array, true_fun: Callable[..., Nested], false_fun: Callable[..., Nested], *operands: Nested
) -> Nested:  # fmt: skip
    """Return `true_fun(*operands)` where one bool holds, else `false_fun(*operands)`; only one of them is computed.

    pred: one bool or number; one of Python chooses now.  Both functions return the same types in the same arrangement.
    They may take no operands, and use what is around them.  The host reads the bool, so that a GPU waits for it:
    `op.where` chooses element by element without.

    Raises OperandMismatch, with both places, for functions that return different types.
    """
    if isinstance(pred, bool | int | float):
        return (true_fun if pred else false_fun)(*operands)
    trace = trace_of()
    holds = as_tracer(_as_bool(pred, "pred"), trace)
    given = arrays_in(operands, trace)
    assert isinstance(given.structure, Branch)
    structures = given.structure.children
    first = capture_body(true_fun, structures, given.types)
    second = capture_body(false_fun, structures, given.types, first.types)
    if first.numbers:
        first = capture_body(true_fun, structures, given.types, second.types)
    _same_branches(first, second)
    count = len(given.values)
    inner = (*first.graph.inputs[count:], *second.graph.inputs[count:])
    constants = [as_tracer(each, trace).value for each in (*first.captured, *second.captured)]
    graphs = first.taking(inner, count), second.taking(inner, count)
    values: list[Value] = [holds.value, *constants, *(each.value for each in given.values)]
    made = trace.builder.add_all(BRANCH, values, graphs)
    left = iter([Tracer(trace, value) for value in made])
    return unflatten(first.result, lambda: next(left))


def _same_branches(first: CapturedBody, second: CapturedBody) -> None:
    if first.types == second.types and first.result == second.result:
        if not first.types:
            raise CannotTrace("the functions of cond return no array", hint="return what they compute")
        return
    here, there = listed(first.result, first.types, "result"), listed(second.result, second.types, "result")
    pairs = enumerate(zip(first.types, second.types, strict=False))
    wrong = next((number for number, (a, b) in pairs if a != b), 0)
    message = f"the functions of cond return different types: true_fun {here}, false_fun {there}"
    hint = "return the same shapes and dtypes from both, arranged in the same way"
    if len(first.types) <= wrong or len(second.types) <= wrong:
        raise OperandMismatch(message, hint=hint)
    raise mismatch(
        message, (first.graph, wrong), (second.graph, wrong), f"false_fun returns {second.types[wrong]}", hint
    )
