"""Keywords that are no parameters: what is meant by them, with the place of the call."""

import pytest

from tessera import op
from tessera.core.arrays.keywords import OTHER_KEYWORDS, require_parameters
from tessera.core.errors.catalog import ArgumentCount
from tessera.graphs.function import parameter_names


def test_every_other_name_is_one_of_some_operator():
    operators = [getattr(op, name) for name in op.__all__]
    parameters = {name for one in operators for name in parameter_names(getattr(one, "function", one)) or ()}
    assert set(OTHER_KEYWORDS.values()) <= parameters
    assert not set(OTHER_KEYWORDS) & {"axis", "keepdims", "shift", "k"}


@pytest.mark.parametrize(
    ("keyword", "hint"),
    [("dim", "did you mean axis=?"), ("correction", "did you mean ddof=?"), ("axi", "did you mean axis=?"),
     ("out", "its parameters are axis, ddof"), ("shifts", "its parameters are axis, ddof")],
)  # fmt: skip
def test_hints(keyword: str, hint: str):
    require_parameters("f", ["axis", "ddof"], ["axis", "ddof"])
    with pytest.raises(ArgumentCount, match=f"f has no parameter {keyword}") as caught:
        require_parameters("f", ["axis", "ddof"], ["axis", keyword])
    assert hint in str(caught.value)
    assert "test_keywords.py, line" in str(caught.value)
