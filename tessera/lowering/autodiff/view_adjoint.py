"""The transpose of a view: each element of the cotangent is added to the element that it was read from.

A view reads operand axis j at `c + sum(s * (r // d % m))` of the result's index r.  First every axis of the result is
cut into digits, so that each quotient and remainder is a whole digit or several: the index is affine in the digits.
* A digit that no axis of the operand reads was a repetition: a sum.
* An axis with one digit is a slice: its transpose is a slice or a padding, with zeros between where it had a step.
* Digits that nest, as those of a reshape, are joined into one.
* Digits that overlap, as those of the windows of a convolution: the longest is found from the index and the others, as
  a padded view over the operand's axis and the others, and the others are summed.
Where a digit is read by several axes (a diagonal), or the extents cannot be cut, elements are added at their linear
index by `scatter_add`, in row-major order of the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tessera.core.base.dtypes import boolean, i64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term, window
from tessera.lowering.autodiff.derived_builder import DerivedBuilder


@dataclass(frozen=True, slots=True)
class _Digit:
    """One digit of an axis of the result.  weight: what it counts for in the axis."""

    axis: int
    weight: int
    extent: int


def view_adjoint(builder: DerivedBuilder, index_map: IndexMap, shape: Sequence[int], cotangent: Value) -> Value:
    """Return the cotangent of a view's operand of `shape`, of the cotangent's dtype, or f32 where sums are made."""
    permutation = index_map.permutation
    if permutation is not None and tuple(index_map.shape[axis] for axis in permutation) == tuple(shape):
        return builder.transpose(cotangent, permutation)
    if 0 in shape or 0 in index_map.shape:
        return builder.full(0.0, cotangent.type.dtype, shape)
    digits = _digits(index_map)
    read = None if digits is None else _strides(index_map, digits)
    if digits is None or read is None:
        return _scattered(builder, index_map, shape, builder.widened(cotangent))
    return _structured(builder, digits, read, [a.constant for a in index_map.axes], shape, cotangent)


def _digits(index_map: IndexMap) -> list[_Digit] | None:
    """Cut each axis of the result at the divisors of the terms that read it; None where they do not divide in turn."""
    found: list[_Digit] = []
    for axis, extent in enumerate(index_map.shape):
        cuts = {1}
        for affine in index_map.axes:
            for term in affine.terms:
                if term.axis == axis:
                    cuts |= {cut for cut in (term.divisor, term.divisor * term.modulus) if 0 < cut < extent}
        weights = sorted(cuts)
        ends = [*weights[1:], weights[-1] * -(-extent // weights[-1])]
        if any(end % weight for weight, end in zip(weights, ends, strict=True)):
            return None
        found += [
            _Digit(axis, weight, end // weight) for weight, end in reversed([*zip(weights, ends, strict=True)])
        ]  # fmt: skip
    return found


def _strides(index_map: IndexMap, digits: Sequence[_Digit]) -> list[dict[int, int]] | None:
    """Return, for each axis of the operand, the stride of each digit that it reads; None where two read one digit."""
    found: list[dict[int, int]] = []
    for affine in index_map.axes:
        strides: dict[int, int] = {}
        for term in affine.terms:
            for number, digit in enumerate(digits):
                end = term.divisor * term.modulus or digit.weight + 1
                if digit.axis == term.axis and term.divisor <= digit.weight < end and digit.extent > 1:
                    strides[number] = strides.get(number, 0) + term.scale * (digit.weight // term.divisor)
        found.append({number: stride for number, stride in strides.items() if stride})
    used = [number for strides in found for number in strides]
    return found if len(set(used)) == len(used) else None


def _structured(
    builder: DerivedBuilder, digits: Sequence[_Digit], read: Sequence[dict[int, int]], constants: Sequence[int],
    shape: Sequence[int], cotangent: Value,
) -> Value:  # fmt: skip
    """Go from the digits to the axes of the operand, one axis at a time."""
    value = _cut(builder, digits, cotangent)
    used = [number for strides in read for number in strides]
    repeated = [number for number in range(len(digits)) if number not in used]
    value = _without(builder, value, repeated)
    rest = [number for number in range(len(digits)) if number not in repeated]
    value = builder.transpose(value, [rest.index(number) for number in used])
    for place, (size, constant, strides) in enumerate(zip(shape, constants, read, strict=True)):
        axis = _Axis([(stride, digits[number].extent) for number, stride in strides.items()], constant, size)
        value = axis.transposed(builder, value, place)
    return value


def _without(builder: DerivedBuilder, value: Value, repeated: Sequence[int]) -> Value:
    """Sum along axes; those of one element just go."""
    summed = [axis for axis in repeated if value.type.shape[axis] > 1]
    kept = [size for axis, size in enumerate(value.type.shape) if axis in summed or axis not in repeated]
    lone = [axis for axis in repeated if axis not in summed]
    places = [axis - sum(each < axis for each in lone) for axis in summed]
    value = builder.reshape(value, kept)
    return builder.reduce(builder.widened(value) if summed else value, places)


def _cut(builder: DerivedBuilder, digits: Sequence[_Digit], cotangent: Value) -> Value:
    """Give every digit an axis; zeros follow where the digits hold more than the axis."""
    shape = cotangent.type.shape
    padded = [prod(digit.extent for digit in digits if digit.axis == axis) for axis in range(len(shape))]
    zeros = [0] * len(shape)
    value = builder.view(cotangent, window(shape, zeros, [1] * len(shape), padded))
    return builder.reshape(value, [digit.extent for digit in digits])


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis of the operand: index `constant + sum(stride * digit)`; digits: (stride, extent) each."""

    digits: list[tuple[int, int]]
    constant: int
    size: int

    def transposed(self, builder: DerivedBuilder, value: Value, place: int) -> Value:
        """Replace the digits, the axes of `value` from `place` on, by the operand's axis."""
        value, rising = self._rising(builder, value, place)
        digits = rising.digits
        if not digits:
            value = builder.reshape(value, (*value.type.shape[:place], 1, *value.type.shape[place:]))
            return _placed(builder, value, place, rising.constant, rising.size)
        if rising.nests():
            value, step = rising.joined(builder, value, place)
            value = spread(builder, value, place, step)
            return _placed(builder, value, place, rising.constant, rising.size)
        return rising.summed(builder, value, place)

    def _rising(self, builder: DerivedBuilder, value: Value, place: int) -> tuple[Value, "_Axis"]:
        """Turn around the digits with negative strides, and sort them, the greatest stride first."""
        shape = value.type.shape
        starts, steps, constant = [0] * len(shape), [1] * len(shape), self.constant
        for number, (stride, extent) in enumerate(self.digits):
            if stride < 0:
                starts[place + number], steps[place + number] = extent - 1, -1
                constant += stride * (extent - 1)
        value = builder.view(value, window(shape, starts, steps, shape))
        order = sorted(range(len(self.digits)), key=lambda n: (-abs(self.digits[n][0]), n))
        moved = [*range(place), *(place + n for n in order), *range(place + len(order), len(shape))]
        digits = [(abs(self.digits[n][0]), self.digits[n][1]) for n in order]
        return builder.transpose(value, moved), _Axis(digits, constant, self.size)

    def nests(self) -> bool:
        """Return whether each stride is a multiple of the next, and goes past all that the later digits reach."""
        pairs = zip(self.digits, self.digits[1:], strict=False)
        return all(s % t == 0 and s // t >= extent for (s, _), (t, extent) in pairs)

    def joined(self, builder: DerivedBuilder, value: Value, place: int) -> tuple[Value, int]:
        """Join nested digits into one axis; returns its step."""
        shape = list(value.type.shape)
        for number in range(1, len(self.digits)):
            shape[place + number] = self.digits[number - 1][0] // self.digits[number][0]
        value = builder.view(value, window(value.type.shape, [0] * len(shape), [1] * len(shape), shape))
        end = place + len(self.digits)
        value = builder.reshape(value, (*shape[:place], prod(shape[place:end]), *shape[end:]))
        return value, self.digits[-1][0]

    def summed(self, builder: DerivedBuilder, value: Value, place: int) -> Value:
        """Sum, over all other digits, the elements of the longest one that belong to each index."""
        longest = max(range(len(self.digits)), key=lambda n: (self.digits[n][1], -n))
        value = spread(builder, builder.widened(value), place + longest, self.digits[longest][0])
        shape, count = value.type.shape, len(self.digits)
        # Axes of the view: those before, the operand's, the other digits, those after.
        others = [n for n in range(count) if n != longest]
        axes = [Affine(0, (Term(axis),)) for axis in range(len(shape))]
        for position, n in enumerate(others):
            axes[place + n] = Affine(0, (Term(place + 1 + position),))
        terms = tuple(Term(place + 1 + position, -self.digits[n][0]) for position, n in enumerate(others))
        axes[place + longest] = Affine(-self.constant, (Term(place), *terms))
        extents = [shape[place + n] for n in others]
        skewed = IndexMap((*shape[:place], self.size, *extents, *shape[place + count :]), tuple(axes), padded=True)
        return builder.reduce(builder.view(value, skewed), range(place + 1, place + count))


def spread(builder: DerivedBuilder, value: Value, place: int, step: int) -> Value:
    """Put `step - 1` zeros after each element along an axis."""
    if step == 1:
        return value
    shape = value.type.shape
    # Each element with zeros after it, as an axis of its own: index `place + 1` of 0 is the element.
    axes = [Affine(0, (Term(axis if axis <= place else axis + 1),)) for axis in range(len(shape))]
    flat = builder.reshape(value, (*shape[: place + 1], 1, *shape[place + 1 :]))
    axes.insert(place + 1, Affine(0, (Term(place + 1),)))
    widths = (*shape[: place + 1], step, *shape[place + 1 :])
    value = builder.view(flat, IndexMap(widths, tuple(axes), padded=True))
    return builder.reshape(value, (*shape[:place], shape[place] * step, *shape[place + 1 :]))


def _placed(builder: DerivedBuilder, value: Value, place: int, start: int, size: int) -> Value:
    """Put an axis at `start` of one of `size` elements; what reaches beyond is dropped, as padding was not read."""
    shape = value.type.shape
    starts, extents = [0] * len(shape), list(shape)
    starts[place], extents[place] = -start, size
    return builder.view(value, window(shape, starts, [1] * len(shape), extents))


def _scattered(builder: DerivedBuilder, index_map: IndexMap, shape: Sequence[int], cotangent: Value) -> Value:
    """Add every element at the linear index of what it was read from; outside, at none."""
    size = cotangent.type.size
    iotas = [builder.iota(extent) for extent in index_map.shape]
    linear: Expr = Literal(0, i64)
    inside: Expr | None = None
    for affine, extent in zip(index_map.axes, shape, strict=True):
        place = _affine(affine)
        linear = apply("add", apply("mul", linear, Literal(extent, i64)), place)
        for each in (_compare(place, 0, "ge"), _compare(place, extent, "lt")) if index_map.padded else ():
            inside = each if inside is None else Apply("and", (inside, each), boolean)
    body = linear if inside is None else apply("select", inside, linear, Literal(-1, i64))
    index = builder.expression(body, iotas, [(axis,) for axis in range(len(iotas))], index_map.shape)
    total = builder.scatter_add(builder.reshape(index, (size,)), builder.reshape(cotangent, (size,)), prod(shape))
    return builder.reshape(total, shape)


def _compare(place: Expr, limit: int, predicate: str) -> Expr:
    return apply("cmp", place, Literal(limit, i64), predicate=predicate)


def _affine(affine: Affine) -> Expr:
    """Return the function of the result's axes as an expression of their iotas."""
    total: Expr = Literal(affine.constant, i64)
    for term in affine.terms:
        part: Expr = Argument(term.axis, i64)
        if term.divisor != 1:
            part = apply("floordiv", part, Literal(term.divisor, i64))
        if term.modulus:
            part = apply("mod", part, Literal(term.modulus, i64))
        total = apply("add", total, apply("mul", part, Literal(term.scale, i64)))
    return total
