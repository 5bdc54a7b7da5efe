"""Pipelines as Gantt charts: copies wait for buffers, products for operands."""

import dataclasses
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.profiles import MACHINE, work
from tessera.core.work import Dot
from tessera.viz.profile.pipeline import pipeline_steps

DOT = Dot(64, 64, 32, "bf16")
MADE = dataclasses.replace(work(4), dots=(DOT,), flops=np.full(4, 2.0 * 64 * 64 * 32 * 20))


@given(st.integers(1, 6), st.booleans())
def test_no_buffer_is_overwritten_while_it_is_read(stages: int, producer: bool):
    steps = pipeline_steps(MADE, MACHINE, stages, producer=producer)
    loads, products = ([step for step in steps if step.name == name] for name in ("load", "product"))
    assert len(loads) == len(products) == stages + 3
    for load, product in zip(loads, products, strict=True):
        assert product.start >= load.end
        assert load.stage == product.stage == load.number % stages
        if load.number >= stages:
            assert load.start >= products[load.number - stages].end
    for steps_of_role in (loads, products):
        assert all(a.end <= b.start for a, b in pairwise(steps_of_role))


def test_short_loops_are_whole():
    short = dataclasses.replace(MADE, flops=np.full(4, 2.0 * 64 * 64 * 32 * 2))
    assert [step.number for step in pipeline_steps(short, MACHINE, 3, producer=True)] == [0, 0, 1, 1]


def test_kernels_without_products_have_none():
    assert pipeline_steps(work(4), MACHINE, 3, producer=False) == ()
    assert pipeline_steps(MADE, MACHINE, 0, producer=False) == ()
