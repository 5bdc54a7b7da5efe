"""The map from Tile IR values to emitted code: each reader returns its own kind, and refuses any other."""

from collections.abc import Generator

import pytest

from tessera.core.layouts import Layout
from tessera.core.mlir import ir
from tessera.lowering.cuda.base.memory import GlobalMemory
from tessera.lowering.cuda.storage.environment import Environment
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile
from tessera.lowering.cuda.storage.shared_tile import SharedTile, SwizzledPanels


@pytest.fixture
def values() -> Generator[list[ir.Value]]:
    """Four values to be given a meaning."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            i64 = ir.IntegerType.get_signless(64)
            made = [
                ir.Operation.create("arith.constant", [i64], attributes={"value": ir.IntegerAttr.get(i64, n)})
                for n in range(4)
            ]
        yield [op.results[0] for op in made]


def test_each_kind_is_read_by_its_own_reader(values: list[ir.Value]):
    number, array, registers, shared = values
    memory = GlobalMemory(number, "f32", (4,), (1,))
    in_registers = RegisterTile(Layout((2,), (1,), (), ()), "f32", (number, array))
    in_shared = SharedTile(number, SwizzledPanels(8, 32, 4), "f32")
    env = Environment({number: 7, array: memory, registers: in_registers, shared: in_shared})
    assert env.scalar(number) == 7
    assert env.memory(array) is memory
    assert env.registers(registers) is in_registers
    assert env.shared(shared) is in_shared


def test_scalars_may_be_numbers_or_values(values: list[ir.Value]):
    env = Environment({values[0]: 3, values[1]: values[2]})
    assert env.scalars(values[:2]) == [3, values[2]]


def test_an_mma_in_flight_is_neither_a_scalar_nor_a_tile(values: list[ir.Value]):
    env = Environment({values[0]: Pending(lambda after: RegisterTile(Layout((1,), (), (), ()), "f32", tuple(after)))})
    for read in (env.scalar, env.memory, env.registers, env.shared):
        with pytest.raises(TypeError, match=r"^a value of type i64 is kept as Pending$"):
            read(values[0])
