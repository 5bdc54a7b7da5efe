"""Scalar code of the Target IR, written with Python numbers and MLIR values alike.

`IndexBuilder` is an `Emitter` with the few operations the lowering is made of.  An operand may be a Python int where
an index (i64) is meant; arithmetic on ints is done at once, so constant addresses never reach the IR.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.cuda.base.cache_hints import load_with_hint, store_with_hint

GLOBAL: Final = "!llvm.ptr<1>"
SHARED: Final = "!llvm.ptr<3>"
LOCAL: Final = "!llvm.ptr"
INDEX: Final = "i64"

_COMPARE: Final = {"eq": 0, "ne": 1, "slt": 2, "sle": 3, "sgt": 4, "sge": 5, "ult": 6, "ule": 7, "ugt": 8, "uge": 9}
_DYNAMIC: Final = -(2**31)
_WIDTHS: Final = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16}

Loop = Callable[[Any, list[Any]], Sequence[Any]]


class IndexBuilder(Emitter):
    """Emits `arith`, `scf` and `llvm` operations at the current insertion point.

    fast: arithmetic may be approximate (see `fast`), as the kernel's author said
    """

    fast: bool = False

    # -- numbers -----------------------------------------------------------------------------------------------

    def index(self, value: Any) -> Any:
        """An i64 value for `value`, which may be a Python int."""
        return self.constant(value, INDEX) if isinstance(value, int) else value

    def known(self, value: Any) -> int | None:
        """The number that an index is known to be, or None."""
        if isinstance(value, int):
            return value
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name != "arith.constant":
            return None
        attribute = owner.attributes["value"]
        return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None

    def word(self, value: int) -> Any:
        """A constant i32."""
        return self.constant(value, "i32")

    def add(self, a: Any, b: Any) -> Any:
        """a + b of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, int) and a == 0:
            return b
        return a if isinstance(b, int) and b == 0 else self._binary("arith.addi", a, b)

    def sub(self, a: Any, b: Any) -> Any:
        """a - b of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if isinstance(b, int) and b == 0 else self._binary("arith.subi", a, b)

    def mul(self, a: Any, b: Any) -> Any:
        """a * b of indices."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for one, other in ((a, b), (b, a)):
            if isinstance(one, int) and one in (0, 1):
                return other if one else 0
        return self._binary("arith.muli", a, b)

    def divide(self, a: Any, b: Any) -> Any:
        """a // b of indices that are not negative; of a power of two, which LLVM need not find out, a shift."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        if isinstance(b, int) and b.bit_count() == 1:
            return a if b == 1 else self._binary("arith.shrui", a, b.bit_length() - 1)
        return self._binary("arith.divui", a, b)

    def divide_words(self, a: Any, b: Any) -> Any:
        """a // b of indices that are not negative and below 2 ** 32, in a quarter of the instructions of `divide`."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return self.to_index(self.value("arith.divui", [self.to_word(v) for v in (a, b)], "i32"))

    def remainder(self, a: Any, b: Any) -> Any:
        """a % b of indices that are not negative; of a power of two, its low bits."""
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        if isinstance(b, int) and b.bit_count() == 1:
            return self.bits(a, b - 1) if b > 1 else 0
        return self._binary("arith.remui", a, b)

    def xor(self, a: Any, b: Any) -> Any:
        """a ^ b of indices."""
        return a ^ b if isinstance(a, int) and isinstance(b, int) else self._binary("arith.xori", a, b)

    def bits(self, a: Any, mask: int) -> Any:
        """a & mask of indices."""
        return a & mask if isinstance(a, int) else self._binary("arith.andi", a, mask)

    def minimum(self, a: Any, b: Any) -> Any:
        """The smaller of two indices (signed)."""
        return min(a, b) if isinstance(a, int) and isinstance(b, int) else self._binary("arith.minsi", a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        """The larger of two indices (signed)."""
        return max(a, b) if isinstance(a, int) and isinstance(b, int) else self._binary("arith.maxsi", a, b)

    def compare(self, predicate: str, a: Any, b: Any) -> Any:
        """An i1: `a predicate b` of indices, or of two values of one integer type."""
        operands = [self.index(a), self.index(b)]
        return self.value("arith.cmpi", operands, "i1", {"predicate": f"{_COMPARE[predicate]} : i64"})

    def inside(self, a: Any, extent: Any) -> Any:
        """An i1: 0 <= a < extent."""
        return self.compare("ult", a, extent)

    def all_of(self, conditions: Sequence[Any]) -> Any:
        """The conjunction of i1 values, or None when there are none."""
        result = None
        for condition in conditions:
            result = condition if result is None else self.value("arith.andi", [result, condition], "i1")
        return result

    def select(self, condition: Any, yes: Any, no: Any) -> Any:
        """`yes` where the i1 `condition` holds, else `no`; Python ints are indices."""
        yes, no = self.index(yes), self.index(no)
        return self.value("arith.select", [condition, yes, no], yes.type)

    def to_word(self, index: Any) -> Any:
        """An i32 of the low bits of an index."""
        if isinstance(index, int):
            return self.word(index)
        return self.value("arith.trunci", [index], "i32")

    def to_index(self, word: Any) -> Any:
        """An index of an i32 that is not negative."""
        return self.value("arith.extui", [word], INDEX)

    def _binary(self, name: str, a: Any, b: Any) -> Any:
        return self.value(name, [self.index(a), self.index(b)], INDEX)

    # -- memory ------------------------------------------------------------------------------------------------

    def offset(self, pointer: Any, index: Any, element: str) -> Any:
        """The address of element number `index` of type `element` (its text) behind `pointer`."""
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

    def load(self, pointer: Any, element: str, hint: str = "") -> Any:
        """The element at `pointer`; of a global one with a cache hint, see `cache`."""
        if hint:
            return load_with_hint(self, pointer, element, width(element) // 8, hint)
        return self.value("llvm.load", [pointer], element, self._access(element))

    def store(self, value: Any, pointer: Any, element: str, hint: str = "") -> None:
        """Put `value` at `pointer`; at a global one with a cache hint, see `cache`."""
        if hint:
            store_with_hint(self, value, pointer, width(element) // 8, hint)
            return
        self.create("llvm.store", [value, pointer], (), self._access(element))

    def _access(self, element: str) -> dict[str, str]:
        return {"alignment": f"{width(element) // 8} : i64", "ordering": "0 : i64"}

    def load_vector(self, pointer: Any, length: int, element: str, hint: str = "") -> Any:
        """`length` elements from `pointer` on, a global address that is a multiple of their size; see `cache`."""
        size = length * width(element) // 8
        kind = f"vector<{length}x{element}>"
        if hint:
            return load_with_hint(self, pointer, kind, size, hint)
        return self.value("llvm.load", [pointer], kind, {"alignment": f"{size} : i64", "ordering": "0 : i64"})

    def store_vector(self, vector: Any, pointer: Any, length: int, element: str, hint: str = "") -> None:
        """Put a vector of `length` elements at a global address that is a multiple of its size."""
        size = length * width(element) // 8
        if hint:
            store_with_hint(self, vector, pointer, size, hint)
            return
        self.create("llvm.store", [vector, pointer], (), {"alignment": f"{size} : i64", "ordering": "0 : i64"})

    def vector(self, values: Sequence[Any]) -> Any:
        """The vector of these scalars, all of one type."""
        vector = self.value("llvm.mlir.undef", [], f"vector<{len(values)}x{values[0].type}>")
        for number, value in enumerate(values):
            vector = self.value("llvm.insertelement", [vector, value, self.word(number)], vector.type)
        return vector

    def element(self, vector: Any, number: int) -> Any:
        """Element `number` of a vector."""
        kind = ir.VectorType(vector.type).element_type
        return self.value("llvm.extractelement", [vector, self.word(number)], kind)

    # -- control -----------------------------------------------------------------------------------------------

    @contextmanager
    def when(self, condition: Any) -> Generator[None]:
        """Emit what is inside the `with` under the i1 `condition` (None: always)."""
        if condition is None:
            yield
            return
        op = self.create("scf.if", [condition], (), regions=2)
        block = op.regions[0].blocks.append()
        with self.at(block):
            yield
            self.create("scf.yield")

    def choose(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any], kind: Any) -> Any:
        """The value of `yes()` where the i1 `condition` holds, else of `no()`: only one of them runs."""
        op = self.create("scf.if", [condition], [kind], regions=2)
        for region, branch in zip(op.regions, (yes, no), strict=True):
            with self.at(region.blocks.append()):
                self.create("scf.yield", [branch()])
        return op.results[0]

    def loop(
        self, lower: Any, upper: Any, step: Any, initial: Sequence[Any], body: Loop,
        attributes: Mapping[str, str] | None = None,
    ) -> list[Any]:  # fmt: skip
        """`for index in range(lower, upper, step)` with carried values; `body(index, carried)` gives the next ones."""
        bounds = [self.index(v) for v in (lower, upper, step)]
        op = self.create("scf.for", [*bounds, *initial], [v.type for v in initial], attributes, regions=1)
        kinds = [self.type(INDEX), *(v.type for v in initial)]
        block = op.regions[0].blocks.append(*kinds, arg_locs=[self.location] * len(kinds))
        with self.at(block):
            first, *carried = block.arguments
            self.create("scf.yield", list(body(first, carried)))
        return list(op.results)


def width(element: str) -> int:
    """Bits an element of this type takes in memory."""
    if element == "i1":
        return 8
    return _WIDTHS[element] if element in _WIDTHS else int(element[1:])
