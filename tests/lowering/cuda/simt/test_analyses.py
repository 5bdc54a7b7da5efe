"""What lane kernels are lowered by."""

from support import programs
from tessera.core.tile.dialect import shared_context
from tessera.lowering.base.ir_walk import kernel, operations
from tessera.lowering.cuda.simt.analyses import analyse
from tessera.lowering.tile.to_tile import to_tile


def test_lanes_and_memories_of_a_pipeline():
    with shared_context():
        module = to_tile(programs.pipeline())
        facts = analyse(kernel(module))
        barriers, copies = operations(module, "tessera.barrier"), operations(module, "tessera.copy")
        assert barriers
        assert not any(map(facts.divergence.is_divergent, barriers))
        filled = {facts.memory.class_of(op.operands[0]) for op in copies}
        read = {facts.memory.class_of(op.operands[1]) for op in copies}
        assert filled <= facts.memory.written
        assert not read & facts.memory.written
