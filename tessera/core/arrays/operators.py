"""Python's operators on a value, as NumPy has them: arithmetic, comparisons, bits."""

from abc import ABC, abstractmethod
from typing import Self


class Operators(ABC):
    """Define `x + 1`, `2 / x`, `x < y`, `~x` and their like by three methods."""

    @abstractmethod
    def binary(self, opcode: str, left: object, right: object) -> Self:
        """Apply an operation of two operands, one of which is this value."""

    @abstractmethod
    def compare(self, predicate: str, other: object) -> Self:
        """Compare this value with another one."""

    @abstractmethod
    def unary(self, opcode: str) -> Self:
        """Apply an operation of one operand."""

    def __add__(self, other: object) -> Self:
        return self.binary("add", self, other)

    def __radd__(self, other: object) -> Self:
        return self.binary("add", other, self)

    def __sub__(self, other: object) -> Self:
        return self.binary("sub", self, other)

    def __rsub__(self, other: object) -> Self:
        return self.binary("sub", other, self)

    def __mul__(self, other: object) -> Self:
        return self.binary("mul", self, other)

    def __rmul__(self, other: object) -> Self:
        return self.binary("mul", other, self)

    def __truediv__(self, other: object) -> Self:
        return self.binary("div", self, other)

    def __rtruediv__(self, other: object) -> Self:
        return self.binary("div", other, self)

    def __floordiv__(self, other: object) -> Self:
        return self.binary("floordiv", self, other)

    def __rfloordiv__(self, other: object) -> Self:
        return self.binary("floordiv", other, self)

    def __mod__(self, other: object) -> Self:
        return self.binary("mod", self, other)

    def __rmod__(self, other: object) -> Self:
        return self.binary("mod", other, self)

    def __divmod__(self, other: object) -> tuple[Self, Self]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[Self, Self]:
        return self.binary("floordiv", other, self), self.binary("mod", other, self)

    def __pow__(self, other: object) -> Self:
        return self.binary("pow", self, other)

    def __rpow__(self, other: object) -> Self:
        return self.binary("pow", other, self)

    def __and__(self, other: object) -> Self:
        return self.binary("and", self, other)

    def __rand__(self, other: object) -> Self:
        return self.binary("and", other, self)

    def __or__(self, other: object) -> Self:
        return self.binary("or", self, other)

    def __ror__(self, other: object) -> Self:
        return self.binary("or", other, self)

    def __xor__(self, other: object) -> Self:
        return self.binary("xor", self, other)

    def __rxor__(self, other: object) -> Self:
        return self.binary("xor", other, self)

    def __lshift__(self, other: object) -> Self:
        return self.binary("shl", self, other)

    def __rlshift__(self, other: object) -> Self:
        return self.binary("shl", other, self)

    def __rshift__(self, other: object) -> Self:
        return self.binary("shr", self, other)

    def __rrshift__(self, other: object) -> Self:
        return self.binary("shr", other, self)

    def __lt__(self, other: object) -> Self:
        return self.compare("lt", other)

    def __le__(self, other: object) -> Self:
        return self.compare("le", other)

    def __gt__(self, other: object) -> Self:
        return self.compare("gt", other)

    def __ge__(self, other: object) -> Self:
        return self.compare("ge", other)

    def __eq__(self, other: object) -> Self:  # type: ignore[override]  # as NumPy: element by element
        return self.compare("eq", other)

    def __ne__(self, other: object) -> Self:  # type: ignore[override]
        return self.compare("ne", other)

    def __hash__(self) -> int:
        return id(self)

    def __pos__(self) -> Self:
        return self

    def __neg__(self) -> Self:
        return self.unary("neg")

    def __abs__(self) -> Self:
        return self.unary("abs")

    def __invert__(self) -> Self:
        return self.unary("not")
