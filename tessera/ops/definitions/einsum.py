"""`op.einsum`: sums of products over named axes, as contractions, sums, diagonals and transpositions."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import boolean, i32, promote
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.build import broadcast_shape
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.shapes import working
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, as_tracer, contraction

Labels: TypeAlias = tuple[str, ...]
"""Names of axes: a letter each, and "...0", "...1", ... for those that `...` stands for, "...0" for the last one."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand and the labels of its axes."""

    value: Tracer
    labels: Labels


@operator("einsum")
def einsum(subscripts: str, *operands: Array) -> Array:
    """Sum products over named axes, as NumPy's `einsum`: `einsum("bhik,bhjk->bhij", q, k)`.

    Each letter is an axis; a letter twice in one operand takes its diagonal.  `...` stands for the other axes of an
    operand, which are broadcast together.  Without `->` the result has the axes of `...`, then the letters that are
    named once, in alphabetical order.
    Operands are multiplied from left to right: the first two, then their product and the third, and so on; axes that
    only one of two has, and that nothing needs any more, are summed first.  Floats of 16 bits are summed in f32 and
    rounded once, at the end; integers keep their dtype, and of bools the result says whether any product holds.
    Raises OperandMismatch for subscripts that do not fit the operands, and for a letter whose axes have several
    extents, 1 among them, which NumPy repeats: axes of `...` are repeated.
    """
    trace = trace_of(*operands)
    values = [as_tracer(each, trace) for each in operands]
    terms, output = _terms(subscripts, values)
    _check_letters(subscripts, terms, values, output)
    met = values[0].dtype
    for value in values[1:]:
        met = promote(met, value.dtype)
    spread = _spread_extents(subscripts, terms, values)
    prepared = [_prepared(value.astype(met), term, spread) for value, term in zip(values, terms, strict=True)]
    total = prepared[0]
    for number, other in enumerate(prepared[1:], 2):
        remaining = {label for each in prepared[number:] for label in each.labels}
        both = dict.fromkeys(total.labels + other.labels)
        is_last = number == len(prepared)
        needed = output if is_last else tuple(label for label in both if label in remaining or label in output)
        total = _product(total, other, needed, is_last=is_last)
    total = _without(total, output)
    order = [total.labels.index(label) for label in output]
    return (total.value.transpose(*order) if order != sorted(order) else total.value).astype(met)


# Subscripts


def _terms(subscripts: str, values: Sequence[Tracer]) -> tuple[list[Labels], Labels]:
    """Return the labels of each operand and of the result.  Raises OperandMismatch."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    texts = inputs.split(",")
    for text in (*texts, output):
        letters = text.replace("...", "", 1)
        if letters and not (letters.isascii() and letters.isalpha()):
            raise OperandMismatch(
                f"{text!r} in {subscripts!r} names no axes", hint="give letters, and ... at most once an operand"
            )
    if len(texts) != len(values):
        raise OperandMismatch(f"{subscripts!r} names {len(texts)} operands, and there are {len(values)}")
    terms = [_labels(subscripts, text, value) for text, value in zip(texts, values, strict=True)]
    others = sorted({label for term in terms for label in term if label.startswith(".")}, key=_distance, reverse=True)
    if not arrow:
        counts = Counter(label for term in terms for label in term if not label.startswith("."))
        return terms, (*others, *sorted(label for label, count in counts.items() if count == 1))
    before, dots, after = output.partition("...")
    if others and not dots:
        raise OperandMismatch(
            f"the result of {subscripts!r} leaves out the axes of ...",
            hint=f'write ... after the arrow, "->...{output}", or letters for axes to sum',
        )
    return terms, (*before, *others, *after)


def _labels(subscripts: str, text: str, value: Tracer) -> Labels:
    """Return the labels of an operand's axes.  Raises OperandMismatch for more or fewer of them than axes."""
    before, dots, after = text.partition("...")
    count = value.ndim - len(before) - len(after)
    if count < 0 or (count and not dots):
        raise OperandMismatch(
            f"{text!r} in {subscripts!r} does not name the {value.ndim} axes of {value.shape}",
            hint="give a letter an axis, or ... for several",
        )
    return (*before, *(f"...{number}" for number in reversed(range(count))), *after)


def _distance(label: str) -> int:
    """Return how many axes of `...` follow one of them."""
    return int(label[3:])


def _check_letters(subscripts: str, terms: Sequence[Labels], values: Sequence[Tracer], output: Labels) -> None:
    """Raise OperandMismatch for a letter of several extents, and for letters of the result that cannot be there."""
    extents: dict[str, int] = {}
    for term, value in zip(terms, values, strict=True):
        for label, extent in zip(term, value.shape, strict=True):
            if not label.startswith(".") and extents.setdefault(label, extent) != extent:
                raise OperandMismatch(
                    f"axis {label!r} has {extents[label]} and {extent} elements in {subscripts!r}",
                    hint="give a letter one extent; axes of ... repeat where they have 1",
                )
    letters = [label for label in output if not label.startswith(".")]
    if missing := sorted(set(letters) - set(extents)):
        raise OperandMismatch(f"no operand has the axis {', '.join(missing)} of the result of {subscripts!r}")
    if twice := sorted(label for label, count in Counter(letters).items() if count > 1):
        raise OperandMismatch(f"the result of {subscripts!r} names an axis twice: {', '.join(twice)}")


def _spread_extents(subscripts: str, terms: Sequence[Labels], values: Sequence[Tracer]) -> dict[str, int]:
    """Return the extents of the axes of `...`, broadcast together.  Raises OperandMismatch."""
    shapes = [
        tuple(extent for label, extent in zip(term, value.shape, strict=True) if label.startswith("."))
        for term, value in zip(terms, values, strict=True)
    ]
    try:
        shape = broadcast_shape(shapes)
    except ValueError as wrong:
        listed = " and ".join(str(each) for each in shapes)
        raise OperandMismatch(f"the axes of ... in {subscripts!r}, {listed}, do not broadcast together") from wrong
    return {f"...{number}": extent for number, extent in enumerate(reversed(shape))}


# Values


def _prepared(value: Tracer, term: Labels, spread: dict[str, int]) -> _Operand:
    """Return an operand with each label once: diagonals, without axes of extent 1 that are repeated."""
    pairs = zip(term, value.shape, strict=True)
    kept = [n for n, (label, extent) in enumerate(pairs) if spread.get(label, extent) == extent]
    if len(kept) < len(term):
        value, term = value.reshape(*(value.shape[n] for n in kept)), tuple(term[n] for n in kept)
    labels = tuple(dict.fromkeys(term))
    if labels == term:
        return _Operand(value, term)
    shape = tuple(value.shape[term.index(label)] for label in labels)
    diagonal = IndexMap(shape, tuple(Affine(0, (Term(labels.index(label)),)) for label in term))
    return _Operand(value.of(value.trace.builder.view(value.value, diagonal)), labels)


def _product(first: _Operand, second: _Operand, axes: Labels, *, is_last: bool) -> _Operand:
    """Multiply two operands; axes that only one of them has, and that the result lacks, are summed first."""
    first = _without(first, {*second.labels, *axes})
    second = _without(second, {*first.labels, *axes})
    numbers = {label: number for number, label in enumerate(dict.fromkeys(axes + first.labels + second.labels))}
    dtype = promote(first.value.dtype, second.value.dtype)
    sums = working(dtype) if dtype.is_float and not is_last else dtype
    if len(numbers) > len(axes):
        labels = [[numbers[label] for label in each.labels] for each in (first, second)]
        return _Operand(contraction(first.value, second.value, labels, range(len(axes)), dtype=sums), axes)
    a, b = (_arranged(each, axes).astype(sums) for each in (first, second))
    return _Operand(a & b if dtype == boolean else a * b, axes)


def _arranged(operand: _Operand, axes: Labels) -> Tracer:
    """Return a value with its axes in the order of `axes`, and of extent 1 where it has none of them."""
    order = sorted(range(len(operand.labels)), key=lambda axis: axes.index(operand.labels[axis]))
    shape = [1] * len(axes)
    for label, extent in zip(operand.labels, operand.value.shape, strict=True):
        shape[axes.index(label)] = extent
    return operand.value.transpose(*order).reshape(*shape) if order else operand.value


def _without(operand: _Operand, kept: Collection[str]) -> _Operand:
    """Sum along the axes that are not kept: in f32 for floats of 16 bits, bools to whether any of them holds."""
    gone = [axis for axis, label in enumerate(operand.labels) if label not in kept]
    if not gone:
        return operand
    labels = tuple(label for label in operand.labels if label in kept)
    value = operand.value
    if value.dtype == boolean:
        return _Operand(tracer.compare("ne", value.astype(i32).sum(gone), 0), labels)
    wide = working(value.dtype)
    return _Operand(value.astype(wide).sum(gone).astype(wide), labels)
