"""Write MLIR operations by name: the one way all stages create IR.

`Emitter` wraps an insertion point and a current location.  It builds through `ir.Operation.create`, which needs no
Python module of the dialect (those cost 10 to 25 ms each to import); the dialect itself is registered in C++.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from tessera.core.mlir import AnyOp, ir

T = TypeVar("T")


def required(value: T | None) -> T:
    """Return `value`, which is known to be there."""
    assert value is not None
    return value


class Emitter:
    """Creates operations at the current insertion point, with the current location.

    Values are MLIR values; types are MLIR types or their text (`"vector<32xf32>"`), parsed once and kept.
    """

    def __init__(self, block: ir.Block, location: ir.Location) -> None:
        self.point: ir.InsertionPoint = ir.InsertionPoint(block)
        self.location: ir.Location = location
        self._types: dict[str, ir.Type] = {}
        self._attributes: dict[str, ir.Attribute] = {}

    @classmethod
    def before(cls, operation: AnyOp) -> "Emitter":
        """Make an emitter that writes just before `operation`, with its location."""
        emitter = cls(operation.operation.block, operation.location)
        emitter.point = ir.InsertionPoint(operation)
        return emitter

    def type(self, text: ir.Type | str) -> ir.Type:
        """Return the MLIR type for its text; a type passes through."""
        if not isinstance(text, str):
            return text
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = ir.Type.parse(text)
        return found

    def attribute(self, text: ir.Attribute | str) -> ir.Attribute:
        """Return the MLIR attribute for its text; an attribute passes through."""
        if not isinstance(text, str):
            return text
        found = self._attributes.get(text)
        if found is None:
            found = self._attributes[text] = ir.Attribute.parse(text)
        return found

    def create(
        self,
        name: str,
        operands: Sequence[ir.Value] = (),
        results: Sequence[ir.Type | str] = (),
        attributes: Mapping[str, ir.Attribute | str] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        """Create operation `name` and return it."""
        return ir.Operation.create(
            name,
            results=[self.type(t) for t in results],
            operands=list(operands),
            attributes={k: self.attribute(v) for k, v in (attributes or {}).items()},
            regions=regions,
            loc=self.location,
            ip=self.point,
        )

    def value(
        self,
        name: str,
        operands: Sequence[ir.Value],
        result: ir.Type | str,
        attributes: Mapping[str, ir.Attribute | str] | None = None,
    ) -> ir.Value:
        """Create an operation with one result and return that result."""
        return self.create(name, operands, [result], attributes).results[0]

    def constant(self, value: float, type_: ir.Type | str) -> ir.Value:
        """Create an `arith.constant` of a scalar type, or a splat of a vector or tensor type (text or MLIR type)."""
        kind = self.type(type_)
        shaped = isinstance(kind, ir.ShapedType)
        element = ir.ShapedType(kind).element_type if shaped else kind
        scalar = (
            ir.IntegerAttr.get(element, int(value))
            if isinstance(element, ir.IntegerType | ir.IndexType)
            else ir.FloatAttr.get(element, float(value), loc=self.location)
        )
        attribute = ir.DenseElementsAttr.get_splat(kind, scalar) if shaped else scalar
        return self.value("arith.constant", (), kind, {"value": attribute})

    @contextmanager
    def at(self, block: ir.Block) -> Generator[None]:
        """Emit at the end of `block` inside the `with`."""
        before, self.point = self.point, ir.InsertionPoint(block)
        try:
            yield
        finally:
            self.point = before

    @contextmanager
    def at_start(self, block: ir.Block) -> Generator[None]:
        """Emit at the start of `block`, before what it holds, inside the `with`."""
        before, self.point = self.point, ir.InsertionPoint.at_block_begin(block)
        try:
            yield
        finally:
            self.point = before

    @contextmanager
    def located(self, location: ir.Location) -> Generator[None]:
        """Give what is emitted inside the `with` another location."""
        before, self.location = self.location, location
        try:
            yield
        finally:
            self.location = before
