"""The magic `%%tessera`: run the cell, then time, keep and show what it compiled."""

import ast
import time
from argparse import Namespace
from dataclasses import dataclass, field
from typing import Final, TypeVar

from IPython.core.error import UsageError

from tessera.api.decorator import decorate
from tessera.api.source_module import language_names
from tessera.core.targets import find_kind, target_showing
from tessera.frontend.syntax.source_file import Cell, is_kernel
from tessera.kernels.kernel import Kernel
from tessera.kernels.options import Options
from tessera.session.compiled import Compiled
from tessera.session.session import session
from tessera_magics import execute
from tessera_magics.ipython import Shell, display, show
from tessera_magics.suggestions import suggestion
from tessera_magics.views import views_of

_COLLECT: Final = "__tessera_cell__"
T = TypeVar("T")


@dataclass(slots=True)
class Collector:
    """The outermost decorator of every kernel in a cell: gives it the cell's options, and remembers it."""

    wanted: Options
    kernels: dict[str, Kernel] = field(default_factory=dict[str, Kernel])

    def __call__(self, value: T) -> T | Kernel:
        """Return `value`; a kernel comes with the cell's options, where its own decorator is silent."""
        if not isinstance(value, Kernel):
            return value
        own = value.options
        missing = Options(target=None if own.target else self.wanted.target, sanitize=self.wanted.sanitize)
        if missing != Options():
            value = decorate(value, missing)
        self.kernels[value.source.name] = value
        return value


def run_magic(shell: Shell, line: str, body: str, chosen: Namespace) -> None:
    """Run `body`, the cell below the magic's `line`, with the options `chosen`."""
    __tracebackhide__ = True
    started, known = time.perf_counter(), set(map(id, session().recent))
    cell = execute.read_body(shell, body, execute.place_of(shell, line, body))
    collector = Collector(Options(target=chosen.target, sanitize=chosen.sanitize))
    _collect_with(cell)
    execute.run(shell, cell, {**language_names(), _COLLECT: collector})
    if chosen.time:
        print(_times(time.perf_counter() - started, known))  # noqa: T201 - what was asked for
    if chosen.show or chosen.out or (chosen.name and not chosen.view):
        compiled = compilation_of(_choose(collector.kernels, chosen.name), chosen.target, chosen.show or ())
        if chosen.out:
            shell.user_ns[chosen.out] = compiled
        if chosen.show:
            show(compiled, chosen.show)
    if chosen.view:
        for view in views_of(_choose(collector.kernels, chosen.name), chosen.view):
            display(view)


def _collect_with(cell: Cell) -> None:
    """Put the collector around every kernel of the cell."""
    for node in ast.walk(cell.tree):
        if isinstance(node, ast.FunctionDef) and is_kernel(node):
            # At the place of the first decorator, from which Python counts the function's lines.
            node.decorator_list.insert(0, ast.copy_location(ast.Name(_COLLECT, ast.Load()), node.decorator_list[0]))


def _choose(kernels: dict[str, Kernel], name: str | None) -> Kernel:
    if not kernels:
        raise UsageError("the cell defines no kernel to show")
    if name is None:
        return list(kernels.values())[-1]
    if name not in kernels:
        hint = suggestion(name, kernels)
        raise UsageError(f"the cell defines no kernel {name!r}{hint} (kernels: {', '.join(kernels)})")
    return kernels[name]


def compilation_of(kernel: Kernel, target: str | None, wanted: tuple[str, ...]) -> Compiled:
    """Compile `kernel` for its last call, or else for what its annotations say; GPU levels mean a GPU.

    Raises UnknownLevel where neither tells the types, UsageError for a level that the target does not have.
    """
    target = target or kernel.options.target
    kind = find_kind(target)[0] if target is not None else kernel.target_for().kind
    for level in wanted:
        if target_showing(level, kind) is not kind:
            target = target_showing(level, kind).name
    compiled = kernel.compile(target=target)
    for level in wanted:
        if level not in compiled.levels:
            raise UsageError(f"{compiled.target.name} has no level {level} (levels: {', '.join(compiled.levels)})")
    return compiled


def _times(seconds: float, known: set[int]) -> str:
    """Return one line for the cell, and one for each kernel that was compiled or fetched in it."""
    fresh = [compiled for compiled in session().recent if id(compiled) not in known]
    where = {"disk": "read from the cache", "compiler": "compiled", "memory": "remembered"}
    lines = [
        f"{compiled.name} for {compiled.target.name}: {where[compiled.origin]} in {compiled.seconds * 1e3:.1f} ms"
        for compiled in fresh
    ]
    return "\n".join([*lines, f"cell: {seconds * 1e3:.1f} ms"])
