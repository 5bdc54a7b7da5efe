"""The state of the kernel being built: its text, its names, and what it has used so far."""

import ast
import builtins
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import DotShape, SyntaxMistake, UndefinedName
from tessera.core.program.program import Attribute, Value
from tessera.core.program.types import Extent
from tessera.frontend.base.bindings import Undefined
from tessera.frontend.base.builder import Builder, binding_error
from tessera.frontend.base.observer import Observer, Unknown, UnknownUsed
from tessera.frontend.language.namespace import LANGUAGE, tile
from tessera.frontend.language.porting_hints import LIBRARIES, is_known_elsewhere, remedy_for

_DEEPEST: Final = 240
"""Parts of expressions and statements inside one another, a statement counting twice: Python itself takes 200 brackets
and 100 indentations.  What comes after the frontend visits nested control flow recursively."""


@dataclass
class MmaLoop:
    """An open `for m, n, k in tile.mma(A, B, C, ...)`: its arrays and the hidden variable of the accumulator."""

    a: Value
    b: Value
    c: Value
    accumulator: str


@dataclass
class Context:
    """State of one build.

    namespace: the user's free names; constants: tuning parameters, which go before them; written: parameters that
    some statement writes; shared_bytes: allocated so far; chosen: the kernel does not say how large its `group` is.
    """

    source: Source
    builder: Builder
    namespace: Mapping[str, object]
    constants: Mapping[str, Attribute]
    group: tuple[int, ...] | None
    shared_limit: int | None
    chosen: bool = False
    scope: dict[str, object] = field(default_factory=dict[str, object])
    parameters: dict[str, Value] = field(default_factory=dict[str, Value])
    read_only: dict[str, Span] = field(default_factory=dict[str, Span])
    written: set[str] = field(default_factory=set[str])
    mma: list[MmaLoop] = field(default_factory=list[MmaLoop])
    shared_bytes: int = 0
    group_sizes: list[int] = field(default_factory=list[int])
    lane_ids: bool = False
    group_ids: bool = False
    sync_span: Span | None = None
    loops: int = 0
    equal: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    inlined: list[str] = field(default_factory=list[str])
    depth: int = 0
    # Set by `Statements`: what builds statements and expressions, for functions that are expanded in place.
    run: Callable[[Sequence[ast.stmt]], None] = field(init=False)
    evaluate: Callable[[ast.expr], object] = field(init=False)

    def require_equal(self, a: Extent, b: Extent, span: Span) -> None:
        """Refuse a launch in which two extents differ; checked now for this one, by the launcher for later ones."""
        extents = self.builder.knowledge.extents
        x, y = (extents.get(e, 0) if isinstance(e, str) else e for e in (a, b))
        if x != y:
            raise DotShape(f"{a} is {x} and {b} is {y}", span, "A is (M, K), B is (K, N) and C is (M, N)")
        if isinstance(a, str) and isinstance(b, str):
            self.equal.append((a, b))
        elif isinstance(a, str) or isinstance(b, str):
            self.builder.knowledge.fix(a if isinstance(a, str) else str(b))

    def enter(self, node: ast.expr | ast.stmt, levels: int) -> None:
        """Go `levels` deeper, into `node`; the attempt ends where that is deeper than any reader follows."""
        observer = self.observer
        if observer is not None:
            observer.tick()
        self.depth += levels
        if self.depth > _DEEPEST:
            remedy = (
                "give the inner part a name" if isinstance(node, ast.expr) else "write the inner part as a function"
            )
            raise SyntaxMistake("the code is nested too deeply", self.span(node), remedy)

    @property
    def observer(self) -> Observer | None:
        """The observer of this build."""
        return self.builder.knowledge.observer

    def saw(self, span: Span, binding: object) -> None:
        """Tell the observer, if there is one, what the name at `span` stands for."""
        observer = self.observer
        if observer is not None and not self.inlined:
            observer.saw(span, binding)

    def leave(self, levels: int) -> None:
        """Come back from `enter`."""
        self.depth -= levels

    def span(self, node: ast.AST) -> Span:
        """The place of an AST node (its columns count characters from 0)."""
        return Span(self.source.name, node.lineno, node.col_offset + 1, node.end_lineno, node.end_col_offset + 1)  # type: ignore[attr-defined]

    def lookup(self, name: str, span: Span) -> object:
        """Return what `name` stands for: a local, a tuning parameter, the user's own, the language's, or a builtin."""
        for names in (self.scope, self.constants, self.namespace, LANGUAGE):
            if name in names:
                return self._found(names[name], span)
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise self.undefined(name, span)

    def _found(self, binding: object, span: Span) -> object:
        """Return a name's binding, unless that stands for a mistake or is not known."""
        if self.observer is not None:
            self.saw(span, binding)
            if isinstance(binding, Unknown):
                raise UnknownUsed
        if isinstance(binding, Undefined):
            raise binding_error(binding, span)
        return binding

    def undefined(self, name: str, span: Span) -> UndefinedName:
        """Return the mistake of using a name that nothing has, with the name that was probably meant."""
        # The kernel's own names are the likelier meaning, however near a name of the language lies.
        others = [*self.constants, *LANGUAGE, *(n for n in self.namespace if not n.startswith("_"))]
        near = f"write tile.{name}(...)" if name in dir(tile) else remedy_for(name)
        near = near or ("use the operations of tile" if name in LIBRARIES else "")
        if is_known_elsewhere(name):
            near = near or suggestion(name, list(self.scope), cutoff=0.8)
        else:
            near = near or suggestion(name, list(self.scope)) or suggestion(name, others)
        return UndefinedName(f"nothing is named {name!r}", span, near or "define it before the kernel")

    def knows(self, name: str) -> bool:
        """Return whether `lookup` finds `name`."""
        return any(name in names for names in (self.scope, self.constants, self.namespace, LANGUAGE))


def suggestion(name: str, known: list[str], cutoff: float = 0.6) -> str:
    """The question `did you mean ...?` for the closest known name, or an empty string."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=cutoff)
    return f"did you mean {close[0]!r}?" if close else ""
