"""The table of rules: each is of a class, says before and after, and needs the permission of its class."""

import pytest

from tessera.core.graph.permissions import ALGEBRA, BITS, CLASSES
from tessera.lowering.graph.rules.rule import RewriteRule
from tessera.lowering.graph.rules.table import RULES, permitted


def test_names_are_unique_and_classes_known():
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert {rule.klass for rule in RULES} == {BITS, *ALGEBRA}
    assert {rule.klass for rule in RULES} <= set(CLASSES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_says_what_it_does(rule: RewriteRule):
    text = rule.find.__doc__ or ""
    assert rule.summary.endswith(".")
    assert "before: " in text
    assert "after:  " in text


def test_nothing_that_changes_bits_without_permission():
    assert {rule.klass for rule in permitted(())} == {BITS}
    assert {rule.klass for rule in permitted({"fold"})} == {BITS, "fold"}
    assert permitted(ALGEBRA) == RULES


def test_nothing_is_concatenated_on_a_mesh_which_may_cut_that_axis():
    off = {rule.name for rule in permitted(ALGEBRA)} - {rule.name for rule in permitted(ALGEBRA, on_mesh=True)}
    assert off == {"merge-siblings", "concatenate-sums"}
