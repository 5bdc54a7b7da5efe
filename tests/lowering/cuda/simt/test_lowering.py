"""Lane-level kernels: what the GPU's instructions compute, against the interpreter, bit for bit."""

import numpy as np
import pytest

from lowering.cuda.compare import agree, normal, poison
from support import programs
from support.interpret_programs import Writer
from support.simulate import compile_ptx, ptx_of, same_bits, simulate
from tessera.core.base.dtypes import ALL, DType, bf16, boolean, f16, f32, f64, i8, i32, i64, u8, u32
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.program.program import Domain
from tessera.core.program.spec import PREDICATES
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.launch.cpu import CpuLauncher

ON_HARDWARE = True

FLOAT_OPERATIONS = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "neg", "abs", "sqrt", "floor", "ceil")
INTEGER_OPERATIONS = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "and", "or", "xor", "shl", "shr", "pow")
BOOLEAN_OPERATIONS = ("and", "or", "xor", "not", "add", "mul", "min", "max")
UNARY = ("neg", "abs", "sqrt", "floor", "ceil", "not")
COUNT = 96
# What is only stored (8-bit floats) is neither computed with nor converted here.
COMPUTED = tuple(dtype for dtype in ALL if not dtype.is_storage)


def lanes(writer: Writer, count: int):
    """A program whose one group has `count` lanes."""
    return writer.program(group=(count,), domain=Domain("lanes", (count,)))


def special(dtype: DType) -> np.ndarray:
    random = np.random.default_rng(3)
    if dtype.kind == "bool":
        return random.integers(0, 2, COUNT).astype(bool)
    if dtype.is_float:
        values = random.standard_normal(COUNT) * np.where(random.random(COUNT) < 0.3, 1e4, 1)
        values[:9] = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 6e-5, 1e-40]
        return values.astype(np.float32).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    values = random.integers(max(info.min, -1000), min(info.max, 1000), COUNT, dtype=dtype.numpy, endpoint=True)
    values[:4], values[4], values[5] = [0, 1, 2, 3], info.max, info.min
    values[6:20] = random.integers(0, 70, 14).astype(dtype.numpy)
    return values


@pytest.mark.parametrize("dtype", COMPUTED, ids=lambda d: d.name)
def test_arithmetic_of_every_dtype(dtype: DType):
    operations = FLOAT_OPERATIONS if dtype.is_float else BOOLEAN_OPERATIONS if dtype == boolean else INTEGER_OPERATIONS
    b = Writer("battery")
    a, c = b.array("a", dtype, "n"), b.array("b", dtype, "n")
    names = [*operations, *(PREDICATES if dtype != boolean else ("eq", "ne"))]
    outputs = [b.array(f"o_{n}", boolean if n in PREDICATES else dtype, "n", mutable=True) for n in names]
    i = b.id("thread")
    with b.when(b.compare("lt", i, b.dim("n"))):
        x, y = b.read(a, i), b.read(c, i)
        for name, out in zip(names, outputs, strict=True):
            value = b.compare(name, x, y) if name in PREDICATES else b.value(name, *((x,) if name in UNARY else (x, y)))
            b.write(out, value, i)
    x = special(dtype)
    y = np.random.default_rng(5).permutation(x)
    filled = [np.zeros(COUNT, out.type.dtype.numpy) for out in outputs]
    agree(b.program(domain=Domain("lanes", ("n",))), [x, y, *filled])


@pytest.mark.parametrize("source", [f32, f16, bf16, i64, i8, u8, u32, boolean], ids=lambda d: d.name)
def test_casts_to_every_dtype(source: DType):
    b = Writer("casts")
    a = b.array("a", source, "n")
    targets = [d for d in COMPUTED if d != source]
    outputs = [b.array(f"o_{d.name}", d, "n", mutable=True) for d in targets]
    i = b.id("thread")
    value = b.read(a, i)
    for dtype, out in zip(targets, outputs, strict=True):
        b.write(out, b.cast(value, dtype), i)
    filled = [np.zeros(COUNT, d.numpy) for d in targets]
    agree(b.program(domain=Domain("lanes", ("n",))), [special(source), *filled])


@pytest.mark.parametrize("dtype", [f32, f64, f16, bf16], ids=lambda d: d.name)
def test_mathematical_functions_have_the_cpus_bits(dtype: DType):
    b = Writer("functions")
    a, c = b.array("a", dtype, "n"), b.array("b", dtype, "n")
    names = ("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "rsqrt", "pow")
    outputs = [b.array(f"o_{n}", dtype, "n", mutable=True) for n in names]
    i = b.id("thread")
    with b.when(b.compare("lt", i, b.dim("n"))):
        x, y = b.read(a, i), b.read(c, i)
        for name, out in zip(names, outputs, strict=True):
            b.write(out, b.value(name, *((x, y) if name == "pow" else (x,))), i)
    program = b.program(domain=Domain("lanes", ("n",)))
    x = special(dtype)
    y = np.random.default_rng(5).permutation(x)
    got, want = ([x, y, *(np.zeros(COUNT, dtype.numpy) for _ in names)] for _ in range(2))
    simulate(program, got)
    CpuLauncher(compile_program(program, host_target(), observe=False).artifact)(*want)
    for name, g, w in zip(names, got[2:], want[2:], strict=True):
        assert same_bits(g, w), name


def test_a_shift_by_more_than_32_bits_can_say():
    """LLVM would read only the low half of such an amount."""
    b = Writer("shifts")
    a, c = b.array("a", i64, "n"), b.array("b", i64, "n")
    left, right = (b.array(n, i64, "n", mutable=True) for n in ("left", "right"))
    i = b.id("thread")
    b.write(left, b.value("shl", b.read(a, i), b.read(c, i)), i)
    b.write(right, b.value("shr", b.read(a, i), b.read(c, i)), i)
    amounts = np.array([0, 1, 63, 64, 1 << 32, -(1 << 63), -1, 1 << 40], np.int64)
    agree(
        b.program(domain=Domain("lanes", ("n",))),
        [np.full(8, 826, np.int64), amounts, np.zeros(8, np.int64), np.zeros(8, np.int64)],
    )


def test_scalars_of_every_dtype_arrive():
    b = Writer("scalars")
    dtypes = [d for d in COMPUTED if d != boolean]
    outputs = [b.array(f"o_{d.name}", d, 4, mutable=True) for d in dtypes]
    scalars = [b.scalar(f"s_{d.name}", d) for d in dtypes]
    flag = b.scalar("flag", boolean)
    i = b.id("lane")
    for out, scalar in zip(outputs, scalars, strict=True):
        b.write(out, b.select(flag, scalar, b.value("add", scalar, scalar)), i)
    for value in (True, False):
        agree(lanes(b, 4), [*(np.zeros(4, d.numpy) for d in dtypes), *(3 for _ in dtypes), value])


@pytest.mark.parametrize("n", [1, 31, 255, 256, 300])
def test_saxpy(n: int):
    _, (x, y, _) = agree(programs.saxpy(), [normal(n), normal(n, seed=1), 0.3])
    np.testing.assert_array_equal(y, np.float32(0.3) * x + normal(n, seed=1))


def test_strided_arrays():
    x = normal(600)[::2]
    agree(programs.saxpy(contiguous=False), [x, normal(300), 1.5])


@pytest.mark.parametrize("groups", [1, 3])
def test_group_sum(groups: int):
    agree(programs.group_sum(), [normal(1000), poison(groups)], groups)


def test_uniform_statements_run_once():
    """Three times: read, modify, write for the group; then every lane reads the result."""
    b = Writer("rmw")
    x, out = b.array("x", f32, "n", mutable=True), b.array("out", f32, "m", mutable=True)
    zero, one, lane = b.const(0), b.const(1.0, f32), b.id("lane")
    for _ in range(3):
        b.write(x, b.value("add", b.read(x, zero), one), zero)
        b.write(out, b.value("add", b.read(out, lane), b.read(x, zero)), lane)
    artifact, _ = agree(lanes(b, 96), [normal(4), normal(96)])
    assert "bar.sync" in ptx_of(artifact)


def test_a_uniform_loop_belongs_to_lane_0():
    """No barrier inside: lane 0 keeps its own order."""
    b = Writer("running")
    x = b.array("x", f32, "n", mutable=True)
    with b.loop(b.const(1), b.dim("n"), b.const(1)) as loop:
        before = b.read(x, b.value("sub", loop.index, b.const(1)))
        b.write(x, b.value("add", b.read(x, loop.index), before), loop.index)
    artifact, _ = agree(lanes(b, 96), [normal(40)])
    assert "bar.sync" not in ptx_of(artifact)


def test_uniform_reads_between_lanes_writes():
    b = Writer("between")
    x, out = b.array("x", f32, "n", mutable=True), b.array("out", f32, "m", mutable=True)
    lane = b.id("lane")
    with b.loop(b.const(0), b.dim("n"), b.const(1), [b.const(0.0, f32)]) as loop:
        value = b.read(x, loop.index)
        b.write(x, b.value("mul", value, value), loop.index)
        b.write(out, b.value("add", b.read(out, lane), value), lane)
        loop.yields = (b.value("add", loop.carried[0], b.read(x, loop.index)),)
    b.write(out, b.value("add", b.read(out, lane), loop.results[0]), lane)
    agree(lanes(b, 96), [normal(5), normal(96)])


@pytest.mark.parametrize("size", [32, 40, 128])
@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("mode", ["down", "up", "xor", "idx"])
def test_shuffles_in_full_and_in_short_warps(mode: str, width: int, size: int):
    b = Writer("shuffles")
    x, out = b.array("x", f32, "n"), b.array("out", f32, 2, "n", mutable=True)
    lane = b.id("lane")
    value = b.read(x, lane)
    b.write(out, b.shuffle(value, b.const(3), mode, width), b.const(0), lane)
    b.write(out, b.shuffle(value, b.value("mod", lane, b.const(11)), mode, width), b.const(1), lane)
    agree(lanes(b, size), [normal(size), poison(2, size)])


@pytest.mark.parametrize("dtype", [d for d in ALL if d != f32], ids=lambda d: d.name)
def test_shuffles_of_every_dtype(dtype: DType):
    b = Writer("shuffles")
    x, out = b.array("x", dtype, "n"), b.array("out", dtype, "n", mutable=True)
    lane = b.id("lane")
    b.write(out, b.shuffle(b.read(x, lane), b.const(1), "xor"), lane)
    agree(lanes(b, COUNT), [special(dtype), np.zeros(COUNT, dtype.numpy)])


def test_shuffles_among_the_lanes_that_are_left():
    b = Writer("some")
    x, out = b.array("x", f32, "n"), b.array("out", f32, "n", mutable=True)
    lane = b.id("lane")
    value = b.read(x, lane)
    with b.when(b.compare("lt", lane, b.const(19))):
        value2 = b.shuffle(value, b.const(4))
        with b.loop(b.const(0), b.value("mod", lane, b.const(3)), b.const(1), [value2]) as loop:
            loop.yields = (b.shuffle(loop.carried[0], b.const(2)),)
        b.write(out, loop.results[0], lane)
    agree(lanes(b, 64), [normal(64), poison(64)])


def test_warp_sums_of_a_whole_launch():
    agree(programs.warp_reduce(), [normal(300), poison(10)])


@pytest.mark.parametrize("size", [4, 32, 64])
def test_cooperative_groups(size: int):
    b = Writer("groups")
    x, out = b.array("x", i32, "n"), b.array("out", i32, "n", mutable=True)
    buffer = b.alloc(i32, 160)
    lane = b.id("lane")
    b.write(buffer, b.read(x, lane), lane)
    b.op("group_sync", size=size)
    rank = b.value("mod", lane, b.const(size))
    first = b.value("sub", lane, rank)
    other = b.value("add", first, b.value("mod", b.value("add", rank, b.const(1)), b.const(size)))
    b.write(out, b.read(buffer, other), lane)
    agree(lanes(b, 160), [np.arange(160, dtype=np.int32), np.zeros(160, np.int32)])


@pytest.mark.parametrize("lanes_of_group", [1024, 1000])
def test_more_cooperative_groups_than_the_hardware_has_barriers(lanes_of_group: int):
    """Sixteen groups of 64 lanes, and one more barrier for all: their barriers are objects in shared memory."""
    count = lanes_of_group
    b = Writer("many")
    x, out = b.array("x", i32, "n"), b.array("out", i32, "n", mutable=True)
    buffer = b.alloc(i32, count)
    lane = b.id("lane")
    rank = b.value("mod", lane, b.const(64))
    first = b.value("sub", lane, rank)
    size = b.value("min", b.const(64), b.value("sub", b.const(count), first))
    value = b.read(x, lane)
    for step in (1, 5):
        b.write(buffer, value, lane)
        b.op("group_sync", size=64)
        other = b.value("add", first, b.value("mod", b.value("add", rank, b.const(step)), size))
        value = b.value("add", value, b.read(buffer, other))
        b.op("group_sync", size=64)
    b.barrier()
    b.write(out, b.value("add", value, b.read(buffer, b.const(count - 1))), lane)
    artifact, _ = agree(lanes(b, count), [np.arange(count, dtype=np.int32), np.zeros(count, np.int32)])
    assert ptx_of(artifact).count("mbarrier.arrive") == 4
    assert artifact.resources.shared_bytes >= 4 * count + 16 * 8


def test_more_lanes_than_a_block_holds():
    b = Writer("many")
    b.array("x", f32, "n")
    with pytest.raises(NotOnCuda, match="2048 lanes"):
        compile_ptx(lanes(b, 2048))


def test_more_shared_memory_than_there_is():
    b = Writer("many")
    x = b.array("x", f32, "n", mutable=True)
    buffer, lane = b.alloc(f32, 64 * 1024), b.id("lane")
    b.write(buffer, b.read(x, lane), lane)
    b.barrier()
    b.write(x, b.read(buffer, b.const(0)), lane)
    with pytest.raises(NotOnCuda, match="232448 bytes"):
        compile_ptx(lanes(b, 32))


@pytest.mark.parametrize("dtype", [f32, f16, i8], ids=lambda d: d.name)
@pytest.mark.parametrize("offset", [0, 16, 3, -16, -5])
def test_copies_arrive_with_the_next_barrier(dtype: DType, offset: int):
    """Aligned windows go in pieces of 16 bytes, others element by element; what is outside arrives as 0."""
    b = Writer("copy")
    x, out = b.array("x", dtype, "n"), b.array("out", dtype, 96, mutable=True)
    start = b.scalar("start", i64)
    buffer = b.alloc(dtype, 96)
    b.copy(buffer, x, [start], [96])
    b.barrier()
    lane = b.id("lane")
    b.write(out, b.read(buffer, b.value("sub", b.const(95), lane)), lane)
    x = (np.arange(100) % 100 + 1).astype(dtype.numpy)
    agree(lanes(b, 96), [x, np.zeros(96, dtype.numpy), offset])


@pytest.mark.parametrize(("rows", "columns"), [(24, 40), (21, 37)])
def test_the_xor_swizzle_is_only_an_address_map(rows: int, columns: int):
    b = Writer("swizzled")
    x, out = b.array("x", f16, "n", "k"), b.array("out", f16, "n", "k", mutable=True)
    zero, lane = b.const(0), b.id("lane")
    buffer = b.alloc(f16, 24, 40, swizzle="xor")
    b.copy(buffer, x, [zero, zero], [24, 40])
    b.barrier()
    row, column = b.value("floordiv", lane, b.const(40)), b.value("mod", lane, b.const(40))
    value = b.read(buffer, row, column)
    b.barrier()
    b.write(buffer, b.value("add", value, value), row, column)
    b.barrier()
    b.store(out, b.load(buffer, [zero, zero], [24, 40]), [zero, zero], [24, 40])
    agree(lanes(b, 96), [normal(rows, columns, dtype=np.float16), poison(rows, columns, dtype=np.float16)])


def test_groups_along_several_axes():
    b = Writer("axes")
    out = b.array("out", i64, "n", mutable=True)
    ids = [b.id(of, axis) for of in ("lane", "thread", "group", "group_lanes", "grid_groups") for axis in (0, 1, 2)]
    total = b.const(0)
    for value in ids:
        total = b.value("add", b.value("mul", total, b.const(7)), value)
    b.write(out, total, b.id("thread"))
    program = b.program(group=(4, 3, 2), domain=Domain("lanes", ("n",)))
    agree(program, [np.zeros(24 * 5, np.int64)])


def test_a_loop_that_counts_down():
    agree(programs.countdown(), [np.zeros(9, np.int64)])


@pytest.mark.parametrize("n", [128, 300])
def test_a_double_buffered_pipeline(n: int):
    """Two buffers change places: one is filled while the other, filled before, is used by the group's own loop."""
    b = Writer("axpy")
    x, y, alpha = b.array("x", f16, "n"), b.array("y", f16, "n", mutable=True), b.scalar("alpha", f16)
    step, zero = b.const(64), b.const(0)
    buffers = [b.alloc(f16, 64, name=name) for name in ("s0", "s1")]
    with b.loop(zero, b.dim("n"), step, buffers, kind="tile", names=("t", "s0", "s1"), prefetch=2) as loop:
        ready, filling = loop.carried
        b.copy(filling, x, [loop.index], [64])
        b.barrier()
        with b.when(b.compare("gt", loop.index, zero)), b.loop(zero, step, b.const(1)) as inner:
            place = b.value("add", b.value("sub", loop.index, step), inner.index)
            product = b.value("mul", alpha, b.read(ready, inner.index))
            b.write(y, b.value("add", product, b.read(y, place)), place)
        loop.yields = (filling, ready)
    b.barrier()
    agree(b.program(), [normal(n, dtype=np.float16), normal(n, dtype=np.float16, seed=1), 0.5])
