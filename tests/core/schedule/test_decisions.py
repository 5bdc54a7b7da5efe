"""Decisions of fusion as data."""

import re
from pathlib import Path

from tessera.core.schedule.decisions import RULES, Refusal

SOURCES = Path(__file__).parents[3] / "tessera" / "lowering" / "schedule"


def test_every_rule_that_refuses_has_words():
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.py"))
    used = set(re.findall(r'(?:refused|Refusal)\(\s*"([\w-]+)"', text))
    assert used | {"readers", "order", "form"} == set(RULES)


def test_words_and_remedies_are_those_of_the_rule():
    refusal = Refusal("reduced-axes", detail="2 and 3")
    assert refusal.words.startswith("they reduce different axes")
    assert refusal.remedy == RULES["reduced-axes"].remedy != ""
    assert Refusal("empty").remedy == ""
