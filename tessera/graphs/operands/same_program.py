"""Compare a graph whose inputs are numbers of the host with the graph for some of these numbers: one program?

Code that asks `type(x) is float` goes another way for what stands for a number, without asking the number.  So a
capture that takes numbers is compared with a capture that has the numbers of one call as literals.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import numpy as np

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Apply, Argument, Literal, Number, fold
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.infer import labels_of

_COMMUTATIVE: Final = ("add", "mul")


def same_program(general: Graph, numbers: Mapping[Value, Number], exact: Graph) -> bool:
    """Return whether `general` does what `exact` does, with `numbers` as its last inputs.

    Bodies of loops and branches are compared by their operations and types alone.
    """
    terms: dict[Hashable, int] = {}
    one, other = _Program(general, terms, numbers), _Program(exact, terms)
    return one.rows == other.rows and one.outputs == other.outputs


@dataclass(eq=False)
class _Program:
    """A graph as rows of integers; equal terms have equal integers (hash consing).

    terms: the integer of each term, shared by both graphs; constants: the terms of values that are literals
    value_numbers: the integers of all other values
    """

    graph: Graph
    terms: dict[Hashable, int]
    numbers: Mapping[Value, Number] = field(default_factory=dict[Value, Number])
    rows: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    constants: dict[Value, int] = field(default_factory=dict[Value, int])
    value_numbers: dict[Value, int] = field(default_factory=dict[Value, int])

    def __post_init__(self) -> None:
        for value in self.graph.inputs:
            if value in self.numbers:
                self.constants[value] = self._constant(self.numbers[value], value.type.dtype)
            else:
                self.value_numbers[value] = len(self.value_numbers)
        for node in self.graph.nodes:
            self._add(node)
        self.outputs = [self._operand(value) for value in self.graph.outputs]

    def _term(self, key: Hashable) -> int:
        return self.terms.setdefault(key, len(self.terms))

    def _constant(self, number: Number, dtype: DType) -> int:
        with np.errstate(over="ignore"):
            element = np.asarray(number).astype(dtype.numpy)
        return self._term(("number", dtype.name, element.tobytes()))

    def _operand(self, value: Value) -> tuple[str, int]:
        if value in self.constants:
            return "number", self.constants[value]
        return "value", self.value_numbers[value]

    def _add(self, node: Node) -> None:
        operands = node.operands
        if node.op == "view" and operands[0] in self.constants:
            self.constants[node.result] = self.constants[operands[0]]
            return
        row: tuple[object, ...]
        if node.op == "map":
            term = self._map(node)
            labels = zip(operands, labels_of(node.attributes["axes"]), strict=True)
            # A map takes its operands in any order.
            axes = [(self.value_numbers[value], *each) for value, each in labels if value not in self.constants]
            if not axes:
                self.constants[node.result] = term
                return
            row = (term, sorted(axes))
        elif node.graphs:
            row = (node.op, *(_operations(graph) for graph in node.graphs))
        else:
            row = (node.op, node.body, tuple(map(self._operand, operands)), sorted(node.attributes.items()))
        self.rows.append((*row, tuple(value.type for value in node.results)))
        for value in node.results:
            self.value_numbers[value] = len(self.value_numbers)

    def _map(self, node: Node) -> int:
        """Return the term of a map's body, of its operands."""

        def leaf(each: Argument | Literal) -> int:
            if isinstance(each, Literal):
                return self._constant(each.value, each.dtype)
            value = node.operands[each.number]
            return self.constants[value] if value in self.constants else self._term(self._operand(value))

        def apply(each: Apply, *operands: int) -> int:
            ordered = tuple(sorted(operands)) if each.opcode in _COMMUTATIVE else operands
            return self._term((each.opcode, each.dtype.name, each.predicate, ordered))

        return cast("int", fold(node.expr, leaf, apply))


def _operations(graph: Graph) -> list[tuple[object, ...]]:
    nodes = [node for node in graph.walk() if node.operands or node.op != "map"]
    return [(node.op, tuple(value.type for value in node.results)) for node in nodes]
