"""Copies of arrays whose rows begin anywhere to rows that begin at multiples of 128 bytes, for bulk copies to read.

The driver's two-dimensional copies do the same, at a fraction of the rate where rows are no multiples of 16 bytes.  So
there is a kernel for it, the same for all arrays: a lane takes 16 bytes of the copy, reads the two aligned pieces of
the array that hold them, and shifts them into place.  Nothing beside an array is read.
"""

import ctypes
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.artifact import PADDED_ROW_BYTES
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.driver.descriptors import LaunchConfig, launch_config
from tessera.runtime.driver.driver import Driver

_UNIT: Final = 16
_LANES: Final = 256
_EACH: Final = 4
"""Pieces of 16 bytes a lane copies: their loads are in flight together."""
_ENTRY: Final = "realign"
_WORDS: Final = 6
"""Parameters of the kernel for each array."""
_NULL: Final = ctypes.c_void_p(0)

MapOf = tuple[int, int, Callable[[int], bytes]]
"""A tensor map: its parameter, the number of its array, and what gives the map of one at an address."""
Written = tuple[int, bytes]
"""A parameter, and what is to be written there."""


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """An array without gaps as `count` rows of `size` bytes."""

    count: int
    size: int

    @staticmethod
    def of(shape: Sequence[int], itemsize: int) -> "PaddedRows":
        """Return the rows of an array without gaps: everything along its last axis."""
        return PaddedRows(math.prod(shape[:-1]), shape[-1] * itemsize)

    @property
    def pitch(self) -> int:
        """Bytes from one row of the copy to the next."""
        return -(-self.size // PADDED_ROW_BYTES) * PADDED_ROW_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of the copy."""
        return self.count * self.pitch


def padded_strides(array: AnyArray) -> tuple[int, ...]:
    """Return the strides, in bytes, of the copy of an array."""
    strides = [array.itemsize]
    step = PaddedRows.of(array.shape, array.itemsize).pitch
    for extent in reversed(array.shape[:-1]):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


class RowPadding:
    """The launch that copies some arrays, each to its place in one piece of memory of `bytes` bytes."""

    def __init__(self, driver: Driver, rows: Sequence[PaddedRows]) -> None:
        self._driver = driver
        self._rows = tuple(rows)
        self.offsets = tuple(sum(each.bytes for each in rows[:number]) for number in range(len(rows)))
        self.bytes = sum(each.bytes for each in rows)
        self._values = (ctypes.c_uint64 * (_WORDS * len(rows)))()
        start, size = ctypes.addressof(self._values), ctypes.sizeof(ctypes.c_uint64)
        self._pointers = (ctypes.c_void_p * len(self._values))(*(start + size * n for n in range(len(self._values))))
        end = 0
        for number, each in enumerate(self._rows):
            pieces = -(-each.size // _UNIT) * each.count
            end += -(-pieces // (_LANES * _EACH))
            first = _WORDS * number
            self._values[first + 2 : first + _WORDS] = [each.count, each.size, each.pitch, end]
        self._config: LaunchConfig = launch_config(end, _LANES, 0)
        self._calls: dict[int, tuple[ctypes.c_void_p, ...]] = {}

    def copy(self) -> "RowPadding":
        """Return the same copies with parameters of their own."""
        return RowPadding(self._driver, self._rows)

    def start(self, context: int, stream: int, sources: Sequence[int], memory: int) -> int:
        """Copy the arrays at `sources` into `memory`, in the order of the stream: the driver's status."""
        values = self._values
        for number, (source, offset) in enumerate(zip(sources, self.offsets, strict=True)):
            values[_WORDS * number], values[_WORDS * number + 1] = source, memory + offset
        self._config.stream = stream or None
        call = self._calls.get(context)
        if call is None:
            function = _function(self._driver, context, len(self._rows))
            places = ctypes.addressof(self._config), function, ctypes.addressof(self._pointers)
            call = self._calls[context] = (*map(ctypes.c_void_p, places), _NULL)
        return self._driver.start(*call)


@dataclass(slots=True, eq=False)
class AlignedCopies:
    """The copies that one launch needs, and who reads them.

    pointers: the kernel's parameters that hold the arrays' addresses, in the order of `launch`
    windows: tensor maps on the copies, each with the number of its array among `pointers`
    names: of the arrays, for errors
    """

    launch: RowPadding
    pointers: tuple[int, ...]
    windows: tuple[MapOf, ...]
    names: tuple[str, ...] = ()
    _memory: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of all copies together."""
        return self.launch.bytes

    def copy(self) -> "AlignedCopies":
        """Return the same copies for another launch, which may be begun in another thread."""
        return AlignedCopies(self.launch.copy(), self.pointers, self.windows, self.names, self._memory)

    def maps(self, memory: int) -> Iterator[Written]:
        """Yield the tensor maps that change when the copies lie in `memory`, all of which are to be written."""
        if memory != self._memory:
            self._memory = 0  # after an interrupt, or a map that was refused, all have to be written again
            for slot, number, map_at in self.windows:
                yield slot, map_at(memory + self.launch.offsets[number])
            self._memory = memory


_loaded: "weakref.WeakKeyDictionary[Driver, dict[tuple[int, int], int]]" = weakref.WeakKeyDictionary()


def _function(driver: Driver, context: int, arrays: int) -> int:
    """Return the kernel that copies `arrays` arrays, in the context, which is current."""
    known = _loaded.setdefault(driver, {})
    if (context, arrays) not in known:
        known[context, arrays] = driver.load(kernel_text(arrays).encode() + b"\0", _ENTRY)
    return known[context, arrays]


# -- the kernel ---------------------------------------------------------------------------------------------------


def kernel_text(arrays: int) -> str:
    """Return the PTX of the kernel for so many arrays; blocks are shared out among them in order.

    The kernel behind it may begin as soon as all blocks have, and wait for their end (see `LaunchRule.early`).

    Parameters of each: source, target, number of rows, bytes of a row, bytes between rows of the copy, and the number
    of the block after its last one.
    """
    names = [f"array{number}_{word}" for number in range(arrays) for word in range(_WORDS)]
    parameters = ",\n".join(f"  .param .u64 {name}" for name in names)
    return "\n".join([
        ".version 7.8", ".target sm_90", ".address_size 64", "",
        f".visible .entry {_ENTRY}(", parameters, ")", f".reqntid {_LANES}, 1, 1", "{", _REGISTERS,
        "  griddepcontrol.launch_dependents;", *_choice(arrays),
        *(_piece(number) for number in range(_EACH)), *(_moved(number) for number in range(_EACH)), "  ret;", "}", "",
    ])  # fmt: skip


_REGISTERS: Final = f"""\
  .reg .pred %p<8>;
  .reg .b32 %r<32>, %x<{8 * _EACH}>, %t<6>, %y<5>, %o<4>, %shift<{_EACH}>;
  .reg .b64 %rd<32>, %rdto<{_EACH}>;
  .reg .pred %in<{_EACH}>;"""


def _choice(arrays: int) -> list[str]:
    """Return the PTX that chooses the array a block copies, and its first lane's piece.

    %rd0 to %rd5: the array's parameters; %r2: number of the lane's first piece; %r3: pieces of a row; %r4: of all
    """
    lines = ["  mov.u32 %r0, %ctaid.x;", "  mov.u32 %r1, 0;"]
    lines += [f"  ld.param.u64 %rd{word}, [array0_{word}];" for word in range(_WORDS)]
    for number in range(1, arrays):
        lines += [
            f"  ld.param.u64 %rd6, [array{number - 1}_{_WORDS - 1}];", "  cvt.u32.u64 %r5, %rd6;",
            "  setp.lt.u32 %p0, %r0, %r5;", "  @%p0 bra chosen;", "  mov.u32 %r1, %r5;",
            *(f"  ld.param.u64 %rd{word}, [array{number}_{word}];" for word in range(_WORDS)),
        ]  # fmt: skip
    return [
        *lines, "chosen:", "  sub.u32 %r0, %r0, %r1;", "  mov.u32 %r5, %tid.x;",
        f"  mad.lo.u32 %r2, %r0, {_LANES * _EACH}, %r5;",
        "  cvt.u32.u64 %r3, %rd3;", "  add.u32 %r3, %r3, 15;", "  shr.u32 %r3, %r3, 4;",
        "  cvt.u32.u64 %r4, %rd2;", "  mul.lo.u32 %r4, %r4, %r3;",
        "  mul.lo.u64 %rd7, %rd2, %rd3;", "  add.u64 %rd7, %rd0, %rd7;",
    ]  # fmt: skip


def _piece(number: int) -> str:
    """Read the two aligned pieces that hold piece `number` of this lane, where both lie in the array; %rd7: its end."""
    first = 8 * number
    words = [f"%x{first + word}" for word in range(8)]
    zeros = "\n".join(f"  mov.u32 {word}, 0;" for word in (f"%shift{number}", *words))
    return f"""\
  add.u32 %r6, %r2, {number * _LANES};
  setp.lt.u32 %in{number}, %r6, %r4;
{zeros}
  @!%in{number} bra read{number};
  div.u32 %r7, %r6, %r3;
  mul.lo.u32 %r8, %r7, %r3;
  sub.u32 %r8, %r6, %r8;
  cvt.u64.u32 %rd8, %r7;
  mul.wide.u32 %rd9, %r8, 16;
  mul.lo.u64 %rd10, %rd8, %rd4;
  add.u64 %rd10, %rd10, %rd9;
  add.u64 %rdto{number}, %rd1, %rd10;
  mul.lo.u64 %rd11, %rd8, %rd3;
  add.u64 %rd11, %rd11, %rd9;
  add.u64 %rd11, %rd0, %rd11;
  cvt.u32.u64 %r9, %rd11;
  and.b32 %shift{number}, %r9, 15;
  cvt.u64.u32 %rd12, %shift{number};
  sub.u64 %rd12, %rd11, %rd12;
  add.u64 %rd13, %rd12, 16;
  setp.lt.u64 %p1, %rd13, %rd7;
  selp.u64 %rd14, 16, 0, %p1;
  add.u64 %rd14, %rd13, %rd14;
  setp.gt.u64 %p4, %rd14, %rd7;
  setp.lt.u64 %p5, %rd12, %rd0;
  or.pred %p4, %p4, %p5;
  @%p4 bra edge{number};
  ld.global.v4.u32 {{{", ".join(words[:4])}}}, [%rd12];
  @%p1 ld.global.v4.u32 {{{", ".join(words[4:])}}}, [%rd13];
  bra read{number};
edge{number}:
{_bytewise(number)}
read{number}:"""


def _bytewise(number: int) -> str:
    """Copy a piece beside which the array begins or ends byte by byte, and leave nothing to be written.

    %rd11: where it begins in the array, whose end %rd7 is
    """
    return f"""\
  setp.ne.u32 %in{number}, %r6, %r6;
  mov.u64 %rd14, 0;
byte{number}:
  add.u64 %rd15, %rd11, %rd14;
  add.u64 %rd16, %rdto{number}, %rd14;
  mov.u32 %r13, 0;
  setp.lt.u64 %p6, %rd15, %rd7;
  @%p6 ld.global.u8 %r13, [%rd15];
  st.global.u8 [%rd16], %r13;
  add.u64 %rd14, %rd14, 1;
  setp.lt.u64 %p7, %rd14, 16;
  @%p7 bra byte{number};"""


def _moved(number: int) -> str:
    """Shift them by whole words, by bytes, and write the piece."""
    first = 8 * number
    lines = [
        f"  and.b32 %r10, %shift{number}, 8;", "  setp.ne.u32 %p2, %r10, 0;",
        f"  and.b32 %r11, %shift{number}, 4;", "  setp.ne.u32 %p3, %r11, 0;",
        f"  and.b32 %r12, %shift{number}, 3;", "  shl.b32 %r12, %r12, 3;",
    ]  # fmt: skip
    lines += [f"  selp.b32 %t{word}, %x{first + word + 2}, %x{first + word}, %p2;" for word in range(6)]
    lines += [f"  selp.b32 %y{word}, %t{word + 1}, %t{word}, %p3;" for word in range(5)]
    lines += [f"  shf.r.wrap.b32 %o{word}, %y{word}, %y{word + 1}, %r12;" for word in range(4)]
    return "\n".join([*lines, f"  @%in{number} st.global.v4.u32 [%rdto{number}], {{%o0, %o1, %o2, %o3}};"])
