"""Loops over what a mask leaves: fewer trips, the same results."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

import numpy as np
import pytest

from tessera import graph, op
from tessera.core.program.program import Op
from tessera.core.settings import overridden
from tessera.core.targets import Target


def loops(**how: object) -> list[Op]:
    """Return the loops of the kernel of attention over 300 queries and keys."""
    module = graph.module("attention")(lambda q, k, v: op.flash_attention(q, k, v, **how))
    x = np.zeros((1, 1, 300, 32), np.float32)
    with overridden(target="interpret"):
        module(x, x, x)
    (kernel,) = module.executable.kernels(Target("interpret", ""))
    return [each for each in kernel.lowered.program.body.walk() if each.opcode == "for"]


@pytest.mark.parametrize(("how", "bounds"), [
    ({}, ["const", "const"]), ({"causal": True}, ["const", "min"]), ({"causal": True, "window": 64}, ["mul", "min"]),
])  # fmt: skip
def test_the_loop_begins_and_ends_where_the_mask_does(how: dict[str, object], bounds: list[str]):
    made = loops(**how)
    body = {
        value: each for outer in made for region in outer.regions for each in region.walk() for value in each.results
    }
    assert [body[value].opcode for value in made[-1].operands[:2]] == bounds


def test_only_blocks_that_are_cut_are_masked():
    masked = [each for outer in loops(causal=True)[-1:] for each in outer.regions[0].walk() if each.opcode == "if"]
    assert len(masked) == 1


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(("length", "shift"), [(96, 0), (100, 0), (64, 40)])
def test_documents_of_one_length_are_visited_alone(target: str, length: int, shift: int):
    """A block of queries goes over its own documents, and only the blocks that begin or end one are masked."""

    def attend(q, k, v):
        of = (op.arange(300) + shift) // length
        return op.flash_attention(q, k, v, mask=of[:, None] == of[None, :])

    module = graph.module("documents")(attend)
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, 2, 300, 32)).astype(np.float32) for _ in range(3))
    with overridden(target=target):
        made = module(q, k, v)
    of = (np.arange(300) + shift) // length
    scores = np.where(of[:, None] == of[None, :], q.astype(np.float64) @ k.swapaxes(-1, -2) / np.sqrt(32), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(made, weights / weights.sum(-1, keepdims=True) @ v, rtol=1e-4, atol=1e-5)
    (kernel,) = module.executable.kernels(Target("interpret", ""))
    bounds = [each for each in kernel.lowered.program.body.walk() if each.opcode == "for"][-1].operands[:2]
    made_by = {value: each.opcode for each in kernel.lowered.program.body.walk() for value in each.results}
    assert [made_by[value] for value in bounds] == ["mul", "min"]
