"""What the tests of tiles in registers share: kernels of random dtypes and shapes, and a guard against the other way."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from lowering.cuda.compare import agree
from support.interpret_programs import Writer
from tessera.core.artifact import Artifact
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i8, i16, i32, i64, u8, u32
from tessera.core.layouts import Layout
from tessera.core.program.program import Attribute, Domain, Program, Value
from tessera.core.program.types import Array
from tessera.core.targets import TARGETS
from tessera.core.tile.dialect import shared_context
from tessera.lowering.base.passes import run_passes
from tessera.lowering.cuda.schedule.passes import schedule_tiles
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.driver.pipelines import tile_passes
from tessera.lowering.tile.to_tile import to_tile

_MOST_ROWS = 1 << 20
DTYPES = (f32, bf16, f16, f64, i64, i32, i16, i8, u32, u8, boolean)


def in_registers(program: Program, arguments: list[Any], seed: int | None = 1) -> Artifact:
    """The PTX leaves the interpreter's bits, and no tile went through the other lowering."""
    with mock.patch("tessera.lowering.cuda.fit.emit_in_memory", side_effect=AssertionError("not in registers")):
        return agree(program, arguments, seed=seed)[0]


class Maker(Writer):
    """A Writer whose arrays may be aligned."""

    def matrix(self, name: str, dtype: DType, *shape: int | str, wide: bool = False, **options: bool) -> Value:
        """An array; `wide` where its rows are multiples of 16 bytes."""
        value = self.array(name, dtype, *shape, **options)
        if not wide:
            return value
        kind = value.type
        assert isinstance(kind, Array)
        value = replace(value, type=replace(kind, aligned=True))
        self.parameters[-1] = replace(self.parameters[-1], value=value)
        return value

    def program(
        self, *, domain: Domain | None = None, group: tuple[int, ...] | None = None, **options: Attribute
    ) -> Program:
        """The kernel as one group: it is not cut into rows."""
        return super().program(domain=domain, group=group, **{"rows_per_group": _MOST_ROWS, **options})


def numbers(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Small numbers of any dtype; floats of very different sizes, so that the order of a sum shows."""
    random = np.random.default_rng(seed + sum(shape))
    if dtype.is_float:
        return (random.standard_normal(shape) * 2.0 ** random.integers(-6, 6, shape)).astype(dtype.numpy)
    if dtype.kind == "bool":
        return random.integers(0, 2, shape).astype(np.bool_)
    return random.integers(0 if dtype.kind == "uint" else -100, 100, shape).astype(dtype.numpy)


def poison(dtype: DType, *shape: int) -> np.ndarray:
    """What an array holds before the kernel writes it."""
    return np.ones(shape, dtype.numpy) if not dtype.is_float else np.full(shape, np.nan, np.float32).astype(dtype.numpy)


def is_wide(dtype: DType, shape: tuple[int, ...]) -> bool:
    """Whether rows of a C-ordered array of this shape are multiples of 16 bytes."""
    return shape[-1] * dtype.bytes % 16 == 0


@dataclass(frozen=True)
class Box:
    """A window on an array: its shape, where the window starts, and its extents."""

    shape: tuple[int, ...]
    starts: tuple[int, ...]
    extents: tuple[int, ...]


@st.composite
def boxes(draw: st.DrawFn, most: int = 3, elements: int = 2000) -> Box:
    """Windows that may reach over the array's end, or begin there."""
    rank = draw(st.integers(1, most))
    extents: list[int] = []
    left = elements
    for _ in range(rank):
        extents.append(draw(st.integers(1, min(70, left))))
        left //= extents[-1]
    shape = tuple(draw(st.sampled_from([e, e + 1, e + 16, 16 * e, max(1, e - 3)])) for e in extents)
    starts = tuple(draw(st.sampled_from([0, 0, 1, 4, 8, 16])) for _ in extents)
    return Box(shape, starts, tuple(extents))


def plan_of(program: Program, arch: str = "sm_90a") -> tuple[ScheduleView | None, dict[str, list[Layout]]]:
    """The plan for a kernel, and the layouts of the results of its operations by their names."""
    with shared_context():
        module = to_tile(program)
        run_passes(tile_passes(TARGETS["cuda"]), module)
        plan = schedule_tiles(module, program, TARGETS["cuda"].architecture(arch))
        found: dict[str, list[Layout]] = {}
        if isinstance(plan, ScheduleView):
            for name in [name for name, member in vars(ScheduleView).items() if isinstance(member, cached_property)]:
                getattr(plan, name)  # as long as there is the module
            for op in plan.operations:
                for result in op.results:
                    if result in plan.layouts:
                        found.setdefault(str(op.name), []).append(plan.layouts[result])
        return plan if isinstance(plan, ScheduleView) else None, found
