"""The default tuning parameters: legal for every size, and fitting the machine."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.base.dtypes import DType, bf16, f32, fp8_e4m3
from tessera.core.schedule.options import SCHEDULE
from tessera.core.settings import overridden
from tessera.core.targets import GENERATIONS
from tessera.performance import schedules
from tessera.performance.machine_kind import MachineKind

EXTENTS = st.integers(1, 1 << 20)
MACHINES = st.sampled_from(
    [MachineKind(), *(MachineKind(GENERATIONS[name]) for name in ("sm_80", "sm_89", "sm_90", "sm_100", "sm_120"))]
)
HOPPER = MachineKind(GENERATIONS["sm_90"])


def test_large_products_take_the_largest_blocks_of_a_machine():
    with overridden(threads=2):
        assert schedules.gemm_schedule(MachineKind(), 4096, 4096, 4096, f32) == {"BM": 512, "BN": 512, "BK": 256}
    assert schedules.gemm_schedule(HOPPER, 4096, 4096, 4096, bf16) == {"BM": 128, "BN": 256, "BK": 64}
    assert schedules.gemm_schedule(MachineKind(GENERATIONS["sm_80"]), 4096, 4096, 4096, bf16) == {
        "BM": 128,
        "BN": 128,
        "BK": 32,
    }


def test_the_wide_side_of_a_block_of_tf32_is_that_of_the_factor_along_k():
    def found(machine: MachineKind, along: tuple[bool, bool], aligned: bool = True) -> dict[str, int]:
        chosen = schedules.gemm_schedule(machine, 4096, 4096, 4096, f32, rounded=True)
        return schedules.rounded_schedule(machine, chosen, along, aligned=aligned)

    for along in ((True, True), (False, True)):
        assert found(HOPPER, along) == {"BM": 128, "BN": 256, "BK": 32}
    assert found(HOPPER, (True, False)) == {"BM": 256, "BN": 128, "BK": 32}
    for few in (
        found(HOPPER, (False, False)),
        found(HOPPER, (True, True), False),
        found(MachineKind(GENERATIONS["sm_80"]), (True, True)),
    ):
        assert few == {"BM": 128, "BN": 128, "BK": 16}


def test_blocks_that_leave_no_multiprocessor_without_work():
    """17 blocks of 256 columns would take a fifth round."""
    assert schedules.gemm_schedule(HOPPER, 4095, 4097, 4090, bf16) == {"BM": 256, "BN": 128, "BK": 64}
    assert schedules.gemm_schedule(HOPPER, 4095, 4097, 4090, fp8_e4m3)["BM"] == 128


def test_a_heavy_activation_halves_the_accumulators():
    assert schedules.gemm_schedule(HOPPER, 4096, 4096, 4096, bf16, heavy=True)["BN"] == 128
    assert schedules.gemm_schedule(MachineKind(GENERATIONS["sm_80"]), 4096, 4096, 4096, bf16, heavy=True)["BN"] == 64


@pytest.mark.parametrize("heavy", [False, True])
def test_products_of_one_loop_share_the_registers_of_one(heavy: bool):
    for sums, columns in ((2, 128), (3, 64), (4, 64)):
        found = schedules.gemm_schedule(HOPPER, 4096, 4096, 4096, bf16, heavy=heavy, sums=sums)
        assert (found["BM"], found["BN"]) == (128, columns)
    assert schedules.gemm_schedule(MachineKind(GENERATIONS["sm_80"]), 4096, 4096, 4096, bf16, sums=2)["BN"] == 64
    assert schedules.gemm_schedule(HOPPER, 4096, 4096, 4096, f32, sums=2)["BN"] == 64


def test_small_products_keep_every_processor_busy():
    assert schedules.gemm_schedule(HOPPER, 1024, 1024, 4096, bf16)["BN"] == 64
    assert (
        schedules.gemm_schedule(HOPPER, 2048, 2048, 4096, bf16)["BN"] == 256
    )  # 128 blocks, four fewer than processors
    with overridden(threads=2):
        found = schedules.gemm_schedule(MachineKind(), 512, 512, 4096, f32)
    assert (512 // found["BM"]) * (512 // found["BN"]) >= 4


@given(MACHINES, EXTENTS, EXTENTS, EXTENTS, st.sampled_from([bf16, f32]))
def test_blocks_are_powers_of_two_within_limits(machine: MachineKind, m: int, n: int, k: int, dtype: DType):
    found = [
        schedules.gemm_schedule(machine, m, n, k, dtype), schedules.attention_schedule(machine, m, n, dtype),
        schedules.backward_schedule(machine, m, n, 64, dtype), schedules.transpose_schedule(machine),
        schedules.backward_queries_schedule(machine, m, n, 64, dtype),
    ]  # fmt: skip
    sizes = [size for schedule in found for size in schedule.values()]
    assert all(size & (size - 1) == 0 and 16 <= size <= 512 for size in sizes)


@given(MACHINES, st.integers(1, 64), st.integers(1, 1 << 31), st.sampled_from([bf16, f32]))
def test_kept_scores_are_an_even_share_that_fits(machine: MachineKind, heads: int, scores: int, dtype: DType):
    assert schedules.heads_together(machine, dtype, heads, scores, 256) == 0
    together = schedules.heads_together(machine, dtype, heads, scores, 128)
    assert together == 0 or heads % together == 0
    assert together * scores * dtype.bytes <= 2 << 30
    more = [n for n in range(together + 1, heads + 1) if heads % n == 0 and n * scores * dtype.bytes <= 2 << 30]
    assert not more or not machine.wgmma or dtype != bf16


@given(EXTENTS, EXTENTS, st.sampled_from([None, 16, 32, 64, 128]))
def test_steps_of_the_product_divide_the_blocks_that_were_kept(queries: int, keys: int, block: int | None):
    found = schedules.backward_product_schedule(queries, keys, block)
    kept = block or schedules.backward_schedule(HOPPER, queries, keys, 128, bf16)["BN"]
    assert kept % found["BN"] == 0


@given(EXTENTS)
def test_rows_and_columns(extent: int):
    rows = schedules.rows_schedule(extent)["ROWS"]
    assert rows == 1 or (rows <= 32 and rows * extent <= 2 * 4096)
    assert 1 <= schedules.columns_schedule(MachineKind(), 1 << 20, extent)["COLUMNS"] <= 64


@given(MACHINES, st.integers(1, 10000), st.integers(1, 1 << 30))
def test_blocks_of_rows_keep_the_machine_busy(machine: MachineKind, rows: int, length: int):
    """Larger blocks where there are groups enough; 4096 on CPUs, whose groups are rows of vectors."""
    block = schedules.block_of_row(machine, rows, length)
    assert block in ((4096, 8192, 16384) if machine.is_gpu else (4096,))
    assert block == 4096 or rows * -(-length // block) >= 4 * schedules.processors(machine)
    assert schedules.block_of_pairs(machine) == (16384 if machine.is_gpu else 4096)


def test_every_default_is_searched():
    """A tuned kernel gets values for exactly the parameters that the default has, and for schedule options."""
    for machine in (MachineKind(), HOPPER):
        for table, default in (
            (schedules.GEMM_SPACE, schedules.gemm_schedule(machine, 4096, 4096, 4096, bf16)),
            (schedules.ATTENTION_SPACE, schedules.attention_schedule(machine, 4096, 4096, bf16)),
            (schedules.BACKWARD_SPACE, schedules.backward_schedule(machine, 4096, 4096, 128, bf16)),
            (schedules.BACKWARD_SPACE, schedules.backward_queries_schedule(machine, 4096, 4096, 128, bf16)),
            (schedules.ROWS_SPACE, schedules.rows_schedule(64)),
            (schedules.REDUCE_SPACE, schedules.columns_schedule(machine, 4096, 64)),
            (schedules.TRANSPOSE_SPACE, schedules.transpose_schedule(machine)),
        ):
            space = schedules.space(table, machine)
            assert set(space) - set(SCHEDULE) == set(default)
            assert all(default[name] in values for name, values in space.items() if name in default)


def test_bytes_in_place_are_promoted_and_others_stay_in_registers():
    chosen = schedules.gemm_schedule(HOPPER, 8192, 8192, 8192, fp8_e4m3)
    assert chosen == {"BM": 128, "BN": 256, "BK": 128}
    assert schedules.byte_schedule(chosen, along_k=True) == {**chosen, "promotion_interval": 128}
    assert schedules.byte_schedule(chosen, along_k=False) == {"BM": 128, "BN": 128, "BK": 64}
    assert schedules.byte_schedule(chosen, along_k=False, aligned=False) == {"BM": 128, "BN": 128, "BK": 32}


def test_a_bias_leaves_fewer_registers_for_two_sets_of_sums():
    for columns, block in ((256, (256, 128)), (128, (128, 128)), (64, (128, 64))):
        chosen = {"BM": 128, "BN": columns, "BK": 128}
        found = schedules.byte_schedule(chosen, along_k=True, added=True)
        assert found == {"BM": block[0], "BN": block[1], "BK": 128, "promotion_interval": 128}


def test_gelu_shares_the_sums_of_single_warps_among_more():
    chosen = schedules.gemm_schedule(HOPPER, 4096, 4096, 4096, f32, rounded=True, heavy=True)
    few = schedules.rounded_schedule(HOPPER, chosen, (False, False), aligned=True, heavy=True)
    assert few == {"BM": 128, "BN": 128, "BK": 16, "num_warps": 8}
    groups = schedules.rounded_schedule(HOPPER, chosen, (True, True), aligned=True, heavy=True)
    assert groups == chosen


@pytest.mark.parametrize(("machine", "side", "pays"), [
    (HOPPER, 4095, True), (HOPPER, 512, False), (MachineKind(GENERATIONS["sm_80"]), 4095, False), (MachineKind(GENERATIONS["sm_100"]), 4095, False),
])  # fmt: skip
def test_aligned_copies_pay_for_large_products_of_warp_groups(machine: MachineKind, side: int, pays: bool):
    assert schedules.padding_pays(machine, side, side, side) == pays


@pytest.mark.parametrize(("side", "block"), [(4096, 128), (1536, 128), (1408, 64), (100, 64)])
def test_exact_products_take_large_blocks_where_there_are_enough(side: int, block: int):
    chosen = schedules.gemm_schedule(MachineKind(GENERATIONS["sm_90"]), side, side, 512, f32)
    assert (chosen["BM"], chosen["BN"]) == (block, block)


def test_narrow_heads_see_more_keys_at_a_time_where_warpgroups_multiply():
    def keys(machine: MachineKind, width: int, dtype: DType = bf16, *, causal: bool = False) -> int:
        return schedules.forward_schedule(machine, 4096, 4096, width, dtype, causal=causal)["BN"]

    assert keys(HOPPER, 64) == 256
    assert (keys(HOPPER, 128), keys(HOPPER, 64, causal=True), keys(HOPPER, 64, f32)) == (128, 128, 32)
    assert keys(MachineKind(GENERATIONS["sm_80"]), 64) == 128
    assert schedules.forward_schedule(HOPPER, 64, 100, 64, bf16, causal=False) == {"BM": 64, "BN": 128}
    assert (
        keys(HOPPER, 256),
        keys(MachineKind(GENERATIONS["sm_80"]), 256),
        keys(MachineKind(GENERATIONS["sm_100"]), 256, f32),
    ) == (64, 64, 32)


def test_wide_heads_leave_room_where_there_is_little_shared_memory():
    ada = MachineKind(GENERATIONS["sm_89"])
    assert schedules.forward_schedule(ada, 4096, 4096, 256, bf16, causal=True) == {"BM": 64, "BN": 32}
    assert schedules.forward_schedule(ada, 20, 20, 256, bf16, causal=True) == {"BM": 32, "BN": 32}
    assert schedules.forward_schedule(ada, 4096, 4096, 128, bf16, causal=True) == {"BM": 128, "BN": 128}

    def queries(machine: MachineKind, width: int) -> dict[str, int]:
        return schedules.backward_queries_schedule(machine, 4096, 4096, width, bf16)

    assert (queries(ada, 256), queries(ada, 128)) == ({"BM": 64, "BN": 32}, {"BM": 64, "BN": 64})
    assert (queries(HOPPER, 256), queries(HOPPER, 128)) == ({"BM": 128, "BN": 32}, {"BM": 128, "BN": 128})
    assert queries(MachineKind(GENERATIONS["sm_80"]), 256) == {"BM": 64, "BN": 64}


def test_the_gradients_of_wide_heads_are_computed_by_single_warps():
    for machine in (HOPPER, MachineKind(GENERATIONS["sm_80"])):
        assert schedules.backward_schedule(machine, 4096, 4096, 256, bf16) == {"BM": 16, "BN": 32}
    assert schedules.backward_schedule(HOPPER, 4096, 4096, 128, bf16) == {"BM": 64, "BN": 128}
    assert schedules.backward_schedule(HOPPER, 4096, 4096, 128, f32) == {"BM": 32, "BN": 32}


@pytest.mark.parametrize(("length", "columns"), [(1, 64), (1024, 64), (1025, 32), (4096, 16), (4099, 8), (1 << 20, 8)])
def test_tiles_of_columns_are_no_larger_than_the_compiler_is_quick_with(length: int, columns: int):
    machine = MachineKind(GENERATIONS["sm_90"], tile_elements=1 << 16)
    assert schedules.columns_schedule(machine, length, 257) == {"COLUMNS": columns}
    assert schedules.columns_schedule(HOPPER, length, 257) == {"COLUMNS": 64}
    assert schedules.columns_schedule(machine, length, 3) == {"COLUMNS": 4}


@pytest.mark.parametrize(("length", "columns"), [(512, 64), (1024, 32), (4096, 8)])
def test_elements_of_64_bits_fill_two_registers(length: int, columns: int):
    machine = MachineKind(GENERATIONS["sm_90"], tile_elements=1 << 16)
    assert schedules.columns_schedule(machine, length, 257, 64) == {"COLUMNS": columns}
    assert schedules.columns_schedule(HOPPER, length, 257, 64) == {"COLUMNS": 64}
    assert schedules.fits_tile(machine, 1 << 15, 64)
    assert not schedules.fits_tile(machine, 1 << 16, 64)
    assert schedules.fits_tile(machine, 1 << 16, 16)
    assert schedules.fits_tile(HOPPER, 1 << 30, 64)


@pytest.mark.parametrize(
    ("extents", "size", "box"),
    [
        ((256, 28, 28), 256, (16, 4, 4)),
        ((256, 14, 14), 128, (32, 2, 2)),
        ((256, 7, 7), 128, (128, 1, 1)),
        ((256, 56, 56), 128, (2, 8, 8)),
        ((1, 64, 48), 128, (1, 8, 16)),
        ((1, 7, 7), 64, (1, 8, 8)),
        ((5, 9), 16, (1, 16)),
        ((100,), 128, (128,)),
        ((), 128, ()),
    ],
)
def test_boxes_of_pixels_leave_little_over(extents: tuple[int, ...], size: int, box: tuple[int, ...]):
    found = schedules.rectangle(HOPPER, extents, size)
    assert found == box
    assert math.prod(found) == (size if extents else 1)


def test_small_blocks_are_not_taken_where_rows_lie_apart():
    """The pixels of 256 images of 7 x 7: 98 blocks of rows, in two rounds of 256 columns rather than three of 128."""
    chosen = schedules.gemm_schedule(HOPPER, 12544, 512, 4608, bf16)
    assert (chosen["BM"], chosen["BN"]) == (128, 128)
    assert schedules.distant_rows(chosen, 512) == {**chosen, "BN": 256}
    assert schedules.distant_rows(chosen, 128) == chosen


def test_the_cpu_takes_whole_rows_of_pixels():
    assert schedules.rectangle(MachineKind(), (2, 28, 28), 128) == (1, 4, 28)
    assert schedules.rectangle(MachineKind(), (8, 7, 7), 512) == (8, 7, 7)
    assert schedules.rectangle(MachineKind(), (2, 28, 300), 128) == (1, 1, 128)


@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("shape", [(1024, 1376, 512), (1, 4096, 64), (5, 33, 100), (0, 7, 0), (4095, 4097, 4090)])
def test_even_blocks_on_the_cpu_leave_little_over(shape: tuple[int, int, int], threads: int):
    m, n, k = shape
    with overridden(threads=threads):
        blocks = schedules.even_gemm(m, n, k)
    for extent, name in zip(shape, ("BM", "BN", "BK"), strict=True):
        block = blocks[name]
        assert block > 0
        assert -(-extent // block) * block < max(1, extent) + 32 * max(1, -(-extent // block))
    assert blocks["BM"] * blocks["BN"] <= 1 << 17
    assert blocks["BN"] % 32 == 0


def test_even_blocks_keep_every_thread_busy():
    with overridden(threads=16):
        for m, n, k in ((1024, 1376, 512), (1024, 512, 1376), (512, 512, 1024), (8192, 512, 1024)):
            blocks = schedules.even_gemm(m, n, k)
            count = -(-m // blocks["BM"]) * -(-n // blocks["BN"])
            assert count % 16 == 0, (m, n, k)
        one = schedules.even_gemm(512, 512, 64)
        many = schedules.even_gemm(512, 512, 64, batch=16)
    assert one["BM"] * one["BN"] < many["BM"] * many["BN"], "a batch has work for every thread in larger blocks"
