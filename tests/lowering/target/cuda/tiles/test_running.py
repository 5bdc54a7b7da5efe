"""Loops whose products run until their sums are needed: the gradients of keys and values."""

import re

import pytest

from lowering.target.cuda.tiles.cases import plan_of
from lowering.target.cuda.tiles.hopper import attention, code, gradients, places
from support.simulate import compile_cuda

ROUND = re.compile(r"wgmma\.commit_group|wgmma\.wait_group\.sync\.aligned \d|ex2\.approx|st\.shared|arrive\.shared")


def story(text: str) -> str:
    """What happens in order: c commits a product, a number waits, e, s and f: exponentials, stores, freed buffers."""
    letters = {"wgmma.com": "c", "ex2.appro": "e", "st.shared": "s", "arrive.sh": "f"}
    found = [match[0] for match in ROUND.finditer(text)]
    return re.sub(r"(.)\1+", r"\1", "".join(letters.get(one[:9], one[-1]) for one in found))


@pytest.mark.parametrize("causal", [False, True])
def test_a_round_begins_with_the_product_that_the_last_one_issued(causal: bool):
    """Wait for it, free the last round's buffers, dP, exponentials beside it; dV, wait for dP; dK, the next S, stores."""
    text = story(code(gradients(causal=causal)))
    assert re.search(r"c0fc1?ec1cs", text), text
    commits = places(code(gradients(causal=causal)), r"wgmma\.commit_group")
    assert len(commits) == 1 + 4  # the first round's first product, and those of a round


def test_vectors_come_with_a_ring():
    plan, _ = plan_of(gradients())
    assert plan is not None
    assert len(plan.running) == 1
    assert sorted((ring.in_loop, len(ring.loads)) for ring in plan.rings) == [
        (False, 1), (False, 1), (True, 1), (True, 3),
    ]  # fmt: skip
    assert all(ring.running is None for ring in plan.rings)
    assert len(places(code(gradients()), r"cp\.async\.bulk\.tensor\.3d")) == 2


def test_the_copying_lane_leaves_its_registers_to_the_sums():
    text = code(gradients())
    assert "setmaxnreg.dec.sync.aligned.u32 24;" in text
    assert "setmaxnreg.inc.sync.aligned.u32 240;" in text


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("width", [64, 128])
def test_no_lane_spills(width: int, causal: bool):
    resources = compile_cuda(gradients(causal=causal, width=width)).artifact.resources
    assert (resources.spill_bytes, resources.stack_bytes) == (0, 0)


def test_two_products_are_left_to_the_loop_that_overlaps_them():
    plan, _ = plan_of(attention())
    assert plan is not None
    assert not plan.running
    assert plan.overlaps


@pytest.mark.parametrize(("width", "queries", "runs"), [(64, 64, True), (64, 128, False), (128, 64, True)])
def test_sums_and_factors_in_registers_must_fit(width: int, queries: int, runs: bool):
    """A lane's sums take 192 registers at width 64 with 128 queries, and at 128 with 64: its factors 64 more, or 32."""
    plan, _ = plan_of(gradients(width=width, BM=queries))
    assert plan is not None
    assert bool(plan.running) == runs
