"""Share executables between functions whose graphs are equal, so that each graph is planned and compiled once."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final
from weakref import WeakValueDictionary

from tessera.core.graph.graph import Graph, Routine
from tessera.core.graph.graph_key import graph_key
from tessera.graphs.executable import Executable
from tessera.kernels.options import Options
from tessera.session.session import Session, session

_MOST_KEPT: Final = 128
"""Executables that are kept though no function has them."""


class _KnownExecutables:
    """Executables by what they compute, how, and for whom.

    _kept: those that were asked for last; one that calls a function of the user's, which may hold arrays, is not kept
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[Hashable, Executable] = WeakValueDictionary()
        self._kept: OrderedDict[Executable, None] = OrderedDict()

    def of(self, traced: Graph, how: Hashable, make: Callable[[Session], Executable]) -> Executable:
        """See `known_executable`."""
        home = session()
        key = (home, graph_key(traced), how)
        with self._lock:
            found = self._known.get(key)
            if found is None:
                found = self._known[key] = make(home)
            if not any(isinstance(node.body, Routine) and node.body.native for node in traced.walk()):
                self._kept[found] = None
                self._kept.move_to_end(found)
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
        return found


_KNOWN: Final = _KnownExecutables()


def executable_of(traced: Graph, options: Options, algebra: frozenset[str] = frozenset()) -> Executable:
    """Return what runs a captured graph: the same executable for equal graphs, which are planned and compiled once.

    Equal are graphs of one function that was made twice, such as a layer of a model or a gradient that each step asks
    for anew: graphs that differ in a shape, a number, an option or a place in the text are others.
    """
    return known_executable(traced, (repr(options), algebra), lambda home: Executable(traced, options, home, algebra))


def known_executable(traced: Graph, how: Hashable, make: Callable[[Session], Executable]) -> Executable:
    """Return the executable of an equal graph that was made in the same way, or what `make` makes for a session."""
    return _KNOWN.of(traced, how, make)
