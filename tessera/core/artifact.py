"""A compiled kernel as data: everything the runtime needs to launch it, and nothing of MLIR or LLVM.

Calling convention, the same on every target: the kernel's arguments are a list of 8-byte `Slot`s, in the order of
`Artifact.slots`.  On the CPU they lie in one array and the entry point is

    int32_t entry(const int64_t *slots, int64_t first_group, int64_t past_last_group, void *scratch,
                  const volatile int32_t *cancel)

which runs groups [first_group, past_last_group) and returns 0, or 1 when it saw `*cancel != 0` and stopped.
`scratch` is 64-byte aligned memory of `scratch_bytes`, private to the calling thread.  On a GPU each slot is one
kernel parameter.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.source import Source, Span
from tessera.core.events import Attempted
from tessera.core.program.expressions import Expression, make
from tessera.core.program.types import Type
from tessera.core.resources import Buffers
from tessera.core.targets import Target

PADDED_ROW_BYTES: Final = 128
"""The rows of a padded copy (see `TensorMap`) are multiples of this: whole cache lines."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A window on an array for the GPU's bulk tensor copies (TMA): a kernel parameter of 128 bytes, aligned to 64.

    box: elements along each axis of the array, in the array's own order (outermost first)
    swizzle: 0, 32, 64 or 128: bytes of the rows inside which 16-byte units are permuted in shared memory
    rounded: whether f32 are rounded to tf32 on the way
    padded_rows: whether the window is on a copy of the array whose rows begin at multiples of PADDED_ROW_BYTES; the
                 launcher makes it before the kernel, of an array without gaps whose rows may begin anywhere
    stored: whether the kernel stores through it; else it loads
    """

    box: tuple[int, ...]
    swizzle: int = 0
    rounded: bool = False
    padded_rows: bool = False
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Slot:
    """One argument, of 8 bytes but for "tensor_map".

    kind "pointer": address of array parameter `parameter`
         "stride": stride in elements of axis `axis` (only of arrays that are not contiguous)
         "scalar": a scalar parameter's value, in its own dtype, in the low bytes
         "symbol": the extent named `symbol`
         "grid":   groups along `axis` (0..2) of the launch
         "lanes":  lanes of the whole launch (for kernels without `tile[...]`)
         "workspace": address of a zeroed global buffer of `bytes` bytes shared by all groups of one launch
         "scratch": (GPU) address of `Resources.scratch_bytes` for each block of the launch; such a kernel takes any
                    number of blocks, each of which does one group after the other
         "tensor_map": (GPU) a CUtensorMap of array parameter `parameter`, made by the launcher from `tensor_map`; the
                    array's innermost stride is 1, its address and other strides are multiples of 16 bytes, where it
                    is not `padded_rows`
         "profile": address of the launch's profile records, see `core.profile`; 0 without a profile
    """

    kind: str
    parameter: int = 0
    axis: int = 0
    symbol: str = ""
    bytes: int = 0
    tensor_map: TensorMap | None = None


@dataclass(frozen=True, slots=True)
class Binding:
    """One parameter as the launcher checks it; `type` is an Array or a Scalar."""

    name: str
    type: Type
    mutable: bool
    span: Span


def _largest(extents: tuple[Expression, ...]) -> Expression:
    return functools.reduce(lambda a, b: make("max", a, b), extents)


def _steps(length: Expression, step: int) -> Expression:
    return make("floordiv", make("add", length, step - 1), step)


@dataclass(frozen=True, slots=True)
class LaunchRule:
    """How many groups a launch has.

    kind "groups": groups of `group` lanes along each axis; a call without a grid launches ceil(domain / lanes in a
                   group) groups, where domain is the largest of `extents`; where `axes` is not empty, as many along
                   each axis as the largest of its bounds needs
         "lanes":  no `tile[...]`: the domain (largest of `extents`, or grid x block) is cut into pieces of
                   `lanes_per_group` lanes, each of which is one unit of work
         "ranges": one group a point of the product over `ranges` of ceil(length / step)
         "single": one group
    On a GPU `lanes_per_group` are the lanes of a hardware block, whatever the kind; where `elements` is not 1, each
    thread of it runs that many of them, so that the block has `threads` threads.
    `persistent` (GPU) launches as many blocks as fit the machine at a time, at most the number of groups; each does
    one group after the other; `cluster` is the number of blocks of a thread block cluster, 1 for none.
    `early` (GPU) blocks may begin before the kernel in front of them on their stream has ended, for which they wait.
    `extents`, `axes`, `count` and the first of each pair in `ranges` hold expressions of symbols.  Where `count` is not
    empty, its largest is the number of groups of a call without a grid (kind "groups").
    """

    kind: str
    extents: tuple[Expression, ...] = ()
    group: tuple[int, ...] = ()
    lanes_per_group: int = 0
    ranges: tuple[tuple[Expression, int], ...] = ()
    count: tuple[Expression, ...] = ()
    axes: tuple[tuple[Expression, ...], ...] = ()
    persistent: bool = False
    cluster: int = 1
    elements: int = 1
    early: bool = False

    @property
    def groups(self) -> Expression | None:
        """How many groups a call without a grid has; None where that takes a grid."""
        if self.kind == "single":
            return 1
        if self.kind == "ranges":
            found: Expression = 1
            for length, step in self.ranges:
                found = make("mul", found, _steps(length, step))
            return found
        if self.count:
            return _largest(self.count)
        if self.axes:
            found = 1
            for bounds, lanes in zip(self.axes, (*self.group, 1, 1), strict=False):
                found = make("mul", found, _steps(_largest(bounds), lanes))
            return found
        size = self.lanes_per_group if self.kind == "lanes" else math.prod(self.group or (1,))
        return _steps(_largest(self.extents), size) if self.extents else None

    @property
    def threads(self) -> int:
        """Threads of a hardware block."""
        return (self.lanes_per_group or math.prod(self.group)) // self.elements


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on how a kernel was compiled: `text`, about the source at `span`.

    concerns: the arrays, by their parameters' numbers, whose size decides whether it is worth a warning; none: it is
    """

    text: str
    span: Span
    concerns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources that one group (CPU: one thread) needs, in bytes and registers a lane; GPU fields are None elsewhere.

    spill_bytes: stored and loaded where a lane's registers do not suffice; stack_bytes: of a lane
    barriers: hardware barriers of a group; notes: what the assembler has to say, such as a request it ignored
    lanes: of a hardware block, where the driver knows them and a launch does not say (CUDA Tile)
    buffers: of what is copied to shared memory, and gathered there, as many as there turned out to be room for
    attempts: (GPU) the schedules that were tried, and why all but the last one do not fit
    """

    scratch_bytes: int = 0
    shared_bytes: int = 0
    registers: int | None = None
    spill_bytes: int | None = None
    stack_bytes: int | None = None
    barriers: int | None = None
    notes: tuple[str, ...] = ()
    lanes: int | None = None
    buffers: tuple[Buffers, ...] = ()
    attempts: tuple[Attempted, ...] = ()


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled kernel.

    key: content address (hex) of program, target, options and toolchain versions
    code: an ELF object (CPU) or a cubin (CUDA), empty for "interpret"
    entry: the symbol to call or launch
    bounded: no loop whose trip count depends on the arguments, and few trips of others: a small launch may run in the
        caller's thread, which Ctrl-C does not end
    remarks: what the user is warned of
    apart: parameters (one written, one read) that may not be given one array, as groups would see each other's results
    """

    key: str
    name: str
    target: Target
    code: bytes
    entry: str
    bindings: tuple[Binding, ...]
    symbols: tuple[tuple[str, int, int, int], ...]  # (name, parameter, axis, scale), first binding first
    slots: tuple[Slot, ...]
    launch: LaunchRule
    resources: Resources
    bounded: bool
    source: Source
    span: Span
    toolchain: Mapping[str, str] = field(default_factory=dict[str, str])
    remarks: tuple[Remark, ...] = ()
    no_alias: tuple[tuple[int, int], ...] = ()
