"""Graphs of the operations of one stage: values become edges, regions of operations become nested regions."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from tessera.core.record import KERNEL, OpRecord, ValueRecord, Verbatim
from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.viz.graph import model
from tessera.viz.graph.decisions import Decisions
from tessera.viz.graph.flow import Join, joins, taken_by_regions
from tessera.viz.graph.model import Edge, Graph, Keys, Node, Port, Region, graph_of
from tessera.viz.graph.styles import data_slice, is_integer, memory_operands, short_name, short_type, style_of

_FUNCTIONS: Final = ("func.func", "llvm.func", "gpu.func")
_TRANSPARENT: Final = ("module", "builtin.module", "gpu.module")
_PARTS: Final = {"scf.if": ("then", "else"), "scf.while": ("while", "do")}
MUTABLE: Final = "mutable"
"""`core.tile.records.MUTABLE`, which is with the MLIR bindings."""
_MEMORIES: Final = ("array", "shared", "memref", "!llvm.ptr")
_LONG: Final = 200
"""Characters of an attribute that are kept as a fact."""


def graph_of_records(records: Sequence[OpRecord], decisions: Decisions) -> Graph:
    """Return the dataflow graph of a stage.

    A function is "kernel" in every stage, see `with_one_name`.
    """
    functions = _functions(records)
    return _Reader(with_one_name(records), decisions, functions[0] if len(functions) == 1 else "").graph()


def with_one_name(records: Sequence[OpRecord]) -> Sequence[OpRecord]:
    """Call the function of a stage "kernel": passes that change its attributes give it new identities."""
    functions = _functions(records)
    if len(functions) != 1 or any(record.id == KERNEL for record in records):
        return records
    return [_renamed(record, functions[0]) for record in records]


def _functions(records: Sequence[OpRecord]) -> list[str]:
    return [record.id for record in records if record.name in _FUNCTIONS]


def _renamed(record: OpRecord, old: str) -> OpRecord:
    """Return a record in which the function `old` is called "kernel"."""

    def new(identity: str) -> str:
        return KERNEL + identity[len(old) :] if identity == old or identity.startswith(f"{old}^") else identity

    regions = tuple(tuple(replace(value, id=new(value.id)) for value in region) for region in record.arguments)
    operands = tuple(map(new, record.operands))
    return replace(record, id=new(record.id), parent=new(record.parent), operands=operands, arguments=regions)


class _Reader:
    """Reads one stage; `sources` are the nodes that make each value."""

    def __init__(self, records: Sequence[OpRecord], decisions: Decisions, function: str = "") -> None:
        self._function = function
        self._hidden = {record.id for record in records if record.name in _TRANSPARENT}
        self._records = [record for record in records if record.id not in self._hidden]
        self._joins = tuple(joins(self._records))
        self._data = data_slice(self._records, self._joins)
        self._styles = {record.id: style_of(record, self._data) for record in self._records}
        self._decisions = decisions
        self._schedule = TileSchedule()
        self._owners = {record.parent for record in self._records}
        self._split = {record.parent for record in self._records if record.region}
        self._by_id = {record.id: record for record in self._records}
        self._values: dict[str, ValueRecord] = {}
        self._sources: dict[str, list[str]] = defaultdict(list)
        self._nodes: dict[str, Node] = {}
        self._regions: list[Region] = []
        self._edges: list[Edge] = []

    def graph(self) -> Graph:
        """Make nodes and regions, then what joins them."""
        for record in self._records:
            for value in (*record.results, *(one for region in record.arguments for one in region)):
                self._values[value.id] = value
        for record in self._records:
            if record.id in self._owners:
                self._define_region(record)
            elif not self._is_silent(record):
                self._add(self._node(record), record.results)
        for join in self._joins:
            if join.into not in self._nodes and join.by in self._nodes:
                self._sources[join.into].append(join.by)
        for record in self._records:
            self._connect(record)
        return graph_of(tuple(self._nodes.values()), self._edges, self._regions)

    # -- nodes and regions -------------------------------------------------------------------------------------

    def _add(self, node: Node, makes: Iterable[ValueRecord]) -> None:
        self._nodes[node.id] = node
        for value in makes:
            self._sources[value.id].append(node.id)

    def _keys(self, record: OpRecord) -> Keys:
        keys = _keys(record)
        return replace(keys, records=(self._function,)) if record.id == KERNEL and self._function else keys

    def _is_silent(self, record: OpRecord) -> bool:
        """Returns of nothing and ends of branches without values say nothing."""
        return self._styles[record.id] == model.CONTROL and not record.operands and not record.results

    def _define_region(self, record: OpRecord) -> None:
        if record.name in _FUNCTIONS:
            badges, self._schedule = self._decisions.of_kernel(record)
        else:
            badges = self._decisions.of_operation(record, self._schedule)
        place, keys = self._place(record), self._keys(record)
        self._regions.append(Region(record.id, self._region_label(record), place, badges, keys, _facts(record)))
        if record.id in self._split:
            names = _PARTS.get(record.name, ())
            last = max(one.region for one in self._records if one.parent == record.id)
            for number in range(max(last + 1, len(record.arguments))):
                label = names[number] if number < len(names) else f"region {number}"
                self._regions.append(Region(f"{record.id}/{number}", label, record.id, (), keys))
        for number, arguments in enumerate(record.arguments):
            for value in arguments:
                self._argument(record, value, f"{record.id}/{number}" if record.id in self._split else record.id)
        if not any(join.into == value.id for value in record.results for join in self._joins):
            for value in record.results:
                self._sources[value.id].append(record.id)

    def _argument(self, owner: OpRecord, value: ValueRecord, place: str) -> None:
        number = value.id.rpartition(".")[2]
        style = model.ARGUMENT
        if value.type.startswith(_MEMORIES):
            style = model.MEMORY
        elif owner.name not in _FUNCTIONS and value.id not in self._data and is_integer(value.type):
            style = model.INDEX
        written = owner.attributes.get(MUTABLE) if owner.name in _FUNCTIONS else None
        if isinstance(written, tuple) and number in map(str, written) and not self._is_read(value):
            return
        name, keys = value.name or f"argument {number}", _keys(owner, itself=False)
        self._add(
            Node(value.id, name, short_type(value.type), place, style, outputs=(_port(value),), keys=keys), [value]
        )

    def _is_read(self, value: ValueRecord) -> bool:
        return any(value.id in one.operands and self._styles[one.id] != model.STORE for one in self._records)

    def _node(self, record: OpRecord) -> Node:
        tiles = [self._values[one] for one in record.operands if self._type(one).startswith("tile")]
        shown = next(iter((*record.results, *tiles)), None)
        names = [value.name for value in record.results if value.name and not value.name.startswith("%")]
        name, said = ", ".join(names), short_name(record)
        return Node(
            record.id, f"{name} = {said}" if name and name != said else said,
            short_type(shown.type) if shown is not None else "", self._place(record), self._styles[record.id],
            tuple(_port(self._values.get(one, ValueRecord(one, "", one))) for one in record.operands),
            tuple(map(_port, record.results)), self._decisions.of_operation(record, self._schedule),
            self._keys(record), _facts(record), record.origin,
        )  # fmt: skip

    def _type(self, value: str) -> str:
        return self._values[value].type if value in self._values else ""

    def _place(self, record: OpRecord) -> str:
        parent = record.parent
        if not parent or parent in self._hidden:
            return ""
        return f"{parent}/{record.region}" if parent in self._split else parent

    def _region_label(self, record: OpRecord) -> str:
        if record.name in _FUNCTIONS:
            return f"kernel {record.attributes.get('sym_name', '')}".strip()
        if record.name == "scf.for":
            return f"for {record.arguments[0][0].name}" if record.arguments and record.arguments[0] else "for"
        carried = ", ".join(value.name for value in record.results if value.name and not value.name.startswith("%"))
        return f"{short_name(record)} {carried}".strip()

    # -- edges -------------------------------------------------------------------------------------------------

    def _connect(self, record: OpRecord) -> None:
        if record.id in self._owners:
            for operand in () if record.name in _FUNCTIONS else taken_by_regions(record):
                self._join(operand, record.id, model.ADDRESS)
        elif record.id in self._nodes:
            written = memory_operands(record) if self._styles[record.id] == model.STORE else ()
            for operand in record.operands:
                target = self._output(operand) if operand in written else ""
                if target:
                    self._edges.append(Edge(record.id, target, model.EFFECT, operand, self._label(operand)))
                else:
                    self._join(operand, record.id)
        for join in (each for each in self._joins_by.get(record.id, ()) if each.into in self._nodes):
            if record.id in self._owners:
                self._join(join.operand, join.into)
            else:
                style = model.CARRIED if join.carried else model.DATA
                self._edges.append(Edge(record.id, join.into, style, join.operand, self._label(join.operand)))

    @cached_property
    def _joins_by(self) -> dict[str, list[Join]]:
        found: dict[str, list[Join]] = defaultdict(list)
        for join in self._joins:
            found[join.by].append(join)
        return found

    def _output(self, memory: str) -> str:
        """Return the node of a parameter as it is written, below its stores; "" for memory that is no parameter."""
        owner = self._by_id.get(memory.partition("^")[0])
        if owner is None or owner.name not in _FUNCTIONS or memory not in self._values:
            return ""
        identity, value = f"{memory} written", self._values[memory]
        if identity not in self._nodes:
            keys, note = _keys(owner, itself=False), short_type(value.type)
            self._nodes[identity] = Node(
                identity, value.name or "result", note, owner.id, model.MEMORY, inputs=(_port(value),), keys=keys
            )
        return identity

    def _join(self, operand: str, target: str, style: str = "") -> None:
        for source in self._sources.get(operand, ()):
            node = self._nodes.get(source)
            integer = is_integer(self._type(operand) or "index")
            folded = node is not None and node.style in model.FOLDED and integer
            kind = style or (model.ADDRESS if folded else model.DATA)
            self._edges.append(Edge(source, target, kind, operand, self._label(operand)))

    def _label(self, value: str) -> str:
        found = self._values.get(value)
        if found is None:
            return ""
        name = "" if found.name.startswith("%") else found.name
        return f"{name} {short_type(found.type)}".strip()


def _port(value: ValueRecord) -> Port:
    return Port(value.id, value.name, short_type(value.type))


def _keys(record: OpRecord, *, itself: bool = True) -> Keys:
    lines = dict.fromkeys(span.line for span in record.spans)
    return Keys(record.numbers, (record.id,) if itself else (), tuple(lines))


def _facts(record: OpRecord) -> tuple[tuple[str, str], ...]:
    found = [("operation", record.name)]
    for name, value in record.attributes.items():
        text = value.text if isinstance(value, Verbatim) else re.sub(r"\s+", " ", str(value))
        found.append((name, text if len(text) <= _LONG else text[: _LONG - 1] + "…"))
    return tuple(found)
