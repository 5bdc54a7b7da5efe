"""The default tuning parameters: legal for every size, and fitting the machine."""

from hypothesis import given
from hypothesis import strategies as st

from tessera.core.dtypes import bf16, f32, fp8_e4m3
from tessera.core.schedule import SCHEDULE
from tessera.core.settings import overridden
from tessera.kernels import schedules
from tessera.kernels.launches import Machine

EXTENTS = st.integers(1, 1 << 20)
MACHINES = st.sampled_from([Machine(name) for name in ("cpu", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120")])
HOPPER = Machine("sm_90")


def test_large_products_take_the_largest_blocks_of_a_machine():
    with overridden(threads=2):
        assert schedules.gemm_schedule(Machine("cpu"), 4096, 4096, 4096, f32) == {"BM": 512, "BN": 512, "BK": 256}
    assert schedules.gemm_schedule(HOPPER, 4096, 4096, 4096, bf16) == {"BM": 128, "BN": 256, "BK": 64}
    assert schedules.gemm_schedule(Machine("sm_80"), 4096, 4096, 4096, bf16) == {"BM": 128, "BN": 128, "BK": 32}


def test_a_heavy_activation_halves_the_accumulators():
    assert schedules.gemm_schedule(HOPPER, 4096, 4096, 4096, bf16, heavy=True)["BN"] == 128
    assert schedules.gemm_schedule(Machine("sm_80"), 4096, 4096, 4096, bf16, heavy=True)["BN"] == 64


def test_small_products_keep_every_processor_busy():
    assert schedules.gemm_schedule(HOPPER, 1024, 1024, 4096, bf16)["BN"] == 64
    assert (
        schedules.gemm_schedule(HOPPER, 2048, 2048, 4096, bf16)["BN"] == 256
    )  # 128 blocks, four fewer than processors
    with overridden(threads=2):
        found = schedules.gemm_schedule(Machine("cpu"), 512, 512, 4096, f32)
    assert (512 // found["BM"]) * (512 // found["BN"]) >= 4


@given(MACHINES, EXTENTS, EXTENTS, EXTENTS, st.sampled_from([bf16, f32]))
def test_blocks_are_powers_of_two_within_limits(machine: Machine, m: int, n: int, k: int, dtype):
    found = [
        schedules.gemm_schedule(machine, m, n, k, dtype), schedules.attention_schedule(machine, m, n, dtype),
        schedules.backward_schedule(machine, m, n, 64, dtype), schedules.transpose_schedule(machine),
        schedules.backward_queries_schedule(machine, m, n, dtype),
    ]  # fmt: skip
    sizes = [size for schedule in found for size in schedule.values()]
    assert all(size & (size - 1) == 0 and 16 <= size <= 512 for size in sizes)


@given(EXTENTS)
def test_rows_and_columns(extent: int):
    rows = schedules.rows_schedule(extent)["ROWS"]
    assert rows == 1 or (rows <= 32 and rows * extent <= 2 * 4096)
    assert 1 <= schedules.columns_schedule(extent)["COLUMNS"] <= 64


def test_every_default_is_searched():
    """A tuned kernel gets values for exactly the parameters that the default has, and for schedule options."""
    for machine in (Machine("cpu"), HOPPER):
        for table, default in (
            (schedules.GEMM_SPACE, schedules.gemm_schedule(machine, 4096, 4096, 4096, bf16)),
            (schedules.ATTENTION_SPACE, schedules.attention_schedule(machine, 4096, 4096, bf16)),
            (schedules.BACKWARD_SPACE, schedules.backward_schedule(machine, 4096, 4096, 128, bf16)),
            (schedules.BACKWARD_SPACE, schedules.backward_queries_schedule(machine, 4096, 4096, bf16)),
            (schedules.ROWS_SPACE, schedules.rows_schedule(64)),
            (schedules.REDUCE_SPACE, schedules.columns_schedule(64)),
            (schedules.TRANSPOSE_SPACE, schedules.transpose_schedule(machine)),
        ):
            space = schedules.space(table, machine)
            assert set(space) - set(SCHEDULE) == set(default)
            assert all(default[name] in values for name, values in space.items() if name in default)


def test_bytes_in_place_are_promoted_and_others_stay_in_registers():
    chosen = schedules.gemm_schedule(HOPPER, 8192, 8192, 8192, fp8_e4m3)
    assert chosen == {"BM": 128, "BN": 256, "BK": 128}
    assert schedules.byte_schedule(chosen, along_k=True) == {**chosen, "promote": 128}
    assert schedules.byte_schedule(chosen, along_k=False) == {"BM": 128, "BN": 128, "BK": 64}
