"""Analyse aliasing: which memories may be the same, and which accesses may touch the same element.

`core/program/dependences.py` asks the second question of a Program, before there is Tile IR.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array, Type
from tessera.lowering.analysis.affine_forms import AffineForm, affine_form
from tessera.lowering.analysis.memory_accesses import WRITES, Access, accesses_of
from tessera.lowering.base.ir_walk import ancestors, body, constant, is_memory, walk

_FORWARDED = ("tessera.transpose", "tessera.reshape", "arith.extf", "arith.truncf")
_ACCUMULATOR = 2


class MemoryClasses:
    """The memories of a `func.func` of Tile IR, arrays and shared buffers: those that may be one share a class.

    Parameters are different arrays; buffers that are swapped by a loop, or selected, may be the same one.

    written: the classes that the kernel writes
    next_class: a number above those of all classes
    """

    def __init__(self, function: AnyOp) -> None:
        block = function.regions[0].blocks[0]
        operations = list(walk(block))
        self._parents: list[int] = []
        self._numbers: dict[ir.Value, int] = {}
        self._add(block.arguments)
        for op in operations:
            self._add(op.results)
            for region in op.regions:
                for inner in region.blocks:
                    self._add(inner.arguments)
        self.next_class = len(self._parents)
        for op in operations:
            self._flow(op)
        self.written = {self.class_of(op.operands[WRITES[op.name]]) for op in operations if op.name in WRITES}

    def class_of(self, memory: ir.Value) -> int:
        """Return the number of a memory's class."""
        number = self._numbers[memory]
        while self._parents[number] != number:
            number = self._parents[number]
        return number

    def _add(self, values: Iterable[ir.Value]) -> None:
        for value in values:
            if is_memory(value.type):
                self._numbers[value] = len(self._parents)
                self._parents.append(len(self._parents))

    def _flow(self, op: AnyOp) -> None:
        """Join the classes of what an operation hands on and of what it is called afterwards."""
        results, ends = list(op.results), [_given(region) for region in op.regions]
        match op.name:
            case "arith.select":
                self._join([op.operands[1], op.operands[2]], results * 2)
            case "scf.if":
                for end in ends:
                    self._join(end, results)
            case "scf.for":
                carried = list(op.regions[0].blocks[0].arguments)[1:]
                for values in (list(op.operands)[3:], ends[0], results):
                    self._join(values, carried)
            case "scf.while":
                before, after = (list(region.blocks[0].arguments) for region in op.regions)
                for values in (list(op.operands), ends[1]):
                    self._join(values, before)
                for targets in (after, results):
                    self._join(ends[0][1:], targets)  # behind the condition
            case _:
                pass

    def _join(self, sources: Iterable[ir.Value], targets: Iterable[ir.Value]) -> None:
        for source, target in zip(sources, targets, strict=True):
            if is_memory(target.type):
                self._parents[self.class_of(target)] = self.class_of(source)


def _given(region: ir.Region) -> list[ir.Value]:
    """Return the operands of a region's terminator."""
    return list(list(region.blocks[0].operations)[-1].operands) if len(region.blocks) else []


# -- arrays that a caller may give twice -----------------------------------------------------------------------


def parameter_classes(function: AnyOp, program: Program) -> dict[ir.Value, int]:
    """Number the classes of a kernel's parameters: those that may be given the same array share one.

    An array may be given twice, but only as the same view: two parameters of different kinds are apart.  A matrix that
    is only multiplied is taken to be none of those the kernel writes: the groups of a product that overwrites its own
    operand would be in each other's way, whatever the order inside one of them.
    """
    classes: dict[ir.Value, int] = {}
    numbers: dict[object, int] = {}
    mutable = {_likeness(p.value.type) for p in program.parameters if p.mutable}
    arguments = list(function.regions[0].blocks[0].arguments)
    for number, (argument, parameter) in enumerate(zip(arguments, program.parameters, strict=True)):
        likeness = _likeness(parameter.value.type)
        no_alias = likeness not in mutable or (not parameter.mutable and _is_only_multiplied(argument))
        key = number if no_alias else likeness
        classes[argument] = numbers.setdefault(key, len(numbers))
    return classes


def _is_only_multiplied(memory: ir.Value) -> bool:
    """Return whether everything that is read of an array is an operand of a matrix product."""
    loads = [use.owner.operation for use in memory.uses]
    return bool(loads) and all(op.name == "tessera.load" and _feeds_products(op.results[0]) for op in loads)


def _feeds_products(value: ir.Value) -> bool:
    users = [(use.owner.operation, use.operand_number) for use in value.uses]
    return bool(users) and all(
        (op.name == "tessera.dot" and place < _ACCUMULATOR)
        or (op.name in _FORWARDED and _feeds_products(op.results[0]))
        for op, place in users
    )


def _likeness(kind: Type) -> object:
    """Return what two parameters have in common when one array can be given for both."""
    return (kind.dtype.name, len(kind.shape)) if isinstance(kind, Array) else None


# -- elements that accesses of one memory touch ----------------------------------------------------------------


def same_window(a: AnyOp, b: AnyOp) -> bool:
    """Return whether two loads or stores of tiles touch the same window, element by element, of their memories."""
    one, other = accesses_of(a)[0], accesses_of(b)[0]
    return one.starts == other.starts and all(
        a.attributes[name] == b.attributes[name] for name in ("extents", "dropped")
    )


@dataclass(frozen=True, slots=True)
class AccessWindow:
    """The elements that an access touches in each round of the loops around it.

    starts: where it begins along each axis, and the extent there
    loops: the `scf.for` around the access
    """

    starts: tuple[tuple[AffineForm, int], ...]
    loops: frozenset[AnyOp]

    @staticmethod
    def of(access: Access) -> "AccessWindow":
        """Return the window of a load, store, read or write."""
        forms = tuple(affine_form(start) for start in access.starts)
        return AccessWindow(tuple(zip(forms, access.extents, strict=True)), loops_around(access.op))

    def is_disjoint_across_iterations(self) -> bool:
        """Return whether any two iterations of loops touch different elements, or the very same window.

        Along an axis whose steps are all multiples of the extent or more, two windows begin at one place or share
        nothing.  A loop that moves the window along another axis must have one of these axes to itself.
        """
        moved = [{loop: _step(form, loop) for loop in self.loops if _varies_in(form, loop)} for form, _ in self.starts]
        regular = [
            all(steps.values()) and math.gcd(*(step or 0 for step in steps.values())) >= extent
            for steps, (_, extent) in zip(moved, self.starts, strict=True)
        ]
        alone = {loop for steps, fine in zip(moved, regular, strict=True) if fine and len(steps) == 1 for loop in steps}
        return all(fine or alone.issuperset(steps) for steps, fine in zip(moved, regular, strict=True))

    def is_disjoint(self, other: "AccessWindow") -> bool:
        """Return whether two windows never share an element, whatever the rounds of the loops around both."""
        common = self.loops & other.loops
        return any(_are_disjoint(a, b, common) for a, b in zip(self.starts, other.starts, strict=True))


def _are_disjoint(a: tuple[AffineForm, int], b: tuple[AffineForm, int], loops: frozenset[AnyOp]) -> bool:
    """Return whether what begins at `a` and what begins at `b` share no index along their axis."""
    (one, extent), (other, width) = a, b
    distance = other.constant_difference(one)
    if distance is None:
        return False
    varying = [loop for loop in loops if _varies_in(one, loop)]
    if not varying:
        return distance >= extent or -distance >= width
    step = _step(one, varying[0])
    if not step or len(varying) > 1:
        return False
    # The one's window repeats every `step`: between two of them there must be room for the other's.
    return distance % step >= extent and -distance % step >= width


def _varies_in(form: AffineForm, loop: AnyOp) -> bool:
    """Return whether an index differs from round to round of a loop."""
    return any(loop in _loops_of(value) for value, _ in form.terms)


def _step(form: AffineForm, loop: AnyOp) -> int | None:
    """Return how far an index moves from round to round of a loop, or None where that is unknown."""
    index, step = body(loop).arguments[0], constant(loop.operands[2])
    factor = 0
    for value, coefficient in form.terms:
        if value == index:
            factor = coefficient
        elif loop in _loops_of(value):
            return None
    return None if step is None else abs(factor * step)


def loops_around(op: AnyOp) -> frozenset[AnyOp]:
    """Return the `scf.for` around an operation."""
    return frozenset(outer for outer in ancestors(op) if outer.name == "scf.for")


def _loops_of(value: ir.Value | str) -> frozenset[AnyOp]:
    """Return the loops whose rounds a value may differ in: those around where it is made.

    A loop's index differs in rounds of another loop only where its lower bound or its step does.
    """
    if isinstance(value, str):
        return frozenset()
    if not isinstance(value.owner, ir.Block):
        return loops_around(value.owner.operation)
    owner = value.owner.owner.operation
    if owner.name != "scf.for":
        return loops_around(owner)
    if value != value.owner.arguments[0]:
        return frozenset((owner, *loops_around(owner)))
    made_of = {term for place in (0, 2) for term, _ in affine_form(owner.operands[place]).terms}
    return frozenset((owner, *(loop for term in made_of for loop in _loops_of(term))))
