"""Attention's machine code: what runs beside the exponentials.  ptxas moves waits and arithmetic, so it is what counts."""

import re

import numpy as np
import pytest
from ml_dtypes import bfloat16

from lowering.cuda.hopper import attention
from support.simulate import compile_cuda, compile_ptx, ptx_of
from tessera.api.source_module import compile_source
from tessera.core.errors.catalog import BadKernelOption
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


# A lane's elements of what is added, turned around, are not those of the scores that it holds.
BIASED = compile_source("""
@kernel(fast=True)
def attention(Q: bf16[H, S, 64], K: bf16[H, S, 64], V: bf16[H, S, 64], X: bf16[S, 128], O: mut bf16[H, S, 64]):
    for h in tile.range(H):
        for m in tile.range(S, step=128):
            q, added = Q[h, m:m+128, :], X[m:m+128, :]
            top, total = tile.full((128, 1), -1e30), tile.zeros((128, 1))
            out = tile.zeros((128, 64))
            for n in range(0, S, 128):
                scores = tile.dot(q, K[h, n:n+128, :].T) * 0.5
                scores = scores + tile.cast(added.T, f32)
                above = tile.maximum(top, tile.max(scores, axis=1, keepdims=True))
                p, shrink = tile.exp2(scores - above), tile.exp2(top - above)
                total = total * shrink + tile.sum(p, axis=1, keepdims=True)
                out = tile.dot(tile.cast(p, bf16), V[h, n:n+128, :], out * shrink)
                top = above
            O[h, m:m+128, :] = out / total
""").attention


def biased(heads: int = 2, length: int = 256) -> list[np.ndarray]:
    """Arguments of it: queries, keys, values, what is added to the scores, and the result."""
    random = np.random.default_rng(heads)
    factors = [random.normal(0, 0.5, (heads, length, 64)).astype(bfloat16) for _ in range(3)]
    return [*factors, random.normal(0, 1, (length, 128)).astype(bfloat16), np.full_like(factors[0], np.nan)]


@pytest.mark.filterwarnings("ignore:each lane")
def test_warp_groups_that_exchange_elements_take_no_turns():
    """One would wait for the other with its turn not ended: for ever."""
    compiled = BIASED.compile(*biased(), target="cuda:sm_90a")
    (ptx,) = [one.text for one in compiled.listings if one.level == "ptx"]
    assert len(re.findall(r"bar\.sync\s+1, 256", ptx)) == 4
    assert "bar.arrive" not in ptx
    assert "pingpong" not in compiled.ir("tile", "cuda-defer-epilogue").splitlines()[0]
    assert "bar.arrive" in ptx_of(compile_ptx(attention(width=64)))


def test_turns_that_cannot_be_taken_are_a_mistake():
    with pytest.raises(BadKernelOption, match="cannot take turns") as caught:
        BIASED.variant(pingpong=1).compile(*biased(), target="cuda:sm_90a")
    assert "leave out `pingpong`" in str(caught.value)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:each lane")
def test_warp_groups_that_exchange_elements_come_to_an_end_on_a_gpu():
    from support.hardware import simulate  # noqa: PLC0415 - needs a GPU

    q, k, v, added, out = arguments = biased(70, 512)
    simulate(BIASED.compile(*arguments, target="cuda:sm_90a").program, arguments)
    turned = added.reshape(-1, 128, 128).swapaxes(1, 2).reshape(-1, 128).astype(np.float64)
    scores = 0.5 * np.einsum("hmd,hnd->hmn", q.astype(np.float64), k.astype(np.float64))
    scores += np.tile(turned, (1, 512 // 128))
    weights = np.exp2(scores - scores.max(-1, keepdims=True))
    want = np.einsum("hmn,hnd->hmd", weights / weights.sum(-1, keepdims=True), v.astype(np.float64))
    np.testing.assert_allclose(out.astype(np.float64), want, atol=2e-2)
