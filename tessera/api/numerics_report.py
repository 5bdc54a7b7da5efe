"""`tessera.numerics_report`: what rounding costs, operator by operator, against the same graph in f64."""

import html
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from tessera.core.base.dtypes import f64
from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.graph.graph import Graph, Node, Value
from tessera.graphs.function import GraphFunction
from tessera.graphs.structure import flatten
from tessera.lowering.autodiff.in_f64 import in_f64
from tessera.runtime.arrays.host import as_array
from tessera.runtime.interpret.graph import evaluate, evaluate_node
from tessera.runtime.interpret.rounding import Numbers

_HEAD: Final = ("operator", "line", "stored as", "largest", "rms", "own rms")


@dataclass(frozen=True, slots=True)
class OperatorError:
    """One operator's error.

    operator: its path, outermost first: "model/attention/softmax.1"; line: of the call, 0 where it has none
    stored: what its result is stored as
    largest: the greatest error over the greatest number; rms: the root of the mean squares of errors over that of
      numbers; both against f64 from the inputs on.  0 where all numbers and errors are 0; inf for NaN and infinities
      that f64 does not give
    own_rms: against f64 of this operator alone, on the operands that it really had
    """

    operator: str
    line: int
    stored: str
    largest: float
    rms: float
    own_rms: float


@dataclass(frozen=True, slots=True)
class NumericsReport:
    """The errors of a graph, in the order of its operators; `str` and notebooks show a table.

    name: of the function; errors: one a result of an operator that is a float
    """

    name: str
    errors: tuple[OperatorError, ...]

    @property
    def worst(self) -> OperatorError:
        """The operator whose own rounding costs most.  Raises ValueError for a graph without floats."""
        return max(self.errors, key=lambda each: each.own_rms)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table's cells as text."""
        return [
            (each.operator, str(each.line or ""), each.stored, f"{each.largest:.1e}", f"{each.rms:.1e}",
             f"{each.own_rms:.1e}")
            for each in self.errors
        ]  # fmt: skip

    def __str__(self) -> str:
        rows = [_HEAD, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        return "\n".join([f"numerics of {self.name}, errors relative to f64", *lines])

    def _repr_html_(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        body = "".join(row(cells, "td") for cells in self.rows())
        caption = f"<caption>numerics of {html.escape(self.name)}, errors relative to f64</caption>"
        return f"<table>{caption}<thead>{row(_HEAD, 'th')}</thead><tbody>{body}</tbody></table>"


def numerics_report(function: Callable[..., object]) -> Callable[..., NumericsReport]:
    """Compare a function of operators, as its types have it, with the same in f64: `numerics_report(f)(*arguments)`.

    function: made of operators, or a `graph.module`.  Both graphs run on the host, on the numbers of the arguments,
    arrays of any library on the host.  Integers are the same in both; what is rounded to codes is compared where codes
    are used.  Raises what capturing the function raises, NoImplementation for a routine that takes no f64.
    """
    whole = (
        cast("GraphFunction[..., object]", function) if isinstance(function, GraphFunction) else GraphFunction(function)
    )

    def report(*arguments: object, **keywords: object) -> NumericsReport:
        leaves: list[object] = []
        flatten((arguments, keywords), leaves)
        try:
            captured = whole.graph_for(*arguments, **keywords)
            arrays = [as_array(leaf, "an argument") for leaf in (*leaves, *captured.captured)]
            return NumericsReport(whole.name, tuple(_errors(captured.graph, arrays)))
        except TesseraError as mistake:
            raise at_call(mistake) from None

    return report


def _errors(graph: Graph, arrays: Sequence[Numbers]) -> Iterator[OperatorError]:
    wide = in_f64(graph)
    typed, exact = _values(graph, arrays), _values(wide, [_widened(array) for array in arrays])
    twin = {mine: theirs for node, other in zip(graph.nodes, wide.nodes, strict=True)
            for mine, theirs in zip(node.results, other.results, strict=True)}  # fmt: skip
    twin |= dict(zip(graph.inputs, wide.inputs, strict=True))
    given = {theirs: _widened(typed[mine]) for mine, theirs in twin.items()}
    for path, members in itertools.groupby(zip(graph.nodes, wide.nodes, strict=True), lambda pair: _path(pair[0])):
        pairs = list(members)
        own = _alone([other for _, other in pairs], given)
        inside = {node for node, _ in pairs}
        for value in (value for node, _ in pairs for value in node.results):
            seen = value in graph.outputs or any(user not in inside for user in graph.users.get(value, ()))
            if seen and value.type.dtype.is_float:
                other = twin[value]
                largest, rms = _difference(typed[value], exact[other])
                span = pairs[-1][0].span
                yield OperatorError(
                    path, span.line, _stored(value), largest, rms, _difference(typed[value], own[other])[1]
                )


def _path(node: Node) -> str:
    return "/".join(node.origin.composite)


def _stored(value: Value) -> str:
    return str(value.type.dtype if value.numerics is None else value.numerics)


def _values(graph: Graph, arrays: Sequence[Numbers]) -> dict[Value, Numbers]:
    """Return every value of a graph, for its inputs."""
    found = dict(zip(graph.inputs, arrays, strict=True))

    def keep(node: Node, results: tuple[Numbers, ...]) -> None:
        found.update(zip(node.results, results, strict=True))

    evaluate(graph, arrays, keep)
    return found


def _alone(nodes: Sequence[Node], given: Mapping[Value, Numbers]) -> dict[Value, Numbers]:
    """Return what nodes give in f64, of operands from outside that are what they were."""
    made: dict[Value, Numbers] = {}
    with np.errstate(all="ignore"):
        for node in nodes:
            results = evaluate_node(node, [made.get(value, given[value]) for value in node.operands])
            made.update(zip(node.results, results, strict=True))
    return made


def _widened(array: Numbers) -> Numbers:
    return array if array.dtype.kind in "iub" else array.astype(f64.numpy)


def _difference(found: Numbers, meant: Numbers) -> tuple[float, float]:
    """Return the greatest error over the greatest number, and the same of root mean squares."""
    got = found.astype(np.float64)
    same = (got == meant) | (np.isnan(got) & np.isnan(meant))
    if np.any(~same & ~(np.isfinite(got) & np.isfinite(meant))):
        return float("inf"), float("inf")
    counted = np.isfinite(meant)
    off, size = got[counted] - meant[counted], meant[counted]
    return _over(np.abs(off).max(initial=0), np.abs(size).max(initial=0)), _over(_root(off), _root(size))


def _root(numbers: Numbers) -> float:
    return float(np.sqrt(np.mean(numbers**2))) if numbers.size else 0.0


def _over(error: float, size: float) -> float:
    if not error:
        return 0.0
    return float(error / size) if size else float("inf")
