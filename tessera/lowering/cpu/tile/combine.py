"""The three ways a reduction puts two values together, on scalars and vectors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessera.core.base.reductions import identity
from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.math.algebra import shaped
from tessera.lowering.math.float_conversions import lanes_and_element

_EQUAL, _GREATER, _LESS = 1, 2, 4
_UNORDERED = 14


@dataclass(frozen=True, slots=True)
class Combine:
    """`kind` ("sum", "max", "min") of values of `element` (f32, f64, an integer, i1); `unsigned` integers if told.

    A bool's sum and largest are "any", its smallest is "all".
    """

    emitter: Emitter
    kind: str
    element: str
    unsigned: bool = False

    @property
    def is_float(self) -> bool:
        """Return whether values are floats."""
        return self.element.startswith("f")

    @property
    def watches(self) -> int:
        """Values that watch what a comparison of floats does not see, the number of results of `watch`."""
        return 2 if self.is_float and self.kind != "sum" else 0

    def identity(self, lanes: int) -> ir.Value:
        """Return the value that changes nothing, in every lane."""
        if self.element == "i1":
            return self.emitter.constant(int(self.kind == "min"), shaped(lanes, "i1"))
        prefix = "u" if self.unsigned else ""
        name = f"float{self.element[1:]}" if self.is_float else f"{prefix}int{self.element[1:]}"
        value = identity(self.kind, np.dtype(name)).item()
        if self.unsigned and value >> (int(self.element[1:]) - 1):
            value -= 1 << int(self.element[1:])
        return self.emitter.constant(value, shaped(lanes, self.element))

    def __call__(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit one step; of a NaN and a number, max and min give either, and of two zeros either (see `watch`)."""
        if self.element == "i1":
            return self.emitter.value("arith.andi" if self.kind == "min" else "arith.ori", [a, b], a.type)
        if self.kind == "sum":
            return self.emitter.value("arith.addf" if self.is_float else "arith.addi", [a, b], a.type)
        if self.is_float:
            return self._choose(a, b)
        sign = "u" if self.unsigned else "s"
        return self.emitter.value(f"arith.{self.kind}{sign}i", [a, b], a.type)

    def _choose(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit one instruction on x86: b where it is beyond a, else a."""
        lanes, _ = lanes_and_element(a.type)
        predicate = _GREATER if self.kind == "max" else _LESS
        beyond = self.emitter.value("arith.cmpf", [b, a], shaped(lanes, "i1"), {"predicate": f"{predicate} : i64"})
        return self.emitter.value("arith.select", [beyond, b, a], a.type)

    def unwatched(self, lanes: int) -> list[ir.Value]:
        """Return the initial values of a watch."""
        kind = shaped(lanes, f"i{self.element[1:]}")
        return [self.emitter.constant(start, kind) for start in (0, -(self.kind == "max"))][: self.watches]

    def watch(self, seen: Sequence[ir.Value], values: Sequence[ir.Value]) -> list[ir.Value]:
        """Add one or two `values` to what was seen so far: whether a NaN was among them, and the signs.

        A largest value of zero is +0 unless every sign was set (numbers above zero there were none), a smallest one -0
        if one was; so all bits are put together by `and` or `or`, of which the sign matters.
        """
        if not self.watches:
            return []
        nan, signs = seen
        lanes, _ = lanes_and_element(nan.type)
        pair = [values[0], values[-1]]
        found = self.emitter.value("arith.cmpf", pair, shaped(lanes, "i1"), {"predicate": f"{_UNORDERED} : i64"})
        nan = self.emitter.value("arith.ori", [nan, self.emitter.value("arith.extsi", [found], nan.type)], nan.type)
        for value in values:
            bits = self.emitter.value("arith.bitcast", [value], signs.type)
            signs = self.emitter.value(f"arith.{self._signs}i", [signs, bits], signs.type)
        return [nan, signs]

    @property
    def _signs(self) -> str:
        return "and" if self.kind == "max" else "or"

    def across(self, seen: Sequence[ir.Value]) -> list[ir.Value]:
        """Combine what the lanes of a vector have seen into scalars."""
        kinds = zip(seen, ("or", self._signs), strict=False)
        return [
            self.emitter.value("vector.reduction", [v], f"i{self.element[1:]}", {"kind": f"#vector.kind<{kind}>"})
            for v, kind in kinds
        ]

    def settle(self, value: ir.Value, seen: Sequence[ir.Value]) -> ir.Value:
        """Return the result: `value`, a zero of the right sign, or NaN; as it is where nothing was watched."""
        if not seen:
            return value
        nan, signs = seen
        lanes, _ = lanes_and_element(value.type)
        condition = shaped(lanes, "i1")
        zero = self.emitter.constant(0.0, value.type)
        is_zero = self.emitter.value("arith.cmpf", [value, zero], condition, {"predicate": f"{_EQUAL} : i64"})
        sign = self.emitter.constant(-1 << (int(self.element[1:]) - 1), signs.type)
        bits = self.emitter.value("arith.andi", [signs, sign], signs.type)
        value = self.emitter.value(
            "arith.select", [is_zero, self.emitter.value("arith.bitcast", [bits], value.type), value], value.type
        )
        none = self.emitter.constant(0, nan.type)
        found = self.emitter.value("arith.cmpi", [nan, none], condition, {"predicate": "1 : i64"})
        return self.emitter.value(
            "arith.select", [found, self.emitter.constant(math.nan, value.type), value], value.type
        )

    def halve(self, vector: ir.Value) -> ir.Value:
        """Combine all lanes of a vector by halving: lane i with lane i + n/2, and so on."""
        lanes, element = lanes_and_element(vector.type)
        while lanes > 1:
            lanes //= 2
            vector = self(*(self._part(vector, start, lanes, element) for start in (0, lanes)))
        return self.emitter.value("vector.extract", [vector], element, {"static_position": "array<i64: 0>"})

    def _part(self, vector: ir.Value, start: int, lanes: int, element: str) -> ir.Value:
        mask = f"array<i64: {', '.join(str(start + lane) for lane in range(lanes))}>"
        return self.emitter.value("vector.shuffle", [vector, vector], shaped(lanes, element), {"mask": mask})
