"""Options of a kernel's decorator, and their checks."""

import ast
import builtins
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict, cast

import numpy as np

from tessera.core.compilation import FROM_IR, FROM_PTX
from tessera.core.errors.catalog import BadGrid, BadKernelOption, BadTileIR
from tessera.core.program.program import Attribute
from tessera.core.schedule.options import SCHEDULE, illegal, suggestion, targets_of
from tessera.core.targets import DEFAULT, find_kind
from tessera.frontend.language.namespace import LANGUAGE
from tessera.kernels.closures.closure import FreeNames
from tessera.runtime.binding.grid import Grid, read_grid

if TYPE_CHECKING:
    from tessera.kernels.kernel import Kernel

Space = Mapping[str, Iterable[Attribute]]
"""Values to try for each tuning parameter."""
Tuner: TypeAlias = "Callable[[Kernel, Sequence[object], Grid | None], Mapping[str, Attribute]]"
"""Finds the fastest parameters of a kernel that has a space, for these arguments and this grid."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a kernel, checked.

    tile: lanes a group along each axis (`tile[(128,)]`); shared: bytes of shared memory a group may use
    target: "cpu", "interpret" or "cuda"; None: the setting of that name
    sanitize: run interpreted and look for races and other mistakes
    fast: GPUs may use their approximations of functions and fuse multiplications with additions: other bits than
    elsewhere, errors as stated in docs/language.md
    constants: tuning parameters: they go before free names and the keywords of tile iterators
    space: values to try for each tuning parameter; None: nothing is tuned
    """

    tile: tuple[int, ...] | None = None
    shared: int | None = None
    target: str | None = None
    sanitize: bool = False
    fast: bool = False
    constants: Mapping[str, Attribute] = dataclasses.field(default_factory=dict[str, Attribute])
    space: Mapping[str, tuple[Attribute, ...]] | None = None


class OptionArguments(TypedDict, total=False):
    """The options of a kernel as its decorator takes them, see `Options`."""

    tile: int | tuple[int, ...] | None
    shared: int | None
    target: str | None
    sanitize: bool
    fast: bool
    constants: Mapping[str, Attribute]
    space: Space | None


def no_tuner(kernel: "Kernel", values: Sequence[object], grid: Grid | None) -> Mapping[str, Attribute]:
    """Refuse to search.  Raises BadKernelOption: the kernel was not made by `@kernel`."""
    del values, grid
    message = f"{kernel.source.name} has a space of parameters, and nothing that searches it"
    raise BadKernelOption(message, hint="make it with @kernel.autotune(space=...)")


_PTX: Final = re.compile(r"^\s*\.(?:version|target|visible|entry)\b", re.MULTILINE)
"""Directives that only PTX has."""


def read_tile_ir(given: object) -> str:
    """Check the Tile IR that a compilation begins from.  Raises BadTileIR for anything but text."""
    if isinstance(given, str):
        return given
    hint = "hand over the text that `kernel.compile(...).mlir(stage)` gives"
    raise BadTileIR(f"from_ir is Tile IR as text, got {given!r}", hint=hint)


def edited_ir(given: object) -> dict[str, Attribute]:
    """Return edited IR as an option of a program: the text of a level says itself whether it is Tile IR or PTX.

    Raises BadTileIR for anything but text.
    """
    text = read_tile_ir(given)
    return {FROM_PTX if _PTX.search(text) else FROM_IR: text}


def read_options(given: Mapping[str, object]) -> Options:
    """Check a decorator's keywords.  Raises BadKernelOption."""
    known = [field.name for field in dataclasses.fields(Options)]
    for name in given:
        if name not in known:
            raise BadKernelOption(f"a kernel has no option {name!r}", hint=f"the options are {', '.join(known)}")
    options = Options(
        tile=_tile(given.get("tile")), shared=_shared(given.get("shared")), fast=_flag("fast", given),
        sanitize=_flag("sanitize", given), constants=_constants(given.get("constants", {})),
        target=_target(given.get("target")),
    )  # fmt: skip
    space = given.get("space")
    return options if space is None else with_space(options, space, {})


def _values_by_name(given: object, what: str, hint: str) -> dict[str, object]:
    if not isinstance(given, Mapping) or not all(
        isinstance(key, str) for key in cast("Mapping[object, object]", given)
    ):
        raise BadKernelOption(f"{what} gives values by name, got {given!r}", hint=f"write {hint}")
    return dict(cast("Mapping[str, object]", given))


def _attribute(name: str, value: object) -> Attribute:
    """Return `value` as Python has it.  Raises BadKernelOption for what no tuning parameter can be."""
    if isinstance(value, np.generic):
        value = cast("object", value.item())
    if isinstance(value, tuple):
        return tuple(_attribute(name, item) for item in cast("tuple[object, ...]", value))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise BadKernelOption(f"{name} is {value!r}, it must be a number or a name", hint=f"write {name}=64")


def _shared(size: object) -> int | None:
    if size is not None and (isinstance(size, bool) or not isinstance(size, int)):
        raise BadKernelOption(f"shared is a number of bytes, got {size!r}", hint="write shared=8 * KiB")
    return size


def _flag(name: str, given: Mapping[str, object]) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise BadKernelOption(f"{name} is True or False, got {value!r}", hint=f"write {name}=True")
    return value


def _constants(given: object) -> dict[str, Attribute]:
    constants = _values_by_name(given, "constants", "constants=dict(BM=64)")
    return {name: _attribute(name, value) for name, value in constants.items()}


def _target(name: object) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str):
        raise BadKernelOption(f"target is a name, got {name!r}", hint=f'write target="{DEFAULT}"')
    find_kind(name)
    return name


def _tile(value: object) -> tuple[int, ...] | None:
    if value is None:
        return None
    try:
        return read_grid(value).blocks
    except BadGrid as error:
        raise BadKernelOption(f"tile: {error.message}", hint="write tile=(128,)") from None


def with_space(options: Options, space: object, more: Mapping[str, Iterable[Attribute] | Attribute]) -> Options:
    """Return `options` with a space to search.  Raises BadKernelOption for an empty one."""
    merged: dict[str, tuple[Attribute, ...]] = {}
    given = {} if space is None else _values_by_name(space, "space", "space=dict(BM=[64, 128])")
    for name, values in {**given, **more}.items():
        single = isinstance(values, str | int | float)
        if not single and not isinstance(values, Iterable):
            raise BadKernelOption(f"the values of {name!r} are {values!r}", hint=f"write {name}=[64, 128]")
        listed = (values,) if single else cast("Iterable[object]", values)
        merged[name] = tuple(_attribute(name, value) for value in listed)
        if not merged[name]:
            raise BadKernelOption(f"no values are given for {name!r}", hint=f"write {name}=[64, 128]")
    if not merged:
        raise BadKernelOption("autotune needs a space", hint="write autotune(space=dict(BM=[64, 128]))")
    return dataclasses.replace(options, space=merged)


_PYTHON: Final = frozenset(dir(builtins))
BLOCK_KEYWORDS: Final = ("BM", "BN", "BK")
"""Keywords of `tile.mma` for its blocks' extents: a space may list them for kernels that have no use for them."""


def check_constants(
    function: Callable[..., object], text: ast.FunctionDef, constants: Mapping[str, Attribute]
) -> dict[str, Attribute]:
    """Check and return what `kernel.variant` is given for a kernel's function, whose text is `text`.

    Raises BadKernelOption for values that a schedule option cannot have, and for names that stand neither for such an
    option nor for anything in the kernel or in the functions it calls.
    """
    own = own_names(text)
    found = {name: _attribute(name, value) for name, value in constants.items()}
    for name, value in found.items():
        reason = illegal(name, value) if name in SCHEDULE and name not in own else ""
        if reason:
            raise BadKernelOption(reason, hint=f"{name} says: {SCHEDULE[name].summary}")
    check_names(function, text, found)
    return found


def check_names(
    function: Callable[..., object], text: ast.FunctionDef, names: Iterable[str], known: Iterable[str] = ()
) -> None:
    """Check names of tuning parameters.

    Raises BadKernelOption for one that is neither among `known`, nor a schedule option, nor anything in the kernel or
    in the functions it calls.
    """
    own = own_names(text) | set(known)
    for name in names:
        if name in own or name in SCHEDULE:
            continue
        others = _names_called(function, text)
        if others is not None and name not in others:
            near = suggestion(name, sorted(own))
            more = f"did you mean {near}?" if near else f"the schedule options are {', '.join(SCHEDULE)}"
            raise BadKernelOption(f"{text.name} has no tuning parameter {name!r}, nor is it an option", hint=more)


def check_space(function: Callable[..., object], text: ast.FunctionDef, space: Iterable[str]) -> None:
    """Check the names of a space, which may be keywords of `tile.mma`, too.  Raises BadKernelOption."""
    check_names(function, text, space, BLOCK_KEYWORDS)


def has_no_effect(name: str, text: ast.FunctionDef, target: str) -> str:
    """Return why a name of a space changes nothing in a kernel on a target, though it is known; "" where it may."""
    if name in own_names(text):
        return ""
    if name in SCHEDULE and target not in targets_of(name):
        return f"{name} has no effect on the target {target}: {SCHEDULE[name].summary}"
    if name in BLOCK_KEYWORDS:
        return f"{name} has no effect: {text.name} does not use it"
    return ""


def constants_key(constants: Mapping[str, object]) -> tuple[object, ...]:
    """Return a key that tells constants apart by their text: 0, -0.0 and False would be one key of a dictionary."""
    return tuple((name, type(value), repr(value)) for name, value in sorted(constants.items()))


def own_names(text: ast.FunctionDef) -> set[str]:
    """Return the names that a kernel's own text uses: a parameter called like a schedule option is the kernel's."""
    names = {node.id for node in ast.walk(text) if isinstance(node, ast.Name)}
    return names | {k.arg for node in ast.walk(text) if isinstance(node, ast.Call) for k in node.keywords if k.arg}


def _names_called(function: Callable[..., object], text: ast.FunctionDef) -> set[str] | None:
    """Return the names in all functions that a kernel calls; None where one of them is not defined yet."""
    free = FreeNames(function)
    for node in ast.walk(text):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
            if name not in free and name not in LANGUAGE and name not in _PYTHON:
                return None
    found: set[str] = set()
    seen: set[FunctionType] = set()
    waiting = [function] if isinstance(function, FunctionType) else []
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        found |= set(_written(one))
        waiting += _called(one)
    return found


def _written(function: FunctionType) -> Iterator[str]:
    """Yield the names in a function's code, those of keywords among them."""
    code = function.__code__
    yield from (*code.co_names, *code.co_varnames, *code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, tuple):
            yield from (one for one in cast("tuple[object, ...]", constant) if isinstance(one, str))


def _called(function: FunctionType) -> Iterator[FunctionType]:
    """Yield the functions that a function may call: by its names, or as attributes of the modules that they name."""
    names = function.__code__.co_names
    free = FreeNames(function)
    for value in [free[name] for name in free if name in (*names, *function.__code__.co_freevars)]:
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, ModuleType):
            attributes = (getattr(value, name, None) for name in names)
            yield from (one for one in attributes if isinstance(one, FunctionType))
