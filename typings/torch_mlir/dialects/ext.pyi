# What the door hands on of `torch_mlir.dialects.ext`, which is written in Python, without types.
from torch_mlir import ir

class Dialect:
    DIALECT_NAMESPACE: str
    Operation: type[Operation]

    def __init_subclass__(cls, name: str) -> None: ...
    @classmethod
    def load(cls) -> None:
        """Load the dialect into the current context."""

class Operation(ir.OpView): ...

class Pure:
    @staticmethod
    def attach(op_name: str) -> None: ...

class Operand:
    def __class_getitem__(cls, constraint: object, /) -> type[Operand]: ...

class Result:
    def __class_getitem__(cls, constraint: object, /) -> type[Result]: ...
