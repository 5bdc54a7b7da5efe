"""Arithmetic of integers and floats, and the functions that the hardware has."""

from collections.abc import Callable

import numpy as np

from support.ptx_machine.instructions import instruction
from support.ptx_machine.numbers import FLOATS, Numbers, extreme, fused, kind_of, truncate
from support.ptx_machine.parsing import Instruction, PtxFault
from support.ptx_machine.state import Block, Lanes


def _binary(block: Block, op: Instruction, lanes: Lanes, function: Callable[[Numbers, Numbers], Numbers]) -> None:
    dtype = kind_of(op.parts)
    a, b = (block.raw(o, lanes, dtype) for o in op.operands[1:3])
    with np.errstate(all="ignore"):
        block.put(op.operands[0], lanes, function(a, b).astype(dtype))


@instruction("add")
def add(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    _rounded(op)
    _binary(block, op, lanes, lambda a, b: a + b)


@instruction("sub")
def subtract(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    _rounded(op)
    _binary(block, op, lanes, lambda a, b: a - b)


def _rounded(op: Instruction) -> None:
    """Without a rounding modifier ptxas could fuse a multiplication and an addition."""
    if op.parts[-1] in FLOATS and "rn" not in op.parts:
        raise PtxFault(f"may be contracted: {op.text}")


@instruction("mul")
def multiply(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    a, b = (block.raw(o, lanes, dtype) for o in op.operands[1:3])
    with np.errstate(all="ignore"):
        if "wide" in op.parts:
            double = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}")
            value = a.astype(double) * b.astype(double)
        elif "hi" in op.parts:
            wide = [int(x) * int(y) >> (8 * dtype.itemsize) for x, y in zip(a, b, strict=True)]
            value = np.array([w & ((1 << (8 * dtype.itemsize)) - 1) for w in wide], f"u{dtype.itemsize}")
        else:
            _rounded(op)
            value = (a * b).astype(dtype)
    block.put(op.operands[0], lanes, value)


@instruction("mad")
def multiply_add(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    a, b = (block.raw(o, lanes, dtype) for o in op.operands[1:3])
    wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}") if "wide" in op.parts else dtype
    with np.errstate(all="ignore"):
        value = a.astype(wide) * b.astype(wide) + block.raw(op.operands[3], lanes, wide)
    block.put(op.operands[0], lanes, value.astype(wide))


@instruction("fma")
def fused_multiply_add(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    a, b, c = (block.raw(o, lanes, dtype) for o in op.operands[1:4])
    block.put(op.operands[0], lanes, fused(a, b, c))


@instruction("div")
def divide(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    if dtype.kind in "iu":
        _binary(block, op, lanes, lambda a, b: truncate(a, b)[0])
    else:
        _binary(block, op, lanes, lambda a, b: a / b)


@instruction("rem")
def remainder(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    _binary(block, op, lanes, lambda a, b: truncate(a, b)[1])


@instruction("min")
def minimum(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    _binary(block, op, lanes, lambda a, b: extreme(op.parts, a, b, np.minimum, np.fmin))


@instruction("max")
def maximum(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    _binary(block, op, lanes, lambda a, b: extreme(op.parts, a, b, np.maximum, np.fmax))


def _unary(block: Block, op: Instruction, lanes: Lanes, function: Callable[[Numbers], Numbers]) -> None:
    dtype = kind_of(op.parts)
    with np.errstate(all="ignore"):
        block.put(op.operands[0], lanes, function(block.raw(op.operands[1], lanes, dtype)).astype(dtype))


@instruction("neg")
def negate(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    if dtype.kind in "iu":
        _unary(block, op, lanes, lambda a: np.zeros_like(a) - a)
    else:
        bits = np.dtype(f"u{dtype.itemsize}")
        value = block.raw(op.operands[1], lanes, bits)
        block.put(op.operands[0], lanes, value ^ bits.type(1 << (8 * bits.itemsize - 1)))


# The approximations of the hardware stand here without their errors.
_FUNCTIONS: dict[str, Callable[[Numbers], Numbers]] = {
    "abs": np.abs, "sqrt": np.sqrt, "rcp": lambda a: a.dtype.type(1) / a, "rsqrt": lambda a: 1 / np.sqrt(a),
    "ex2": np.exp2, "lg2": np.log2, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
}  # fmt: skip


@instruction(*_FUNCTIONS)
def function_of_one(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    _unary(block, op, lanes, _FUNCTIONS[op.name])


@instruction("copysign")
def copy_sign(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    sign, size = (block.raw(o, lanes, dtype) for o in op.operands[1:3])
    block.put(op.operands[0], lanes, np.copysign(size, sign))
