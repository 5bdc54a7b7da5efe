"""Explain the word under the mouse: the type and shape of a value, or the language's own text about a name."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tessera.api.decorator import KernelDecorator
from tessera.core.base.dtypes import ComputeType, DType
from tessera.core.base.source import Span
from tessera.core.program.program import Value
from tessera.core.program.types import Array, Extent, Scalar, Shared, Tile
from tessera.core.schedule.options import SCHEDULE
from tessera.frontend.base.describe import describe
from tessera.frontend.base.observer import Unknown
from tessera.frontend.language.namespace import Intrinsic, Namespace
from tessera_magics.language.check import Built, Checked
from tessera_magics.language.names import called_at, find
from tessera_magics.language.scopes import Function, function_at

_WORD: Final = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*")
_KINDS: Final = {"float": "floating-point number", "int": "integer", "uint": "integer without sign", "bool": "truth"}


@dataclass(frozen=True, slots=True)
class Told:
    """Documentation of the characters `start` to `end` of a cell's body: a line of code, and text."""

    start: int
    end: int
    code: str
    text: str = ""


def hover(body: str, offset: int, checked: Checked, own: Mapping[str, object]) -> Told | None:
    """Return what is known of the word at an offset; `own` holds the user's names, which go before the language's."""
    found = next((m for m in _WORD.finditer(body) if m.start() <= offset <= m.end()), None)
    if found is None:
        return None
    end = next((m.end() for m in re.finditer(r"\w+", found.group()) if found.start() + m.end() >= offset), 0)
    start, end = found.start(), found.start() + end
    path = re.sub(r"\s", "", body[start:end]).split(".")
    first = re.match(r"\w+", body[start:])
    whole = first is not None and end == start + first.end()
    around = function_at(body, start)
    if whole:
        value = _value(body, start, end, checked, around)
        if value is not None:
            return value
    if around is not None and around.kind_of(path[0]):
        return None
    return _language(body, start, end, path, own)


def _value(body: str, start: int, end: int, checked: Checked, around: Function | None) -> Told | None:
    """Return the type of a variable at its place; of a shape name, the axes that it is the extent of."""
    name = body[start:end]
    if around is not None and name in around.extents and name not in around.locals:
        axes = " and ".join(f"axis {axis} of {parameter}" for parameter, axis in around.extents[name])
        return Told(start, end, name, f"The extent of {axes}.")
    line, column = body.count("\n", 0, start) + 1, start - body.rfind("\n", 0, start)
    for built in checked.kernels:
        for span, binding in built.bindings.items():
            if (span.line, span.column, span.end_column) == (line, column, column + end - start):
                return _binding(start, end, name, binding, built, span)
    declared = around.parameters.get(name, "") if around is not None else ""
    return Told(start, end, f"{name}: {declared}", "A parameter.") if declared else None


def _binding(start: int, end: int, name: str, binding: object, built: Built, span: Span) -> Told | None:
    if isinstance(binding, Unknown | Intrinsic | Namespace | DType | ComputeType):
        return None
    if isinstance(binding, Value):
        mutable = any(parameter.arg == name and _says_mut(parameter.annotation) for parameter in _parameters(built))
        code = f"{name}: {'mut ' if mutable and isinstance(binding.type, Array) else ''}{written(binding.type, built)}"
        kinds = {Array: "An array in global memory", Shared: "A buffer in shared memory",
                 Tile: "A tile, on which the whole group works", Scalar: "A number"}  # fmt: skip
        return Told(start, end, code, f"{kinds[type(binding.type)]}.")
    if isinstance(binding, bool | int | float | str):
        return Told(start, end, f"{name} = {binding!r}", "A constant while the kernel is compiled.")
    text = _with_names(describe(binding), built)
    return Told(start, end, name, f"{text[0].upper()}{text[1:]}.") if span.line else None


def _parameters(built: Built) -> list[ast.arg]:
    args = built.source.function.args
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]


def _says_mut(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(isinstance(n, ast.Name) and n.id == "mut" for n in ast.walk(annotation))


def written(kind: Array | Scalar | Tile | Shared, built: Built) -> str:
    """Return a type as an annotation would write it, `f32[m, 64]`, with shape names for made-up extents."""
    if isinstance(kind, Scalar):
        return kind.dtype.name
    shape = ", ".join(_extent(extent, built) for extent in kind.shape)
    prefix = "tile " if isinstance(kind, Tile) else "shared " if isinstance(kind, Shared) else ""
    return f"{prefix}{kind.dtype.name}[{shape}]"


def _extent(extent: Extent, built: Built) -> str:
    """Return an extent as the user writes it; a multiple of a made-up one is one of its name."""
    if isinstance(extent, str):
        return extent
    if extent in built.extents:
        return built.extents[extent]
    for made_up, name in built.extents.items():
        if extent % made_up == 0:
            return f"{extent // made_up} * {name}"
    return str(extent)


def _with_names(text: str, built: Built) -> str:
    """Put shape names in the place of made-up extents."""
    return re.sub(r"\d+", lambda match: built.extents.get(int(match.group()), match.group()), text)


def _language(body: str, start: int, end: int, path: list[str], own: Mapping[str, object]) -> Told | None:
    keyword = _keyword(body, start, end, path, own)
    if keyword is not None:
        return keyword
    value = find(path, own)
    if isinstance(value, Intrinsic):
        operation = value.operation
        return Told(start, end, operation.call if operation.parameters else operation.spelling, operation.text)
    if isinstance(value, Namespace | KernelDecorator):
        return Told(start, end, ".".join(path), (value.__doc__ or "").strip())
    if isinstance(value, DType):
        return Told(start, end, value.name, f"{_KINDS[value.kind].capitalize()} of {value.bits} bits.")
    if isinstance(value, ComputeType):
        return Told(start, end, path[-1], (type(value).__doc__ or "").strip())
    return None


def _keyword(body: str, start: int, end: int, path: list[str], own: Mapping[str, object]) -> Told | None:
    """Return what a keyword argument is: of an operation, or a schedule option."""
    if len(path) != 1 or not re.match(r"\s*=(?!=)", body[end:]):
        return None
    name, called = path[0], called_at(body[:start])
    value = None if called is None else find(called, own)
    if isinstance(value, Intrinsic) and name in value.operation.about:
        return Told(start, end, f"{name}: of {value.operation.call}", value.operation.about[name])
    if name in SCHEDULE and called is not None and called[-1] in ("autotune", "variant", "dict"):
        legal = ", ".join(str(one) for one in SCHEDULE[name].legal)
        return Told(start, end, name, f"Schedule option: {SCHEDULE[name].summary}.\n\nOne of {legal}.")
    return None
