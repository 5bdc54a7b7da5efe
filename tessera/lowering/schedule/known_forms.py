"""Remember which sets of nodes are kernels: equal layers of a model ask the same questions.

A set is known by what its nodes compute of which of them, whatever their values are called.  While refusals are
listened to, all sets are looked at anew.
"""

from dataclasses import replace
from itertools import count
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from tessera.core.graph.graph import Graph, Node, Routine, Value
from tessera.core.schedule.refusals import heard
from tessera.lowering.schedule.axes import AxisSpace
from tessera.lowering.schedule.form import Form, Members, form

_MOST: Final = 1 << 16
Key: TypeAlias = tuple[object, ...]
_KNOWN: Final[dict[Key, bool]] = {}
_CODES: Final[dict[Key, int]] = {}
_NUMBERS: Final = count()
_OBJECTS: Final[WeakKeyDictionary[Graph | Routine, int]] = WeakKeyDictionary()
"""Numbers of what is told apart as an object.  It is not kept: a function of the host may hold the user's arrays."""


class KnownForms:
    """The questions that one graph asks; their answers are kept for all graphs."""

    def __init__(self) -> None:
        self._nodes: dict[Node, int] = {}
        self._forms: dict[Key, tuple[Members, Form]] = {}

    def form(self, members: Members) -> Form:
        """Return how nodes that are a kernel are one; that of an equal set of this graph, of these nodes."""
        key = self.key(members)
        known = self._forms.get(key)
        if known is not None:
            return renamed(known[1], known[0], members)
        found = form(members)
        assert found is not None
        self._forms[key] = members, found
        return found

    def is_kernel(self, members: Members) -> bool:
        """Return whether the nodes are one kernel: whether they have a form."""
        if heard():
            return form(members) is not None
        key = self.key(members)
        found = _KNOWN.get(key)
        if found is None:
            if len(_KNOWN) >= _MOST:
                _KNOWN.clear()
            found = _KNOWN[key] = form(members) is not None
        return found

    def key(self, members: Members) -> Key:
        """Return what a set of nodes computes, with numbers in the place of its values."""
        numbers: dict[Value, int] = {value: number for number, value in enumerate(members.inputs)}
        nodes, again = self._nodes, members.again
        key: list[object] = [value.type for value in members.inputs]
        for node in members.nodes:
            code = nodes.get(node)
            if code is None:
                code = nodes[node] = node_code(node)
            key.append(code)
            if node in again:
                key.append("again")
            for value in node.operands:
                key.append(numbers[value])  # noqa: PERF401 - half the time of `extend` for one or two
            for value in node.results:
                numbers[value] = len(numbers)
        key += [numbers[value] for value in members.outputs]
        return tuple(key)


def renamed(found: Form, model: Members, members: Members) -> Form:
    """Return the form of a set of nodes, of which `found` is that of an equal set."""
    nodes = dict(zip(model.nodes, members.nodes, strict=True))
    values = dict(zip(model.inputs, members.inputs, strict=True))
    for one, other in nodes.items():
        values.update(zip(one.results, other.results, strict=True))
    axes = {values[value]: mine for value, mine in found.space.axes.items()}
    cascade = found.cascade
    if cascade is not None:
        reductions = tuple([nodes[node] for node in cascade.reductions])
        cascade = replace(cascade, reductions=reductions, atoms=tuple([values[atom] for atom in cascade.atoms]))
    return replace(found, space=AxisSpace(found.space.extents, axes), cascade=cascade)


def node_code(node: Node) -> int:
    """Return a number for what a node is but for its operands: operation, attributes, body, types of its results."""
    body: object = node.body
    if isinstance(body, tuple):
        body = tuple([_number(each) for each in body])
    elif isinstance(body, Routine):
        body = _number(body)
    types = tuple([value.type for value in node.results])
    key = (node.op, tuple(sorted(node.attributes.items())), body, types)
    found = _CODES.get(key)
    if found is None:
        if len(_CODES) >= _MOST:
            _CODES.clear()
        found = _CODES[key] = next(_NUMBERS)
    return found


def _number(each: Graph | Routine) -> int:
    found = _OBJECTS.get(each)
    if found is None:
        found = _OBJECTS[each] = next(_NUMBERS)
    return found
