"""Which kernels take several elements a lane, and what is found of their accesses and branches."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from support import programs
from support.interpret_programs import Writer
from tessera.core.artifact import LaunchRule
from tessera.core.base.dtypes import f16, f32, f64
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import ir
from tessera.core.program.program import Domain, Program
from tessera.core.tile.dialect import context
from tessera.lowering.cuda.simt.analyses import analyse
from tessera.lowering.cuda.simt.thread_coarsening import Coarsening, coarsen
from tessera.lowering.tile.mask_edges import MaskEdges
from tessera.lowering.tile.to_tile import to_tile

Coarsen = Callable[[Program], Coarsening]


@pytest.fixture
def coarse() -> Iterator[Coarsen]:
    """What is found of a program; the module stays alive as long as the test."""
    modules: list[ir.Module] = []

    def found(program: Program) -> Coarsening:
        modules.append(to_tile(program))
        MaskEdges().run(modules[-1])
        function = modules[-1].body.operations[0].operation
        return coarsen(function, program, analyse(function))

    with context():
        yield found
        modules.clear()


def unary(writer: Writer, *extents: str) -> Program:
    return writer.program(domain=Domain("lanes", extents or ("n",)))


def test_accesses_and_guards_of_saxpy(coarse: Coarsen):
    found = coarse(programs.saxpy())
    assert found.elements == 4
    assert [(a.op.name, a.offset, a.bytes, a.wide, a.proven) for a in found.accesses.values()] == [
        ("tessera.read", 0, 4, True, True), ("tessera.read", 0, 4, True, True), ("tessera.write", 0, 4, True, True),
    ]  # fmt: skip
    ((guard,),) = found.guards.values()
    assert (guard.place.offset, guard.beyond) == (0, 0)


def test_the_widest_dtype_decides(coarse: Coarsen):
    b = Writer("mixed")
    x, y, z = b.array("x", f16, "n"), b.array("y", f64, "n"), b.array("z", f32, "n", mutable=True)
    i = b.id("thread")
    total = b.value("add", b.cast(b.read(x, i), f64), b.read(y, i))
    b.write(z, b.cast(total, f32), i)
    found = coarse(unary(b))
    assert found.elements == 2
    assert not any(access.proven for access in found.accesses.values())


def test_only_shifts_by_whole_pieces_are_wide(coarse: Coarsen):
    b = Writer("shifts")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    total = b.read(x, i)
    for shift in (1, 4, -8, 6):
        total = b.value("add", total, b.read(x, b.value("add", i, b.const(shift))))
    b.write(y, total, b.value("sub", i, b.const(4)))
    found = coarse(unary(b))
    assert [(a.offset, a.wide) for a in found.accesses.values()] == [
        (0, True), (1, False), (4, True), (-8, True), (6, False), (-4, True),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("predicate", "flipped", "beyond"), [("lt", False, 0), ("le", False, 1), ("gt", True, 0), ("ge", True, 1)]
)
def test_bounds_on_either_side(coarse: Coarsen, predicate: str, flipped: bool, beyond: int):
    b = Writer("bounds")
    y, limit = b.array("y", f32, "n", mutable=True), b.scalar("limit", b.const(0).type.dtype)
    i = b.id("thread")
    operands = (limit, i) if flipped else (i, limit)
    with b.when(b.compare(predicate, *operands)):
        b.write(y, b.const(1.0, f32), i)
    ((guard,),) = coarse(unary(b)).guards.values()
    assert guard.beyond == beyond


def test_a_branch_on_data_is_no_guard(coarse: Coarsen):
    b = Writer("data")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    with b.when(b.compare("lt", b.read(x, i), b.const(0.0, f32))):
        b.write(y, b.const(1.0, f32), i)
    found = coarse(unary(b))
    assert found.elements == 4
    assert found.guards == {}


def test_bounds_along_two_axes(coarse: Coarsen):
    """`if 0 < i < h - 1 and 0 < j < w - 1`, where a group is one row of lanes, and `i` is the same for all of them."""
    b = Writer("rows")
    y = b.array("y", f32, "h", "w", mutable=True)
    i, j, zero = b.id("group", 0), b.id("thread", 1), b.const(0)
    inside = [b.compare("lt", zero, i), b.compare("lt", i, b.dim("h")), b.compare("lt", zero, j)]
    inside.append(b.compare("lt", j, b.dim("w")))
    test = inside[0]
    for other in inside[1:]:
        test = b.value("and", test, other)
    with b.when(test):
        b.write(y, b.const(1.0, f32), i, j)
    found = coarse(b.program(domain=Domain("lanes", axes=(("h",), ("w",))), group=(1, 256)))
    assert found.elements == 4
    ((*rows, low, high),) = found.guards.values()
    assert [guard.place for guard in rows] == [None, None]
    assert (low.least, low.beyond, low.place.axis) == (True, 1, 1)
    assert (high.least, high.beyond) == (False, 0)


def test_a_branch_that_knows_no_index_is_no_guard_of_accesses_outside_of_it(coarse: Coarsen):
    b = Writer("flag")
    y, flag = b.array("y", f32, "n", mutable=True), b.scalar("flag", b.const(0).type.dtype)
    i = b.id("thread")
    with b.when(b.compare("lt", i, b.dim("n"))):
        b.write(y, b.const(1.0, f32), i)
        with b.when(b.compare("ne", flag, b.const(0))):
            b.write(y, b.const(2.0, f32), i)
    found = coarse(unary(b))
    assert [guard.place is None for guards in found.guards.values() for guard in guards] == [False]


def test_an_exception_for_a_few_lanes_is_no_guard(coarse: Coarsen):
    b = Writer("few")
    y = b.array("y", f32, "n", mutable=True)
    i = b.id("thread")
    with b.when(b.compare("lt", i, b.dim("n"))):
        b.write(y, b.const(1.0, f32), i)
        with b.when(b.compare("lt", i, b.const(4))):
            b.write(y, b.const(2.0, f32), i)
    found = coarse(unary(b))
    assert len(found.guards) == 1
    assert len(found.accesses) == 2


def test_what_is_left_alone(coarse: Coarsen):
    """Lanes that exchange values or share memory, loops, gathers, strided arrays."""
    assert coarse(programs.warp_reduce()).elements == 1
    assert coarse(programs.group_sum()).elements == 1
    assert coarse(programs.countdown()).elements == 1
    b = Writer("strided")
    y = b.array("y", f32, "n", contiguous=False, mutable=True)
    b.write(y, b.const(1.0, f32), b.id("thread"))
    assert coarse(unary(b)).elements == 1
    b = Writer("columns")
    y = b.array("y", f32, "n", "m", mutable=True)
    b.write(y, b.const(1.0, f32), b.id("thread"), b.const(0))
    assert coarse(unary(b)).elements == 1


def grouped(writer: Writer, *group: int):
    return writer.program(domain=Domain("lanes", ("n",)), group=group)


def test_places_in_groups(coarse: Coarsen):
    """A lane's number in the launch, or in its group, and what the group adds to it."""
    b = Writer("places")
    x, y = b.array("x", f32, "n"), b.array("y", f32, "n", mutable=True)
    first = b.value("mul", b.id("group"), b.const(128))
    i = b.value("add", b.value("add", first, b.id("lane")), b.const(4))
    b.write(y, b.value("add", b.read(x, i), b.read(x, b.id("thread"))), b.id("thread", 0))
    found = coarse(grouped(b, 128))
    assert found.elements == 4
    assert [(len(a.place.shared), a.offset, a.place.launch, a.place.axis) for a in found.accesses.values()] == [
        (1, 4, False, None), (0, 0, True, None), (0, 0, True, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(("lanes", "elements"), [(256, 4), (128, 4), (64, 2), (32, 1), (96, 1), (192, 2)])
def test_groups_keep_whole_warps(coarse: Coarsen, lanes: int, elements: int):
    b = Writer("whole")
    y, i = b.array("y", f32, "n", mutable=True), b.id("thread")
    b.write(y, b.const(1.0, f32), i)
    assert coarse(grouped(b, lanes)).elements == elements
    assert coarse(replace(grouped(b, lanes), options={"elements_per_thread": 32})).elements <= max(1, lanes // 32)


def test_groups_that_have_to_wait_are_left_alone(coarse: Coarsen):
    """Lanes along two axes; what lane 0 writes for its group, and what all read of an array that lanes write."""
    b = Writer("axes")
    y, i = b.array("y", f32, "n", mutable=True), b.id("thread", 0)
    b.write(y, b.const(1.0, f32), i)
    assert coarse(grouped(b, 64, 2)).elements == 1
    for together in ("read", "write"):
        b = Writer(together)
        y, i = b.array("y", f32, "n", mutable=True), b.id("thread")
        value = b.read(y, b.const(0)) if together == "read" else b.const(1.0, f32)
        b.write(y, value, i)
        if together == "write":
            b.write(y, value, b.const(0))
        assert coarse(grouped(b, 256)).elements == 1


def test_a_schedule_decides(coarse: Coarsen):
    assert coarse(replace(programs.saxpy(), options={"elements_per_thread": 1})) == Coarsening()
    assert coarse(replace(programs.saxpy(), options={"elements_per_thread": 8})).elements == 8


def test_a_number_that_cannot_be(coarse: Coarsen):
    with pytest.raises(NotOnCuda, match="a power of two up to 32, got 3"):
        coarse(replace(programs.saxpy(), options={"elements_per_thread": 3}))


def test_the_launch_rule():
    rule = Coarsening(4).rule(LaunchRule("lanes", ("n",)), 256)
    assert (rule.lanes_per_group, rule.elements, rule.threads) == (1024, 4, 256)


def test_the_launch_rule_of_groups():
    rule = Coarsening(4).rule(LaunchRule("groups", ("n",), (256,)), 64)
    assert (rule.group, rule.lanes_per_group, rule.elements, rule.threads) == ((256,), 256, 4, 64)
