"""Comparisons, selections, conversions, and moves between registers."""

import numpy as np

from support.ptx_machine.instructions import instruction
from support.ptx_machine.numbers import is_type, kind_of, saturate, type_of
from support.ptx_machine.parsing import Instruction
from support.ptx_machine.state import WARP, Block, Lanes
from tessera.runtime.interpret.rounding import to_tf32


@instruction("setp")
def compare(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    a, b = (block.raw(o, lanes, dtype) for o in op.operands[1:3])
    name = op.parts[0]
    unordered = np.isnan(a) | np.isnan(b) if dtype.kind not in "iu" else np.zeros(len(lanes), bool)
    if name == "nan":
        value = unordered
    elif name == "num":
        value = ~unordered
    else:
        base = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
        loose = len(base) == 3 and base.endswith("u")
        compare = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
                   "ge": np.greater_equal}[base[:2]]  # fmt: skip
        with np.errstate(all="ignore"):
            value = compare(a, b)
        value = value | unordered if loose else value & ~unordered
    block.put(op.operands[0], lanes, value)


@instruction("selp")
def select(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    dtype = kind_of(op.parts)
    a, b = (block.raw(o, lanes, dtype) for o in op.operands[1:3])
    block.put(op.operands[0], lanes, np.where(block.registers[op.operands[3]][lanes], a, b))


@instruction("cvt")
def convert(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    if "tf32" in op.parts:
        assert "rn" in op.parts
        block.put(op.operands[0], lanes, to_tf32(block.raw(op.operands[1], lanes, np.float32)).view(np.uint32))
        return
    if op.parts[-2].endswith("x2"):  # two f32, the first operand in the upper half
        half = type_of(op.parts[-2].removesuffix("x2"))
        with np.errstate(over="ignore"):
            upper, lower = (block.raw(o, lanes, np.float32).astype(half).view(np.uint16) for o in op.operands[1:3])
        block.put(op.operands[0], lanes, upper.astype(np.uint32) << np.uint32(16) | lower)
        return
    target, source = [type_of(p) for p in op.parts if is_type(p)]
    a = block.raw(op.operands[1], lanes, source)
    rounding = next((p for p in op.parts if p in ("rni", "rzi", "rmi", "rpi")), None)
    with np.errstate(all="ignore"):
        if rounding is not None and source.kind not in "iu":
            a = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[rounding](a)
        if target.kind in "iu" and source.kind not in "iu":
            value = saturate(a, target)
        elif target.kind in "iu" or source.kind not in "iu" or target.itemsize >= 4:
            value = a.astype(target)
        else:
            value = a.astype(np.float64).astype(target)
    if target.kind == "i" and target.itemsize < 4:  # the sign fills the register
        value = value.astype(np.int16 if op.operands[0][:3] == "%rs" else np.int32)
    block.put(op.operands[0], lanes, value)


@instruction("cvta")
def convert_address(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    block.put(op.operands[0], lanes, block.raw(op.operands[1], lanes, np.uint64))


@instruction("mov")
def move(block: Block, op: Instruction, lanes: Lanes, _: int) -> None:
    target, source = op.operands
    if op.parts[-1] == "pred":
        block.put(target, lanes, block.predicate(source, lanes))
        return
    dtype = np.dtype(f"u{kind_of(op.parts).itemsize}")
    if source.startswith("{"):
        names = [n.strip() for n in source[1:-1].split(",")]
        part = np.dtype(f"u{dtype.itemsize // len(names)}")
        whole = np.stack([block.raw(n, lanes, part) for n in names], axis=-1)
        block.put(target, lanes, whole.view(dtype).reshape(-1))
    elif target.startswith("{"):
        names = [n.strip() for n in target[1:-1].split(",")]
        part = np.dtype(f"u{dtype.itemsize // len(names)}")
        pieces = block.raw(source, lanes, dtype).view(part).reshape(len(lanes), len(names))
        for index, name in enumerate(names):
            block.put(name, lanes, pieces[:, index])
    elif source == "%tid.x":
        block.put(target, lanes, lanes.astype(dtype))
    elif source in ("%globaltimer", "%clock64"):
        block.memory.ticks += 1
        block.put(target, lanes, np.full(len(lanes), block.memory.ticks, np.uint64))
    elif source == "%laneid":
        block.put(target, lanes, (lanes % WARP).astype(dtype))
    else:
        block.put(target, lanes, block.raw(source, lanes, dtype))
