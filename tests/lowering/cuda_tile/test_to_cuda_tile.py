"""Whole kernels: what they compute, and what is refused."""

from collections.abc import Callable

import pytest

from lowering.cuda_tile.compare import agree, agree_with_cpu, names, normal, poison
from support import programs
from support.interpret_programs import Writer
from support.tile_cases import Case, attention, cases, swap
from support.tile_machine import lowered
from tessera.core.base.dtypes import DType, bf16, f16, f32
from tessera.core.errors.catalog import NotOnCudaTile
from tessera.core.program.program import Program
from tessera.core.program.types import Array

PLAIN = ("tile_copy", "countdown", "shapes", "shift", "swap", "control", "strided", "matmul", "accumulate", "fused_mlp")


@pytest.mark.parametrize("case", [c for c in cases() if c.name.startswith(PLAIN)], ids=lambda c: c.name)
def test_kernels(case: Case):
    agree(case.program, case.fresh(), case.groups)


@pytest.mark.parametrize(("columns", "rows"), [(40, 3), (256, 4), (300, 2)])
def test_softmax_has_the_bits_of_the_cpu_target(columns: int, rows: int):
    agree_with_cpu(programs.softmax_rows(columns, rows), [normal(7, columns), poison(7, columns)])


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_attention(dtype: DType):
    inputs = [normal(40, 16, dtype=dtype.numpy, seed=n) for n in range(3)]
    agree_with_cpu(attention(16, 16, 16, dtype), [*inputs, poison(40, 16)])


LANES: dict[Callable[[], Program], str] = {
    programs.saxpy: "index of a lane",
    programs.warp_reduce: "index of a lane",
    programs.group_sum: "shared memory",
    programs.pipeline: "shared memory",
}


@pytest.mark.parametrize("make", LANES, ids=lambda f: f.__name__)
def test_what_lanes_do_is_refused_at_their_line(make: Callable[[], Program]):
    with pytest.raises(NotOnCudaTile, match=LANES[make]) as caught:
        lowered(make())
    error = caught.value
    assert error.code == "TSR-E708"
    assert 'compile this one for "cuda"' in (error.hint or "")
    assert error.span in {op.span for op in make().body.walk()}


def test_a_barrier_among_tiles_is_nothing():
    b = Writer("barrier")
    x, out = b.array("x", f32, 16), b.array("out", f32, 16, mutable=True)
    zero = b.const(0)
    tile = b.load(x, [zero], [16])
    b.barrier()
    b.store(out, tile, [zero], [16])
    agree(b.program(), [normal(16), poison(16)])


def test_a_reshape_that_would_move_padding_is_refused():
    b = Writer("reshape")
    x, out = b.array("x", f32, 5, 6), b.array("out", f32, 30, mutable=True)
    zero = b.const(0)
    b.say("    out[:] = x.reshape(30)")
    b.store(out, b.reshape(b.load(x, [zero, zero], [5, 6]), 30), [zero], [30])
    with pytest.raises(NotOnCudaTile, match=r"\(5, 6\) as \(30,\)") as caught:
        lowered(b.program())
    assert caught.value.span.line == 2


def test_aligned_arrays_say_so():
    program = programs.matmul(16, 16, 16, bf16)
    for parameter in program.parameters:
        kind = parameter.value.type
        assert isinstance(kind, Array)
        if not parameter.mutable:
            object.__setattr__(parameter.value, "type", Array(bf16, kind.shape, aligned=True))
    _, entry = lowered(program)
    assumed = [dict(op.attributes) for op in entry.body.instructions if op.name == "assume"]
    assert {"bounded": (0, (1 << 31) - 1)} in assumed
    assert {"div_by": 8} in assumed
    assert {"div_by": 16} in assumed
    left, right = normal(24, 40, dtype=bf16.numpy), normal(40, 16, dtype=bf16.numpy)
    agree(program, [left, right, poison(24, 16)])


def test_a_carried_tile_that_becomes_another_one_is_chosen():
    found = names(lowered(swap())[1])
    assert "select" in found[found.index("for") :]
    assert "select" not in names(lowered(programs.accumulate(16, 8, 16))[1])
