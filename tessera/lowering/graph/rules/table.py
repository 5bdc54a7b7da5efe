"""All rules of the e-graph, and those that a set of permissions lets fire."""

from collections.abc import Collection
from typing import Final

from tessera.core.graph.permissions import BITS
from tessera.lowering.graph.rules import bits, cancel, fold, normalizations, reassociate, widen
from tessera.lowering.graph.rules.rule import RewriteRule

RULES: Final[tuple[RewriteRule, ...]] = (
    *bits.RULES, *reassociate.RULES, *fold.RULES, *cancel.RULES, *widen.RULES, *normalizations.RULES,
)  # fmt: skip


def permitted(classes: Collection[str], *, on_mesh: bool = False) -> tuple[RewriteRule, ...]:
    """Return the rules that change no bit, and those of the classes that a program permits.

    on_mesh: whether a mesh cuts the graph that they make, so that operands are not concatenated
    """
    allowed = {BITS, *classes}
    return tuple(
        rule for rule in RULES if {rule.klass, *rule.also} <= allowed and not (on_mesh and rule.concatenates)
    )  # fmt: skip
