"""Attention's machine code: what runs beside the exponentials.  ptxas moves waits and arithmetic, so it is what counts."""

import re

import pytest

from lowering.target.cuda.tiles.hopper import attention
from support.simulate import compile_cuda
from tessera.core.program.program import Program

LETTERS = {"HGMMA.64x64x": "v", "HGMMA.64x128x": "k", "MUFU.EX2": "e", "DEPBAR.LE gsb0": "0"}


def rounds(program: Program) -> list[str]:
    """Between waits, a letter an instruction: products with 64 columns (v), with 128 (k), exponentials (e)."""
    (sass,) = [one.text for one in compile_cuda(program).listings if one.level == "sass"]
    pattern = re.compile("|".join(map(re.escape, LETTERS)))
    return "".join(LETTERS[found[0]] for found in pattern.finditer(sass)).split("0")


@pytest.mark.parametrize("causal", [False, True])
def test_the_second_product_runs_beside_the_exponentials(causal: bool):
    story = rounds(attention(causal=causal))
    (both,) = [part for part in story if part.startswith("k") and part.count("k") == 8 and part.count("e") >= 60]
    assert both.endswith("e" * 8), both


@pytest.mark.parametrize("causal", [False, True])
def test_the_next_rounds_first_product_runs_beside_the_exponentials(causal: bool):
    story = rounds(attention(causal=causal, width=64))
    (both,) = [part for part in story if part.count("v") == 8 and part.count("k") == 4]
    assert re.fullmatch(r"v{8}e*(ke+){4}", both), both
    assert both.count("e") >= 60
