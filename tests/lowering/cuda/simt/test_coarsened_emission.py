"""Kernels of several elements a lane: the same bits as one lane after the other, in wide accesses."""

from dataclasses import replace

import numpy as np
import pytest

from lowering.cuda.compare import agree, normal, poison
from support import programs
from support.interpret_programs import Writer
from support.simulate import compile_cuda, compile_ptx, ptx_of, same_bits, simulate
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i8, i32, i64
from tessera.core.program.program import Domain, Program
from tessera.runtime.binding.grid import Grid
from tessera.runtime.interpret.run import run

ON_HARDWARE = True


def launch(writer: Writer, *extents: str):
    return writer.program(domain=Domain("lanes", extents or ("n",)))


def sass_of(program: Program, arch: str = "sm_90a") -> str:
    return next(l for l in compile_cuda(program, arch).listings if l.level == "sass").text


@pytest.mark.parametrize("n", [1, 3, 255, 1023, 1024, 1025, 2050])
def test_main_part_and_tail(n: int):
    artifact, _ = agree(programs.saxpy(), [normal(n), normal(n, seed=1), 0.3])
    assert (artifact.launch.elements, artifact.launch.threads, artifact.launch.lanes_per_group) == (4, 256, 1024)
    text = ptx_of(artifact)
    assert text.count("ld.global.v4.b32") == 2
    assert text.count("st.global.v4.b32") == 1


@pytest.mark.parametrize(("dtype", "elements"), [(f64, 2), (f32, 4), (f16, 8), (bf16, 8), (i8, 16)], ids=str)
def test_every_width(dtype: DType, elements: int):
    b = Writer("widths")
    x, y = b.array("x", dtype, "n"), b.array("y", dtype, "n", mutable=True)
    i = b.id("thread")
    b.write(y, b.value("add", b.value("mul", b.read(x, i), b.read(x, i)), b.read(y, i)), i)
    n = 256 * elements + 70
    artifact, _ = agree(launch(b), [normal(n).astype(dtype.numpy), normal(n, seed=1).astype(dtype.numpy)])
    assert artifact.launch.elements == elements


@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (0, 3), (4, 4), (2, 2)])
def test_arrays_that_begin_in_between(offsets: tuple[int, int]):
    """Views: not every one of them is aligned to 16 bytes."""
    n = 2500
    whole = normal(n + 8), normal(n + 8, seed=1)
    x, y = (array[offset : offset + n] for array, offset in zip(whole, offsets, strict=True))
    want = np.float32(0.3) * x + y
    simulate(programs.saxpy(), [x, y, 0.3])
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("n", [700, 1024, 3000])
def test_neighbours(n: int):
    """Shifted reads are masked at both ends of the array; aligned shifts are wide."""
    b = Writer("stencil")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    total = b.read(x, i)
    for shift in (-1, 1, -4, 8):
        total = b.value("add", total, b.read(x, b.value("add", i, b.const(shift))))
    b.write(y, total, i)
    artifact, _ = agree(launch(b), [normal(n), poison(n)])
    assert ptx_of(artifact).count("ld.global.v4.b32") == 3


@pytest.mark.parametrize(("n", "m"), [(2100, 2100), (2100, 1500), (1500, 2100)])
def test_arrays_of_different_lengths(n: int, m: int):
    b = Writer("lengths")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "m", mutable=True)
    i = b.id("thread")
    b.write(y, b.value("add", b.read(x, i), b.read(y, i)), i)
    agree(launch(b, "n", "m"), [normal(n), normal(m, seed=2)])


@pytest.mark.parametrize("columns", [1024, 1030, 1101])
def test_rows_of_a_matrix(columns: int):
    """The rows of the last one begin anywhere."""
    b = Writer("rows")
    x, y = b.array("x", f32, 3, "n"), b.array("y", f32, 3, "n", mutable=True)
    i = b.id("thread")
    with b.when(b.compare("lt", i, b.dim("n"))):
        for row in range(3):
            r = b.const(row)
            b.write(y, b.value("mul", b.read(x, r, i), b.read(x, b.const(2 - row), i)), r, i)
    agree(launch(b), [normal(3, columns), poison(3, columns)])


def test_branches_that_only_some_elements_take():
    b = Writer("branches")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    with b.when(b.compare("lt", i, b.dim("n"))):
        value = b.read(x, i)
        with b.when(b.compare("gt", value, b.const(0.0, f32))):
            b.write(y, b.value("sqrt", value), i)
        with b.when(b.compare("lt", i, b.const(1500))):
            b.write(y, b.value("add", b.read(y, i), value), i)
    agree(launch(b), [normal(2100), normal(2100, seed=4)])


def test_what_runs_once_runs_once():
    """Uniform statements belong to the first lane of the launch; an index of its own is the lane's."""
    b = Writer("once")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    count, ids = b.array("count", f32, 1, mutable=True), b.array("ids", i32, "n", mutable=True)
    zero, i = b.const(0), b.id("thread")
    b.write(count, b.value("add", b.read(count, zero), b.const(1.0, f32)), zero)
    b.write(y, b.value("add", b.read(x, i), b.read(x, zero)), i)
    b.write(ids, b.cast(b.value("add", i, b.id("group_lanes")), i32), i)
    agree(launch(b), [normal(2100), poison(2100), np.zeros(1, np.float32), np.zeros(2100, np.int32)])


def test_flags_and_numbers_together():
    """Elements of 1 and 4 bytes: a vector of four numbers, and one of four flags."""
    b = Writer("flags")
    x, positive = b.array("x", f32, "n"), b.array("positive", boolean, "n", mutable=True)
    kept = b.array("kept", f32, "n", mutable=True)
    i = b.id("thread")
    value, old = b.read(x, i), b.read(positive, i)
    flag = b.value("and", old, b.compare("gt", value, b.const(0.0, f32)))
    b.write(positive, flag, i)
    b.write(kept, b.select(flag, value, b.const(0.0, f32)), i)
    artifact, _ = agree(launch(b), [normal(5000), np.arange(5000) % 3 > 0, poison(5000)])
    assert artifact.launch.elements == 4


SPELLINGS = ("thread", "group and lane", "first and lane")


def index_of(b: Writer, spelling: str, lanes: int):
    """The lane's index in the launch, in the ways users write it."""
    if spelling == "thread":
        return b.id("thread")
    size = b.id("group_lanes") if spelling == "group and lane" else b.const(lanes)
    return b.value("add", b.value("mul", b.id("group"), size), b.id("lane"))


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("n", [1, 127, 256, 1000, 1024])
def test_groups_of_the_kernels_own(spelling: str, n: int):
    """A group is as many lanes as `tile[...]` says, and a quarter of them threads."""
    b = Writer("groups")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = index_of(b, spelling, 256)
    with b.when(b.compare("lt", i, b.dim("n"))):
        b.write(y, b.value("add", b.read(x, i), b.cast(b.id("lane"), f32)), i)
    artifact, _ = agree(b.program(domain=Domain("lanes", ("n",)), group=(256,)), [normal(n), poison(n)])
    assert (artifact.launch.group, artifact.launch.elements, artifact.launch.threads) == ((256,), 4, 64)
    text = ptx_of(artifact)
    assert ".reqntid 64" in text
    assert text.count("ld.global.v4.b32") == 1
    assert text.count("st.global.v4.b32") == 1


@pytest.mark.parametrize("first", [0, 3, 8])
def test_groups_that_begin_anywhere(first: int):
    """What a group adds to its lanes' numbers decides whether vectors can be used; nothing is read outside."""
    b = Writer("anywhere")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    start = b.scalar("start", i64)
    i = b.value("add", b.value("sub", index_of(b, "first and lane", 128), b.const(4)), start)
    b.write(y, b.read(x, i), i)
    program = b.program(domain=Domain("lanes", ("n",)), group=(128,))
    artifact, _ = agree(program, [normal(500), poison(500), first], groups=5)
    assert artifact.launch.elements == 4


def test_groups_of_a_grid_with_two_axes():
    """A lane's index along an axis counts the groups of that axis alone; in the launch, it counts all."""
    b = Writer("axes")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    z = b.array("z", f32, "m", mutable=True)
    i, whole = b.id("thread", 0), b.id("thread")
    value = b.value("mul", b.read(x, i), b.const(2.0, f32))
    b.write(y, value, i)
    b.write(z, value, whole)
    program = b.program(domain=Domain("lanes", ("n", "m")), group=(128,))
    x, y, z = normal(384), poison(384), poison(768)
    artifact = simulate(program, [x, y, z], Grid((3, 2)))
    assert artifact.launch.elements == 4
    assert same_bits(y, 2 * x)
    assert same_bits(z, np.repeat(2 * x.reshape(3, 128), 2, axis=0).ravel())


@pytest.mark.parametrize("lanes", [1000, 3000])
def test_a_launch_of_another_size_than_the_arrays(lanes: int):
    x, y = normal(2048), normal(2048, seed=1)
    want = y.copy()
    run(programs.saxpy(), [x, want, 0.5], symbols={"n": 2048}, grid=(lanes // 8,), group=(8,))
    simulate(programs.saxpy(), [x, y, 0.5], Grid((lanes // 8,), (8,)))
    assert same_bits(y, want)


@pytest.mark.parametrize(("dtype", "arch"), [(f16, "sm_80"), (f16, "sm_90a"), (bf16, "sm_90a")], ids=str)
def test_pairs_of_16_bit_floats_share_an_instruction(dtype: DType, arch: str):
    """With the bits of arithmetic in f32 that rounds back, infinities and denormals included."""
    b = Writer("pairs")
    x, y = b.array("x", dtype, "n"), b.array("y", dtype, "n", mutable=True)
    i = b.id("thread")
    a, c = b.read(x, i), b.read(y, i)
    product = b.value("mul", a, c)
    b.write(y, b.value("max", b.value("sub", b.value("add", product, a), c), product), i)
    program = launch(b)
    random = np.random.default_rng(1)
    values = random.integers(0, 1 << 16, (2, 6000), dtype=np.uint16).view(dtype.numpy)
    values[np.isnan(values.astype(np.float32))] = 1
    with np.errstate(all="ignore"):
        agree(program, list(values), arch=arch)
    text = sass_of(program, arch)
    suffix = ".BF16_V2" if dtype == bf16 else ""
    for name in ("HADD2", "HMUL2", "HMNMX2"):
        assert f"{name}{suffix}" in text


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("elements", [1, 8])
def test_a_fused_multiply_add_of_16_bits_rounds_once(dtype: DType, elements: int):
    b = Writer("fused")
    x, y, z = b.array("x", dtype, "n"), b.array("y", dtype, "n"), b.array("z", dtype, "n", mutable=True)
    i = b.id("thread")
    b.write(z, b.value("fma", b.read(x, i), b.read(y, i), b.read(z, i)), i)
    program = replace(launch(b), options={"elements_per_thread": elements})
    random = np.random.default_rng(0)
    scale = 4.0 ** random.integers(-3, 3, (3, 5000))
    values = (random.standard_normal((3, 5000)) * scale).astype(np.float32).astype(dtype.numpy)
    agree(program, list(values))
    suffix = ".BF16_V2" if dtype == bf16 else ""
    assert f"HFMA2{suffix}" in sass_of(program)


def test_kernels_whose_lanes_look_at_each_other_stay_as_they_are():
    assert compile_ptx(programs.warp_reduce()).launch.elements == 1
    assert compile_ptx(programs.group_sum()).launch.elements == 1
    assert compile_ptx(programs.saxpy(contiguous=False)).launch.elements == 4  # x is strided, y is not


def test_a_gather_alone_gains_nothing():
    b = Writer("gather")
    x, places, y = b.array("x", f32, "n"), b.array("p", i32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    with b.when(b.compare("lt", b.value("mul", i, b.const(2)), b.dim("n"))):
        twice = b.value("mul", i, b.const(2))
        b.write(y, b.read(x, b.cast(b.read(places, twice), i64)), twice)
    order = np.random.default_rng(0).permutation(900).astype(np.int32)
    artifact, _ = agree(launch(b), [normal(900), order, normal(900, seed=3)])
    assert artifact.launch.elements == 1


def test_a_gather_by_neighbouring_lanes():
    b = Writer("gather")
    x, places, y = b.array("x", f32, "n"), b.array("p", i32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    b.write(y, b.read(x, b.cast(b.read(places, i), i64)), i)
    order = np.random.default_rng(0).permutation(2300).astype(np.int32)
    artifact, _ = agree(launch(b), [normal(2300), order, poison(2300)])
    assert artifact.launch.elements == 4


def test_a_schedule_may_choose_the_elements():
    for elements in (1, 2, 8):
        program = replace(programs.saxpy(), options={"elements_per_thread": elements, "threads_per_block": 64})
        artifact, _ = agree(program, [normal(1500), normal(1500, seed=1), 0.3])
        assert (artifact.launch.elements, artifact.launch.threads) == (elements, 64)


def test_heavy_arithmetic_keeps_more_threads():
    b = Writer("heavy")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    value = b.read(x, i)
    for _ in range(20):
        value = b.value("exp", value)
    b.write(y, value, i)
    assert compile_ptx(launch(b)).launch.elements == 2
