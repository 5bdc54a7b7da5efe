"""The namespace of operators: every name is one, documented, and listed."""

import tessera
from support.operators import COLLECTIVES
from tessera.graphs.function import GraphFunction
from tessera.ops import op


def test_the_namespace_is_public():
    assert tessera.op is op
    assert sorted(op.__all__) == op.__all__


FUNCTIONS = ("Complex", "arange", "at", "custom", "full", "key", "ones", "zeros")
"""What makes values or operators."""


def test_every_name_is_an_operator_with_a_description():
    for name in op.__all__:
        made = getattr(op, name)
        assert callable(made)
        assert isinstance(made, GraphFunction) or name in (*FUNCTIONS, *COLLECTIVES), name
        assert (made.__doc__ or "").strip(), name
