"""Drop operations that nothing reads: literals that folded away, extents that became numbers."""

from tessera.core.program.program import Block, Op, Value
from tessera.core.program.spec import SPEC


def prune(block: Block) -> Block:
    """Return `block` without pure operations whose results nobody uses.

    before: ``%c = const 4`` read by nothing, ``%v = read %x[%i]`` read by nothing
    after:  neither
    """
    return _prune(block, set())


def _prune(block: Block, used: set[Value]) -> Block:
    kept: list[Op] = []
    for op in reversed(block.ops):
        effect = SPEC[op.opcode].effect
        if effect in ("", "read", "alloc") and not any(r in used for r in op.results):
            continue
        used.update(op.operands)
        if op.regions:
            regions = tuple(_prune(region, used) for region in reversed(op.regions))[::-1]
            op = Op(op.opcode, op.operands, op.results, op.attributes, regions, op.span)  # noqa: PLW2901
        kept.append(op)
    return Block(block.arguments, tuple(reversed(kept)))
