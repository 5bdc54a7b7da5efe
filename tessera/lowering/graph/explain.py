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

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.graph.graph import Graph
from tessera.core.graph.permissions import ALGEBRA
from tessera.lowering.graph.egraph.egraph import EGraph, Reason
from tessera.lowering.graph.egraph.extraction import Extractor, Selection
from tessera.lowering.graph.egraph.reference_costs import Price
from tessera.lowering.graph.rewrite import candidates_of, rewrite, saturate
from tessera.lowering.graph.rules.table import RULES, permitted

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


def explain(graph: Graph, allowed: Collection[str], taken: int = 0) -> Alternatives:
    """Search as `rewrite` does, and keep what was not chosen: each rule's best graph, and that of each permission.

    taken: which of the candidates was taken in the end
    """
    saturated = saturate(graph, permitted(allowed))
    egraph, extractor = saturated.egraph, Extractor(saturated.egraph)
    chosen = extractor.run() if saturated.applied else extractor.original
    chosen = [*candidates_of(extractor, chosen), extractor.original][taken]
    if saturated.applied:
        _force_every_rule(egraph, extractor)
    others = [each for each in extractor.tried.values() if each is not chosen]
    others.sort(key=lambda each: (each.price, sorted(each.applied(egraph))))
    permissions: list[tuple[str, Price]] = []
    for name in sorted(ALGEBRA - set(allowed)):
        price = rewrite(graph, {*allowed, name}).after
        if price < chosen.price:
            permissions.append((name, price))
    everything = rewrite(graph, {*allowed, *ALGEBRA}).after if len(ALGEBRA - set(allowed)) > 1 else chosen.price
    if all(everything < price for _, price in [("", chosen.price), *permissions]):
        permissions.append(("real", everything))
    return Alternatives(
        tuple(sorted(allowed)), extractor.original.price, _alternative(egraph, chosen),
        tuple(_alternative(egraph, each) for each in others[:MOST]), tuple(permissions), saturated.limit,
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
