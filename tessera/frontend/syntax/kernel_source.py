"""One kernel as the user wrote it: the noun that passes from reading text to building a `Program`."""

import ast
from dataclasses import dataclass

from tessera.core.base.source import Source


@dataclass(frozen=True, slots=True, eq=False)
class KernelSource:
    """A kernel's function definition.

    `function` is Python's own AST after Tessera's additions were rewritten; `lineno` counts in the numbering of
    `source` (file lines, 1-based), `col_offset` counts *characters* (0-based) of the user's own line.
    """

    name: str
    function: ast.FunctionDef
    source: Source
