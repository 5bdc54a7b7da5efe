"""An operand that records what is computed of it as text."""

from typing import Self


class SymbolicOperand:
    """Operators as text; classes that define operators by them inherit from it first."""

    def __init__(self, text: str) -> None:
        self.text = text

    def binary(self, opcode: str, left: object, right: object) -> Self:
        return type(self)(f"{opcode}({left}, {right})")

    def compare(self, predicate: str, other: object) -> Self:
        return type(self)(f"{predicate}({self}, {other})")

    def unary(self, opcode: str) -> Self:
        return type(self)(f"{opcode}({self})")

    def __matmul__(self, other: object) -> Self:
        return type(self)(f"matmul({self}, {other})")

    def __rmatmul__(self, other: object) -> Self:
        return type(self)(f"matmul({other}, {self})")

    def __repr__(self) -> str:
        return self.text
