"""Rules say why they refuse, to those who listen."""

from tessera.core.schedule.decisions import Refusal
from tessera.core.schedule.refusals import decisive, listening, refused


def test_nothing_is_kept_unless_somebody_listens():
    refused("empty")
    with listening() as found:
        refused("row-limit", detail="20,000 elements")
        with listening() as inner:
            refused("products")
        refused("empty")
    refused("scatter")
    assert [each.rule for each in found] == ["row-limit", "empty"]
    assert [each.rule for each in inner] == ["products"]
    assert found[0].detail == "20,000 elements"


def test_the_last_rule_that_says_something_decides():
    products, nothing = Refusal("products"), Refusal("one-reduction")
    assert decisive([Refusal("empty"), products, nothing]) is products
    assert decisive([nothing]) is nothing
    assert decisive([]).rule == "form"
