"""Map a kernel's parameters to values of its GPU function: arrays with extents and strides, scalars, symbols."""

from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array, Scalar, Tile
from tessera.core.tile.location import identities
from tessera.core.tile.types import packed
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.memory import GlobalMemory, row_major


def parameter(frame: GpuFunction, number: int) -> GlobalMemory | ir.Value:
    """Return a parameter: the Memory of an array, or the value of a scalar."""
    kind = frame.program.parameters[number].value.type
    if not isinstance(kind, Array):
        return frame.arguments[number]
    extents = tuple(_extent(frame, number, axis, extent) for axis, extent in enumerate(kind.shape))
    strides = frame.strides[number] or row_major(frame.build, extents)
    return GlobalMemory(frame.arguments[number], packed(kind.dtype), extents, strides)


def symbol_value(frame: GpuFunction, name: str) -> ir.Value:
    """Return the value of a shape symbol.

    Raises:
        NotOnCuda: nothing binds it.
    """
    found = frame.symbols.get(name)
    if found is None:
        message = f"no argument of the kernel binds '{name}'"
        raise NotOnCuda(message, frame.program.span)
    return found


def _extent(frame: GpuFunction, number: int, axis: int, extent: int | str) -> Index:
    """Return an array's extent as an index: a number, or its symbol divided by the scale it was bound with."""
    if isinstance(extent, int):
        return extent
    for symbol in frame.program.symbols:
        if (symbol.name, symbol.parameter, symbol.axis) == (extent, number, axis):
            return frame.build.divide(symbol_value(frame, extent), symbol.scale)
    return symbol_value(frame, extent)


class Signs:
    """Find operations on unsigned integers: the Program's types say so, Tile IR's signless integers do not."""

    def __init__(self, program: Program) -> None:
        self._operations = list(program.body.walk())

    def unsigned(self, op: AnyOp) -> bool:
        """Return whether the first operand of a Tile IR operation is unsigned in the Program."""
        found = identities(op.location)
        if not found or found[0] >= len(self._operations):
            return False
        operands = self._operations[found[0]].operands
        kind = operands[0].type if operands else None
        return isinstance(kind, Scalar | Tile) and kind.dtype.kind == "uint"
