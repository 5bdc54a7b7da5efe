"""Reductions of blocks that reach past the end of an array."""

from frontend.kernels import array, build
from tessera.core.dtypes import f32, i32
from tessera.core.program.program import Program

TEXT = "def k(x: {0}[n], y: mut {0}[m]):\n    for t in tile.range(n, step=128):\n        y[t // 128] = tile.max(x[t : t + 128])\n"


def opcodes(program: Program) -> list[str]:
    return [op.opcode for op in program.body.walk()]


def test_elements_outside_are_the_identity():
    program = build(TEXT.format("f32"), array(f32, 200), array(f32, 2))
    assert opcodes(program).count("arange") == 1
    constants = [op.attributes["value"] for op in program.body.walk() if op.opcode == "const"]
    assert float("-inf") in constants


def test_integers_have_their_own_identity():
    program = build(TEXT.format("i32"), array(i32, 200), array(i32, 2))
    assert -(2**31) in [op.attributes["value"] for op in program.body.walk() if op.opcode == "const"]


def test_a_named_block_counts_as_loaded():
    text = (
        TEXT.format("f32")
        .replace("tile.max(x[t : t + 128])", "tile.min(b)")
        .replace("        y[t", "        b = x[t : t + 128]\n        y[t")
    )
    assert "arange" in opcodes(build(text, array(f32, 200), array(f32, 2)))


def test_whole_axes_and_sums_stay_as_they_are():
    rows = "def k(x: f32[m, n], y: mut f32[m, n]):\n    for r in tile.range(x, axis=0, step=4):\n        y[r] = tile.softmax(x[r], axis=-1)\n"
    assert "arange" not in opcodes(build(rows, array(f32, 8, 64), array(f32, 8, 64)))
    assert "arange" not in opcodes(build(TEXT.format("f32").replace("max", "sum"), array(f32, 200), array(f32, 2)))
