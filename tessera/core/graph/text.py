"""Print a graph in MLIR's generic form, one node a line, which MLIR parses back.

%4 = "graph.contract"(%Q, %K) {labels = [[0, 1], [2, 1]], result = [0, 2], ...} :
(tensor<64x32xf32>, tensor<64x32xf32>) -> tensor<64x64xf32> loc("g4"("cell":3:9))
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.base.source import NOWHERE, Span
from tessera.core.graph.expr import to_text as expr_text
from tessera.core.graph.extents import Extent
from tessera.core.graph.graph import Graph, Node, Routine, Tensor, Value
from tessera.core.graph.index_maps import Affine, IndexMap
from tessera.core.program.program import Attribute

_TYPES: Final = {
    "fp8_e4m3": "f8E4M3FN", "fp8_e5m2": "f8E5M2", "bool": "i1",
    "u8": "ui8", "u16": "ui16", "u32": "ui32", "u64": "ui64",
}  # fmt: skip


def to_text(graph: Graph) -> str:
    """Return the whole graph, values named after the user's variables."""
    return "\n".join(line for line, _ in numbered_lines(graph)) + "\n"


def numbered_lines(graph: Graph) -> Iterator[tuple[str, Node | None]]:
    """Yield the lines of the text, each with the node that it shows."""
    return _lines(graph, _TensorNames(graph, {}))


def _lines(graph: Graph, names: "_TensorNames") -> Iterator[tuple[str, Node | None]]:
    arguments = ", ".join(f"{names.of(value)}: {_value(value)}" for value in graph.inputs)
    yield f'"graph.module"() ({{ ^entry({arguments}):', None
    for node in graph.nodes:
        yield f"  {_node(node, names)}", node
    outputs = ", ".join(map(names.of, graph.outputs))
    types = ", ".join(map(_value, graph.outputs))
    yield f'  "graph.return"({outputs}) : ({types}) -> ()', None
    yield f"}}) {{sym_name = {json.dumps(graph.name)}}} : () -> ()", None


def tensor_text(tensor: Tensor) -> str:
    """Return the MLIR type of a tensor; symbolic extents are `?`, and listed as its encoding."""
    extents = "".join(f"{'?' if isinstance(extent, Extent) else extent}x" for extent in tensor.shape)
    symbols = [str(extent) for extent in tensor.shape if isinstance(extent, Extent)]
    encoding = f", {json.dumps(', '.join(symbols))}" if symbols else ""
    return f"tensor<{extents}{_dtype(tensor.dtype)}{encoding}>"


def index_map_text(index_map: IndexMap) -> str:
    """Return an index map as people write it: `(d0, d1) -> (d1, d0 * 2 + 1)`."""
    axes = ", ".join(f"d{axis}" for axis in range(len(index_map.shape)))
    tail = " or 0" if index_map.padded else ""
    return f"({axes}) -> ({', '.join(map(_affine, index_map.axes))}){tail}"


def _affine(affine: Affine) -> str:
    parts: list[str] = []
    for term in affine.terms:
        part = f"d{term.axis}"
        part = f"{part} // {term.divisor}" if term.divisor != 1 else part
        part = f"{part} % {term.modulus}" if term.modulus else part
        part = f"({part})" if " " in part and term.scale != 1 else part
        parts.append(part if term.scale == 1 else f"{part} * {term.scale}")
    if affine.constant or not parts:
        parts.append(str(affine.constant))
    return " + ".join(parts)


class _TensorNames:
    """Gives each value a unique name: the user's where there is one, with a number where that is taken.

    taken: how many values outside have each name: MLIR sees them from within a body
    """

    def __init__(self, graph: Graph, taken: Mapping[str, int]) -> None:
        self._names: dict[Value, str] = {}
        self.taken = taken = dict(taken)
        for value in (*graph.inputs, *(result for node in graph.nodes for result in node.results)):
            base = value.name if value.name.isascii() and value.name.isidentifier() else ""
            number = taken.get(base, 0)
            taken[base] = number + 1
            tail = str(number) if number or not base else ""
            self._names[value] = f"%{base}{'_' if base and tail else ''}{tail}"

    def of(self, value: Value) -> str:
        return self._names[value]


def _node(node: Node, names: _TensorNames) -> str:
    operands = ", ".join(map(names.of, node.operands))
    results = ", ".join(map(names.of, node.results))
    kinds = ", ".join(map(_value, node.operands))
    made = ", ".join(map(_value, node.results))
    made = f"({made})" if len(node.results) != 1 else made
    attributes = {name: _attribute(value) for name, value in node.attributes.items() if value not in ("", None)}
    if isinstance(node.body, IndexMap):
        attributes["map"] = json.dumps(index_map_text(node.body))
    elif isinstance(node.body, Routine):
        attributes |= {"name": json.dumps(node.body.name)}
        attributes |= {"library": json.dumps(node.body.library)} if node.body.library else {}
    elif node.op == "map":
        attributes["body"] = json.dumps(expr_text(node.expr))
    if node.origin.composite:
        attributes["composite"] = json.dumps("/".join(node.origin.composite))
    if node.origin.rule:
        attributes["rule"] = json.dumps(node.origin.rule)
        attributes["parents"] = "[" + ", ".join(f'"g{parent}"' for parent in node.origin.parents) + "]"
    listed = ", ".join(f"{name} = {text}" for name, text in attributes.items())
    inner = ["\n  " + _nested(graph, names) + "\n  " for graph in node.graphs]
    region = f" ({', '.join(f'{{{text}}}' for text in inner)})" if inner else ""
    head = f'{results} = "graph.{node.op}"({operands}){region}'
    return f"{head}{f' {{{listed}}}' if listed else ''} : ({kinds}) -> {made} {_location(node.ident, node.span)}"


def _value(value: Value) -> str:
    """Return the type of a value, with what its codes stand for as the encoding."""
    text = tensor_text(value.type)
    if value.numerics is None:
        return text
    count, held = value.numerics.format.packing
    packed = f", {count} codes in {held} {'byte' if held == 1 else 'bytes'}" if value.numerics.format.is_packed else ""
    return f"{text[:-1]}, {json.dumps(f'{value.numerics}{packed}')}>"


def _nested(graph: Graph, names: _TensorNames) -> str:
    lines = "\n".join(line for line, _ in _lines(graph, _TensorNames(graph, names.taken)))
    return lines.replace("\n", "\n  ")


def _location(ident: int, span: Span) -> str:
    if span == NOWHERE:
        return f'loc("g{ident}")'
    return f'loc("g{ident}"({json.dumps(span.file)}:{span.line}:{span.column}))'


def _dtype(dtype: DType) -> str:
    return _TYPES.get(dtype.name, dtype.name)


def _attribute(value: Attribute) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Extent():
            return json.dumps(str(value))
        case int():
            return f"{value} : i64"
        case float():
            return f'"{value!r}"' if not math.isfinite(value) else f"{value!r} : f64"
        case tuple():
            return "[" + ", ".join(map(_attribute, value)) + "]"
        case _:
            return json.dumps(value)
