"""Extents that one symbol stands for in this launch."""

from frontend.kernels import array, build
from tessera.core.base.dtypes import f32
from tessera.core.program.types import Array

TEXT = """
def k(A: tensor, B: tensor, C: mut[tensor]):
    for m in tile.range(C.shape[0], step=64):
        for n in tile.range(C.shape[1], step=32):
            acc = tile.zeros((64, 32))
            for k in tile.range(A.shape[1], step=16):
                acc += tile.dot(A[m:m+64, k:k+16], B[k:k+16, n:n+32])
            C[m:m+64, n:n+32] = acc
"""


def shapes(*extents: tuple[int, int]) -> list[tuple[int | str, ...]]:
    program = build(TEXT, *(array(f32, *e) for e in extents))
    return [p.value.type.shape for p in program.parameters if isinstance(p.value.type, Array)]


def test_windows_with_one_start_have_one_extent():
    assert shapes((100, 70), (70, 90), (100, 90)) == [
        ("A.shape[0]", "A.shape[1]"), ("A.shape[1]", "B.shape[1]"), ("A.shape[0]", "B.shape[1]")
    ]  # fmt: skip


def test_squares_are_no_reason():
    assert shapes((90, 90), (90, 90), (90, 90)) == shapes((100, 70), (70, 90), (100, 90))


def test_extents_that_differ_stay_apart():
    assert shapes((100, 70), (80, 90), (130, 90)) == [
        ("A.shape[0]", "A.shape[1]"), ("B.shape[0]", "B.shape[1]"), ("C.shape[0]", "B.shape[1]")
    ]  # fmt: skip


def test_the_program_says_what_it_is_built_for():
    program = build(TEXT, *(array(f32, *e) for e in ((100, 70), (70, 90), (100, 90))))
    assert set(program.same_extents) == {((0, 1), (1, 0)), ((0, 0), (2, 0)), ((1, 1), (2, 1))}
    bound = {(s.name, s.parameter, s.axis) for s in program.symbols}
    assert {("A.shape[0]", 0, 0), ("A.shape[0]", 2, 0)} <= bound
