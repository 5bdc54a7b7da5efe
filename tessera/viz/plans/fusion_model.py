"""Decisions of fusion for people: each kernel with its equations and its algebra, and why neighbours are two."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.graph.graph import Node, Value
from tessera.core.schedule.algebra import algebra_rows
from tessera.core.schedule.decisions import Attempt, Boundary, Cost, FusionReport
from tessera.core.schedule.plan import CALL, CASCADE, ELEMENTS, MAPS, PRODUCT, ROWS, SCATTER, Group
from tessera.core.schedule.text import bytes_moved, flops, operations
from tessera.lowering.graph.egraph.reference_costs import Price
from tessera.lowering.graph.explain import Alternative, Alternatives
from tessera.lowering.graph.rules.table import RULES
from tessera.lowering.schedule.explain import explain_fusion
from tessera.viz.operators.captured import CapturedGraph
from tessera.viz.operators.index_notation import node_text, operator_of
from tessera.viz.operators.names import value_names
from tessera.viz.operators.records import Ancestry

FORMS: Final[Mapping[str, str]] = {
    ELEMENTS: "one lane an element",
    MAPS: "tiles, element by element",
    SCATTER: "one lane a column, rows added at their indices",
    ROWS: "whole rows in registers, reduced there",
    PRODUCT: "a product in blocks, with what follows it",
    CASCADE: "one loop that computes reductions which use each other",
    CALL: "no kernel: the host calls a routine, or runs the kernels of a body",
}
"""Forms of kernels, in words."""
_RULES: Final = {rule.name: rule for rule in RULES}


@dataclass(frozen=True, slots=True)
class Equation:
    """A line of a kernel: an equation.  lines: of the user's text; ops: captured nodes that it stands for."""

    text: str
    note: str
    lines: tuple[int, ...]
    ops: tuple[int, ...]
    operations: int = 0


@dataclass(frozen=True, slots=True)
class AlgebraLine:
    """A row of the algebra of a derived kernel.  lines: those that its reductions came from."""

    section: str
    symbol: str
    text: str
    lines: tuple[int, ...]
    ops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KernelCard:
    """A kernel.  reads, writes: arrays with their types; algebra: of a cascade."""

    number: int
    name: str
    form: str
    words: str
    cost: Cost
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    rows: tuple[Equation, ...]
    algebra: tuple[AlgebraLine, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BoundaryCard:
    """Two kernels that are two.  arrays: what goes through memory, bytes: of it once.

    saved: bytes that one kernel would not move; about: what the rule is about, in names of values
    """

    producer: int
    consumer: int
    arrays: tuple[str, ...]
    bytes: int
    rule: str
    words: str
    detail: str
    remedy: str
    saved: int
    about: tuple[str, ...]
    lines: tuple[int, ...]
    ops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """Nodes that were tried as one kernel.  parts: in names of values; form: "" where it was refused, and why."""

    parts: tuple[str, ...]
    form: str
    rule: str
    words: str
    before: Cost
    after: Cost
    ops: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AppliedRule:
    """A rule of rewriting that made a form.  permission: its class; words: what it does; lines: it was applied to."""

    name: str
    permission: str
    words: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A graph that rewriting found equal.  verdict: "chosen" or "rejected"; rules: none for what is as written.

    nanoseconds: on the reference machine; more: than the chosen form; lines: that its rules were applied to
    """

    verdict: str
    rules: tuple[AppliedRule, ...]
    cost: Cost
    nanoseconds: float
    more: float
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Permission:
    """A class of rules that is not permitted, with the price that it would give."""

    name: str
    cost: Cost
    nanoseconds: float


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms that rewriting chose from.  permitted: classes of rules; limit: why the search ended early, or ""."""

    permitted: tuple[str, ...]
    written: float
    forms: tuple[Form, ...]
    permissions: tuple[Permission, ...]
    limit: str = ""


@dataclass(frozen=True, slots=True)
class FusionModel:
    """The schedule of a captured function, with its reasons.

    separate: the cost of one kernel for each operator; fused: of the schedule; group: of the selection
    forms: the equal graphs that were not scheduled, and the one that was
    """

    name: str
    group: str
    separate: Cost
    fused: Cost
    kernels: tuple[KernelCard, ...]
    boundaries: tuple[BoundaryCard, ...]
    trials: tuple[Trial, ...]
    forms: Forms


def fusion_model(captured: CapturedGraph) -> FusionModel:
    """Return the decisions that made a captured function's kernels."""
    report = explain_fusion(captured.plan)
    writer = _FusionWriter(captured, report)
    return FusionModel(
        captured.name, captured.selection, report.separate, report.fused,
        tuple(map(writer.kernel, captured.plan.groups)), tuple(map(writer.boundary, report.boundaries)),
        tuple(map(writer.trial, report.attempts)), _forms(captured.executable.alternatives),
    )  # fmt: skip


def _forms(found: Alternatives) -> Forms:
    """Return what rewriting chose and rejected, the cheapest first."""
    chosen = found.chosen.price

    def form(verdict: str, each: Alternative) -> Form:
        rules = tuple(
            AppliedRule(name, _RULES[name].klass, _RULES[name].summary, lines)
            for name, lines in zip(each.rules, each.lines, strict=True)
        )
        lines = tuple(sorted({line for rule in rules for line in rule.lines}))
        more = (each.price.picoseconds - chosen.picoseconds) / 1e3
        return Form(verdict, rules, _price_cost(each.price), each.price.picoseconds / 1e3, more, lines)

    return Forms(
        ("bits", *found.algebra), found.before.picoseconds / 1e3,
        (form("chosen", found.chosen), *(form("rejected", each) for each in found.rejected)),
        tuple(Permission(name, _price_cost(price), price.picoseconds / 1e3) for name, price in found.with_permission),
        found.limit,
    )  # fmt: skip


def _price_cost(price: Price) -> Cost:
    return Cost(price.kernels, price.bytes, price.flops)


class _FusionWriter:
    def __init__(self, captured: CapturedGraph, report: FusionReport) -> None:
        self.ancestry: Ancestry = captured.ancestry
        self.names = value_names(report.plan.graph)
        self.nodes = {node.ident: node for node in report.plan.graph.nodes}

    def kernel(self, group: Group) -> KernelCard:
        rows = tuple(map(self._row, group.members))
        cost = Cost(1, bytes_moved(group), operations(group))
        return KernelCard(
            group.ident, group.name, group.kind, FORMS[group.kind], cost, tuple(map(self._array, group.inputs)),
            tuple(map(self._array, group.outputs)), rows, tuple(self._algebra(group)), self._lines(group.members),
        )  # fmt: skip

    def _row(self, node: Node) -> Equation:
        text = node_text(node, self.names).replace("%", "")
        return Equation(text, operator_of(node), self._lines([node]), self.ancestry.numbers(node), flops(node))

    def _algebra(self, group: Group) -> Iterable[AlgebraLine]:
        if group.loop is None:
            return
        for row in algebra_rows(group.loop.cascade, [self.names[atom] for atom in group.loop.atoms]):
            nodes = [group.loop.reductions[number] for number in row.reductions]
            symbol = self.names[nodes[0].result] if row.section == "result" else row.symbol
            yield AlgebraLine(row.section, symbol, row.text, self._lines(nodes), self._ops(nodes))

    def boundary(self, each: Boundary) -> BoundaryCard:
        refusal = each.refusal
        about = tuple(dict.fromkeys(self.names[node.results[0]] for node in refusal.nodes))
        makers = [node for node in self.nodes.values() if set(node.results) & set(each.values)]
        nodes = [*makers, *refusal.nodes]
        return BoundaryCard(
            each.producer, each.consumer, tuple(map(self._array, each.values)),
            sum(value.type.bytes for value in each.values), refusal.rule, refusal.words, refusal.detail,
            refusal.remedy, max(0, each.before.bytes - each.after.bytes), about, self._lines(nodes), self._ops(nodes),
        )  # fmt: skip

    def trial(self, each: Attempt) -> Trial:
        parts = tuple(self._part(part) for part in each.parts)
        words = each.refusal.words if each.refusal is not None else ""
        nodes = [self.nodes[number] for part in each.parts for number in part]
        rule = each.refusal.rule if each.refusal is not None else ""
        return Trial(parts, each.kind, rule, words, each.before, each.after, self._ops(nodes))

    def _part(self, numbers: Sequence[int]) -> str:
        last = self.names[self.nodes[numbers[-1]].results[0]]
        if len(numbers) == 1:
            return last
        return f"{self.names[self.nodes[numbers[0]].results[0]]} … {last} ({len(numbers)})"

    def _array(self, value: Value) -> str:
        return f"{self.names[value]}: {value.type}"

    def _lines(self, nodes: Iterable[Node]) -> tuple[int, ...]:
        return tuple(sorted({span.line for node in nodes for span in self.ancestry.spans(node)}))

    def _ops(self, nodes: Iterable[Node]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(number for node in nodes for number in self.ancestry.numbers(node)))
