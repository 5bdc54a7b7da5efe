"""Texts of a kernel that can be edited: its own lines, its schedule options, Tile IR behind a pass, PTX."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.api.source_module import run_cell
from tessera.core.errors.catalog import BadKernelOption, SyntaxMistake
from tessera.core.program.program import Attribute
from tessera.core.schedule.options import SCHEDULE, targets_of
from tessera.core.targets import TARGETS, target_showing
from tessera.frontend.syntax.source_file import is_kernel, read_cell
from tessera.kernels.kernel import Kernel
from tessera.lowering.base.cuda_toolkit import find_tool

SOURCE: Final = "source"
OPTIONS: Final = "options"
TILE: Final = "tile"
PTX: Final = "ptx"
LEVELS: Final = (SOURCE, OPTIONS, TILE, PTX)


@dataclass(frozen=True, slots=True)
class Option:
    """A schedule option as the view offers it; value: what the kernel has now, None: the compiler decides."""

    name: str
    summary: str
    legal: tuple[int, ...] | tuple[bool, ...]
    value: Attribute
    has_effect: bool


def own_lines(kernel: Kernel) -> str:
    """Return the kernel's own lines out of its cell or file, its decorators included, without common indentation."""
    source, function = kernel.source.source, kernel.source.function
    rows = [source.line(number) for number in range(first_line(kernel), (function.end_lineno or function.lineno) + 1)]
    margin = len(rows[0]) - len(rows[0].lstrip())
    return "\n".join(row[margin:] for row in rows)


def first_line(kernel: Kernel) -> int:
    """Return the line of the user's file on which the kernel begins, with its decorators."""
    source, number = kernel.source.source, kernel.source.function.lineno
    while number > source.first_line and source.line(number - 1).lstrip().startswith("@"):
        number -= 1
    return number


def options_of(kernel: Kernel, values: Sequence[object]) -> tuple[Option, ...]:
    """Return every schedule option, with the value that the kernel has."""
    target = kernel.target_for(values).kind.name
    constants = kernel.options.constants
    return tuple(
        Option(option.name, option.summary, option.legal, constants.get(option.name), target in targets_of(option.name))
        for option in SCHEDULE.values()
    )


def ptx_target(kernel: Kernel, values: Sequence[object]) -> str:
    """Return the target whose PTX is edited: the kernel's own if that has PTX, else the one that shows it."""
    return target_showing(PTX, kernel.target_for(values).kind).name


def ptx_of(kernel: Kernel, values: Sequence[object]) -> str:
    """Return the kernel's PTX, the text that can be edited; empty where there is none.

    That is for targets of GPUs that do not go through PTX, and where ptxas, which compiles it, is missing.
    """
    target = ptx_target(kernel, values)
    if find_tool("ptxas") is None or PTX not in TARGETS[target].levels:
        return ""
    return str(kernel.compile_quietly(*values, target=target).ir(PTX))


def from_source(kernel: Kernel, text: str) -> Kernel:
    """Return the kernel that an edited text defines, among the names that the original sees.

    Raises SyntaxMistake for text that is no kernel of that name and nothing else, and what defining it raises.
    """
    name = kernel.source.name
    cell = read_cell(text, f"<edited {name}>", label="the edit")
    named = [isinstance(n, ast.FunctionDef) and is_kernel(n) and n.name == name for n in cell.tree.body]
    if not named or not all(named):
        raise SyntaxMistake(
            f"the edit is to define the kernel {name}, and nothing else", hint="take the rest out"
        ).with_source(cell.source)
    namespace: dict[str, object] = dict(kernel.function.__globals__)
    run_cell(text, namespace, name=f"<edited {name}>", label="the edit")
    made = namespace[name]
    assert isinstance(made, Kernel)
    return made.with_options(kernel.options)


def with_values(kernel: Kernel, given: Mapping[str, object]) -> Kernel:
    """Return the kernel with schedule options; None takes an option back.  Raises BadKernelOption."""
    for name in given:
        if name not in SCHEDULE:
            raise BadKernelOption(f"there is no schedule option {name!r}")
    chosen: dict[str, Attribute] = {}
    for name, value in given.items():
        if isinstance(value, int):  # bool is one
            chosen[name] = value
        elif value is not None:
            raise BadKernelOption(f"{name} is a number or a truth value, got {value!r}")
    return kernel.variant(**chosen)
