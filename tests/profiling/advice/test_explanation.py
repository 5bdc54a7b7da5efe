"""Kernels that are slow in known ways get the right advice first; what is not known is said."""

import dataclasses
from pathlib import Path

import numpy as np

import tessera
from support.profiles import profile_of, work
from tessera.core.settings import overridden
from tessera.performance.device_model import Machine
from tessera.profiling.advice.explanation import explanation
from tessera.profiling.results import Profile

SOURCE = """
STEP = 16

@kernel
def tiny(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = y[t:t+STEP] + x[t:t+STEP]

@kernel
def serial(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=64):
        y[t:t+65] = x[t:t+65] * 2.0
"""
FOUR_CORES = Machine("made up", 1, 4, "core", 1e10, 4e10, 1, {"f32": 1e11}, "made up")


def launched(name: str, size: int, cache: Path, **made_up: tuple[float, ...]) -> Profile:
    """A real launch of a kernel, its compilation and all, on a machine of four cores with made-up times."""
    with overridden(cache_dir=cache):
        x, y = np.ones(size, np.float32), np.zeros(size + 64, np.float32)[:size]
        found = tessera.profile(getattr(tessera.compile_source(SOURCE), name))(x, y)
    facts = profile_of([n % 4 for n in range(found.work.groups)], [float(n // 4 * 500) for n in range(found.work.groups)],
                       [float(n // 4 * 500 + 500) for n in range(found.work.groups)])  # fmt: skip
    return dataclasses.replace(found, machine=FOUR_CORES, tiles=facts.tiles, every=1, **made_up)


def test_a_serial_loop_comes_first_with_its_line(tmp_path: Path):
    found = explanation(launched("serial", 1 << 16, tmp_path, plain=(1e-3,), instrumented=(1e-3,)))
    first = found.advice[0]
    assert first.kind == "serial loop"
    assert first.lines == (11,)
    assert first.gain == 0.75
    assert "1 of 4 cores work" in first.text


def test_tiny_groups_come_first_and_name_the_parameter(tmp_path: Path):
    found = explanation(launched("tiny", 1 << 14, tmp_path, plain=(1.3e-4,), instrumented=(1.3e-4,)))
    first = found.advice[0]
    assert first.kind == "tiny groups"
    assert first.options == ({"STEP": 64},)
    assert first.lines == (6,)
    assert first.origin is not None


def test_the_largest_gain_is_first_and_unknown_ones_last():
    slow = profile_of([0], [0.0], [1e6])
    found = explanation(slow)
    gains = [advice.gain for advice in found.advice if advice.gain is not None]
    assert gains == sorted(gains, reverse=True)
    assert found.advice[0].kind == "too few groups"
    assert found.advice[-1].kind == "latency"
    assert all(advice.evidence for advice in found.advice)
    assert "made of records alone" in found.notes[0]


def test_nothing_found_is_said():
    made = dataclasses.replace(work(8), least_read=0.0, by_kind={})
    quiet = profile_of([0, 1, 2, 3] * 2, [0.0] * 4 + [1e6] * 4, [1e6] * 4 + [2e6] * 4, work=made)
    found = explanation(quiet)
    assert found.advice == ()
    assert "nothing found" in found.verdict


def test_the_longest_launch_of_a_call_is_explained():
    short, long = profile_of([0], [0.0], [10.0]), profile_of([0], [0.0], [1e6])
    found = explanation(dataclasses.replace(short, next_phases=(long,)))
    assert found.notes[0] == "of 2 launches this is number 2, 100% of the time"


def test_a_noisy_machine_is_a_note():
    noisy = profile_of([0], [0.0], [1e6], plain=(1e-6, 2e-6, 9e-6))
    assert any(note.startswith("launches vary by 100%") for note in explanation(noisy).notes)


def test_a_cause_comes_before_the_limit_that_is_near():
    # 69% of the memory's rate, and a tail of the last wave that takes less than the rest to the limit.
    made = dataclasses.replace(work(9), least_read=1e7, by_kind={})
    near = profile_of([0, 1, 2, 3] * 2 + [0], [0.0] * 4 + [6e3] * 4 + [1.2e4], [6e3] * 4 + [1.2e4] * 4 + [1.45e4],
                      work=made, plain=(1.45e-5,), instrumented=(1.45e-5,))  # fmt: skip
    advice = explanation(near).advice
    assert [each.kind for each in advice] == ["tail effect", "memory-bound"]
    assert (advice[0].gain or 0) < (advice[1].gain or 0)
