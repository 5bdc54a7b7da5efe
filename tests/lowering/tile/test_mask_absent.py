"""tile-mask-absent: masks where they count, and nowhere else."""

import re

import numpy as np
import pytest

from frontend.kernels import array, build, scalar
from support.mlir import shown
from tessera.api.source_module import compile_source
from tessera.core.base.dtypes import f32, i64
from tessera.core.errors.catalog import UnsupportedLoop
from tessera.lowering.tile.mask_absent import MaskAbsent


def masked(body: str, *, n: int = 50, m: int = 50) -> list[str]:
    """The Tile IR of a kernel in which r and c are unknown, x has n columns, and y m."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    text = f"def k(x: f32[4, n], y: mut f32[4, m], out: mut f32[8], r: i64, c: i64):\n{lines}"
    program = build(text, array(f32, 4, n), array(f32, 4, m), array(f32, 8), scalar(i64), scalar(i64))
    return shown(program, MaskAbsent()).split("\n")


def count(lines: list[str], name: str) -> int:
    return sum(bool(re.search(rf"(^|\W){name}(\W|$)", line)) for line in lines)


LOOP = "for k in range(0, n, 16):\n    t = x[2, k:k+16]\n    "


def test_the_whole_of_it():
    lines = masked(LOOP + "out[0] = tile.max(t * 2.0)")
    inside = [line.strip() for line in lines if line.startswith("    ")]
    assert inside == [
        "%t = tessera.load %x[2, %k:+16] : tile<16xf32>",
        "%0 = tensor.splat 2.0 : tile<16xf32>",
        "%1 = arith.mulf %t, %0 : tile<16xf32>",
        "%2 = tessera.arange %k : tile<16xi64>",
        "%n_1 = tessera.dim n : i64",
        "%3 = tensor.splat %n_1 : tile<16xi64>",
        "%4 = arith.cmpi slt %2, %3 : tile<16xi1>",
        "%5 = arith.constant splat 0xFF800000 : tile<16xf32>",
        "%6 = arith.select %4, %1, %5 : tile<16xf32>",
        "%7 = tessera.reduce max %6 : f32",
        "tessera.write %7, %out[0]",
    ]


def test_what_is_zero_anyway_is_not_masked():
    for text in ("t", "t * t", "abs(t) + t", "t * 2.0", "tile.cast(t, f64)"):
        assert count(masked(LOOP + f"out[0] = tile.sum(tile.cast({text}, f32))"), "arith.select") == 0
    for text in ("t + 1.0", "-t", "tile.exp(t)", "t * -2.0", "t / 3.0"):
        assert count(masked(LOOP + f"out[0] = tile.sum({text})"), "arith.select") == 1


def test_blocks_that_are_certainly_full_have_no_masks():
    assert (
        count(masked("for k in range(3):\n    out[0] = tile.max(x[k, 0:32] * 2.0)", n=50), "cmpi") == 1
    )  # n is unknown
    rows = "for k in range(4):\n    out[k] = tile.max(x[k, :] * 2.0)"
    assert count(masked(rows), "arith.cmpi") == 0


def test_what_a_store_leaves_out_anyway_needs_no_mask():
    same = masked("y[r:r+2, c:c+16] = tile.exp(x[r:r+2, c:c+16])")
    assert (count(same, "tessera.store"), count(same, "arith.cmpi")) == (1, 0)
    other = masked("y[r:r+2, c:c+16] = tile.exp(x[r:r+2, c:c+16])", m=60)
    assert (count(other, "tessera.masked_store"), count(other, "tessera.store")) == (1, 0)
    shifted = masked("y[r:r+2, c:c+16] = x[r:r+2, c-1:c+15] + x[r:r+2, c:c+16]")
    assert count(shifted, "tessera.masked_store") == 1
    assert count(shifted, "arith.cmpi") == 1  # on the left; on the right y ends before x does


def test_rows_that_nobody_sees_are_not_followed():
    lines = masked("t = x[r:r+4, 0:32]\ny[r:r+4, 0:32] = t - tile.sum(t + 1.0, axis=1, keepdims=True)", n=20, m=20)
    assert count(lines, "arith.cmpi") == 1  # the columns of the sum


def test_masks_by_hand_are_understood():
    where = "tile.where({}, t + 1.0, 0.0)"
    for text in ("tile.arange(k, k + 16) < n", "k + tile.arange(16) <= n - 1", "tile.valid(t)"):
        assert count(masked(LOOP + f"out[0] = tile.sum({where.format(text)})"), "arith.select") == 1
    text = "out[0] = tile.sum(tile.where(tile.arange(k, k + 16) >= n, 0.0, t + 1.0))"
    assert count(masked(LOOP + text), "arith.select") == 1
    assert count(masked(LOOP + f"out[0] = tile.sum({where.format('t < 3.0')})"), "arith.select") > 1


def test_a_branch_that_says_a_block_is_full():
    body = "s = t + 1.0\n    if k + 16 > n:\n        s = tile.where(tile.arange(k, k + 16) < n, s, 0.0)\n    out[0] = tile.sum(s)"
    assert count(masked(LOOP + body), "arith.select") == 1


def test_zeros_outside_cost_nothing():
    lines = masked(LOOP + "out[0] = tile.sum(tile.load(x[2, k:k+16], other=0.0) + 1.0)")
    assert count(lines, "arith.select") == 0
    assert not any("fill" in line for line in lines)
    assert count(masked(LOOP + "out[0] = tile.sum(tile.fill(t, 1.0))"), "arith.select") == 1


def test_sums_go_on():
    acc = "acc = tile.zeros((16,))\n" + LOOP + "acc {}\nout[0] = tile.sum(acc)"
    added = masked(acc.format("+= t"))
    assert count(added, "arith.select") == 1
    assert count(added, "scf.for") == 1
    assert not any("tile<16xi1>" in line for line in added if "scf.for" in line)
    carried = masked(acc.format("= acc + t"))
    (loop,) = (line for line in carried if "scf.for" in line)
    assert loop.count(" = 4611686018427387904") == 1  # how much of acc exists travels with it


def test_products_of_loads_stay_as_they_are():
    body = "acc = tile.zeros((4, 4))\nfor k in range(0, n, 16):\n    acc += tile.dot(x[0:4, k:k+16], x[0:4, k:k+16].T)\ny[0:4, 0:4] = acc"
    assert count(masked(body), "arith.select") == 0
    shifted = body.replace("x[0:4, k:k+16],", "x[0:4, k:k+16] + 1.0,")
    assert count(masked(shifted), "arith.select") == 1


WHILE = "t = x[r:r+2, c:c+16]\nwhile c < 9:\n    t = {}\n    c = c + 1\ny[0:2, 0:16] = t"


def test_a_while_hands_on_what_exists():
    with pytest.raises(UnsupportedLoop, match="hands on a tile of which not everything may exist") as caught:
        masked(WHILE.format("t + 1.0"))
    assert caught.value.span.line == 4  # behind the line that says @kernel
    assert "tile.fill(t, 0.0)" in caught.value.hint
    filled = WHILE.replace("x[r:r+2, c:c+16]", "tile.load(x[r:r+2, c:c+16], other=0.0)", 1)
    assert count(masked(filled.format("t + 1.0")), "arith.cmpi") == 1  # the loop's own


def test_a_line_is_not_marked_for_a_constant_that_another_line_writes_too():
    text = (
        "@kernel\ndef k(x: f32[m, 64], y: mut f32[m, 64]):\n    for r in tile.range(m, step=8):\n        y[r] = x[r]\n"
    )
    x = np.ones((20, 64), np.float32)
    compiled = compile_source(text).k.compile(x, x.copy(), target="cpu")
    lines = compiled.listing("tile", "tile-mask-absent").lines
    assert [span.line for span in next(line.spans for line in lines if "tessera.load" in line.text)] == [4]
    assert [span.line for span in next(line.spans for line in lines if "scf.for" in line.text)] == [3]
