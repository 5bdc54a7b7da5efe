"""Write the records of a profiled launch (see `core/profile.py`): one lane of each group does it.

Every function here emits nothing where the program does not ask for records, so the lowering calls them always:
`begin_group` and `end_group` around the code of one group, `phase` around what loads, computes or stores in it.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.core.profile import (
    CYCLES,
    END,
    FIRST_PHASE,
    PHASES,
    PLACE,
    RAN,
    RECORD_BYTES,
    START,
    WORD,
    WORKER,
)
from tessera.lowering.base.emit import required
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import INDEX, IndexBuilder
from tessera.lowering.cuda.base.inline_ptx import inline_ptx

_TIME: Final = "mov.u64 $0, %globaltimer;"
_CYCLE: Final = "mov.u64 $0, %clock64;"
_PROCESSOR: Final = "mov.u32 $0, %smid;"
# Nothing waits for its result, and no register holds a sum: the additions of all turns meet in the record.
_ADD: Final = "red.relaxed.gpu.global.add.u64 [$0], $1;"


def begin_group(build: IndexBuilder, frame: GpuFunction) -> None:
    """Record when the group begins; every lane of the block runs this."""
    if frame.records is None:
        return
    with build.when(_writes(build, frame)):
        record = _record(build, frame)
        _put(build, record, START, _read(build, _TIME, INDEX))
        _put(build, record, WORKER, _read(build, _CYCLE, INDEX))


def end_group(build: IndexBuilder, frame: GpuFunction) -> None:
    """Record when the group ends, and where it ran; every lane of the block runs this."""
    if frame.records is None:
        return
    with build.when(_writes(build, frame)):
        record = _record(build, frame)
        _put(build, record, CYCLES, _read(build, _CYCLE, INDEX))
        _put(build, record, END, _read(build, _TIME, INDEX))
        processor = build.to_index(_read(build, _PROCESSOR, "i32"))
        _put(build, record, PLACE, build.value("arith.ori", [processor, build.index(RAN)], INDEX))


@contextmanager
def phase(build: IndexBuilder, frame: GpuFunction, name: str, writer: ir.Value | None = None) -> Generator[None]:
    """Count the cycles of what is emitted inside the `with` as phase `name` ("load", "compute" or "store").

    writer: an i1 that holds in exactly one lane of those that run this; None: the block's first lane.  Where roles
    overlap, so do their phases: each is the time of its own writer.  Turns of one phase add up.
    """
    if frame.records is None:
        yield
        return
    word = FIRST_PHASE + PHASES.index(name)
    condition = _writes(build, frame, writer)
    _count(build, frame, word, condition, leaving=False)
    yield
    _count(build, frame, word, condition, leaving=True)


def _writes(build: IndexBuilder, frame: GpuFunction, writer: ir.Value | None = None) -> ir.Value | None:
    """Return an i1: this lane writes, and its group has a record."""
    conditions = [build.compare("eq", frame.tid, 0) if writer is None else writer]
    if frame.every > 1:
        conditions.append(build.compare("eq", build.bits(_number(frame), frame.every - 1), 0))
    return build.all_of(conditions)


def _number(frame: GpuFunction) -> Index:
    """Return the group's number; in a launch without groups, the block's."""
    return frame.block if frame.whole_launch else frame.group


def _count(build: IndexBuilder, frame: GpuFunction, word: int, condition: ir.Value | None, *, leaving: bool) -> None:
    with build.when(condition):
        place = build.offset(_record(build, frame), word * WORD, "i8")
        cycle = _read(build, _CYCLE, INDEX)
        moved = cycle if leaving else build.sub(0, cycle)
        inline_ptx(build, _ADD, "l,l", [place, build.index(moved)])


def _record(build: IndexBuilder, frame: GpuFunction) -> ir.Value:
    """Return the address of this group's record."""
    return build.offset(required(frame.records), build.mul(_number(frame), RECORD_BYTES), "i8")


def _put(build: IndexBuilder, record: ir.Value, word: int, value: ir.Value) -> None:
    build.store(value, build.offset(record, word * WORD, "i8"), INDEX)


def _read(build: IndexBuilder, text: str, kind: str) -> ir.Value:
    """Read a special register; no memory access moves across this."""
    return inline_ptx(build, text, "=l" if kind == INDEX else "=r", (), [kind])[0]
