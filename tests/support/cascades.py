"""Regions written as formulas, data for them, and the comparison of a cascade with its reductions one after the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.dtypes import DType, boolean, f64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, cast
from tessera.core.schedule.cascade import Cascade, Reduction, ReductionKind, Region
from tessera.lowering.schedule.cascades.cascade_reference import CascadeState, evaluate_reductions, lift, lower, merge

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class E:
    """An expression with operators."""

    expr: Expr

    def _other(self, other: E | float | bool) -> Expr:
        return other.expr if isinstance(other, E) else Literal(other, self.expr.dtype)

    def _binary(self, opcode: str, other: E | float) -> E:
        return E(apply(opcode, self.expr, self._other(other)))

    def _reversed(self, opcode: str, other: float) -> E:
        return E(apply(opcode, self._other(other), self.expr))

    def _compare(self, predicate: str, other: E | float) -> E:
        return E(apply("cmp", self.expr, self._other(other), predicate=predicate))

    def __add__(self, other: E | float) -> E:
        return self._binary("add", other)

    def __radd__(self, other: float) -> E:
        return self._reversed("add", other)

    def __sub__(self, other: E | float) -> E:
        return self._binary("sub", other)

    def __rsub__(self, other: float) -> E:
        return self._reversed("sub", other)

    def __floordiv__(self, other: E | float) -> E:
        return self._binary("floordiv", other)

    def __mul__(self, other: E | float) -> E:
        return self._binary("mul", other)

    def __rmul__(self, other: float) -> E:
        return self._reversed("mul", other)

    def __truediv__(self, other: E | float) -> E:
        return self._binary("div", other)

    def __rtruediv__(self, other: float) -> E:
        return self._reversed("div", other)

    def __pow__(self, other: float) -> E:
        return self._binary("pow", float(other))

    def __neg__(self) -> E:
        return E(apply("neg", self.expr))

    def __and__(self, other: E) -> E:
        return E(Apply("and", (self.expr, other.expr), boolean))

    def __or__(self, other: E) -> E:
        return E(Apply("or", (self.expr, other.expr), boolean))

    def __invert__(self) -> E:
        return E(Apply("not", (self.expr,), boolean))

    def __ge__(self, other: E | float) -> E:
        return self._compare("ge", other)

    def __gt__(self, other: E | float) -> E:
        return self._compare("gt", other)

    def __le__(self, other: E | float) -> E:
        return self._compare("le", other)

    def __lt__(self, other: E | float) -> E:
        return self._compare("lt", other)

    def equals(self, other: E | float) -> E:
        """Return the condition that both are equal."""
        return self._compare("eq", other)

    def to(self, dtype: DType) -> E:
        """Return it converted."""
        return E(cast(self.expr, dtype))


def _unary(opcode: str) -> Callable[[E], E]:
    return lambda operand: E(apply(opcode, operand.expr))


exp, exp2, log, log2 = _unary("exp"), _unary("exp2"), _unary("log"), _unary("log2")
sqrt, rsqrt, tanh, absolute = _unary("sqrt"), _unary("rsqrt"), _unary("tanh"), _unary("abs")
NEVER = -math.inf


def where(condition: E, a: E | float, b: E | float) -> E:
    """Return a where the condition holds, else b."""
    dtype = a.expr.dtype if isinstance(a, E) else b.expr.dtype if isinstance(b, E) else f64
    one, two = (each.expr if isinstance(each, E) else Literal(each, dtype) for each in (a, b))
    return E(apply("select", condition.expr, one, two))


def maximum(a: E, b: E | float) -> E:
    """Return the greater one."""
    return E(apply("max", a.expr, b.expr if isinstance(b, E) else Literal(b, a.expr.dtype)))


def minimum(a: E, b: E | float) -> E:
    """Return the lesser one."""
    return E(apply("min", a.expr, b.expr if isinstance(b, E) else Literal(b, a.expr.dtype)))


@dataclass
class Formulas:
    """A region in the making: `atom`, then `sum`, `max`, `min` and `map`, each of which returns its result."""

    names: list[str] = field(default_factory=list[str])
    atoms: list[DType] = field(default_factory=list[DType])
    invariant: set[int] = field(default_factory=set[int])
    ranges: list[tuple[int, tuple[float, float]]] = field(default_factory=list[tuple[int, tuple[float, float]]])
    reductions: list[Reduction] = field(default_factory=list[Reduction])

    def atom(
        self, name: str, dtype: DType = f64, *, fixed: bool = False, bounds: tuple[float, float] | None = None
    ) -> E:
        """Return a new atom; fixed: one that does not vary along the axis."""
        assert not self.reductions
        number = len(self.atoms)
        self.names.append(name)
        self.atoms.append(dtype)
        if fixed:
            self.invariant.add(number)
        if bounds:
            self.ranges.append((number, bounds))
        return E(Argument(number, dtype))

    def _add(self, kind: ReductionKind, body: E) -> E:
        self.reductions.append(Reduction(kind, body.expr))
        return E(Argument(len(self.atoms) + len(self.reductions) - 1, body.expr.dtype))

    def sum(self, body: E) -> E:
        """Add a sum."""
        return self._add("sum", body)

    def max(self, body: E) -> E:
        """Add a maximum."""
        return self._add("max", body)

    def min(self, body: E) -> E:
        """Add a minimum."""
        return self._add("min", body)

    def map(self, body: E) -> E:
        """Add a function of results."""
        return self._add("map", body)

    def region(self, extent: int | None = None) -> Region:
        """Return the region."""
        return Region(tuple(self.atoms), tuple(self.reductions), frozenset(self.invariant), tuple(self.ranges), extent)


def parts(region: Region, arrays: Sequence[NDArray[Any]], cuts: Sequence[int]) -> list[list[NDArray[Any]]]:
    """Return the arrays cut along the axis."""
    extent = max(len(each) for place, each in enumerate(arrays) if place not in region.invariant)
    ends = [0, *cuts, extent]
    return [
        [each if place in region.invariant else each[a:b] for place, each in enumerate(arrays)]
        for a, b in itertools.pairwise(ends)
    ]


def merged(cascade: Cascade, states: list[CascadeState], how: str, slack: float = 0.0) -> CascadeState:
    """Return the state of all: "sequential", "tree" or "reversed"."""
    if how == "tree":
        while len(states) > 1:
            joined = [merge(cascade, a, b, slack) for a, b in zip(states[::2], states[1::2], strict=False)]
            states = [*joined, *states[2 * len(joined) :]]
        return states[0]
    ordered = states[::-1] if how == "reversed" else states
    result = ordered[0]
    for state in ordered[1:]:
        result = merge(cascade, state, result, slack) if how == "reversed" else merge(cascade, result, state, slack)
    return result


def compute(
    cascade: Cascade, arrays: Sequence[NDArray[Any]], cuts: Sequence[int], how: str, slack: float = 0.0
) -> tuple[NDArray[Any] | None, ...]:
    """Return the results of a cascade, cut and merged in one way."""
    states = [lift(cascade, each) for each in parts(cascade.region, arrays, cuts)]
    return lower(cascade, merged(cascade, states, how, slack), arrays)


def difference(got: NDArray[Any], want: NDArray[Any]) -> float:
    """Return the largest difference relative to the largest value; inf where one is finite and the other is not."""
    got, want = np.broadcast_arrays(got, want)
    if not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return math.inf
    kept = np.isfinite(want)
    if not np.array_equal(got[~kept], want[~kept], equal_nan=True):
        return math.inf
    size = float(np.max(np.abs(want[kept]), initial=0.0))
    return float(np.max(np.abs(got[kept] - want[kept]), initial=0.0)) / max(size, 1e-300)


def worst(
    cascade: Cascade,
    arrays: Sequence[NDArray[Any]],
    cuts: Sequence[int],
    want: Sequence[NDArray[Any]] | None = None,
    slack: float = 0.0,
) -> float:
    """Return the largest difference between a cascade and its reductions one after the other, over orders of merging."""
    expected = evaluate_reductions(cascade.region, arrays) if want is None else want
    return max(
        difference(got, value)
        for how in ("sequential", "tree", "reversed")
        for got, value in zip(compute(cascade, arrays, cuts, how, slack), expected, strict=True)
        if got is not None
    )
