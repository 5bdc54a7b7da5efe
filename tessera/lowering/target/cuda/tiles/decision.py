"""What a decision about a tile kernel is, and the kernel that it is about."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tessera.core.program.program import Program
from tessera.core.targets import Architecture
from tessera.lowering.target.cuda.build import width
from tessera.lowering.target.cuda.tiles.access import access_bytes
from tessera.lowering.target.cuda.tiles.memory_order import order_memory
from tessera.lowering.target.cuda.tiles.plan import Plan, padded
from tessera.lowering.target.cuda.uniformity import is_tile, walk

Mark = tuple[Any, str, str]
"""An operation, a title, and what was decided."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the tiles of a kernel cannot be kept in registers, which its products on tensor cores need.

    remedy: what to try; op: the operation that is the cause, None: the kernel as a whole
    """

    reason: str
    remedy: str
    op: Any = None


@dataclass
class Kernel:
    """A kernel that is decided about: its function, and the plan so far; `refusal`: why there is none."""

    function: Any
    program: Program
    chip: Architecture
    plan: Plan = field(default_factory=Plan)
    refusal: Refusal | None = None

    def __post_init__(self) -> None:
        self.block = self.function.regions[0].blocks[0]
        self.operations = list(walk(self.block))
        self.dots = [op for op in self.operations if op.name == "tessera.dot"]
        parameters = self.program.parameters
        self._kinds = {a: p.value.type for a, p in zip(self.block.arguments, parameters, strict=True)}
        for op in self.operations:
            if op.name in ("tessera.store", "tessera.masked_store", "tessera.write"):
                self.plan.written |= self.parameters(op.operands[0])
            if op.name in ("tessera.load", "tessera.read"):
                self.plan.loaded |= self.parameters(op.operands[0])
        self.plan.order = order_memory(self.operations)

    def parameters(self, memory: Any) -> set[int]:
        """The number of the parameter that a memref is."""
        return {number for number, argument in enumerate(self.block.arguments) if argument == memory}

    def only_reads(self, load: Any) -> bool:
        """Whether the kernel does not write the array of a load or read."""
        return not self.parameters(load.operands[0]) & self.plan.written

    @property
    def divides(self) -> bool:
        """Whether a warp can do the copies alone: it knows no number that is computed of tiles, or written before."""
        return not any(
            (op.name == "tessera.read" and not self.only_reads(op))
            or (any(is_tile(v.type) for v in op.operands) and any(not is_tile(v.type) for v in op.results))
            for op in self.operations
            if not len(op.regions)
        )

    def refuse(self, reason: str, remedy: str, op: Any = None) -> bool:
        """Say why there is no plan; gives False, what a decision then answers."""
        self.refusal = Refusal(reason, remedy, op)
        return False

    def option(self, name: str, default: int) -> int:
        """An option of the kernel that is a number or a truth value."""
        value = self.program.options.get(name, default)
        return int(value) if isinstance(value, int) else default

    def access_bytes(self, op: Any) -> int:
        """How many bytes of a load's or store's rows move at a time."""
        return access_bytes(self._kinds[op.operands[0]], op)

    def array(self, memory: Any) -> Any:
        """The type of the parameter that a memref is."""
        return self._kinds[memory]

    @property
    def largest(self) -> int:
        """32-bit values of the largest tile."""
        streamed = self.plan.streamed
        tiles = [v.type for op in self.operations if op not in streamed for v in op.results if is_tile(v.type)]
        kinds = [(kind.shape, kind.element_type) for kind in tiles]
        kinds += [(shape, op.operands[0].type.element_type) for op, shape in self.plan.parts.items()]
        return max(math.prod(padded(shape)) * max(1, width(str(element)) // 32) for shape, element in kinds)


@dataclass(frozen=True, slots=True)
class Decision(ABC):
    """One decision; `name` is what the levels call it."""

    name: ClassVar[str]

    @abstractmethod
    def decide(self, kernel: Kernel) -> bool:
        """Change the plan; False when this way of lowering does not hold the kernel (see `Kernel.refuse`)."""

    @abstractmethod
    def marks(self, plan: Plan, function: Any) -> Iterator[Mark]:
        """What was decided, by operation."""
