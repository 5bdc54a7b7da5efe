"""Groups that the producer warp deals out: who works out which one is next, and how the others hear of it."""

import re

import pytest

from lowering.cuda.hopper import attention, code, gradients
from tessera.core.program.program import Program

KERNELS = pytest.mark.parametrize("program", [attention(causal=True), gradients(causal=True)], ids=["forward", "keys"])


def roles(program: Program) -> tuple[str, str]:
    """The producer warp's part of the PTX, and the team's."""
    text = code(program)
    given, taken = text.index("setmaxnreg.dec"), text.index("setmaxnreg.inc")
    return (text[given:taken], text[taken:]) if given < taken else (text[given:], text[taken:given])


@KERNELS
def test_the_order_is_worked_out_by_the_copying_warp(program: Program):
    copying, warp_set = roles(program)
    assert copying.count("div.u32") >= 8
    assert warp_set.count("div.u32") <= 2  # a head's batch, and its group of heads


@KERNELS
def test_the_team_hears_each_group_through_shared_memory(program: Program):
    copying, warp_set = roles(program)
    told = re.search(
        r"try_wait\S+ [^;]*;(?:(?!try_wait).)*?st\.shared\.b32 [^;]*;.*?mbarrier\.arrive", copying, re.DOTALL
    )
    assert told is not None
    heard = re.search(
        r"try_wait[^;]*;(?:(?!try_wait|wgmma).)*?ld\.shared\.b32[^;]*;(?:(?!try_wait).)*?bar\.warp\.sync"
        r"(?:(?!try_wait).)*?mbarrier\.arrive", warp_set, re.DOTALL,
    )  # fmt: skip
    assert heard is not None
    assert heard.start() < warp_set.index("wgmma.mma_async")


def test_even_groups_are_counted_by_everybody():
    copying, _ = roles(attention())
    assert "st.shared" not in copying
