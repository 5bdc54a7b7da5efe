"""Indices as sums: a number, and values times numbers.  Two that are written differently are equal when these are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.ir_walk import constant, defining, symbol

_MAX_DEPTH: Final = 16


@dataclass(frozen=True, slots=True)
class AffineForm:
    """`constant` and the sum of each term's value times its coefficient; the name of a symbol stands for its extent."""

    terms: frozenset[tuple[ir.Value | str, int]]
    constant: int

    def __sub__(self, other: "AffineForm") -> "AffineForm":
        return _sum(self, other, -1)

    def constant_difference(self, other: "AffineForm") -> int | None:
        """By how much it is certainly larger than `other`; None where that depends on values."""
        return self.constant - other.constant if self.terms == other.terms else None


def affine_form(value: Index | str, depth: int = 0) -> AffineForm:
    """Return the form of an i64 of Tile IR, of a number, or of a symbol's extent."""
    if isinstance(value, int):
        return AffineForm(frozenset(), value)
    if isinstance(value, str):
        return AffineForm(frozenset({(value, 1)}), 0)
    number = constant(value)
    if number is not None:
        return AffineForm(frozenset(), number)
    name = symbol(value)
    if name is not None:
        return affine_form(name)
    op = defining(value)
    if op is not None and depth < _MAX_DEPTH and op.name in ("arith.addi", "arith.subi", "arith.muli"):
        a, b = (affine_form(v, depth + 1) for v in op.operands)
        if op.name != "arith.muli":
            return _sum(a, b, 1 if op.name == "arith.addi" else -1)
        if not a.terms or not b.terms:
            return _scaled(a, b.constant) if not b.terms else _scaled(b, a.constant)
    return AffineForm(frozenset({(value, 1)}), 0)


def _sum(a: AffineForm, b: AffineForm, sign: int) -> AffineForm:
    total = dict(a.terms)
    for value, coefficient in b.terms:
        total[value] = total.get(value, 0) + sign * coefficient
    return _made(total, a.constant + sign * b.constant)


def _scaled(a: AffineForm, scale: int) -> AffineForm:
    return _made({value: coefficient * scale for value, coefficient in a.terms}, a.constant * scale)


def _made(terms: Mapping[ir.Value | str, int], number: int) -> AffineForm:
    return AffineForm(frozenset((value, coefficient) for value, coefficient in terms.items() if coefficient), number)
