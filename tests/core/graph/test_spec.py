"""The table of primitives: rows are complete, and the oracle says which of them it cannot run."""

import pytest

from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import NoImplementation
from tessera.core.graph.graph import Node, Tensor, Value
from tessera.core.graph.infer import IllTyped, infer
from tessera.core.graph.spec import PRIMITIVES, REDUCTIONS
from tessera.core.program import spec as program_spec
from tessera.runtime.interpret.graph import evaluate_node

NO_TYPE = ("call", "state_read", "state_write", "loop", "while", "branch")
"""Their types are those of a body, or of an object outside of the graph."""


def test_reductions_are_those_of_programs():
    assert REDUCTIONS == program_spec.REDUCTIONS


@pytest.mark.parametrize("op", sorted(PRIMITIVES))
def test_rows_are_complete(op: str):
    row = PRIMITIVES[op]
    assert row.result
    assert all(name.partition(":")[0].split()[0].isidentifier() for name in row.attributes)


@pytest.mark.parametrize("op", NO_TYPE)
def test_types_that_do_not_follow_from_operands(op: str):
    with pytest.raises(IllTyped, match="no rule for its type"):
        infer(op, (), {}, None)


@pytest.mark.parametrize("op", ["collective", "state_read", "state_write", "scan"])
def test_the_oracle_says_what_it_cannot_run(op: str):
    with pytest.raises(NoImplementation, match=f"the oracle cannot run {op}"):
        evaluate_node(Node(op, (), (Value(Tensor(f32, ())),)), ())
