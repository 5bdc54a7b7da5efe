"""Check adjoints: against central differences in f64, and for linearity in the cotangent.

A difference quotient of step h is off by about h^2 times the third derivative, plus the rounding of f64 over h; with
steps of 1e-6 for values near 1 both are far below the tolerance.  Where a kink lies within the step, such as that of a
relu, the quotients of both sides differ, and a derivative may be that of either: with a shorter step, their difference
is allowed.  Functions of the host, whose arrays cannot be made
f64, are checked in the dtype that they have, with a longer step and a wider tolerance.  Where the whole graph
disagrees, each node and each overridden composite is checked alone at the values that it has, and the first that is
wrong is named.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.dtypes import f64
from tessera.core.errors.catalog import WrongAdjoint
from tessera.core.graph.graph import Graph, Node, Routine, Value
from tessera.lowering.autodiff.composites import Adjoint, Region, region_graph, regions_of
from tessera.lowering.autodiff.in_f64 import in_f64
from tessera.lowering.autodiff.reverse import vjp

Numbers: TypeAlias = NDArray[Any]  # of the dtype that the value has
Evaluate: TypeAlias = Callable[[Graph, Sequence[Numbers]], Sequence[Numbers]]
"""An evaluator of graphs, such as the oracle's."""

STEP: Final = 1e-6
KINK_STEP: Final = STEP / 32
"""The step where a kink may lie within a longer one; quotients of smooth functions differ by it times a curvature."""
NO_KINK: Final = 1e-8
"""Errors up to here are those of difference quotients of smooth functions."""
SHORT_STEP: Final = 4e-3
"""The step where functions of the host take no f64: the cube root of what f32 rounds by."""
SHORT_TOLERANCE: Final = 5e-3
_NONE: Final[Mapping[str, Adjoint]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AdjointReport:
    """The result of a check.

    errors: by number of the input, the greatest difference between the derivative and the difference quotient, in
    units of the greater of 1 and the quotient; nonlinearity: the greatest relative difference between the adjoint of a
    sum of cotangents and the sum of the adjoints
    """

    errors: Mapping[int, float]
    nonlinearity: float

    def within(self, tolerance: float) -> bool:
        """Return whether both are: a NaN is not."""
        return all(error <= tolerance for error in (*self.errors.values(), self.nonlinearity))


def check_adjoint(
    graph: Graph, inputs: Sequence[Numbers], evaluate: Evaluate, overrides: Mapping[str, Adjoint] = _NONE,
    tolerance: float | None = None, directions: int = 3,
) -> AdjointReport:  # fmt: skip
    """Compare the adjoint of `graph` at `inputs` with finite differences.

    inputs: of the graph's types; evaluate: runs a graph; overrides: as in `vjp`
    directions: random directions (and as many cotangents) to compare along, of fixed seed
    Raises WrongAdjoint, with the operator's place in the text, where they differ by more than `tolerance`.
    """
    short = _is_short(graph)
    tolerance = tolerance or (SHORT_TOLERANCE if short else 1e-5)
    exact = graph if short else in_f64(graph)
    given = [_exact(value, x) for value, x in zip(exact.inputs, inputs, strict=True)]
    report = _compare(exact, given, evaluate, overrides, directions)
    if not report.within(tolerance):
        raise _mistake(exact, given, evaluate, overrides, tolerance, report)
    return report


def _is_short(graph: Graph) -> bool:
    """Return whether the graph calls functions of the host, and has floats that are shorter than f64."""
    calls = any(isinstance(node.body, Routine) and node.body.native for node in graph.walk())
    return calls and any(v.type.dtype.is_float and v.type.dtype != f64 for v in (*graph.inputs, *graph.outputs))


def _exact(value: Value, x: Numbers) -> Numbers:
    return np.asarray(x).astype(value.type.dtype.numpy)


def _floats(values: Sequence[Value]) -> list[int]:
    return [number for number, value in enumerate(values) if value.type.dtype.is_float]


def _compare(
    graph: Graph, inputs: Sequence[Numbers], evaluate: Evaluate, overrides: Mapping[str, Adjoint], directions: int
) -> AdjointReport:
    wrt, outputs = _floats(graph.inputs), _floats(graph.outputs)
    if not wrt or not outputs:
        return AdjointReport({}, 0.0)
    backward = vjp(graph, wrt, overrides)
    rng = np.random.default_rng(0)
    errors: dict[int, float] = dict.fromkeys(wrt, 0.0)

    def drawn() -> list[Numbers]:
        made = [graph.outputs[number] for number in outputs]
        return [_exact(value, rng.normal(size=value.type.shape)) for value in made]

    def pull(cotangents: Sequence[Numbers]) -> list[Numbers]:
        return list(evaluate(backward, [*inputs, *cotangents])[len(graph.outputs) :])

    for _ in range(directions):
        cotangents = drawn()
        pulled = pull(cotangents)
        for place, (number, gradient) in enumerate(zip(wrt, pulled, strict=True)):
            direction = _exact(graph.inputs[number], rng.normal(size=graph.inputs[number].type.shape))

            def slope(seeds: Sequence[Numbers], place: int = place, direction: Numbers = direction) -> float:
                return float(np.sum(pull(seeds)[place] * direction))

            line = _Line(graph, inputs, number, direction, evaluate)
            error = line.error(float(np.sum(gradient * direction)), cotangents, slope)
            errors[number] = float(np.fmax(errors[number], error)) if np.isfinite(error) else np.inf
    one, two = drawn(), drawn()
    mixed = [2.0 * a - 0.5 * b for a, b in zip(one, two, strict=True)]
    return AdjointReport(errors, _nonlinearity(pull(one), pull(two), pull(mixed)))


def _nonlinearity(one: Sequence[Numbers], two: Sequence[Numbers], mixed: Sequence[Numbers]) -> float:
    """Return how far the adjoint of `2 a - b / 2` is from that of a and b, so combined."""
    worst = 0.0
    for a, b, c in zip(one, two, mixed, strict=True):
        wanted = 2.0 * a - 0.5 * b
        scale = max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
        error = float(np.max(np.abs(c - wanted), initial=0.0)) / scale
        worst = max(worst, error if np.isfinite(error) else np.inf)
    return worst


@dataclass(frozen=True, slots=True)
class _Line:
    """A graph along a direction of one input."""

    graph: Graph
    inputs: Sequence[Numbers]
    number: int
    direction: Numbers
    evaluate: Evaluate

    def error(self, slope: float, cotangents: Sequence[Numbers], pull: Callable[[Sequence[Numbers]], float]) -> float:
        """Return how far a derivative is from the difference quotients, in units of the greater of 1 and these.

        slope: the derivative that the adjoint gives for these cotangents; pull: the same for others
        """
        step = SHORT_STEP if _is_short(self.graph) else STEP
        after, before = self._at(step), self._at(-step)
        error = _off(slope, cotangents, _quotients(after, before, step))
        if error <= NO_KINK or step == SHORT_STEP:
            return error
        # Outputs with kinks are looked at by themselves: what these allow must not hide mistakes of the others.
        after, middle, before = (self._at(distance) for distance in (KINK_STEP, 0.0, -KINK_STEP))
        quotients = _quotients(after, before, KINK_STEP)
        bends = [_bend(*points) for points in zip(after, middle, before, strict=True)]
        smooth = [np.where(bend > 0, 0.0, c) for bend, c in zip(bends, cotangents, strict=True)]
        bent = [np.where(bend > 0, c, 0.0) for bend, c in zip(bends, cotangents, strict=True)]
        allowed = sum(float(np.sum(np.abs(c) * bend)) for bend, c in zip(bends, bent, strict=True)) / KINK_STEP
        separate = max(_off(pull(smooth), smooth, quotients), _off(pull(bent), bent, quotients, allowed))
        return min(error, separate)

    def _at(self, distance: float) -> list[Numbers]:
        """Return the outputs that are floats, some way along the line."""
        moved = list(self.inputs)
        moved[self.number] = (moved[self.number] + distance * self.direction).astype(moved[self.number].dtype)
        results = self.evaluate(self.graph, moved)
        return [results[place] for place in _floats(self.graph.outputs)]


def _quotients(after: Sequence[Numbers], before: Sequence[Numbers], step: float) -> list[Numbers]:
    return [(a - b) / (2 * step) for a, b in zip(after, before, strict=True)]


def _off(slope: float, cotangents: Sequence[Numbers], quotients: Sequence[Numbers], allowed: float = 0.0) -> float:
    """Return the difference between a derivative and difference quotients, beyond what is allowed."""
    quotient = sum(float(np.sum(c * q)) for c, q in zip(cotangents, quotients, strict=True))
    return max(0.0, abs(slope - quotient) - allowed) / max(1.0, abs(quotient))


def _bend(after: Numbers, middle: Numbers, before: Numbers) -> Numbers:
    """Return the second difference, 0 where it is the rounding of f64."""
    bend = np.abs(after - 2.0 * middle + before)
    rounding = 64 * np.finfo(np.float64).eps * (np.abs(after) + np.abs(middle) + np.abs(before))
    return np.where(bend > rounding, bend, 0.0)


def _mistake(
    graph: Graph, inputs: Sequence[Numbers], evaluate: Evaluate, overrides: Mapping[str, Adjoint], tolerance: float,
    whole: AdjointReport,
) -> WrongAdjoint:  # fmt: skip
    """Return the mistake, with the first operator that is wrong on its own."""
    for part, given in _parts(graph, inputs, evaluate, tuple(overrides)):
        report = _compare(part, given, evaluate, overrides, 2)
        if not report.within(tolerance):
            return _named(part, part.name, report, tolerance)
    return _named(graph, graph.name, whole, tolerance)


def _named(graph: Graph, name: str, report: AdjointReport, tolerance: float) -> WrongAdjoint:
    if report.nonlinearity > tolerance:
        what = f"is not linear in the cotangent: off by {report.nonlinearity:.2g}"
    else:
        number, error = max(report.errors.items(), key=lambda each: each[1])
        what = f"differs from finite differences by {error:.2g} for {graph.inputs[number].name or f'input {number}'}"
    mistake = WrongAdjoint(
        f"the adjoint of {name} {what}",
        graph.span,
        "the adjoint applies the transposed derivative to the cotangents, and is linear in them",
    )
    mistake.with_source(graph.source)
    return mistake


def _parts(
    graph: Graph, inputs: Sequence[Numbers], evaluate: Evaluate, names: Sequence[str]
) -> list[tuple[Graph, list[Numbers]]]:
    """Return each overridden composite and each other node as a graph, with the values of its inputs."""
    values = dict(zip(graph.inputs, inputs, strict=True))
    made = [value for node in graph.nodes for value in node.results]
    everything = Graph(graph.name, graph.inputs, graph.nodes, tuple(made), graph.source, graph.span)
    values.update(zip(made, evaluate(everything, inputs), strict=True))
    regions = regions_of(graph, names)
    inside = {node: region for region in regions for node in region.nodes}
    first = {region.nodes[0] for region in regions}
    found: list[tuple[Graph, list[Numbers]]] = []
    for node in graph.nodes:
        region = inside.get(node) or _alone(node)
        if node in first or node not in inside:
            found.append((region_graph(graph, region), [values[value] for value in region.inputs]))
    return found


def _alone(node: Node) -> Region:
    name = node.routine.name if node.op == "call" else node.op
    return Region(name, (node,), tuple(dict.fromkeys(node.operands)), node.results)
