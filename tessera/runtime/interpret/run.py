"""`run`: execute a Program with NumPy, in place on the argument arrays.  The oracle every target is compared with."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.core.errors.base import TesseraError
from tessera.core.program.program import Op, Program, Value, find
from tessera.core.program.types import Array, Scalar
from tessera.core.progress import working
from tessera.runtime.interpret import findings
from tessera.runtime.interpret.arithmetic import constant
from tessera.runtime.interpret.geometry import Geometry, Window, launch_geometry
from tessera.runtime.interpret.machine import Machine
from tessera.runtime.interpret.memory import Memory
from tessera.runtime.interpret.rounding import Numbers
from tessera.runtime.interpret.sanitizer import Sanitizer
from tessera.runtime.interpret.state import Launch, Observer
from tessera.runtime.interpret.uniform import varying_values
from tessera.runtime.interpret.unwritten import LaunchNote

WINDOW: Final = 1 << 16
"""Lanes executed at a time where the kernel does not care; a multiple of 32, so that warps stay whole."""

Argument = Numbers | np.generic | int | float | bool


@dataclass(frozen=True, slots=True)
class Report:
    """The traffic of one launch: groups, lanes in all, and elements and bytes of global arrays read and written.

    notes: what a sanitized launch did not write
    """

    groups: int
    lanes: int
    reads: int
    writes: int
    bytes: int
    notes: tuple[LaunchNote, ...] = ()


def never() -> bool:
    """Go on to the end."""
    return False


def run(  # noqa: PLR0913 - all but two are options
    program: Program,
    arguments: Sequence[Argument],
    *,
    symbols: Mapping[str, int],
    grid: tuple[int, ...] | None = None,
    group: tuple[int, ...] | None = None,
    sanitize: bool = False,
    cancelled: Callable[[], bool] = never,
    observer: Observer | None = None,
    lanes_at_once: int = WINDOW,
) -> Report:
    """Execute `program` on `arguments` (in its parameters' order, arrays of exactly their dtypes), group by group.

    `symbols` holds the value of every shape symbol; `grid` and `group` are the explicit launch, if any (see
    `launch_geometry`).  With `sanitize`, a race, a missing or divergent barrier, an uninitialised or out-of-bounds
    access raises the `TesseraError` that describes it, and the arrays are as before.  `cancelled` is asked in every
    group and loop trip: when it says so, KeyboardInterrupt is raised.  `observer` follows every operation.
    `lanes_at_once` (whole warps) are executed together where the kernel has no groups and does not care.
    """
    geometry = launch_geometry(program, grid, group, symbols)
    watcher = None
    if sanitize:
        watcher = Sanitizer(
            findings.LaunchFacts(
                geometry.groups, geometry.lanes, program.group is not None and not program.chosen, program.source
            )
        )
    with np.errstate(all="ignore"):
        values = {p.value: _bind(p.value, argument) for p, argument in zip(program.parameters, arguments, strict=True)}
    varying = varying_values(program)
    launch = Launch(program, geometry, values, symbols, varying, watcher, cancelled, observer=observer)
    # An observer says itself how far it is: it may leave out most of the launch.
    steps = geometry.groups if observer is None else 0
    verb = "checking" if sanitize else "interpreting"
    with (
        np.errstate(all="ignore"),
        _restored_on_error(program, arguments, sanitize),
        working(f"{verb} {program.name}", steps) if steps > 1 else nullcontext() as task,
    ):
        try:
            for window in _windows(program, geometry, varying, lanes_at_once):
                launch.check_cancelled()
                if task is not None:
                    task.step(window.number)
                if watcher is not None and window.first == 0:
                    watcher.start_group()
                if observer is None or observer.wants_window(window):
                    Machine(launch, window).run()
        except TesseraError as error:
            raise error.with_source(program.source) from None
    traffic = launch.traffic
    lanes = geometry.groups * geometry.lanes
    notes: tuple[LaunchNote, ...] = ()
    if watcher is not None:
        bound = [values[p.value] for p in program.parameters if p.mutable]
        notes = watcher.notes([each for each in bound if isinstance(each, Memory)], program.span)
    return Report(geometry.groups, lanes, traffic.reads, traffic.writes, traffic.bytes, notes)


def _bind(value: Value, argument: Argument) -> Numbers | Memory:
    if isinstance(value.type, Scalar):
        return constant(argument, value.type.dtype)  # pyright: ignore[reportArgumentType]
    if not isinstance(value.type, Array) or not isinstance(argument, np.ndarray):
        raise TypeError(f"parameter {value.name} needs an array")
    if argument.dtype != value.type.dtype.numpy or argument.ndim != len(value.type.shape):
        raise TypeError(f"{value.name} is {value.type}, not an array of {argument.dtype} with rank {argument.ndim}")
    return Memory(value.name, argument, extents=value.type.shape)


def _windows(program: Program, geometry: Geometry, varying: frozenset[Value], lanes_at_once: int) -> Iterator[Window]:
    """Yield what runs in lock-step: whole groups, or pieces of the one group of a kernel without `tile[...]`."""

    def needs_all_lanes(op: Op) -> bool:
        once = op.opcode in ("write", "store") and varying.isdisjoint(op.operands)
        return once or op.opcode in ("alloc", "copy", "barrier", "group_sync")

    whole = program.group is not None or find(program.body, needs_all_lanes) is not None
    step = geometry.lanes if whole else min(lanes_at_once, geometry.lanes)
    for number in range(geometry.groups):
        for first in range(0, geometry.lanes, step):
            yield Window(geometry, number, first, min(first + step, geometry.lanes))


@contextmanager
def _restored_on_error(program: Program, arguments: Sequence[Argument], wanted: bool) -> Generator[None]:
    """Put mutable arrays back as they were when the launch fails, so that a finding leaves nothing half-written."""
    saved: list[tuple[Numbers, Numbers]] = []
    if wanted:
        for parameter, argument in zip(program.parameters, arguments, strict=True):
            if parameter.mutable and isinstance(argument, np.ndarray):
                saved.append((argument, argument.copy()))
    try:
        yield
    except BaseException:
        for array, before in saved:
            array[...] = before
        raise
