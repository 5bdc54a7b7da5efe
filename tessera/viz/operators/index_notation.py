"""Nodes in index notation, one a line: which element of a result is made of which elements of the operands.

%S[i, j] = sum_k %Q[i, k] * %K[j, k]
%e[i, j] = exp((%S[i, j] - %m[i]))
%y[i, j] = all_reduce(%p[i, j], sum over tp)
"""

from collections.abc import Mapping, Sequence
from typing import cast

from tessera.core.graph.expr import to_text
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.index_maps import Affine, IndexMap
from tessera.core.graph.infer import labels_of, numbers

Names = Mapping[Value, str]


def node_text(node: Node, names: Names) -> str:
    """Return a node as an equation between elements."""
    axes = list(range(len(node.results[0].type.shape)))
    if node.op == "contract":
        return _contraction(node, names)
    operands = [_element(value, names, range(len(value.type.shape))) for value in node.operands]
    head = f"{_element(node.results[0], names, axes)} = "
    if node.op == "map":
        places = labels_of(node.attributes["axes"])
        return head + to_text(node.expr, [_element(v, names, p) for v, p in zip(node.operands, places, strict=True)])
    if node.op == "reduce":
        removed = numbers(node.attributes["axes"])
        kept = iter(axes)
        full = [len(axes) + removed.index(axis) if axis in removed else next(kept)
                for axis in range(len(node.operands[0].type.shape))]  # fmt: skip
        over = "".join(axis_name(len(axes) + place) for place in range(len(removed)))
        return f"{head}{node.attributes['kind']}_{over} {_element(node.operands[0], names, full)}"
    if isinstance(node.body, IndexMap):
        index = ", ".join(_affine(affine) for affine in node.body.axes)
        outside = " or 0" if node.body.padded else ""
        return f"{head}{_name(node.operands[0], names)}{f'[{index}]' if index else ''}{outside}"
    if node.op == "iota":
        return f"{head}{axis_name(0)}"
    if node.op == "collective":
        return f"{head}{node.attributes['kind']}({operands[0]}{_collective(node)})"
    results = ", ".join(_element(value, names, range(len(value.type.shape))) for value in node.results)
    axis = f", axis {node.attributes['axis']}" if "axis" in node.attributes else ""
    return f"{results} = {node.op}({', '.join(operands)}{axis})"


def operator_of(node: Node) -> str:
    """Return the operator that the user called, as far as it says more than the node; "" where nothing is known."""
    path = [part for part in node.origin.composite if part != "adjoint"]
    inner = path[1].partition(".")[0] if len(path) > 1 else ""
    return f"adjoint of {inner}" if inner and path != list(node.origin.composite) else inner


def axis_name(axis: int) -> str:
    """Return the letter of an axis: i, j, k, ..."""
    return chr(ord("i") + axis) if axis < 18 else f"a{axis}"


def signature(graph: Graph, names: Names) -> str:
    """Return the head of a graph's text: its name and its inputs."""
    return f"{graph.name}({', '.join(f'{_name(value, names)}: {value.type}' for value in graph.inputs)})"


def _name(value: Value, names: Names) -> str:
    return f"%{names[value]}"


def _element(value: Value, names: Names, axes: Sequence[int]) -> str:
    index = ", ".join(map(axis_name, axes))
    return f"{_name(value, names)}[{index}]" if axes else _name(value, names)


def _contraction(node: Node, names: Names) -> str:
    result = numbers(node.attributes["result"])
    places = {label: place for place, label in enumerate(result)}
    left, right = labels_of(node.attributes["labels"])
    for label in (*left, *right):
        places.setdefault(label, len(places))
    over = "".join(axis_name(place) for label, place in places.items() if label not in result)
    factors = [_element(value, names, [places[label] for label in labels])
               for value, labels in zip(node.operands, (left, right), strict=True)]  # fmt: skip
    head = _element(node.results[0], names, [places[label] for label in result])
    return f"{head} = {f'sum_{over} ' if over else ''}{' * '.join(factors)}"


def _collective(node: Node) -> str:
    """Return how a collective combines what devices hold, over which axes of the mesh: `, sum over tp`."""
    attributes = node.attributes
    over = f"over {', '.join(cast('tuple[str, ...]', attributes['axes']))}"
    words = [f"{attributes['reduction']} {over}" if attributes.get("reduction") else over]
    words += [f"{name} {axis_name(cast('int', attributes[name]))}" for name in ("join", "cut") if name in attributes]
    return "".join(f", {word}" for word in words)


def _affine(affine: Affine) -> str:
    parts: list[str] = []
    for term in affine.terms:
        part = axis_name(term.axis)
        part = f"{part} // {term.divisor}" if term.divisor != 1 else part
        part = f"{part} % {term.modulus}" if term.modulus else part
        part = f"({part})" if " " in part and term.scale != 1 else part
        parts.append(part if term.scale == 1 else f"{part} * {term.scale}")
    if affine.constant or not parts:
        parts.append(str(affine.constant))
    return " + ".join(parts)
