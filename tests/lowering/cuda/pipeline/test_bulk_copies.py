"""No address that a bulk copy is given can be unaligned, whatever parts of arrays a kernel reads and writes.

Shapes are those at which the copy engine, rings and persistent blocks are used; nothing is run.
"""

import re
from dataclasses import replace
from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agreement.test_shipped import CALLS
from support.bulk_copies import LowBits, bulk_copies, unproven
from support.ptx_machine import parse
from support.shifted_products import Shifts, shifted
from support.simulate import compile_ptx
from tessera.api.source_module import compile_source
from tessera.core.artifact import Artifact
from tessera.core.base.dtypes import DType, bf16, f16, f32, fp8_e4m3
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel

ARCHITECTURES: Final = ("sm_80", "sm_89", "sm_90a", "sm_90a", "sm_90a", "sm_100a")


def instructions(artifact: Artifact) -> int:
    return len(list(bulk_copies(parse(artifact.code.rstrip(b"\0").decode()))))


# -- products ----------------------------------------------------------------------------------------------------------

offsets = st.one_of(st.sampled_from([0, 8, 16, -16, 64]), st.integers(-17, 17), st.just("s"))
tiles = st.sampled_from([(128, 128, 64), (128, 256, 64), (64, 128, 32), (64, 64, 64), (256, 128, 32), (128, 128, 16)])
shifts_drawn = st.builds(
    Shifts, left=offsets, right=offsets, result=offsets, turned=st.tuples(st.booleans(), st.booleans()),
    rows=st.tuples(*[st.integers(-3, 3)] * 3), first=st.sampled_from([0, 0, 0, 1, 4, 8, 128]),
)  # fmt: skip
numbers_drawn = st.sampled_from([(bf16, ""), (f16, ""), (f32, ""), (f32, "tf32"), (fp8_e4m3, "")])


@settings(max_examples=25, deadline=None)
@given(
    shifts=shifts_drawn, tile=tiles, numbers=numbers_drawn, result=st.sampled_from([f32, bf16]),
    aligned=st.sampled_from([(True, True, True)] * 3 + [(False, True, True), (True, True, False), (False, False, False)]),
    arch=st.sampled_from(ARCHITECTURES),
)  # fmt: skip
def test_products_of_any_parts(
    shifts: Shifts, tile: tuple[int, int, int], numbers: tuple[DType, str], result: DType,
    aligned: tuple[bool, bool, bool], arch: str,
):  # fmt: skip
    dtype, compute = numbers
    artifact = compile_ptx(shifted(shifts, dtype, result, compute, tile, aligned), arch)
    assert unproven(artifact) == []


@pytest.mark.parametrize("tile", [(128, 128, 64), (128, 256, 64), (64, 128, 32)], ids=str)
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False)], ids=str)
@pytest.mark.parametrize("dtype", [bf16, f16], ids=str)
def test_whole_multiples_of_16_bytes_stay_with_the_copy_engine(
    dtype: DType, turned: tuple[bool, bool], tile: tuple[int, int, int]
):
    """The same instructions as without offsets."""
    plain = Shifts(turned=turned)
    moved = replace(plain, left=16, right=-8, result=24, rows=(1, 2, 3))
    counts = [instructions(compile_ptx(shifted(shifts, dtype, dtype, tile=tile))) for shifts in (plain, moved)]
    assert counts[0] == counts[1] > 0


# -- what else kernels read and write ----------------------------------------------------------------------------------

SOURCE: Final = """
@kernel
def bias(a: DT[M, K], b: DT[K, N], c: DT[L], y: mut f32[M, N], s: i64):
    for m in tile.range(M, step=128):
        for n in tile.range(N, step=128):
            acc = tile.zeros((128, 128))
            for k in range(0, K, 64):
                acc += tile.dot(a[m:m+128, k:k+64], b[k:k+64, n:n+128])
            y[m:m+128, n:n+128] = acc + tile.cast(c[n+OFFSET:n+OFFSET+128], f32)

@kernel
def added(a: DT[M, K], b: DT[K, N], c: DT[M, L], y: mut f32[M, N], s: i64):
    for m in tile.range(M, step=128):
        for n in tile.range(N, step=128):
            acc = tile.zeros((128, 128))
            for k in range(0, K, 64):
                acc += tile.dot(a[m:m+128, k:k+64], b[k:k+64, n:n+128])
            y[m:m+128, n:n+128] = acc + tile.cast(c[m:m+128, n+OFFSET:n+OFFSET+128], f32)

@kernel
def chained(a: DT[M, K], b: DT[K, N], c: DT[N, L], y: mut f32[M, N], s: i64):
    for m in tile.range(M, step=128):
        acc = tile.zeros((128, 64))
        for n in range(0, N, 128):
            scores = tile.dot(a[m:m+128, 0:64], b[0:64, n+OFFSET:n+OFFSET+128])
            acc += tile.dot(tile.cast(scores, DT), c[n:n+128, OFFSET:OFFSET+64])
        y[m:m+128, OFFSET:OFFSET+64] = acc

@kernel
def windows(a: DT[M, K], b: DT[K, N], c: DT[M, L], y: mut f32[M, N], s: i64):
    for m in tile.range(M, step=8):
        for n in tile.range(N, step=256):
            y[m:m+8, n:n+256] = tile.cast(c[m:m+8, n+OFFSET:n+OFFSET+256], f32)

@kernel
def taps(a: DT[M, K], b: DT[K, N], c: DT[K, L], y: mut f32[M, N], s: i64):
    for m in tile.range(M, step=128):
        for n in tile.range(N, step=128):
            acc = tile.zeros((128, 128))
            for e in range(3):
                j = n + e * OFFSET
                for k in range(0, K, 64):
                    acc += tile.dot(a[m:m+128, k:k+64], c[k:k+64, j:j+128])
            y[m:m+128, n:n+128] = acc

@kernel tile[(128,)] shared(4_KiB)
def lanes(a: DT[M, K], b: DT[K, N], c: DT[L], y: mut DT[L], s: i64):
    buffer = tshared.alloc[DT](128)
    first = group_linear_id() * 128
    cp_async.shared.global(buffer, c[first+OFFSET:first+OFFSET+128])
    tbarrier()
    if first + tile.linear_id() < L:
        y[first + tile.linear_id()] = buffer[tile.linear_id()]
"""
"""Kernels with one parameter list; those of vectors take one row of c, and y of lanes is of its type."""


def compiled(name: str, dtype: DType, offset: str, arch: str) -> Artifact:
    module = compile_source(SOURCE.replace("DT", dtype.name).replace("OFFSET", offset))
    kernel: Kernel = getattr(module, name)
    size = 512
    c: tuple[int, ...] = (size,) if name in ("bias", "lanes") else (size, size)
    y = np.zeros(size, dtype.numpy) if name == "lanes" else np.zeros((size, size), np.float32)
    arrays = [np.zeros(shape, dtype.numpy) for shape in ((size, size), (size, size), c)]
    return compile_ptx(kernel.compile_quietly(*arrays, y, 1, target=f"cuda:{arch}").program, arch)


@settings(max_examples=16, deadline=None)
@given(
    name=st.sampled_from(["bias", "added", "chained", "windows", "taps", "lanes"]), dtype=st.sampled_from([bf16, f16, f32]),
    offset=st.one_of(st.sampled_from(["s", "8", "(s*8)", "(s*2+1)"]), st.integers(0, 17).map(str)),
    arch=st.sampled_from(ARCHITECTURES),
)  # fmt: skip
def test_parts_of_everything_else(name: str, dtype: DType, offset: str, arch: str):
    assert unproven(compiled(name, dtype, offset, arch)) == []


@pytest.mark.parametrize("name", ["chained", "taps"])
def test_numbers_times_eight_are_multiples_of_eight(name: str):
    artifact = compiled(name, bf16, "(s*8)", "sm_90a")
    assert instructions(artifact) > 2
    assert unproven(artifact) == []


@pytest.mark.parametrize("call", CALLS)
def test_what_is_shipped(call: str):
    with overridden(target="cuda:sm_90a"):
        for launch in CALLS[call]().launches:
            assert unproven(compile_ptx(launch.kernel.program(launch.arguments))) == []


# -- the checker itself ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moved", [1, 4, 8, 64])
def test_the_checker_finds_what_is_moved_by_too_little(moved: int):
    """The first coordinate of every copy, which is a multiple of 64 here, and some elements more."""
    artifact = compile_ptx(shifted(Shifts(), bf16, bf16))
    pattern = re.compile(r"(cp\.async\.bulk\.tensor[^\n]*\{)(%r\d+)(, %r\d+\}[^\n]*)")
    text = artifact.code.decode()
    found = pattern.findall(text)
    assert len(found) > 2
    text = pattern.sub(rf"add.s32 %r9999, \2, {moved};\n\t\1%r9999\3", text)
    wrong = unproven(replace(artifact, code=text.encode()))
    assert len(wrong) == (0 if moved % 8 == 0 else len(found))


def test_low_bits_go_through_loops_and_branches():
    kernel = parse("""
.visible .entry f(.param .u64 f_param_0)
.reqntid 32, 1, 1
{
	ld.param.u64 	%rd1, [f_param_0];
	shl.b64 	%rd2, %rd1, 3;
	mov.b64 	%rd3, 0;
$L__BB0_1:
	add.s64 	%rd3, %rd3, 64;
	or.b64 	%rd4, %rd2, 5;
	and.b64 	%rd5, %rd1, -16;
	selp.b64 	%rd6, %rd2, %rd3, %p1;
	mad.lo.s64 	%rd7, %rd1, 24, 8;
	cvt.u32.u64 	%r1, %rd7;
	sub.s32 	%r2, %r1, 8;
	mul.wide.u32 	%rd8, %r2, 4;
	div.u64 	%rd9, %rd3, 2;
	@%p1 bra 	$L__BB0_1;
}
""")
    known = LowBits(kernel)
    assert [known.of(f"%rd{number}").zeros for number in (1, 2, 3, 5, 6, 7, 8, 9)] == [0, 3, 6, 4, 3, 3, 5, 0]
    assert (known.of("%rd4").bits, known.of("%rd4").value) == (3, 5)
    assert known.of("%r2").zeros == 3
