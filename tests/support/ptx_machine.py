"""Runs PTX text on NumPy arrays: the part of the ISA that LLVM emits for our kernels, without a GPU.

One block at a time; the lanes of a block are executed warp by warp in an order drawn from a seed, so that a missing
barrier shows.  Copies of `cp.async` arrive only when they are waited for.  Every access is checked against the buffers
that exist.  Registers are arrays of bits, one entry a lane.
"""

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction

import ml_dtypes
import numpy as np

WARP = 32
BASE, GAP = 1 << 32, 1 << 16
LOCAL_BASE = 1 << 56
PROCESSORS = 2

_LABEL = re.compile(r"^(\$?[\w$]+):")
_INSTRUCTION = re.compile(r"^(?:@(!?)(%\w+)\s+)?([\w.:]+)\s*(.*?);?$")
_SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.[a-z](\d+)\s+([\w$]+)(?:\[(\d*)\])?")
_DEPOT = re.compile(r"\.local\s+\.align\s+\d+\s+\.b8\s+(\w+)\[(\d+)\]")
_FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
_POISON = 0xA5
_INLINE = re.compile(r"// begin inline asm\n(.*?)// end inline asm", re.DOTALL)
_DECLARED = re.compile(r"\.reg\s+\.(\w+)\s+([^;]+);")
_PREFIXES = {"pred": "%p_", "b16": "%rs_", "b32": "%r_", "f32": "%f_", "b64": "%rd_"}


class PtxFault(Exception):
    """The program did what no correct kernel does."""


@dataclass
class Instruction:
    guard: str | None
    negated: bool
    name: str
    parts: list[str]
    operands: list[str]
    text: str


@dataclass
class Kernel:
    """Parsed PTX: `code` with branch targets in `labels`, parameters in order, shared buffers by name."""

    parameters: list[str]
    code: list[Instruction]
    labels: dict[str, int]
    shared: dict[str, tuple[int, int]]
    depot: int = 0
    lanes: int = 0


def parse(text: str) -> Kernel:
    parameters = re.findall(
        r"\.param\s+[^,)]*?(\w+)(?:\[\d+\])?(?=[,\n)])", text[text.index(".entry") : text.index("{")]
    )
    shared, code, labels, depot = {}, [], {}, 0
    lanes = int(re.search(r"\.reqntid\s+(\d+)", text)[1])
    for raw in _INLINE.sub(lambda match: _unfold(match[1]), text).splitlines():
        line = raw.split("//")[0].strip()
        if match := _SHARED.search(line):
            align = int(match[1])
            start = max((s + n for s, n in shared.values()), default=0)
            count = int(match[4] or 0) if "[" in line else 1
            shared[match[3]] = (-(-start // align) * align, int(match[2]) // 8 * count)
            continue
        if match := _DEPOT.search(line):
            depot = int(match[2])
            shared[match[1]] = (LOCAL_BASE, 0)
            continue
        if match := _LABEL.match(line):
            labels[match[1]] = len(code)
            continue
        if not line or line[0] in ".{})" or line.startswith("."):
            if line.startswith("{") and len(line) > 1:
                line = line[1:].strip()
            else:
                continue
        match = _INSTRUCTION.match(line)
        if match is None or not line.endswith(";"):
            continue
        operands = [o.strip() for o in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", match[4])]
        parts = match[3].split(".")
        code.append(Instruction(match[2], match[1] == "!", parts[0], parts[1:], operands, line))
    return Kernel(parameters, code, labels, shared, depot, lanes)


def _unfold(text: str) -> str:
    """Inline assembly, an instruction a line, with the names that it declares made those of registers."""
    for kind, names in _DECLARED.findall(text):
        for name in names.split(","):
            text = re.sub(rf"(?<![\w%]){name.strip()}(?!\w)", _PREFIXES[kind] + name.strip(), text)
    text = _DECLARED.sub("", text).strip()
    if text.startswith("{"):
        text = text[1 : text.rindex("}")]
    return "\n".join(f"{part.strip()};" for part in text.split(";") if part.strip()) + "\n"


@dataclass
class Memory:
    """Global memory: byte arrays at addresses with gaps between them."""

    buffers: list[tuple[int, np.ndarray]] = field(default_factory=list)
    next: int = BASE
    ticks: int = 0

    def place(self, array: np.ndarray) -> int:
        """Give `array` (contiguous) an address; it is changed in place."""
        view = array.reshape(-1).view(np.uint8)
        address, self.next = self.next, self.next + -(-view.size // 256) * 256 + GAP
        self.buffers.append((address, view))
        return address

    def find(self, address: int, size: int, text: str) -> np.ndarray:
        for base, view in self.buffers:
            if base <= address and address + size <= base + view.size:
                return view[address - base : address - base + size]
        raise PtxFault(f"{text}: no buffer holds {size} bytes at {address:#x}")


def run(
    text: str, blocks: int, arguments: list, memory: Memory, shared_bytes: int = 0, seed: int | None = None
) -> None:
    """Run a whole grid; `arguments` are one 8-byte value each, integers or NumPy scalars."""
    kernel = parse(text)
    values = dict(zip(kernel.parameters, arguments, strict=True))
    for block in range(blocks):
        _Block(kernel, values, memory, block, blocks, shared_bytes, np.random.default_rng(seed), seed is not None).run()


class _Block:
    def __init__(self, kernel, values, memory, block, blocks, shared_bytes, rng, shuffled):
        self.kernel, self.values, self.memory, self.rng = kernel, values, memory, rng
        self.shuffled = shuffled
        n = self.n = kernel.lanes
        self.block, self.blocks = block, blocks
        self.registers: dict[str, np.ndarray] = {}
        self.pc = np.zeros(n, np.int64)
        self.done = np.zeros(n, bool)
        self.waiting = np.full(n, -1)
        self.needed = np.zeros(n, np.int64)
        self.origin = np.zeros(n, np.int64)
        self.gathered = np.full(n, -1)
        self.masks = np.zeros(n, np.uint32)
        self.objects: dict[int, list[int]] = {}
        size = max([shared_bytes, *(s + c for s, c in kernel.shared.values() if s < LOCAL_BASE)])
        self.shared = np.full(size, _POISON, np.uint8)
        self.local = np.full((n, kernel.depot), _POISON, np.uint8)
        self.copies: list[list[list]] = [[[]] for _ in range(n)]
        self.tid = np.arange(n)

    # -- scheduling ----------------------------------------------------------------------------------------------

    def run(self) -> None:
        steps = 0
        while not self.done.all():
            ready = ~self.done & (self.waiting < 0) & (self.gathered < 0)
            if not ready.any():
                raise PtxFault("deadlock: every lane waits at a barrier that never fills")
            lanes = np.flatnonzero(ready)
            if self.shuffled:
                warps = np.unique(lanes // WARP)
                warp = self.rng.choice(warps)
                for _ in range(int(self.rng.integers(1, 200))):
                    mine = lanes[(lanes // WARP == warp)]
                    mine = mine[~self.done[mine] & (self.waiting[mine] < 0) & (self.gathered[mine] < 0)]
                    if not mine.size:
                        break
                    self.step(mine[self.pc[mine] == self.pc[mine].min()])
                    steps += 1
            else:
                self.step(lanes[self.pc[lanes] == self.pc[lanes].min()])
                steps += 1
            if steps > 3_000_000:
                raise PtxFault("the program does not end")

    def step(self, lanes: np.ndarray) -> None:
        at = int(self.pc[lanes[0]])
        if at >= len(self.kernel.code):
            self.done[lanes] = True
            return
        op = self.kernel.code[at]
        self.pc[lanes] += 1
        if op.guard is not None:
            taken = self.registers[op.guard][lanes] != op.negated
            lanes = lanes[taken]
            if not lanes.size:
                return
        handler = getattr(self, f"_{op.name}", None)
        if handler is None:
            raise PtxFault(f"no such instruction here: {op.text}")
        if op.parts and op.parts[-1].endswith("x2"):
            self.pairs(op, lanes, at, handler)
        else:
            handler(op, lanes, at)

    def pairs(self, op, lanes, at, handler) -> None:
        """An instruction on two 16-bit floats: that on one, twice."""
        result = np.zeros(len(lanes), np.uint32)
        names = [f"%rs_{number}" for number in range(len(op.operands))]
        single = replace(op, parts=[part.removesuffix("x2") for part in op.parts], operands=names)
        for half in range(2):
            for name, operand in zip(names[1:], op.operands[1:], strict=True):
                bits = self.raw(operand, lanes, np.uint32)
                self.put(name, lanes, (bits >> np.uint32(16 * half)).astype(np.uint16))
            handler(single, lanes, at)
            result |= self.registers[names[0]][lanes].astype(np.uint32) << np.uint32(16 * half)
        self.put(op.operands[0], lanes, result)

    # -- operands ------------------------------------------------------------------------------------------------

    def raw(self, operand: str, lanes: np.ndarray, dtype) -> np.ndarray:
        """The operand's bits, read as `dtype`."""
        dtype = np.dtype(dtype)
        bits = np.dtype(f"u{dtype.itemsize}")
        if operand in self.registers:
            value = self.registers[operand][lanes]
            if value.dtype == bool:
                return value
            if value.dtype.itemsize != dtype.itemsize:
                value = value.astype(bits)
            return np.ascontiguousarray(value).view(dtype)
        return np.full(len(lanes), self.constant(operand, dtype), bits).view(dtype)

    def constant(self, text: str, dtype) -> int:
        mask = (1 << (8 * dtype.itemsize)) - 1
        if text[:2] in ("0f", "0d"):
            return int.from_bytes(bytes.fromhex(text[2:]), "big")
        if text in self.kernel.shared:
            return self.kernel.shared[text][0]
        special = {
            "%ctaid.x": self.block,
            "%nctaid.x": self.blocks,
            "%ntid.x": self.n,
            "%smid": self.block % PROCESSORS,
        }
        if text in special:
            return special[text]
        if (match := re.match(r"^([\w$]+)\+(\d+)$", text)) and match[1] in self.kernel.shared:
            return self.kernel.shared[match[1]][0] + int(match[2])
        if re.match(r"^-?\d", text):
            return int(text.removesuffix("U"), 0) & mask
        raise PtxFault(f"an operand that has no value: {text}")

    def put(self, name: str, lanes: np.ndarray, value: np.ndarray) -> None:
        if name in ("_", "%_"):
            return
        if value.dtype != bool:
            value = np.ascontiguousarray(value).view(np.dtype(f"u{value.dtype.itemsize}"))
            size = {"%rs": 2, "%rd": 8, "%SP": 8}.get(name[:3], 4)
            value = value.astype(np.dtype(f"u{size}"))
        kept = self.registers.get(name)
        if kept is None or kept.dtype != value.dtype:
            kept = self.registers[name] = np.zeros(self.n, value.dtype)
        kept[lanes] = value

    @staticmethod
    def kind(parts: list[str]):
        """The last type among the instruction's suffixes, as a dtype."""
        return _dtype(next(p for p in reversed(parts) if _is_type(p)))

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _binary(self, op, lanes, function):
        dtype = self.kind(op.parts)
        a, b = (self.raw(o, lanes, dtype) for o in op.operands[1:3])
        with np.errstate(all="ignore"):
            self.put(op.operands[0], lanes, function(a, b).astype(dtype))

    def _add(self, op, lanes, _):
        self._rounded(op)
        self._binary(op, lanes, lambda a, b: a + b)

    def _sub(self, op, lanes, _):
        self._rounded(op)
        self._binary(op, lanes, lambda a, b: a - b)

    @staticmethod
    def _rounded(op):
        """Without a rounding modifier ptxas could fuse a multiplication and an addition."""
        if op.parts[-1] in _FLOATS and "rn" not in op.parts:
            raise PtxFault(f"may be contracted: {op.text}")

    def _mul(self, op, lanes, _):
        dtype = self.kind(op.parts)
        a, b = (self.raw(o, lanes, dtype) for o in op.operands[1:3])
        with np.errstate(all="ignore"):
            if "wide" in op.parts:
                double = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}")
                value = a.astype(double) * b.astype(double)
            elif "hi" in op.parts:
                wide = [int(x) * int(y) >> (8 * dtype.itemsize) for x, y in zip(a, b, strict=True)]
                value = np.array([w & ((1 << (8 * dtype.itemsize)) - 1) for w in wide], f"u{dtype.itemsize}")
            else:
                self._rounded(op)
                value = (a * b).astype(dtype)
        self.put(op.operands[0], lanes, value)

    def _mad(self, op, lanes, _):
        dtype = self.kind(op.parts)
        a, b = (self.raw(o, lanes, dtype) for o in op.operands[1:3])
        wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}") if "wide" in op.parts else dtype
        with np.errstate(all="ignore"):
            value = a.astype(wide) * b.astype(wide) + self.raw(op.operands[3], lanes, wide)
        self.put(op.operands[0], lanes, value.astype(wide))

    def _fma(self, op, lanes, _):
        dtype = self.kind(op.parts)
        a, b, c = (self.raw(o, lanes, dtype) for o in op.operands[1:4])
        self.put(op.operands[0], lanes, fused(a, b, c))

    def _div(self, op, lanes, _):
        dtype = self.kind(op.parts)
        if dtype.kind in "iu":
            self._binary(op, lanes, lambda a, b: _truncate(a, b)[0])
        else:
            self._binary(op, lanes, lambda a, b: a / b)

    def _rem(self, op, lanes, _):
        self._binary(op, lanes, lambda a, b: _truncate(a, b)[1])

    def _min(self, op, lanes, _):
        self._binary(op, lanes, lambda a, b: _extreme(op, a, b, np.minimum, np.fmin))

    def _max(self, op, lanes, _):
        self._binary(op, lanes, lambda a, b: _extreme(op, a, b, np.maximum, np.fmax))

    def _unary(self, op, lanes, function):
        dtype = self.kind(op.parts)
        with np.errstate(all="ignore"):
            self.put(op.operands[0], lanes, function(self.raw(op.operands[1], lanes, dtype)).astype(dtype))

    def _neg(self, op, lanes, _):
        dtype = self.kind(op.parts)
        if dtype.kind in "iu":
            self._unary(op, lanes, lambda a: np.zeros_like(a) - a)
        else:
            bits = np.dtype(f"u{dtype.itemsize}")
            value = self.raw(op.operands[1], lanes, bits)
            self.put(op.operands[0], lanes, value ^ bits.type(1 << (8 * bits.itemsize - 1)))

    def _abs(self, op, lanes, _):
        self._unary(op, lanes, np.abs)

    def _sqrt(self, op, lanes, _):
        self._unary(op, lanes, np.sqrt)

    def _rcp(self, op, lanes, _):
        self._unary(op, lanes, lambda a: a.dtype.type(1) / a)

    def _ex2(self, op, lanes, _):
        """The approximations of the hardware, without their errors."""
        self._unary(op, lanes, np.exp2)

    def _lg2(self, op, lanes, _):
        self._unary(op, lanes, np.log2)

    def _rsqrt(self, op, lanes, _):
        self._unary(op, lanes, lambda a: 1 / np.sqrt(a))

    def _tanh(self, op, lanes, _):
        self._unary(op, lanes, np.tanh)

    def _sin(self, op, lanes, _):
        self._unary(op, lanes, np.sin)

    def _cos(self, op, lanes, _):
        self._unary(op, lanes, np.cos)

    def _copysign(self, op, lanes, _):
        dtype = self.kind(op.parts)
        sign, size = (self.raw(o, lanes, dtype) for o in op.operands[1:3])
        self.put(op.operands[0], lanes, np.copysign(size, sign))

    def _logic(self, op, lanes, function):
        if op.parts[-1] == "pred":
            values = [self.predicate(o, lanes) for o in op.operands[1:]]
        else:
            values = [self.raw(o, lanes, self.kind(op.parts)) for o in op.operands[1:]]
        self.put(op.operands[0], lanes, function(*values))

    def predicate(self, operand, lanes):
        if operand in self.registers:
            return self.registers[operand][lanes]
        return np.full(len(lanes), int(operand) != 0)

    def _and(self, op, lanes, _):
        self._logic(op, lanes, np.bitwise_and)

    def _or(self, op, lanes, _):
        self._logic(op, lanes, np.bitwise_or)

    def _xor(self, op, lanes, _):
        self._logic(op, lanes, np.bitwise_xor)

    def _not(self, op, lanes, _):
        self._logic(op, lanes, np.invert)

    def _shift(self, op, lanes, function):
        dtype = self.kind(op.parts)
        a, count = self.raw(op.operands[1], lanes, dtype), self.raw(op.operands[2], lanes, np.uint32)
        limit = 8 * dtype.itemsize
        self.put(op.operands[0], lanes, function(a, count, limit).astype(dtype))

    def _shl(self, op, lanes, _):
        def shift(a, count, limit):
            return np.where(count < limit, a << np.minimum(count, limit - 1).astype(a.dtype), a.dtype.type(0))

        self._shift(op, lanes, shift)

    def _shr(self, op, lanes, _):
        def shift(a, count, limit):
            moved = a >> np.minimum(count, limit - 1).astype(a.dtype)
            return np.where((count < limit) | (a.dtype.kind == "i"), moved, a.dtype.type(0))

        self._shift(op, lanes, shift)

    def _shf(self, op, lanes, _):
        low, high, count = (self.raw(o, lanes, np.uint32).astype(np.uint64) for o in op.operands[1:4])
        count = np.minimum(count, 32) if "clamp" in op.parts else count & np.uint64(31)
        both = high << np.uint64(32) | low
        value = both << count >> np.uint64(32) if "l" in op.parts else both >> count
        self.put(op.operands[0], lanes, (value & np.uint64(0xFFFFFFFF)).astype(np.uint32))

    def _bfe(self, op, lanes, _):
        dtype = self.kind(op.parts)
        a = self.raw(op.operands[1], lanes, dtype)
        start, count = (int(o) for o in op.operands[2:4])
        bits = 8 * dtype.itemsize
        left = dtype.type(bits - start - count)
        self.put(op.operands[0], lanes, (a << left) >> dtype.type(bits - count))

    def _bfi(self, op, lanes, _):
        dtype = self.kind(op.parts)
        a, b = (self.raw(o, lanes, dtype) for o in op.operands[1:3])
        start, count = int(op.operands[3]), int(op.operands[4])
        mask = dtype.type(((1 << count) - 1) << start)
        self.put(op.operands[0], lanes, (b & ~mask) | ((a << dtype.type(start)) & mask))

    def _prmt(self, op, lanes, _):
        a, b, select = (self.raw(o, lanes, np.uint32) for o in op.operands[1:4])
        both = np.stack([a, b], axis=-1).view(np.uint8).reshape(len(lanes), 8)
        result = np.zeros((len(lanes), 4), np.uint8)
        for i in range(4):
            nibble = (select >> np.uint32(4 * i)) & np.uint32(15)
            byte = both[np.arange(len(lanes)), nibble & 7]
            result[:, i] = np.where(nibble & 8, np.where(byte & 0x80, 255, 0), byte)
        self.put(op.operands[0], lanes, result.view(np.uint32).reshape(-1))

    def _clz(self, op, lanes, _):
        dtype = self.kind(op.parts)
        a = self.raw(op.operands[1], lanes, dtype)
        count = np.array([8 * dtype.itemsize - int(x).bit_length() for x in a], np.uint32)
        self.put(op.operands[0], lanes, count)

    # -- conditions and conversions ------------------------------------------------------------------------------

    def _setp(self, op, lanes, _):
        dtype = self.kind(op.parts)
        a, b = (self.raw(o, lanes, dtype) for o in op.operands[1:3])
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
        self.put(op.operands[0], lanes, value)

    def _selp(self, op, lanes, _):
        dtype = self.kind(op.parts)
        a, b = (self.raw(o, lanes, dtype) for o in op.operands[1:3])
        self.put(op.operands[0], lanes, np.where(self.registers[op.operands[3]][lanes], a, b))

    def _cvt(self, op, lanes, _):
        if op.parts[-2].endswith("x2"):  # two f32, the first operand in the upper half
            half = _dtype(op.parts[-2].removesuffix("x2"))
            upper, lower = (self.raw(o, lanes, np.float32).astype(half).view(np.uint16) for o in op.operands[1:3])
            self.put(op.operands[0], lanes, upper.astype(np.uint32) << np.uint32(16) | lower)
            return
        target, source = [_dtype(p) for p in op.parts if _is_type(p)]
        a = self.raw(op.operands[1], lanes, source)
        rounding = next((p for p in op.parts if p in ("rni", "rzi", "rmi", "rpi")), None)
        with np.errstate(all="ignore"):
            if rounding is not None and source.kind not in "iu":
                a = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[rounding](a)
            if target.kind in "iu" and source.kind not in "iu":
                value = _saturate(a, target)
            elif target.kind in "iu" or source.kind not in "iu" or target.itemsize >= 4:
                value = a.astype(target)
            else:
                value = a.astype(np.float64).astype(target)
        if target.kind == "i" and target.itemsize < 4:  # the sign fills the register
            value = value.astype(np.int16 if op.operands[0][:3] == "%rs" else np.int32)
        self.put(op.operands[0], lanes, value)

    def _cvta(self, op, lanes, _):
        self.put(op.operands[0], lanes, self.raw(op.operands[1], lanes, np.uint64))

    def _mov(self, op, lanes, _):
        target, source = op.operands
        if op.parts[-1] == "pred":
            self.put(target, lanes, self.predicate(source, lanes))
            return
        dtype = np.dtype(f"u{self.kind(op.parts).itemsize}")
        if source.startswith("{"):
            names = [n.strip() for n in source[1:-1].split(",")]
            part = np.dtype(f"u{dtype.itemsize // len(names)}")
            whole = np.stack([self.raw(n, lanes, part) for n in names], axis=-1)
            self.put(target, lanes, whole.view(dtype).reshape(-1))
        elif target.startswith("{"):
            names = [n.strip() for n in target[1:-1].split(",")]
            part = np.dtype(f"u{dtype.itemsize // len(names)}")
            pieces = self.raw(source, lanes, dtype).view(part).reshape(len(lanes), len(names))
            for index, name in enumerate(names):
                self.put(name, lanes, pieces[:, index])
        elif source == "%tid.x":
            self.put(target, lanes, lanes.astype(dtype))
        elif source in ("%globaltimer", "%clock64"):
            self.memory.ticks += 1
            self.put(target, lanes, np.full(len(lanes), self.memory.ticks, np.uint64))
        elif source == "%laneid":
            self.put(target, lanes, (lanes % WARP).astype(dtype))
        else:
            self.put(target, lanes, self.raw(source, lanes, dtype))

    # -- memory --------------------------------------------------------------------------------------------------

    def addresses(self, operand: str, lanes: np.ndarray) -> np.ndarray:
        inner = operand.strip("[]").replace(" ", "")
        name, _, offset = inner.partition("+")
        base = self.raw(name, lanes, np.uint64).astype(np.int64)
        return base + (int(offset, 0) if offset else 0)

    def window(self, space: str, lane: int, address: int, size: int, text: str) -> np.ndarray:
        if address % size if size in (1, 2, 4, 8, 16) else 0:
            raise PtxFault(f"{text}: address {address:#x} is not aligned to {size}")
        if space == "shared":
            if not 0 <= address <= self.shared.size - size:
                raise PtxFault(f"{text}: shared address {address} of {self.shared.size}")
            return self.shared[address : address + size]
        if address >= LOCAL_BASE:
            start = address - LOCAL_BASE
            if start + size > self.local.shape[1]:
                raise PtxFault(f"{text}: local address {start}")
            return self.local[lane, start : start + size]
        return self.memory.find(address, size, text)

    def _access(self, op):
        space = next((p for p in op.parts if p in ("global", "shared", "local", "param")), "generic")
        dtype = np.dtype(f"u{self.kind(op.parts).itemsize}")
        names = op.operands
        return space, dtype, names

    def _ld(self, op, lanes, _):
        space, dtype, (target, source, *_) = self._access(op)
        names = [n.strip() for n in target.strip("{}").split(",")]
        if space == "param":
            value = np.asarray(self.values[source.strip("[]")])
            bits = int.from_bytes(value.tobytes()[: dtype.itemsize], "little")
            self.put(names[0], lanes, np.full(len(lanes), bits, dtype))
            return
        size = dtype.itemsize * len(names)
        found = np.empty((len(lanes), size), np.uint8)
        for row, (lane, address) in enumerate(zip(lanes, self.addresses(source, lanes), strict=True)):
            found[row] = self.window(space, int(lane), int(address), size, op.text)
        values = found.view(dtype)
        signed = op.parts[-1][0] == "s"
        for index, name in enumerate(names):
            column = np.ascontiguousarray(values[:, index])
            if signed:
                column = column.view(f"i{dtype.itemsize}").astype("i8" if name[:3] == "%rd" else "i4")
            self.put(name, lanes, column)

    def _st(self, op, lanes, _):
        space, dtype, (target, source, *_) = self._access(op)
        names = [n.strip() for n in source.strip("{}").split(",")]
        rows = np.stack([self.raw(n, lanes, dtype) for n in names], axis=-1).view(np.uint8)
        for row, (lane, address) in enumerate(zip(lanes, self.addresses(target, lanes), strict=True)):
            self.window(space, int(lane), int(address), rows.shape[1], op.text)[:] = rows[row]

    def _red(self, op, lanes, _):
        """Only what is added to global memory without a result."""
        assert "add" in op.parts
        target, source = op.operands
        values = self.raw(source, lanes, np.uint64)
        for value, address in zip(values, self.addresses(target, lanes), strict=True):
            word = self.window("global", 0, int(address), 8, op.text).view(np.uint64)
            word += value

    def _createpolicy(self, op, lanes, _):
        """How long a cache keeps something changes no value."""
        self.put(op.operands[0], lanes, np.zeros(len(lanes), np.uint64))

    def _cp(self, op, lanes, _):
        if "commit_group" in op.parts:
            for lane in lanes:
                self.copies[lane].append([])
            return
        if "wait_group" in op.parts or "wait_all" in op.parts:
            left = int(op.operands[0]) if "wait_group" in op.parts else -1
            for lane in lanes:
                # The last list holds what is not committed yet, which only `wait_all` waits for.
                count = len(self.copies[lane]) - 1 - left
                for target, data, text in (copy for group in self.copies[lane][: max(0, count)] for copy in group):
                    self.window("shared", int(lane), target, len(data), text)[:] = data
                self.copies[lane] = self.copies[lane][max(0, count) :] or [[]]
            return
        size = int(op.operands[2])
        amounts = self.raw(op.operands[3], lanes, np.uint32) if len(op.operands) > 3 else np.full(len(lanes), size)
        targets, sources = (self.addresses(o, lanes) for o in op.operands[:2])
        for lane, target, source, amount in zip(lanes, targets, sources, amounts, strict=True):
            data = np.zeros(size, np.uint8)
            if source % size:
                raise PtxFault(f"{op.text}: source {int(source):#x} is not aligned")
            if amount:
                data[:amount] = self.memory.find(int(source), int(amount), op.text)
            self.copies[lane][-1].append((int(target), data, op.text))

    # -- control and exchange ------------------------------------------------------------------------------------

    def _bra(self, op, lanes, _):
        self.pc[lanes] = self.kernel.labels[op.operands[0]]

    def _ret(self, op, lanes, _):
        self.done[lanes] = True
        self.release()

    def _bar(self, op, lanes, at):
        if "warp" in op.parts:
            self.gather(lanes, self.raw(op.operands[0], lanes, np.uint32), at)
            return
        number = self.raw(op.operands[0], lanes, np.uint32)
        count = self.raw(op.operands[1], lanes, np.uint32) if len(op.operands) > 1 else np.zeros(len(lanes), np.uint32)
        self.origin[lanes] = at if op.name == "bar" else -1
        self.waiting[lanes] = number
        self.needed[lanes] = count
        self.release()

    _barrier = _bar

    def _mbarrier(self, op, lanes, _):
        """Barriers in shared memory: a phase ends with the last arrival; the state of an arrival is its phase."""
        if op.parts[0] == "init":
            places, counts = self.addresses(op.operands[0], lanes), self.raw(op.operands[1], lanes, np.uint32)
            for place, count in zip(places, counts, strict=True):
                self.objects[int(place)] = [int(count), 0, 0]
            return
        states = np.zeros(len(lanes), np.uint64)
        for row, place in enumerate(self.addresses(op.operands[1], lanes)):
            found = self.objects[int(place)]
            states[row] = found[2]
            if op.parts[0] == "arrive":
                found[1] += 1
                if found[1] == found[0]:
                    found[1:] = [0, found[2] + 1]
        if op.parts[0] == "test_wait":
            self.put(op.operands[0], lanes, states > self.raw(op.operands[2], lanes, np.uint64))
        else:
            self.put(op.operands[0], lanes, states)

    def release(self) -> None:
        """Let the lanes of every barrier that is complete go on."""
        for number in np.unique(self.waiting[self.waiting >= 0]):
            here = self.waiting == number
            needed = int(self.needed[here].max())
            missing = np.unique(self.tid[~here & ~self.done] // WARP)
            warps = [w for w in np.unique(self.tid[here] // WARP) if w not in missing]
            if (len(warps) * WARP < needed) if needed else len(missing):
                continue
            for warp in warps:
                if len(np.unique(self.origin[here & (self.tid // WARP == warp)])) > 1:
                    raise PtxFault(f"the lanes of warp {warp} wait at different barriers")
            self.waiting[here] = -1

    def gather(self, lanes, masks, at) -> np.ndarray:
        """A lane waits at a `.sync` instruction for all lanes its mask names; gives those that wait no longer."""
        self.gathered[lanes] = at
        self.masks[lanes] = masks
        ready = []
        for lane in np.flatnonzero(self.gathered == at):
            wanted = self.named(lane, self.masks[lane])
            if lane not in wanted:
                raise PtxFault(f"{self.kernel.code[at].text}: lane {lane} is not in its own mask")
            if (self.gathered[wanted] == at).all():
                ready.append(lane)
        self.gathered[ready] = -1
        return np.array(ready, np.int64)

    def named(self, lane, mask) -> np.ndarray:
        first = lane // WARP * WARP
        wanted = first + np.flatnonzero(int(mask) >> np.arange(WARP) & 1)
        if (wanted >= self.n).any():
            raise PtxFault("a mask names lanes that do not exist")
        return wanted

    def _shfl(self, op, lanes, at):
        target, value, amount, clamp, mask = op.operands
        target = target.split("|")[0]
        lanes = self.gather(lanes, self.raw(mask, lanes, np.uint32), at)
        if not lanes.size:
            return
        bits = self.raw(value, lanes, np.uint32)
        b, c = self.raw(amount, lanes, np.uint32) & 31, self.raw(clamp, lanes, np.uint32)
        masks = self.raw(mask, lanes, np.uint32)
        mine = lanes % WARP
        segment, limit = (c >> 8) & 31, c & 31
        top = (mine & segment) | (limit & ~segment & 31)
        low = mine & segment
        mode = next(p for p in op.parts if p in ("up", "down", "bfly", "idx"))
        if mode == "up":
            source, valid = mine - b.astype(np.int64), mine.astype(np.int64) - b >= top
        elif mode == "down":
            source, valid = mine + b, mine + b <= top
        elif mode == "bfly":
            source, valid = mine ^ b, (mine ^ b) <= top
        else:
            source, valid = low | (b & ~segment & 31), (low | (b & ~segment & 31)) <= top
        result = bits.copy()
        for row, lane in enumerate(lanes):
            if valid[row]:
                other = int(lane) // WARP * WARP + int(source[row])
                if int(masks[row]) >> int(source[row]) & 1 == 0:
                    raise PtxFault(f"{op.text}: lane {lane} reads lane {other}, which does not take part")
                result[row] = bits[np.flatnonzero(lanes == other)[0]]
        self.put(target, lanes, result)

    def whole_warps(self, lanes, at) -> np.ndarray:
        """Lanes of the warps that have all arrived at an instruction that a whole warp executes, [warps, 32]."""
        lanes = self.gather(lanes, np.full(len(lanes), 0xFFFFFFFF, np.uint32), at)
        return lanes.reshape(-1, WARP)

    def _ldmatrix(self, op, lanes, at):
        names = [n.strip() for n in op.operands[0].strip("{}").split(",")]
        for warp in self.whole_warps(lanes, at):
            addresses = self.addresses(op.operands[1], warp)
            for number, name in enumerate(names):
                rows = range(8 * number, 8 * number + 8)
                found = [
                    self.window("shared", int(warp[r]), int(addresses[r]), 16, op.text).view(np.uint16) for r in rows
                ]
                matrix = np.array(found).T if "trans" in op.parts else np.array(found)
                self.put(name, warp, np.ascontiguousarray(matrix).view(np.uint32).reshape(-1))

    def _mma(self, op, lanes, at):
        """m16n8k16 with f32 sums, added in f64 and rounded once: the hardware's order is its own."""
        assert "m16n8k16" in op.parts
        kind = _FLOATS[op.parts[-2]]
        names = [[n.strip() for n in operand.strip("{}").split(",")] for operand in op.operands]
        for warp in self.whole_warps(lanes, at):
            row, pair = np.arange(WARP) // 4, np.arange(WARP) % 4 * 2
            a, b, c = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
            for number in range(4):
                c[row + 8 * (number // 2), pair + number % 2] = self.raw(names[3][number], warp, np.float32)
                halves = self.raw(names[1][number], warp, np.uint32).view(np.uint16).view(kind).reshape(WARP, 2)
                for half in range(2):
                    a[row + 8 * (number % 2), pair + half + 8 * (number // 2)] = halves[:, half].astype(np.float64)
            for number in range(2):
                halves = self.raw(names[2][number], warp, np.uint32).view(np.uint16).view(kind).reshape(WARP, 2)
                for half in range(2):
                    b[pair + half + 8 * number, row] = halves[:, half].astype(np.float64)
            with np.errstate(all="ignore"):
                total = (a @ b + c).astype(np.float32)
            for number in range(4):
                self.put(names[0][number], warp, total[row + 8 * (number // 2), pair + number % 2])

    def _vote(self, op, lanes, at):
        lanes = self.gather(lanes, self.raw(op.operands[2], lanes, np.uint32), at)
        value = self.predicate(op.operands[1], lanes)
        result = np.zeros(len(lanes), np.uint32)
        for row, lane in enumerate(lanes):
            same = lanes // WARP == lane // WARP
            result[row] = sum(1 << int(x % WARP) for x in lanes[same & value])
        self.put(op.operands[0], lanes, result)

    def _activemask(self, op, lanes, _):
        result = [sum(1 << int(x % WARP) for x in lanes[lanes // WARP == lane // WARP]) for lane in lanes]
        self.put(op.operands[0], lanes, np.array(result, np.uint32))


def fused(a, b, c):
    """a * b + c rounded once, for arrays of one float type."""
    dtype = a.dtype
    if dtype.itemsize == 8:
        return np.array([_fused_double(*map(float, v)) for v in zip(a, b, c, strict=True)], np.float64)
    with np.errstate(all="ignore"):
        product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        total = product + addend
        virtual = total - product
        error = (product - (total - virtual)) + (addend - virtual)
        bits = total.view(np.int64)
        # Round to odd, so that rounding to the narrow type afterwards is the only rounding.
        fix = (error != 0) & np.isfinite(total) & ((bits & 1) == 0)
        away = (error > 0) == (total > 0)
        odd = np.where(fix, np.where(away, bits + 1, bits - 1), bits).view(np.float64)
        if dtype == np.float32:
            return odd.astype(np.float32)
        return odd.astype(dtype)


def _fused_double(a: float, b: float, c: float) -> float:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        with np.errstate(all="ignore"):
            return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def _extreme(op, a, b, with_nan, without_nan):
    """`min` or `max`; -0 is below +0, which NumPy leaves open."""
    if a.dtype.kind in "iu":
        return with_nan(a, b)
    result = (with_nan if "NaN" in op.parts else without_nan)(a, b)
    zeros = (a == 0) & (b == 0)
    negative = np.signbit(a) & np.signbit(b) if with_nan is np.maximum else np.signbit(a) | np.signbit(b)
    return np.where(zeros, np.where(negative, -np.zeros_like(a), np.zeros_like(a)), result)


def _truncate(a, b):
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    quotients = [0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
    rests = [x - q * y for (x, y), q in zip(pairs, quotients, strict=True)]
    mask = (1 << (8 * a.dtype.itemsize)) - 1
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return tuple(np.array([v & mask for v in values], unsigned).view(a.dtype) for values in (quotients, rests))


def _saturate(a, target):
    info = np.iinfo(target)
    values = [0 if np.isnan(v) else max(info.min, min(info.max, int(v) if np.isfinite(v) else (info.max if v > 0 else info.min)))
              for v in a.astype(np.float64)]  # fmt: skip
    return np.array(values, target)


def _is_type(part: str) -> bool:
    return part in _FLOATS or re.fullmatch(r"[busf]\d+", part) is not None


def _dtype(part: str) -> np.dtype:
    if part in _FLOATS:
        return np.dtype(_FLOATS[part])
    return np.dtype(f"{'i' if part[0] == 's' else 'u'}{int(part[1:]) // 8}")
