"""The three ways a reduction puts two values together, on scalars and vectors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessera.core.reductions import identity
from tessera.lowering.emit import Emitter
from tessera.lowering.target.functions.algebra import shaped
from tessera.lowering.target.functions.half import lanes_and_element

_GREATER, _LESS = 2, 4
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
        """Whether values are floats."""
        return self.element.startswith("f")

    @property
    def watches_nan(self) -> bool:
        """Whether NaN needs watching: a comparison would lose it."""
        return self.is_float and self.kind != "sum"

    def identity(self, lanes: int) -> Any:
        """The value that changes nothing, in every lane."""
        if self.element == "i1":
            return self.emitter.constant(int(self.kind == "min"), shaped(lanes, "i1"))
        prefix = "u" if self.unsigned else ""
        name = f"float{self.element[1:]}" if self.is_float else f"{prefix}int{self.element[1:]}"
        value = identity(self.kind, np.dtype(name)).item()
        if self.unsigned and value >> (int(self.element[1:]) - 1):
            value -= 1 << int(self.element[1:])
        return self.emitter.constant(value, shaped(lanes, self.element))

    def __call__(self, a: Any, b: Any) -> Any:
        """One step; of a NaN and a number, max and min give the number or NaN (see `nan`)."""
        if self.element == "i1":
            return self.emitter.value("arith.andi" if self.kind == "min" else "arith.ori", [a, b], a.type)
        if self.kind == "sum":
            return self.emitter.value("arith.addf" if self.is_float else "arith.addi", [a, b], a.type)
        if self.is_float:
            return self._choose(a, b)
        sign = "u" if self.unsigned else "s"
        return self.emitter.value(f"arith.{self.kind}{sign}i", [a, b], a.type)

    def _choose(self, a: Any, b: Any) -> Any:
        """One instruction on x86: b where it is beyond a, else a."""
        lanes, _ = lanes_and_element(a.type)
        predicate = _GREATER if self.kind == "max" else _LESS
        beyond = self.emitter.value("arith.cmpf", [b, a], shaped(lanes, "i1"), {"predicate": f"{predicate} : i64"})
        return self.emitter.value("arith.select", [beyond, b, a], a.type)

    def no_nan(self, lanes: int) -> Any:
        """The start of a watch for NaN: integers whose bits are set once a NaN came by."""
        return self.emitter.constant(0, shaped(lanes, f"i{self.element[1:]}"))

    def nan(self, watch: Any, values: Sequence[Any]) -> Any:
        """`watch` with the lanes marked in which one of `values` (one or two) is NaN."""
        lanes, _ = lanes_and_element(watch.type)
        pair = [values[0], values[-1]]
        found = self.emitter.value("arith.cmpf", pair, shaped(lanes, "i1"), {"predicate": f"{_UNORDERED} : i64"})
        wide = self.emitter.value("arith.extsi", [found], watch.type)
        return self.emitter.value("arith.ori", [watch, wide], watch.type)

    def watch_all(self, value: Any, watch: Any) -> Any:
        """`value`, or NaN in the lanes that `watch` marks."""
        lanes, _ = lanes_and_element(value.type)
        zero = self.emitter.constant(0, watch.type)
        seen = self.emitter.value("arith.cmpi", [watch, zero], shaped(lanes, "i1"), {"predicate": "1 : i64"})
        nan = self.emitter.constant(math.nan, value.type)
        return self.emitter.value("arith.select", [seen, nan, value], value.type)

    def halve(self, vector: Any) -> Any:
        """All lanes of a vector put together by halving: lane i with lane i + n/2, and so on."""
        lanes, element = lanes_and_element(vector.type)
        while lanes > 1:
            lanes //= 2
            vector = self(*(self._part(vector, start, lanes, element) for start in (0, lanes)))
        return self.emitter.value("vector.extract", [vector], element, {"static_position": "array<i64: 0>"})

    def _part(self, vector: Any, start: int, lanes: int, element: str) -> Any:
        mask = f"array<i64: {', '.join(str(start + lane) for lane in range(lanes))}>"
        return self.emitter.value("vector.shuffle", [vector, vector], shaped(lanes, element), {"mask": mask})
