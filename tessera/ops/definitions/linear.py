"""Contractions: matmul, gemm, einsum, convolution."""

from collections.abc import Sequence
from typing import Any

from tessera.core.base.dtypes import boolean
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.graphs import tracer
from tessera.graphs.function import operator
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
    Raises OperandMismatch for extents that do not fit.
    """
    return tracer.matmul(a, b, tile_shape=tile_shape, exact=exact, compute=compute)


@operator("gemm")
def gemm(
    a: Array, b: Array, bias: Array | None = None, *, tile_shape: tuple[int, int, int] | tuple[()] = (),
    exact: bool = False, compute: str = "",
) -> Array:  # fmt: skip
    """Return a b + bias: `matmul` with a bias along the last axis.

    a: also the result of attention, [..., heads, length, width], for b with heads * width rows: heads are joined first
    """
    x, y = as_tracer(a), as_tracer(b)
    if x.ndim > 2 and y.ndim == 2 and x.shape[-1] != y.shape[0] == x.shape[-3] * x.shape[-1]:
        *batch, heads, length, width = x.shape
        rank = len(batch)
        x = x.transpose(*range(rank), rank + 1, rank, rank + 2).reshape(*batch, length, heads * width)
    made = tracer.matmul(x, y, tile_shape=tile_shape, exact=exact, compute=compute)
    return made if bias is None else made + bias


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


@operator("conv2d")
def conv2d(
    x: Array, weight: Array, bias: Array | None = None, *, stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0, dilation: int | tuple[int, int] = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """Return the cross-correlation of images with filters, as PyTorch's `conv2d`.

    x: [batch, channels, height, width]; weight: [filters, channels / groups, kernel height, kernel width]
    bias: [filters]; the result is [batch, filters, rows, columns].  Raises OperandMismatch.
    """
    trace = trace_of(x, weight, bias)
    image, kernel = as_tracer(x, trace), as_tracer(weight, trace)
    if image.ndim != 4 or kernel.ndim != 4:
        raise OperandMismatch(f"images have 4 axes and filters too, not {image.shape} and {kernel.shape}")
    batch, channels, height, width = image.shape
    filters, each, rows, columns = kernel.shape
    if channels != each * groups or filters % groups:
        raise OperandMismatch(f"{channels} channels in {groups} groups do not fit {filters} filters of {each}")
    (sy, sx), (py, px), (dy, dx) = _pair(stride), _pair(padding), _pair(dilation)
    if min(sy, sx, dy, dx) < 1 or min(py, px) < 0:
        raise OperandMismatch(f"stride {stride}, dilation {dilation} and padding {padding}: give at least 1, 1 and 0")
    out_height = (height + 2 * py - dy * (rows - 1) - 1) // sy + 1
    out_width = (width + 2 * px - dx * (columns - 1) - 1) // sx + 1
    if out_height < 1 or out_width < 1:
        raise OperandMismatch(f"filters of {rows} x {columns} do not fit images of {height} x {width}")
    # axes of the windows: batch, group, channel, row, column, filter row, filter column
    shape = (batch, groups, each, out_height, out_width, rows, columns)
    index = (
        Affine(0, (Term(0),)), Affine(0, (Term(1, each), Term(2))),
        Affine(-py, (Term(3, sy), Term(5, dy))), Affine(-px, (Term(4, sx), Term(6, dx))),
    )  # fmt: skip
    windows = image.of(trace.builder.view(image.value, IndexMap(shape, index, bool(py or px))))
    grouped = kernel.reshape(groups, filters // groups, each, rows, columns)
    made = contraction(windows, grouped, ((0, 1, 4, 5, 6, 7, 8), (1, 2, 4, 7, 8)), (0, 1, 2, 5, 6))
    made = made.reshape(batch, filters, out_height, out_width)
    return made if bias is None else made + as_tracer(bias, trace).reshape(filters, 1, 1)


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value
