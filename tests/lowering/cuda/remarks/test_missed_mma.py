"""Products that miss the tensor cores: the reason is the one that decided, the remedy helps, and nobody else is told."""

from dataclasses import replace

import pytest

from lowering.cuda.cases import Maker
from support.product_programs import matrix_product
from support.simulate import compile_ptx
from tessera.core.base.dtypes import bf16, f16, f32
from tessera.core.program.program import Program
from tessera.lowering.cuda.resources import resource_report, warnings_of

Shape = tuple[int, int, int]

LOST: list[tuple[str, Program, str, str]] = [
    ("sm_90a", matrix_product((256, 256, 64), num_warps=4),
     "the largest tile takes 512 registers of each lane of 4 warps, and 256 is the most",
     "more warps (the option `num_warps`) or smaller blocks"),
    ("sm_80", matrix_product((512, 256, 32), f16),
     "the largest tile takes 512 registers of each lane of 8 warps, and 256 is the most",
     "more warps (the option `num_warps`) or smaller blocks"),
    ("sm_80", matrix_product((256, 256, 512), num_warps=16),
     "its factors do not fit the 166,912 bytes of shared memory", "smaller blocks"),
    ("sm_90a", matrix_product((128, 96, 64)),
     "not all of its extents 128 x 96 x 64 (M x N x K) are powers of two", "extents that are"),
    ("sm_80", matrix_product((8, 32, 32)),
     "its extents 8 x 32 x 32 (M x N x K) are less than their 16 x 8 x 16", "larger blocks"),
    ("sm_89", matrix_product((8, 8, 8), f32, compute="tf32"),
     "its extents 8 x 8 x 8 (M x N x K) are less than their 16 x 8 x 8", "larger blocks"),
    ("sm_90a", matrix_product((128, 48, 32), f32, compute="tf32"),
     "not all of its extents 128 x 48 x 32 (M x N x K) are powers of two", "extents that are"),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "program", "reason", "remedy"), LOST, ids=[case[2] for case in LOST])
def test_what_is_lost_is_named_with_its_line_and_a_remedy(arch: str, program: Program, reason: str, remedy: str):
    artifact = compile_ptx(program, arch)
    assert "mma.sync" not in artifact.code.decode()
    (line,) = (op.span.line for op in program.body.walk() if op.opcode == "dot")
    expected = (
        f"product (cell.py, line {line}): the product has no tensor cores on {arch}, because {reason}: try {remedy}"
    )
    assert warnings_of(artifact) == (expected,)
    assert expected in resource_report(artifact).notes


@pytest.mark.parametrize(
    ("arch", "program"),
    [
        ("sm_90a", matrix_product((256, 256, 64), num_warps=16)),  # the remedies of what stands above
        ("sm_80", matrix_product((512, 256, 32), f16, num_warps=16)),
        ("sm_80", matrix_product((256, 256, 64), num_warps=16)),
        ("sm_90a", matrix_product((128, 128, 64))),
        ("sm_80", matrix_product((16, 8, 16))),
        ("sm_90a", matrix_product((128, 128, 64), num_warps=2)),  # single warps: not as fast, but tensor cores
        ("sm_80", matrix_product((64, 64, 32), f32)),  # no tensor core is exact
        ("sm_80", matrix_product((48, 48, 32), f32)),
    ],
    ids=str,
)
def test_nothing_is_said_of_what_has_them_and_of_what_cannot(arch: str, program: Program):
    assert compile_ptx(program, arch).remarks == ()


def beside(columns: int, shape: tuple[int, ...]) -> Program:
    """A product that fits, one of so many columns, and an array of 192 elements as another shape."""
    b = Maker("beside")
    a, w, v = (b.matrix(name, bf16, 64, 64, wide=True) for name in "awv")
    c, d = (b.matrix(name, f32, 64, 64, wide=True, mutable=True) for name in "cd")
    x, y = b.matrix("x", f32, 3, 64), b.matrix("y", f32, *shape, mutable=True)
    zero = b.const(0)
    left = b.load(a, [zero, zero], [64, 64])
    b.store(c, b.dot(left, b.load(w, [zero, zero], [64, 64]), dtype=f32), [zero, zero], [64, 64])
    b.store(d, b.dot(left, b.load(v, [zero, zero], [64, columns]), dtype=f32), [zero, zero], [64, columns])
    b.store(y, b.reshape(b.load(x, [zero, zero], [3, 64]), *shape), [zero] * len(shape), shape)
    return b.program()


def test_one_product_takes_the_tensor_cores_from_another():
    program = beside(48, (3, 64))
    first, second = (op.span.line for op in program.body.walk() if op.opcode == "dot")
    lost = compile_ptx(program, "sm_80").remarks
    assert [remark.span.line for remark in lost] == [first, second]
    assert f"another product of the kernel keeps all tiles in memory (line {second}): try blocks" in lost[0].text
    assert "of its extents 64 x 48 x 64" in lost[1].text


def test_an_operation_that_keeps_tiles_in_memory_is_named():
    program = beside(32, (192,))
    (line,) = (op.span.line for op in program.body.walk() if op.opcode == "reshape")
    lost = compile_ptx(program, "sm_80").remarks
    assert len(lost) == 2
    assert f"`reshape` keeps the kernel's tiles in memory (line {line}): try another kernel for that" in lost[0].text
    assert compile_ptx(beside(32, (3, 64)), "sm_80").remarks == ()


def test_kernels_that_say_what_lanes_do_are_their_authors_affair():
    b = Maker("lanes")
    a, w, c = b.matrix("a", bf16, 64, 64), b.matrix("w", bf16, 64, 64), b.matrix("c", f32, 64, 64, mutable=True)
    zero = b.const(0)
    factors = [b.load(memory, [zero, zero], [64, 64]) for memory in (a, w)]
    b.store(c, b.dot(*factors, dtype=f32), [zero, zero], [64, 64])
    assert compile_ptx(replace(b.program(), group=(128, 1, 1)), "sm_80").remarks == ()
