"""Each rule on made-up launches that have what it looks for, and on one that has not."""

import dataclasses

import numpy as np
import pytest

from support.profiles import MACHINE, advice_of, turns, work
from tessera.core.work import Dot
from tessera.lowering.cpu.tile import blocking
from tessera.profiling.advice import rules


def test_a_balanced_launch_has_nothing_to_mend():
    seconds = (1.25e-6,)
    assert set(advice_of(turns([1000.0] * 8, plain=seconds, instrumented=seconds))) == {"memory-bound"}


def test_few_groups_leave_units_without_work():
    advice = advice_of(turns([1e5]))["too few groups"]
    assert advice.gain == 0.75
    assert "1 group for 4 SMs" in advice.text


def test_tiny_groups_cost_more_than_their_work():
    made = dataclasses.replace(work(400), least_read=1e5, by_kind={"f32": 1e3})
    advice = advice_of(turns([500.0] * 400, work=made))["tiny groups"]
    assert advice.gain == pytest.approx(0.75 * (1 - 1e-7 / 5e-5), rel=1e-3)
    assert "400 groups of 500 ns each, of which their work needs 1 ns" in advice.text


def test_a_launch_near_a_roof_is_bound_by_it():
    seconds = (1.25e-6,)
    memory = advice_of(turns([1000.0] * 8, plain=seconds))["memory-bound"]
    assert memory.gain == pytest.approx(0.2)
    made = dataclasses.replace(work(8), by_kind={"f32": 1e8})
    compute = advice_of(turns([1000.0] * 8, plain=(1.25e-5,), work=made))["compute-bound"]
    assert compute.gain == pytest.approx(0.2)


def test_repeated_reads_and_waiting_for_loads():
    made = dataclasses.replace(work(8), read=work(8).read * 1e4)
    advice = advice_of(turns([1e5] * 8, phases={"load": [5e4] * 8}, work=made))
    assert advice["repeated reads"].gain is not None
    assert advice["load latency"].gain == pytest.approx(0.5)


def test_a_launch_that_is_mostly_launching():
    advice = advice_of(turns([1000.0] * 8, plain=(1e-5,), instrumented=(1e-5,)))["launch overhead"]
    assert advice.gain == pytest.approx(0.8)


def test_products_of_few_rows_are_those_of_the_cpu():
    assert rules.STREAM_ROWS == blocking.STREAM_ROWS


def test_small_tiles_on_a_cpu_pack_more_than_they_multiply():
    product = Dot(32, 32, 32, "f32")
    made = dataclasses.replace(
        work(64), dots=(product,), by_kind={"dot f32": 2.0 * 1024**3}, least_read=8e6, read=np.full(64, 1e9)
    )
    cores = dataclasses.replace(MACHINE, on_gpu=False, cache_bandwidth=2e11)
    advice = advice_of(turns([1e7] * 64, work=made, machine=cores, plain=(1e-2,)))["packing"]
    packed = 1024**3 / 32**3 * product.operand_bytes
    assert advice.gain == pytest.approx(2 * (packed - 8e6) / 2e11 / 1e-2)
    assert "an element is copied for every 16 multiply-adds; with tiles twice as large, for every 32" in advice.text
    assert "repeated reads" not in advice_of(turns([1e7] * 64, work=made, machine=cores, plain=(1e-2,)))
    assert "packing" not in advice_of(turns([1e7] * 64, work=made, plain=(1e-2,)))  # a GPU multiplies what it loads
