import pytest

from support import programs
from tessera.core.tile.dialect import context
from tessera.lowering.analysis.uniformity import analyse, walk
from tessera.lowering.tile.to_tile import to_tile


@pytest.fixture
def analysed():
    with context():

        def analyse_program(program):
            module = to_tile(program)
            function = module.body.operations[0].operation
            operations = list(walk(function.regions[0].blocks[0]))
            return module, analyse(function), operations

        yield analyse_program


def named(operations, name):
    return [op for op in operations if op.name == name]


def test_lanes_ids_vary_and_group_ids_do_not(analysed):
    _, facts, operations = analysed(programs.group_sum())
    lane, *others = named(operations, "tessera.id")
    assert facts.varies(lane.results[0])
    assert not any(facts.varies(op.results[0]) for op in others)


def test_what_only_some_lanes_reach_is_divergent(analysed):
    _, facts, operations = analysed(programs.group_sum())
    assert [facts.is_divergent(op) for op in named(operations, "tessera.barrier")] == [False]
    assert [facts.is_divergent(op) for op in named(operations, "tessera.reduce")] == [True]
    # The loop runs from the lane's own number: lanes leave it at different times.
    loop = named(operations, "scf.for")[0]
    assert facts.varies(loop.results[0])
    assert not facts.is_divergent(loop)


def test_a_tile_kernel_is_uniform(analysed):
    _, facts, operations = analysed(programs.matmul())
    assert all(facts.is_uniform(op) for op in operations)


def test_buffers_that_may_be_one_share_a_class(analysed):
    _, facts, operations = analysed(programs.pipeline())
    buffers = [facts.memory_class(op.results[0]) for op in named(operations, "tessera.alloc")]
    chosen = [facts.memory_class(op.results[0]) for op in named(operations, "arith.select")]
    assert len(set(buffers + chosen)) == 1
    copy = named(operations, "tessera.copy")[0]
    assert facts.memory_class(copy.operands[1]) not in facts.written
    assert facts.memory_class(copy.operands[0]) in facts.written
