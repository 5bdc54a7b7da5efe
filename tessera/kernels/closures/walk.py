"""Walk what a function's code reads: globals, closure variables, attributes, elements, and helpers of helpers.

Code of installed packages and of the standard library is taken to stay as it is.  Of an object the attributes count
that some code on the way names; of a list, a dict or a set everything does, unless the code spells the element out.
"""

import inspect
import os
import sys
import sysconfig
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import lru_cache, partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType, SimpleNamespace
from typing import Final, cast

import numpy as np

from tessera.core.placement.mesh_array import MeshArray
from tessera.kernels.closures.code_reads import Read, Step, code_reads
from tessera.kernels.closures.snapshot import ClosesOver, Closure, Guards, Identity, never
from tessera.runtime.arrays.host import is_array
from tessera.runtime.arrays.interop import is_torch

MOST_VALUES: Final = 50_000
"""Values that are looked at; a function that reaches more is never taken to be as it was."""
_ATOMS: Final = frozenset({int, bool, str, bytes, type(None), type(...), range})
_OWN: Final = Path(__file__).parents[2]
_LIBRARIES: Final = tuple(
    f"{folder}{os.sep}" for folder in (
        _OWN, _OWN.with_name("tessera_magics"), *map(sysconfig.get_path, ("stdlib", "purelib", "platlib")),
    )
)  # fmt: skip
_ELEMENTS: Final = (list, tuple, dict, OrderedDict)
_CONTAINERS: Final = (list, dict, set, deque)
_WRITES: Final[frozenset[Step]] = frozenset(
    ("attribute", name) for name in ("add", "append", "appendleft", "clear", "discard", "extend", "insert", "update")
)
"""Methods that write a container and tell nothing about it."""
_ARRAYS: Final = ("__dlpack__", "__array_interface__", "__cuda_array_interface__", "__array__", "__buffer__")
_OPERANDS: Final[set[type]] = {np.ndarray}
"""Classes all of whose objects are arrays, as far as they were seen."""
_MISSING: Final = object()


def closure_of(function: object, others: Sequence[object] = (), names: Sequence[str] = ()) -> Closure:
    """Return what a function, and other objects that it is called with, read.

    names: globals or closure variables that it reads besides those that its code names: in annotations, for example
    """
    attributes: frozenset[str] = frozenset()
    indirect = False
    while True:
        walk = _Walk(attributes, everything=indirect)
        try:
            for each in (function, *others):
                walk.value(each)
            walk.named(function, names)
        except RecursionError:  # a list of lists of lists ...
            walk.complete = False
        if not walk.narrowed or (walk.attributes <= attributes and walk.indirect == indirect):
            unchanged = walk.guards.comparison() if walk.complete else never
            return Closure(key=tuple(walk.key), arrays=tuple(walk.arrays), unchanged=unchanged, complete=walk.complete)
        # Code that came late names attributes of objects that came early.
        attributes, indirect = attributes | walk.attributes, walk.indirect


@lru_cache(maxsize=4096)
def _is_library(path: str) -> bool:
    return path.startswith((*_LIBRARIES, "<frozen")) and "ipykernel_" not in path


def _library_module(name: str) -> bool:
    """Return whether a module belongs to an installed package or the standard library."""
    module = sys.modules.get(name)
    path = getattr(module, "__file__", None)
    if isinstance(path, str):
        return _is_library(path)
    root = name.partition(".")[0]
    return root in sys.stdlib_module_names and root != "__main__"


def text_of(function: object) -> Hashable:
    """Return where the text of a function stands, and what its annotations are: its closure and this determine it."""
    function = inspect.unwrap(cast("Callable[..., object]", function))
    if not isinstance(function, FunctionType):
        return Identity(function)
    annotations = [(name, e if isinstance(e, str) else Identity(e)) for name, e in function.__annotations__.items()]
    return (function.__code__.co_filename, function.__code__.co_firstlineno, tuple(annotations))


class _Walk:
    """One walk.

    names: of the attributes that count; everything: all do; narrowed: these were asked for
    """

    def __init__(self, names: frozenset[str], *, everything: bool) -> None:
        self._names, self._everything = names, everything
        self.narrowed = False
        self.attributes: set[str] = set()
        self.indirect = everything
        self.key: list[Hashable] = []
        self.arrays: list[object] = []
        self.guards = Guards()
        self.complete = True
        self._seen: dict[int, tuple[int, object]] = {}
        self._guarded: set[tuple[int, object]] = set()

    def value(self, value: object) -> None:
        """Add an object, with what can be reached from it."""
        value_type = type(value)
        if value_type in _ATOMS:
            self.key.append((value_type, cast("Hashable", value)))
        elif value_type is float or value_type is complex:
            self.key.append((value_type, repr(value)))  # 0.0 and -0.0 are equal, and NaN is not
        elif isinstance(value, np.generic):
            number = cast("np.generic[object]", value)
            self.key.append((value_type, number.dtype, number.tobytes()))
        elif id(value) in self._seen:
            self.key.append(("again", self._seen[id(value)][0]))
        elif len(self._seen) < MOST_VALUES:
            self._seen[id(value)] = len(self._seen), value  # kept alive: its number stays its own
            self._object(value)
        else:
            self.complete = False

    def _object(self, value: object) -> None:
        if type(value) in _OPERANDS:  # first, as there are many
            self._array(value)
        elif isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self._parts("method", (value.__func__, value.__self__))
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, ModuleType):
            self._module(value)
        elif hasattr(type(value), "closes_over"):
            self._parts(type(value), cast("ClosesOver", value).closes_over)
        elif _is_operand(value):
            self._array(value)
        elif not self._container(value):
            self._instance(value)

    def _parts(self, kind: Hashable, parts: Iterable[object]) -> None:
        parts = tuple(parts)
        self.key.append((kind, len(parts)))
        for each in parts:
            self.value(each)

    def _array(self, array: object) -> None:
        array_key: tuple[Hashable, ...] = ()
        if type(array) is np.ndarray:
            array_key = (array.dtype, array.shape)
        elif isinstance(array, MeshArray):
            array_key = (Identity(array.mesh), array.type.dtype, array.type.shape, array.type.placement)
        elif hasattr(array, "dtype") and hasattr(array, "shape"):
            described = cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", array)
            array_key = (described.dtype, tuple(described.shape))
        else:  # a buffer
            array_key = (Identity(array),)
        self.key.append(("array", type(array), *array_key))
        self.arrays.append(array)

    def _container(self, value: object) -> bool:
        """Add a container; False for what is none."""
        container_type = type(value)
        if isinstance(value, list | deque):
            items = tuple(cast("Iterable[object]", value))
            self.guards.sequences.append((cast("list[object]", value), items))
            self._parts(container_type, items)
        elif isinstance(value, tuple):
            self._parts(container_type, cast("tuple[object, ...]", value))
        elif isinstance(value, dict | MappingProxyType):
            self._mapping(cast("dict[object, object]", value))
        elif isinstance(value, set | frozenset):
            copy = frozenset(cast("Iterable[Hashable]", value))
            self.guards.sets.append((cast("object", value), copy))
            self.key.append((container_type, copy))
        elif isinstance(value, partial):
            application = cast("partial[object]", value)
            self._parts(container_type, (application.func, application.args, application.keywords))
        elif isinstance(value, slice):
            bounds = cast("slice[object, object, object]", value)
            self._parts(container_type, (bounds.start, bounds.stop, bounds.step))
        elif isinstance(value, property):
            self._parts(container_type, (value.fget,))
        elif isinstance(value, staticmethod | classmethod):
            self._parts(container_type, (getattr(cast("object", value), "__func__", None),))
        else:
            return False
        return True

    def _mapping(self, mapping: dict[object, object]) -> None:
        keys, values = tuple(mapping), tuple(mapping.values())
        self.guards.mappings.append((mapping, keys, values))
        if isinstance(mapping, defaultdict):
            self.value(cast("object", mapping.default_factory))
        self._parts(type(mapping), (*keys, *values))

    def _lookup(self, container: object, getter: Callable[..., object], name: object, value: object) -> None:
        """Guard one lookup in a container that lives as long as the guards, once."""
        lookup = (id(container), name)
        if lookup not in self._guarded:
            self._guarded.add(lookup)
            self.guards.getters.append(getter)
            self.guards.names.append(name)
            self.guards.values.append(value)

    # -- code ------------------------------------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> None:
        code = function.__code__
        if _is_library(code.co_filename):
            self._library_function(function, code)
            return
        reads = code_reads(code)
        self.attributes |= reads.attributes
        self.indirect |= reads.indirect
        self.key.append(reads.digest)
        # IPython's autoreload puts new code into the functions that there are.
        self.guards.functions.append(function)
        for name in ("__defaults__", "__kwdefaults__"):
            defaults: object = getattr(function, name)
            if defaults is not None:
                self._lookup(function, partial(getattr, function), name, defaults)
            self.value(defaults)
        for read in reads.variables:
            self._global(function.__globals__, read)
        for read in reads.cells:
            self._cell(function, code.co_freevars.index(read.name), read)
        for name in reads.imported:
            self._imported(name)

    def named(self, function: object, names: Sequence[str]) -> None:
        """Add what names stand for in a function, as far as its code does not say more of them."""
        if isinstance(function, FunctionType):
            cells, reads = function.__code__.co_freevars, code_reads(function.__code__)
            spelled_out = {each.name for each in (*reads.variables, *reads.cells)}
            for name in names:
                if name in spelled_out:
                    continue
                if name in cells:
                    self._cell(function, cells.index(name), Read(name))
                else:
                    self._global(function.__globals__, Read(name))

    def _library_function(self, function: FunctionType, code: CodeType) -> None:
        """Add a library function: its code is constant, but its closure variables may be the user's."""
        self.key.append(Identity(code))
        for place, name in enumerate(code.co_freevars):
            self._cell(function, place, Read(name))

    def _global(self, names: dict[str, object], read: Read) -> None:
        value = names.get(read.name, _MISSING)
        if value is _MISSING:  # one of Python's, or of the language's, as long as no global has its name
            self._lookup(names, names.get, read.name, None)
            return
        self._lookup(names, names.get, read.name, value)
        self._follow(value, read.steps)

    def _cell(self, function: FunctionType, place: int, read: Read) -> None:
        cell = cast("tuple[CellType, ...]", function.__closure__)[place]
        try:
            value = cell.cell_contents
        except ValueError:  # not assigned yet
            self.key.append("unassigned")
            self.complete = False
            return
        self._lookup(cell, partial(getattr, cell), "cell_contents", value)
        self._follow(value, read.steps)

    def _imported(self, name: str) -> None:
        module = sys.modules.get(name)
        if module is not None:
            self.value(module)

    # -- parts of objects ------------------------------------------------------------------------------------------

    def _follow(self, value: object, steps: Sequence[Step]) -> None:
        """Add what a chain of attributes and constant subscripts leads to, or the object that it can be followed to."""
        if type(value) in _CONTAINERS and len(steps) == 1 and steps[0] in _WRITES:
            return
        for kind, name in steps:
            part = self._item(value, name) if kind == "item" else self._attribute(value, str(name))
            if part is _MISSING:
                break
            self.key.append((kind, type(value)))
            value = part
        self.value(value)

    def _item(self, value: object, name: object) -> object:
        if type(value) not in _ELEMENTS or not isinstance(name, int | str):
            return _MISSING
        try:
            part: object = cast("dict[object, object]", value)[name]
        except (LookupError, TypeError):
            return _MISSING
        self._lookup(value, cast("dict[object, object]", value).__getitem__, name, part)
        return part

    def _attribute(self, value: object, name: str) -> object:
        """Return an attribute that is kept in the object itself; _MISSING for methods, properties and the like."""
        if isinstance(value, ModuleType):
            table = vars(value)
            if name in table and not _library_module(value.__name__):
                self._lookup(table, table.get, name, table[name])
            return table.get(name, _MISSING)
        if isinstance(value, type) or _opaque(value):
            return _MISSING
        table = cast("dict[str, object] | None", getattr(value, "__dict__", None))
        if table is None or name not in table or hasattr(getattr(type(value), name, None), "__set__"):
            return _MISSING
        self._lookup(table, table.get, name, table[name])
        return table[name]

    def _module(self, module: ModuleType) -> None:
        self.key.append(("module", module.__name__))
        if _library_module(module.__name__):
            return
        self.narrowed = True
        table = vars(module)
        for name in sorted(self._names):
            if name in table:
                self._lookup(table, table.get, name, table[name])
                self.key.append(name)
                self.value(table[name])

    def _class(self, cls: type) -> None:
        self.key.append(("class", Identity(cls)))
        for base in cls.__mro__:
            if not _library_module(base.__module__):
                self._members(base, cls)

    def _members(self, base: type, cls: type) -> None:
        """Add the members of a class that code names, and its special methods."""
        table = base.__dict__
        implicit = [name for name, each in table.items() if name.startswith("__") and isinstance(each, FunctionType)]
        self.narrowed = True
        names = [name for name in dir(cls) if name in self._names or (self._everything and not name.startswith("__"))]
        for name in (*implicit, *names):
            self._lookup(base, table.get, name, table.get(name))
            if name in table:
                self.key.append(name)
                self.value(table[name])

    def _instance(self, value: object) -> None:
        if isinstance(value, Enum) or _opaque(value):
            self.key.append(Identity(value))
            return
        cls = type(value)
        table = cast("dict[str, object] | None", getattr(value, "__dict__", None))
        slots = [name for base in cls.__mro__ for name in _slots(base) if hasattr(value, name)]
        if table is None and not slots:  # an opaque C object
            self.key.append(Identity(value))
        if isinstance(value, int | float | str | bytes):
            self.key.append(repr(value))
        self._class(cls)
        for name in slots:
            part: object = getattr(value, name)
            self._lookup(value, partial(getattr, value), name, part)
            self.key.append(name)
            self.value(part)
        if table is not None:
            self._attributes(value, table)

    def _attributes(self, value: object, table: dict[str, object]) -> None:
        """Add the attributes that code names, or all of them."""
        if self._everything or not self._spelled_out(value):
            self._mapping(cast("dict[object, object]", table))
            return
        self.narrowed = True
        for name in sorted(self._names & {*table, *dir(type(value))}):
            self._lookup(table, table.get, name, table.get(name))
            if name in table:
                self.key.append(name)
                self.value(table[name])

    def _spelled_out(self, value: object) -> bool:
        """Return whether attributes of an object are read under their names, by code that can be looked at."""
        cls = type(value)
        computed = hasattr(cls, "__getattr__") or cls.__getattribute__ is not object.__getattribute__
        return cls is SimpleNamespace or not (computed or is_dataclass(value) or _library_module(cls.__module__))


def _is_operand(value: object) -> bool:
    cls = type(value)
    if isinstance(value, np.ndarray | MeshArray):
        return True
    if getattr(cls, "__array_ufunc__", _MISSING) is None:  # a value of a capture: it refuses to be seen as an array
        return False
    # Attributes that are computed are not asked for: that runs code of the user's.
    operand = (not hasattr(cls, "__getattr__") or any(hasattr(cls, name) for name in _ARRAYS)) and is_array(value)
    if operand and is_torch(value):
        _OPERANDS.add(cls)
    return operand


def _slots(base: type) -> Sequence[str]:
    slots = base.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(cast("Iterable[str]", slots))
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _opaque(value: object) -> bool:
    """Return whether an object is compared by identity alone: objects of the standard library and of Tessera."""
    if isinstance(value, SimpleNamespace) or is_dataclass(value):
        return False
    root = type(value).__module__.partition(".")[0]
    return root == "tessera" or (root in sys.stdlib_module_names and root != "__main__")
