"""Drop operations that nothing reads: literals that folded away, extents that became numbers."""

from tessera.core.program.program import Block, Op, Value
from tessera.core.program.spec import SPEC


def prune(block: Block) -> Block:
    """Return `block` without unused pure operations and loops whose results are unused.

    before: ``%c = const 4`` read by nothing, ``%v = read %x[%i]`` read by nothing, a name that was set before a loop
            and is set again in each of its trips before it is read, and not read after the loop
    after:  none of them; the loop carries nothing
    """
    return _prune(block, set())


def _prune(block: Block, used: set[Value]) -> Block:
    kept: list[Op] = []
    for op in reversed(block.ops):
        effect = SPEC[op.opcode].effect
        if effect in ("", "read", "alloc") and not any(r in used for r in op.results):
            continue
        if op.opcode == "for":
            op = _carry_less(op, used)  # noqa: PLW2901
        used.update(op.operands)
        if op.regions:
            regions = tuple(_prune(region, used) for region in reversed(op.regions))[::-1]
            op = Op(op.opcode, op.operands, op.results, op.attributes, regions, op.span)  # noqa: PLW2901
        kept.append(op)
    return Block(block.arguments, tuple(reversed(kept)))


def _carry_less(loop: Op, used: set[Value]) -> Op:
    """`loop` without the carried values that no trip reads, and nothing after it."""
    (block,) = loop.regions
    read = {value for op in block.walk() if op is not block.ops[-1] for value in op.operands}
    arguments, last = block.arguments[1:], block.ops[-1]
    read |= {value for value, own in zip(last.operands, arguments, strict=True) if value is not own}
    pairs = enumerate(zip(arguments, loop.results, strict=True))
    kept = [place for place, (argument, result) in pairs if result in used or argument in read]
    if len(kept) == len(arguments):
        return loop
    inner = Block(
        (block.arguments[0], *(arguments[place] for place in kept)),
        (
            *block.ops[:-1],
            Op("yield", tuple(last.operands[place] for place in kept), (), last.attributes, (), last.span),
        ),
    )
    initial = loop.operands[3:]
    return Op(
        "for", (*loop.operands[:3], *(initial[place] for place in kept)), tuple(loop.results[place] for place in kept),
        loop.attributes, (inner,), loop.span,
    )  # fmt: skip
