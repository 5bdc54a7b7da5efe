"""Explain what was rewritten and what was not: rules by the user's lines, prices, and what a permission would save.

algebra: bits
before  187.05 us, 13 kernels, ...
chosen  186.55 us, 12 kernels, ...
merge-siblings [bits], line 6: Compute products with a common operand as one product.
rejected
+0.50 us  the graph as it is
with more permissions
algebra='reassociate': 1.07 x faster, 1.8 x fewer FLOPs
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.graph.graph import Graph
from tessera.core.graph.permissions import ALGEBRA, REAL
from tessera.lowering.graph.egraph.egraph import EGraph, Reason
from tessera.lowering.graph.egraph.extraction import Extractor, Selection
from tessera.lowering.graph.egraph.reference_costs import Price, sum_of
from tessera.lowering.graph.rewrite import candidates_of, rewrite, saturate
from tessera.lowering.graph.rules.table import RULES, permitted
from tessera.lowering.graph.segments import segments

_CLASSES: Final = {rule.name: rule.klass for rule in RULES}
_SUMMARIES: Final = {rule.name: rule.summary for rule in RULES}
MOST: Final = 12
"""Rejected alternatives that a report keeps, the cheapest first."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Rules that made a graph, and what it costs.

    rules: by name; lines: of the user's text that each was applied to; price: of the whole graph
    """

    rules: tuple[str, ...]
    lines: tuple[tuple[int, ...], ...]
    price: Price

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of its rules."""
        return tuple(dict.fromkeys(_CLASSES[rule] for rule in self.rules))


@dataclass(frozen=True, slots=True)
class Alternatives:
    """A report of rewriting; `str()` gives it as text.

    algebra: the permitted classes; before: the price of the graph without rules; chosen: what was made of it
    rejected: other graphs that the rules give, the cheapest first; with_permission: what each further class would give
    limit: why the search ended early, "" where it did not
    """

    algebra: tuple[str, ...]
    before: Price
    chosen: Alternative
    rejected: tuple[Alternative, ...]
    with_permission: tuple[tuple[str, Price], ...]
    limit: str = ""

    def __str__(self) -> str:
        lines = [f"algebra: {', '.join(('bits', *self.algebra))}", f"  before  {self.before}"]
        lines.append(f"  chosen  {self.chosen.price}")
        chosen = zip(self.chosen.rules, self.chosen.lines, strict=True)
        lines += [f"    {rule} [{_CLASSES[rule]}]{_places(at)}: {_SUMMARIES[rule]}" for rule, at in chosen]
        if self.limit:
            lines.append(f"  the search {self.limit}")
        if self.rejected:
            lines.append("rejected")
        for each in self.rejected:
            more = (each.price.picoseconds - self.chosen.price.picoseconds) / 1e6
            named = zip(each.rules, each.lines, strict=True)
            names = "; ".join(f"{rule} [{_CLASSES[rule]}]{_places(at)}" for rule, at in named)
            lines.append(f"  {more:+.2f} us  {names or 'the graph as it is'}")
        if self.with_permission:
            lines.append("with more permissions")
        lines += [f"  algebra={name!r}: {_gain(self.chosen.price, price)}" for name, price in self.with_permission]
        return "\n".join(lines)


def explain(graph: Graph, allowed: Collection[str], taken: int = 0, *, on_mesh: bool = False) -> Alternatives:
    """Search as `rewrite` does, and keep what was not chosen: each rule's best graph, and that of each permission.

    taken: which of the candidates was taken in the end; on_mesh: whether a mesh cuts the graph
    """
    parts = [_explained(part.graph, allowed, taken, on_mesh=on_mesh) for part in segments(graph)]
    before, chosen = sum_of([part.before for part in parts]), sum_of([part.chosen.price for part in parts])
    applied: dict[str, set[int]] = {}
    for part in parts:
        for rule, lines in zip(part.chosen.rules, part.chosen.lines, strict=True):
            applied.setdefault(rule, set()).update(lines)
    rules = tuple(sorted(applied))
    whole = Alternative(rules, tuple(tuple(sorted(applied[rule])) for rule in rules), chosen)
    rejected = [
        Alternative(each.rules, each.lines, _instead(chosen, part.chosen.price, each.price))
        for part in parts for each in part.rejected
    ]  # fmt: skip
    rejected.sort(key=lambda each: (each.price, each.rules, each.lines))
    limit = next((part.limit for part in parts if part.limit), "")
    permissions = tuple(_with_permission(graph, frozenset(allowed), chosen, on_mesh=on_mesh))
    return Alternatives(tuple(sorted(allowed)), before, whole, tuple(rejected[:MOST]), permissions, limit)


def _instead(whole: Price, part: Price, other: Price) -> Price:
    """Return the price of a whole in which a part costs something else."""
    return Price(
        whole.picoseconds - part.picoseconds + other.picoseconds, whole.kernels - part.kernels + other.kernels,
        whole.flops - part.flops + other.flops, whole.bytes - part.bytes + other.bytes,
    )  # fmt: skip


def _with_permission(
    graph: Graph, allowed: frozenset[str], chosen: Price, *, on_mesh: bool
) -> Iterator[tuple[str, Price]]:
    """Yield the classes that would make a graph cheaper, and "real" where all together make it cheaper still."""
    best = chosen
    for name in sorted(ALGEBRA - allowed):
        price = rewrite(graph, {*allowed, name}, on_mesh=on_mesh).after
        if price < chosen:
            yield name, price
        best = min(best, price)
    if len(ALGEBRA - allowed) > 1:
        price = rewrite(graph, {*allowed, *ALGEBRA}, on_mesh=on_mesh).after
        if price < best:
            yield REAL, price


def _explained(graph: Graph, allowed: Collection[str], taken: int, *, on_mesh: bool) -> Alternatives:
    """Explain a graph that is not cut."""
    saturated = saturate(graph, permitted(allowed, on_mesh=on_mesh))
    egraph, extractor = saturated.egraph, Extractor(saturated.egraph)
    chosen = extractor.run() if saturated.applied else extractor.original
    candidates = [*candidates_of(extractor, chosen), extractor.original]
    chosen = candidates[min(taken, len(candidates) - 1)]
    if saturated.applied:
        _force_every_rule(egraph, extractor)
    others = [each for each in extractor.tried.values() if each is not chosen]
    others.sort(key=lambda each: (each.price, sorted(each.applied(egraph))))
    return Alternatives(
        tuple(sorted(allowed)), extractor.original.price, _alternative(egraph, chosen),
        tuple(_alternative(egraph, each) for each in others[:MOST]), (), saturated.limit,
    )  # fmt: skip


def _force_every_rule(egraph: EGraph, extractor: Extractor) -> None:
    """Price the best graph with one node of each rule, for rules that no priced graph has."""
    seen = {rule for applied in extractor.tried for rule, _ in applied}
    for number in extractor.order:
        for node in egraph.members[number]:
            rule = egraph.reasons[node].rule
            if rule and rule not in seen and extractor.forced(node, number) is not None:
                seen.add(rule)


def _alternative(egraph: EGraph, selection: Selection) -> Alternative:
    reasons = [egraph.reasons[selection.choice[number]] for number in selection.order]
    lines = {node.ident: node.span.line for node in egraph.graph.nodes}
    rules = selection.rules(egraph)
    return Alternative(rules, tuple(_lines(reasons, rule, lines) for rule in rules), selection.price)


def _lines(reasons: Sequence[Reason], rule: str, lines: Mapping[int, int]) -> tuple[int, ...]:
    """Return the user's lines that a rule was applied to."""
    found = {lines[parent] for reason in reasons if reason.rule == rule for parent in reason.parents}
    return tuple(sorted(found - {0}))


def _places(lines: Sequence[int]) -> str:
    if not lines:
        return ""
    return f", line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"


def _gain(now: Price, then: Price) -> str:
    """Return what a price would save, in the words of a report."""
    parts = [f"{now.picoseconds / max(then.picoseconds, 1):.2f} x faster"]
    if then.flops < now.flops:
        parts.append(f"{now.flops / max(then.flops, 1):.1f} x fewer FLOPs")
    if then.kernels < now.kernels:
        parts.append(f"{then.kernels} kernels instead of {now.kernels}")
    if then.bytes < now.bytes:
        parts.append(f"{now.bytes / max(then.bytes, 1):.1f} x fewer bytes")
    return ", ".join(parts)
