"""Loops whose products run until their sums are needed: the gradients of keys and values."""

import re

import pytest

from lowering.cuda.cases import plan_of
from lowering.cuda.hopper import attention, code, gradients, places
from support.builder import Builder
from support.simulate import compile_cuda
from tessera.core.base.dtypes import bf16, f32
from tessera.core.program.program import Program
from tessera.lowering.cuda.fit import ONE_BY_ONE

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
    assert ONE_BY_ONE not in resources.notes


def test_two_products_are_left_to_the_loop_that_overlaps_them():
    plan, _ = plan_of(attention())
    assert plan is not None
    assert not plan.running
    assert plan.overlaps


@pytest.mark.filterwarnings("ignore:each lane of")  # what does not run spills
@pytest.mark.parametrize(("width", "queries", "runs"), [(64, 64, True), (64, 128, False), (128, 64, True)])
def test_sums_and_factors_in_registers_must_fit(width: int, queries: int, runs: bool):
    """A lane's sums take 192 registers at width 64 with 128 queries, and at 128 with 64: its factors 64 more, or 32."""
    plan, _ = plan_of(gradients(width=width, BM=queries))
    assert plan is not None
    assert bool(plan.running) == runs


def four_products(*, carried: bool) -> Program:
    """In each round two products that are stored, one of them turned, and two that are added up, or stored as well."""
    b = Builder("products")
    left, right, one, two = (b.array(name, bf16, "N", 64, aligned=True) for name in "ABCD")
    out = [b.array(name, bf16, "N", "N", aligned=True, mutable=True) for name in "WXYZ"]
    accumulators = [b.array(name, f32, "N", 64, aligned=True, mutable=True) for name in "ST"]
    zero = b.const(0)
    with b.loop(zero, b.dim("N"), b.const(128), kind="tile", names=("m",)) as m:
        p, q = (b.load(array, [m.index, zero], [128, 64]) for array in (left, right))
        start = [b.full(b.const(0.0, f32), 128, 64)] * 2 if carried else []
        with b.loop(zero, b.dim("N"), b.const(64), start, names=("n", "s", "t")[: 1 + len(start)]) as n:
            r, s = (b.load(array, [n.index, zero], [64, 64]) for array in (one, two))
            first = b.cast(b.dot(p, b.transpose(r, 1, 0), dtype=f32), bf16)
            turned = b.transpose(b.dot(q, b.transpose(s, 1, 0), dtype=f32), 1, 0)
            b.store(out[0], first, [m.index, n.index], [128, 64])
            b.store(out[1], b.cast(turned, bf16), [n.index, m.index], [64, 128])
            if carried:
                n.yields = tuple(b.dot(first, x, acc) for x, acc in zip((r, s), n.carried, strict=True))
            else:
                for array, x in zip(out[2:], (r, s), strict=True):
                    result = b.cast(b.dot(first, x, dtype=f32), bf16)
                    b.store(array, result, [m.index, n.index], [128, 64])
        for array, total in zip(accumulators, n.results, strict=False):
            b.store(array, total, [m.index, zero], [128, 64])
    return b.program()


@pytest.mark.parametrize("carried", [False, True])
def test_everything_is_waited_for_behind_a_loop(carried: bool):
    """Sums or not: the product of the round that never comes writes registers that others want."""
    program = four_products(carried=carried)
    plan, _ = plan_of(program)
    assert plan is not None
    assert len(plan.running) == 1
    text = code(program)
    waits = places(text, r"wgmma\.wait_group\.sync\.aligned 0")
    last = places(text, r"wgmma\.commit_group")[-1]
    frees = [place for place in places(text, r"mbarrier\.arrive\.shared") if place > last]
    assert any(last < wait < frees[0] for wait in waits)


def test_sums_that_start_as_constants_have_registers_before_the_first_product():
    """With sums that get theirs while a product runs, ptxas has all products wait for each other, which is refused."""
    program = four_products(carried=True)
    first = places(code(program), r"wgmma\.commit_group")[0]
    assert places(code(program), r"wgmma\.wait_group\.sync\.aligned 0")[0] < first
    assert ONE_BY_ONE not in compile_cuda(program).artifact.resources.notes
