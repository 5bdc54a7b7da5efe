"""Build scalar Target IR from Python numbers and MLIR values alike.

`IndexBuilder` is an `Emitter` with the few operations that the lowering consists of.  An operand may be a Python int
where an index (i64) is meant; arithmetic on ints is done at once, so constant addresses never reach the IR.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.cuda.base.cache_hints import load_with_hint, store_with_hint

GLOBAL: Final = "!llvm.ptr<1>"
SHARED: Final = "!llvm.ptr<3>"
LOCAL: Final = "!llvm.ptr"
INDEX: Final = "i64"

_COMPARE: Final = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "sgt": 4, "sge": 5, "ult": 6, "ule": 7, "ugt": 8, "uge": 9}
_DYNAMIC: Final = -(2**31)
_WIDTHS: Final = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16}

Loop = Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]]


class IndexBuilder(Emitter):
    """Emits `arith`, `scf` and `llvm` operations at the current insertion point.

    fast: arithmetic may be approximate, as the kernel's author asked (see `fast_math`)
    """

    fast: bool = False

    # -- numbers -----------------------------------------------------------------------------------------------

    def index(self, value: Index) -> ir.Value:
        """Return an i64 value for `value`, which may be a Python int."""
        return self.constant(value, INDEX) if isinstance(value, int) else value

    def known(self, value: Index) -> int | None:
        """Return the number that an index is known to be, or None."""
        if isinstance(value, int):
            return value
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name != "arith.constant":
            return None
        attribute = owner.attributes["value"]
        return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None

    def word(self, value: int) -> ir.Value:
        """Return a constant i32."""
        return self.constant(value, "i32")

    def add(self, a: Index, b: Index) -> Index:
        """Return a + b of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int) and a == 0:
            return b
        return a if isinstance(b, int) and b == 0 else self._binary("arith.addi", a, b)

    def sub(self, a: Index, b: Index) -> Index:
        """Return a - b of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if isinstance(b, int) and b == 0 else self._binary("arith.subi", a, b)

    def mul(self, a: Index, b: Index) -> Index:
        """Return a * b of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for one, other in ((a, b), (b, a)):
            if isinstance(one, int) and one in (0, 1):
                return other if one else 0
        return self._binary("arith.muli", a, b)

    def divide(self, a: Index, b: Index) -> Index:
        """Return a // b of non-negative indices: by a power of two a shift, which LLVM then need not find out."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        if isinstance(b, int) and b.bit_count() == 1:
            return a if b == 1 else self._binary("arith.shrui", a, b.bit_length() - 1)
        return self._binary("arith.divui", a, b)

    def divide_words(self, a: Index, b: Index) -> Index:
        """Return a // b of non-negative indices below 2 ** 32, in a quarter of the instructions of `divide`."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return self.to_index(self.value("arith.divui", [self.to_word(v) for v in (a, b)], "i32"))

    def remainder(self, a: Index, b: Index) -> Index:
        """Return a % b of non-negative indices: by a power of two the low bits."""
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        if isinstance(b, int) and b.bit_count() == 1:
            return self.bits(a, b - 1) if b > 1 else 0
        return self._binary("arith.remui", a, b)

    def xor(self, a: Index, b: Index) -> Index:
        """Return a ^ b of indices."""
        return a ^ b if isinstance(a, int) and isinstance(b, int) else self._binary("arith.xori", a, b)

    def bits(self, a: Index, mask: int) -> Index:
        """Return a & mask of an index."""
        return a & mask if isinstance(a, int) else self._binary("arith.andi", a, mask)

    def minimum(self, a: Index, b: Index) -> Index:
        """Return the smaller of two indices (signed)."""
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else self._binary("arith.minsi", a, b)

    def maximum(self, a: Index, b: Index) -> Index:
        """Return the larger of two indices (signed)."""
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self._binary("arith.maxsi", a, b)

    def compare(self, predicate: str, a: Index, b: Index) -> ir.Value:
        """Return an i1: `a predicate b` of indices, or of two values of one integer type."""
        operands = [self.index(a), self.index(b)]
        return self.value("arith.cmpi", operands, "i1", {"predicate": f"{_COMPARE[predicate]} : i64"})

    def inside(self, a: Index, extent: Index) -> ir.Value:
        """Return an i1: 0 <= a < extent."""
        return self.compare("ult", a, extent)

    def all_of(self, conditions: Sequence[ir.Value]) -> ir.Value | None:
        """Return the conjunction of i1 values, or None when there are none."""
        return self.both(*conditions) if conditions else None

    def both(self, first: ir.Value, *others: ir.Value) -> ir.Value:
        """Return the conjunction of i1 values."""
        for other in others:
            first = self.value("arith.andi", [first, other], "i1")
        return first

    def select(self, condition: ir.Value, yes: Index, no: Index) -> ir.Value:
        """Return `yes` where the i1 `condition` holds, else `no`; Python ints are indices."""
        yes, no = self.index(yes), self.index(no)
        return self.value("arith.select", [condition, yes, no], yes.type)

    def to_word(self, index: Index) -> ir.Value:
        """Return an i32 of the low bits of an index."""
        if isinstance(index, int):
            return self.word(index)
        return self.value("arith.trunci", [index], "i32")

    def to_index(self, word: ir.Value) -> ir.Value:
        """Return an index of an i32 that is not negative."""
        return self.value("arith.extui", [word], INDEX)

    def _binary(self, name: str, a: Index, b: Index) -> ir.Value:
        return self.value(name, [self.index(a), self.index(b)], INDEX)

    # -- memory ------------------------------------------------------------------------------------------------

    def offset(self, pointer: ir.Value, index: Index, element: str) -> ir.Value:
        """Return the address of element number `index` of type `element` (its text) from `pointer` on."""
        if isinstance(index, int) and index == 0:
            return pointer
        fixed = isinstance(index, int) and abs(index) < -_DYNAMIC
        attributes = {
            "elem_type": f"{element}",
            "noWrapFlags": "0 : i32",
            "rawConstantIndices": f"array<i32: {index if fixed else _DYNAMIC}>",
        }
        operands = [pointer] if fixed else [pointer, self.index(index)]
        return self.value("llvm.getelementptr", operands, pointer.type, attributes)

    def load(self, pointer: ir.Value, element: str, hint: str = "") -> ir.Value:
        """Load the element at `pointer`; only global addresses take a cache hint, see `cache_hints`."""
        if hint:
            return load_with_hint(self, pointer, element, width(element) // 8, hint)
        return self.value("llvm.load", [pointer], element, self._access(element))

    def store(self, value: ir.Value, pointer: ir.Value, element: str, hint: str = "") -> None:
        """Store `value` at `pointer`; only global addresses take a cache hint, see `cache_hints`."""
        if hint:
            store_with_hint(self, value, pointer, width(element) // 8, hint)
            return
        self.create("llvm.store", [value, pointer], (), self._access(element))

    def _access(self, element: str) -> dict[str, str]:
        return {"alignment": f"{width(element) // 8} : i64", "ordering": "0 : i64"}

    def load_vector(self, pointer: ir.Value, length: int, element: str, hint: str = "") -> ir.Value:
        """Load `length` elements from a global address that is a multiple of their size; see `cache_hints`."""
        size = length * width(element) // 8
        kind = f"vector<{length}x{element}>"
        if hint:
            return load_with_hint(self, pointer, kind, size, hint)
        return self.value("llvm.load", [pointer], kind, {"alignment": f"{size} : i64", "ordering": "0 : i64"})

    def store_vector(self, vector: ir.Value, pointer: ir.Value, length: int, element: str, hint: str = "") -> None:
        """Store a vector of `length` elements at a global address that is a multiple of its size."""
        size = length * width(element) // 8
        if hint:
            store_with_hint(self, vector, pointer, size, hint)
            return
        self.create("llvm.store", [vector, pointer], (), {"alignment": f"{size} : i64", "ordering": "0 : i64"})

    def vector(self, values: Sequence[ir.Value]) -> ir.Value:
        """Return the vector of these scalars, all of one type."""
        vector = self.value("llvm.mlir.undef", [], f"vector<{len(values)}x{values[0].type}>")
        for number, value in enumerate(values):
            vector = self.value("llvm.insertelement", [vector, value, self.word(number)], vector.type)
        return vector

    def element(self, vector: ir.Value, number: int) -> ir.Value:
        """Return element `number` of a vector."""
        kind = ir.VectorType(vector.type).element_type
        return self.value("llvm.extractelement", [vector, self.word(number)], kind)

    # -- control -----------------------------------------------------------------------------------------------

    @contextmanager
    def when(self, condition: ir.Value | None) -> Generator[None]:
        """Emit what is inside the `with` under the i1 `condition` (None: always)."""
        if condition is None:
            yield
            return
        op = self.create("scf.if", [condition], (), regions=2)
        block = op.regions[0].blocks.append()
        with self.at(block):
            yield
            self.create("scf.yield")

    def choose(
        self, condition: ir.Value, yes: Callable[[], ir.Value], no: Callable[[], ir.Value], kind: ir.Type | str
    ) -> ir.Value:
        """Return the value of `yes()` where the i1 `condition` holds, else of `no()`: only one of them runs."""
        op = self.create("scf.if", [condition], [kind], regions=2)
        for region, branch in zip(op.regions, (yes, no), strict=True):
            with self.at(region.blocks.append()):
                self.create("scf.yield", [branch()])
        return op.results[0]

    def loop(
        self, lower: Index, upper: Index, step: Index, initial: Sequence[ir.Value], body: Loop,
        attributes: Mapping[str, str] | None = None,
    ) -> list[ir.Value]:  # fmt: skip
        """Emit `for index in range(lower, upper, step)`; `body(index, carried)` returns the next carried values."""
        bounds = [self.index(v) for v in (lower, upper, step)]
        op = self.create("scf.for", [*bounds, *initial], [v.type for v in initial], attributes, regions=1)
        kinds = [self.type(INDEX), *(v.type for v in initial)]
        block = op.regions[0].blocks.append(*kinds, arg_locs=[self.location] * len(kinds))
        with self.at(block):
            first, *carried = list[ir.Value](block.arguments)
            self.create("scf.yield", list(body(first, carried)))
        return list(op.results)


def width(element: str) -> int:
    """Return the bits that an element of this type takes in memory."""
    if element == "i1":
        return 8
    return _WIDTHS[element] if element in _WIDTHS else int(element[1:])
