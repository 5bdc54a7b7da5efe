"""Listen to why sets of nodes are no kernel: rules say so where they refuse, and nothing is kept unless asked for.

with listening() as refusals:
form(members)
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from tessera.core.graph.graph import Node
from tessera.core.schedule.decisions import RULES, Refusal

_WEAKEST: Final = "one-reduction"
"""The rule that says least: it is not even several reductions."""
_LISTENER: Final[ContextVar[list[Refusal] | None]] = ContextVar("listener", default=None)


@contextmanager
def listening() -> Generator[list[Refusal]]:
    """Collect what is refused inside the `with`."""
    found: list[Refusal] = []
    before = _LISTENER.set(found)
    try:
        yield found
    finally:
        _LISTENER.reset(before)


def heard() -> bool:
    """Return whether anybody listens."""
    return _LISTENER.get() is not None


def refused(rule: str, *nodes: Node, detail: str = "") -> None:
    """Say which rule refuses, and which nodes it is about."""
    listener = _LISTENER.get()
    if listener is not None:
        assert rule in RULES, rule
        listener.append(Refusal(rule, nodes, detail))


def decisive(found: list[Refusal]) -> Refusal:
    """Return the refusal that says most: the last one, as special forms are tried after general ones."""
    telling = [each for each in found if each.rule != _WEAKEST]
    return (telling or found or [Refusal("form")])[-1]
