"""Remarks about loops that stay in one group: the line, the two accesses, the remedy."""

import pytest

from frontend.kernels import array, build
from tessera.core.artifact import LaunchRule
from tessera.core.base.dtypes import f32, i64
from tessera.core.targets import Target
from tessera.lowering.driver.compile import compile_program
from tessera.lowering.program.serial_loop_remarks import serial_remarks

HEAD = "@kernel\ndef k(x: f32[n, 64], i: i64[n], y: mut f32[n, 64], s: mut f32[n]):\n"


def program(body: str):
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    return build(text, array(f32, 100, 64), array(i64, 100), array(f32, 100, 64), array(f32, 100))


REMARKS = {
    "for r in tile.range(n):\n    y[i[r], :] = x[r, :]":
        "line 4 may write the same elements of y in two of them; where no two trips meet, say so: "
        "tile.range(..., parallel=True)",
    "for r in tile.range(n, step=8):\n    t = y[r+8:r+16, :]\n    y[r:r+8, :] = t":
        "line 5 may write elements of y that line 4 reads in another; where no two trips meet, say so: "
        "tile.range(..., parallel=True)",
    "for r in tile.range(n):\n    y[r, :] = x[r, :]\n    y[r + 1, 0] = 0.0":
        "line 4 may write elements of y that line 5 writes in another; where no two trips meet, say so: "
        "tile.range(..., parallel=True)",
    "for c in tile.range(64):\n    for r in tile.range(n, step=8):\n        y[r:r+8, :] += x[r:r+8, :]":
        "line 5 reads and writes the same elements of y in all of them; let it be the innermost loop, around a variable "
        "that holds the sum",
    "total = 0.0\nfor r in tile.range(n):\n    total += s[r]\ns[0] = total":
        "each needs total of the one before; sums into an array, out[0] += ..., need no order",
    "for r in tile.range(i[0]):\n    y[r, :] = x[r, :]":
        "its bounds are not made of extents and numbers; loop over an extent, with a branch or a range inside",
    "for t in range(3):\n    for r in tile.range(n):\n        y[r, :] += x[r, :]":
        "it stands in another loop or branch, which one group runs; let it be the outer one",
}  # fmt: skip


@pytest.mark.parametrize(("body", "text"), REMARKS.items())
def test_remarks(body: str, text: str):
    (remark,) = serial_remarks(program(body), LaunchRule("single"))
    assert remark.text == f"the trips of this loop run one after the other: {text}"
    assert remark.span.line == 3 + next(n for n, line in enumerate(body.splitlines()) if "tile.range" in line)
    assert remark.concerns


@pytest.mark.parametrize("target", [Target("cpu", "generic"), Target("cuda", "sm_90a"), Target("cuda_tile", "sm_90")])
def test_artifacts_carry_them(target: Target):
    body = next(iter(REMARKS))
    (remark,) = compile_program(program(body), target, observe=False).artifact.remarks
    assert remark.concerns == (0, 1, 2)
    spread = program("for r in tile.range(n):\n    y[r, :] = x[r, :]")
    assert compile_program(spread, target, observe=False).artifact.remarks == ()


@pytest.mark.parametrize("loop", ["range(n)", "tile.range(n, parallel=False)"])
def test_nothing_of_loops_of_which_order_is_asked(loop: str):
    assert serial_remarks(program(f"for r in {loop}:\n    y[i[r], :] = x[r, :]"), LaunchRule("single")) == ()
