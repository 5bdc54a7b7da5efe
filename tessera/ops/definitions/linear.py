"""Contractions: matmul, gemm, einsum."""

from collections.abc import Sequence
from typing import Any

from tessera.core.base.dtypes import boolean
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.scaled import Scaled
from tessera.graphs.scaled_calls import product
from tessera.graphs.tracer import as_tracer, contraction, trace_of

Array = Any  # an array of NumPy, PyTorch, CuPy or JAX, or a value of the graph that is being captured


@operator("matmul")
def matmul(
    a: Array, b: Array, *, tile_shape: tuple[int, int, int] | tuple[()] = (), exact: bool = False, compute: str = ""
) -> Array:
    """Return the matrix product of the last two axes, broadcast over the others, as NumPy's `matmul`.

    a: [..., M, K] or [K]; b: [..., K, N] or [K].  Products are summed in f32 (f64 for f64) and rounded once; of bools
    the result says whether any product holds.
    tile_shape: the blocks (BM, BN, BK) to compute it in; exact: without tensor cores, the same bits everywhere
    compute: "tf32" for f32 operands that are rounded to that first
    a and b may be Scaled, as `op.quantize` returns them: then codes are multiplied, and summed as their numerics say.
    Raises OperandMismatch for extents that do not fit.
    """
    if isinstance(a, Scaled) or isinstance(b, Scaled):
        return _scaled_product(a, b, tile_shape, exact=exact, compute=compute)
    return tracer.matmul(a, b, tile_shape=tile_shape, exact=exact, compute=compute)


@operator("gemm")
def gemm(
    a: Array, b: Array, bias: Array | None = None, *, tile_shape: tuple[int, int, int] | tuple[()] = (),
    exact: bool = False, compute: str = "",
) -> Array:  # fmt: skip
    """Return a b + bias: `matmul` with a bias along the last axis.

    a: also the result of attention, [..., heads, length, width], for b with heads * width rows: heads are joined first
    """
    if isinstance(a, Scaled) or isinstance(b, Scaled):
        made = _scaled_product(a, b, tile_shape, exact=exact, compute=compute)
        return made if bias is None else made + bias
    x, y = as_tracer(a), as_tracer(b)
    if x.ndim > 2 and y.ndim == 2 and x.shape[-1] != y.shape[0] == x.shape[-3] * x.shape[-1]:
        *batch, heads, length, width = x.shape
        rank = len(batch)
        x = x.transpose(*range(rank), rank + 1, rank, rank + 2).reshape(*batch, length, heads * width)
    made = tracer.matmul(x, y, tile_shape=tile_shape, exact=exact, compute=compute)
    return made if bias is None else made + bias


def _scaled_product(a: Array, b: Array, tile_shape: tuple[int, ...], *, exact: bool, compute: str) -> Array:
    if compute:
        raise OperandMismatch(f"compute={compute!r} of codes", hint="leave it out: their numerics say what is computed")
    x, y = (each if isinstance(each, Scaled) else as_tracer(each, trace_of(each)) for each in (a, b))
    return product(x, y, tile_shape=tile_shape, exact=exact)


@operator("einsum")
def einsum(subscripts: str, *operands: Array) -> Array:
    """Sum products over named axes, as NumPy's `einsum`: `einsum("bhik,bhjk->bhij", q, k)`.

    Each letter is an axis, once an operand; without `->` the result has those named once, in alphabetical order.  Of
    more than two operands the first two are multiplied first.  Raises OperandMismatch.
    """
    inputs, _, output = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands) or not all(term.isalpha() or not term for term in terms):
        raise OperandMismatch(f"{subscripts!r} names {len(terms)} operands, and there are {len(operands)}")
    if "->" not in subscripts:
        output = "".join(sorted(letter for letter in set(inputs) - {","} if inputs.count(letter) == 1))
    trace = trace_of(*operands)
    values = [as_tracer(each, trace) for each in operands]
    _check_terms(terms, values, output)
    left, term = values[0], terms[0]
    for number, (right, other) in enumerate(zip(values[1:], terms[1:], strict=True), 2):
        needed = output + "".join(terms[number:])
        letters = dict.fromkeys(term + other)
        wanted = output if number == len(values) else "".join(letter for letter in letters if letter in needed)
        left, term = _product(left, term, right, other, wanted), wanted
    if term != output:
        gone = [axis for axis, letter in enumerate(term) if letter not in output]
        left = left.sum(gone) if gone else left
        rest = [letter for letter in term if letter in output]
        left = left.transpose(*(rest.index(letter) for letter in output)) if rest != list(output) else left
    return left


def _check_terms(terms: Sequence[str], values: Sequence[Array], output: str) -> None:
    extents: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        if len(term) != value.ndim or len(set(term)) < len(term):
            raise OperandMismatch(f"{term!r} does not name the {value.ndim} axes of {value.shape}, each once")
        for letter, extent in zip(term, value.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise OperandMismatch(f"axis {letter!r} has {extents[letter]} and {extent} elements")
    if missing := set(output) - set(extents):
        raise OperandMismatch(f"no operand has the axis {', '.join(sorted(missing))}")


def _product(left: Array, term: str, right: Array, other: str, wanted: str) -> Array:
    """Multiply two operands; axes that only one of them has, and that are not wanted, are summed first."""
    left, term = _without(left, term, set(other) | set(wanted))
    right, other = _without(right, other, set(term) | set(wanted))
    letters = {letter: number for number, letter in enumerate(dict.fromkeys(wanted + term + other))}
    labels = [[letters[letter] for letter in each] for each in (term, other)]
    if all(letter in wanted for letter in term + other):  # nothing is summed
        rank = len(wanted)
        places = [wanted.index(letter) for letter in term], [wanted.index(letter) for letter in other]
        spread = [_spread(each, where, rank) for each, where in zip((left, right), places, strict=True)]
        return spread[0] & spread[1] if left.dtype == right.dtype == boolean else spread[0] * spread[1]
    return contraction(left, right, labels, [letters[letter] for letter in wanted])


def _spread(x: Array, places: Sequence[int], rank: int) -> Array:
    order = sorted(range(x.ndim), key=lambda axis: places[axis])
    shape = [1] * rank
    for axis in order:
        shape[places[axis]] = x.shape[axis]
    return x.transpose(*order).reshape(*shape) if x.ndim else x


def _without(x: Array, term: str, kept: set[str]) -> tuple[Array, str]:
    gone = [axis for axis, letter in enumerate(term) if letter not in kept]
    return (x.sum(gone), "".join(letter for letter in term if letter in kept)) if gone else (x, term)
