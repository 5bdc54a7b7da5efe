"""The pages of the reference, made from public names: the language, Python, the library, magics, settings.

No page names a module of the implementation: what stands behind a public name may move.
"""

import inspect
import re
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator
from typing import Final

import tessera
from tessera.core import settings
from tessera.core.base.dtypes import BY_NAME, COMPUTE_TYPES
from tessera.core.schedule.options import SCHEDULE, targets_of
from tessera.frontend.language.namespace import LANGUAGE, Intrinsic, Namespace
from tessera.frontend.language.reference import REFERENCE, Operation
from tessera_magics.magics import TesseraMagics

ERROR: Final = "TesseraError"


def directive(name: str, argument: str, body: str = "", **options: str) -> str:
    """Return a directive of the Python domain, as MyST writes it."""
    head = "".join(f":{key}: {value}\n".replace(": \n", ":\n") for key, value in options.items())
    return f"`````{{{name}}} {argument}\n{head}\n{body}\n`````\n"


def restructured(*lines: str) -> str:
    """Return text that is read as reStructuredText, which autodoc writes."""
    return "```{eval-rst}\n" + "\n".join(lines) + "\n```\n"


def prose(text: str) -> str:
    """Return plain text as Markdown in which nothing is markup but code in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\[\]*_<>|])", r"\\\1", part) for part in parts)


# -- the language ----------------------------------------------------------------------------------------------------


def operation(one: Operation) -> str:
    """Return the entry of one operation: what it does, its parameters, a kernel that uses it."""
    about = "".join(f"* `{name}`: {prose(said)}\n" for name, said in one.about.items())
    summary = prose(f"{one.summary[0].upper()}{one.summary[1:]}.")
    example = f"```tessera\n{one.example}```"
    return directive("py:function", one.call, f"{summary}\n\n{about}\n{example}")


def language() -> str:
    """Return the page of every operation, element type and constant of the language."""
    groups: dict[str, list[Operation]] = {}
    for spelling, one in REFERENCE.items():
        groups.setdefault(spelling.partition(".")[0] if "." in spelling else "", []).append(one)
    parts = [
        "# Operations of the language",
        "A kernel can use these names without importing them; each stands here with a whole kernel that uses it.",
        "[The language](/docs/language.md) explains how they work together.",
    ]
    for prefix, held in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])):
        parts.append(f"## `{prefix}`" if prefix else "## Without a prefix")
        parts += [operation(one) for one in held]
    parts += ["## Functions and constants", *_plain_names(), "## Element types", _types()]
    return "\n\n".join(parts) + "\n"


def _plain_names() -> Iterator[str]:
    """Yield what the language holds besides operations: functions of Python and numbers."""
    special = (Intrinsic, Namespace, *{type(value) for value in (*BY_NAME.values(), *COMPUTE_TYPES.values())})
    for name, value in LANGUAGE.items():
        if isinstance(value, types.FunctionType):
            yield restructured(f".. autofunction:: tessera.{name}")
        elif not isinstance(value, special):
            yield directive("py:data", name, f"The number {value:,}.")


def _types() -> str:
    """Return the table of element types, with every name that each has."""
    rows: dict[str, list[str]] = {}
    for name, value in LANGUAGE.items():
        if isinstance(value, (*map(type, BY_NAME.values()), *map(type, COMPUTE_TYPES.values()))):
            rows.setdefault(str(value), []).append(name)
    lines = "\n".join(f"| `{kind}` | {', '.join(f'`{n}`' for n in names)} |" for kind, names in rows.items())
    return f"| type | names |\n|---|---|\n{lines}"


# -- Python ----------------------------------------------------------------------------------------------------------


def returned(value: object) -> type | None:
    """Return the class of the package that a public function gives back, from its annotation."""
    hint = typing.get_type_hints(value).get("return")
    found = isinstance(hint, type) and hint.__module__.partition(".")[0] == "tessera"
    return hint if found and hint is not tessera.Kernel else None


def public(owner: object) -> Iterator[tuple[str, object]]:
    """Yield the public functions and classes of a module, those its `__all__` names."""
    for name in getattr(owner, "__all__"):  # noqa: B009 - a module that lacks it is a mistake
        yield name, getattr(owner, name)


def names() -> dict[str, object]:
    """Return the public names of the package that are no part of the language, with what they stand for."""
    return {name: getattr(tessera, name) for name in dir(tessera) if name not in LANGUAGE and name[0] != "_"}


def modules() -> dict[str, types.ModuleType]:
    """Return the modules among the public names; each has a page of its own."""
    return {name: value for name, value in names().items() if isinstance(value, types.ModuleType)}


def python() -> str:
    """Return the page of the names of `tessera` that ordinary Python uses."""
    held = {name: value for name, value in names().items() if not isinstance(value, types.ModuleType)}
    classes = [name for name, value in held.items() if isinstance(value, type) and name != ERROR]
    functions = [name for name, value in held.items() if inspect.isfunction(value)]
    decorators = held.keys() - {*classes, *functions, ERROR}
    parts = ["# Tessera from Python", "The names of the package `tessera` for ordinary Python.", "## Kernels"]
    parts += [directive("py:decorator", f"{name}(**options)", inspect.getdoc(held[name]) or "") for name in decorators]
    parts += [restructured(f".. autoclass:: tessera.{name}", "   :members:") for name in classes]
    parts.append("## Functions")
    parts += [restructured(f".. autofunction:: tessera.{name}") for name in functions]
    parts.append("## What these functions return")
    parts += [restructured(f".. autoclass:: {k.__module__}.{k.__qualname__}", "   :members:") for k in results()]
    parts += ["## Errors", restructured(f".. autoclass:: tessera.{ERROR}", "   :members:")]
    parts.append("Each mistake is a class of its own, with a code: [every mistake](/docs/errors.md).")
    return "\n\n".join(parts) + "\n"


def results() -> list[type]:
    """Return the classes that public functions and methods of kernels give back and that have no public name."""
    functions = [value for value in names().values() if inspect.isfunction(value)]
    functions += [value for name, value in vars(tessera.Kernel).items() if name[0] != "_" and inspect.isfunction(value)]
    named = {settings.Settings, *(value for module in modules().values() for _, value in public(module))}
    return [kind for kind in dict.fromkeys(filter(None, map(returned, functions))) if kind not in named]


def module(name: str, owner: types.ModuleType) -> str:
    """Return the page of a public module: its text, and the entries of its public names."""
    parts = [f"# `tessera.{name}`", restructured(f".. automodule:: tessera.{name}")]
    for inner, value in public(owner):
        kind, members = ("class", "   :members:") if isinstance(value, type) else ("function", "")
        parts.append(restructured(f".. auto{kind}:: tessera.{name}.{inner}", members))
    return "\n\n".join(parts) + "\n"


# -- tables ----------------------------------------------------------------------------------------------------------


def magics() -> str:
    """Return the page of the magics of notebooks, with the help that they print."""
    parts = ["# Magics", "After `%load_ext tessera_magics` a notebook has these commands."]
    for kind, held in TesseraMagics.magics.items():
        for name, method in held.items():
            text = inspect.cleandoc(getattr(TesseraMagics, method).__doc__ or "").removeprefix("::\n").strip()
            parts.append(f"## `{'%%' if kind == 'cell' else '%'}{name}`\n\n```text\n{textwrap.dedent(text)}\n```")
    return "\n\n".join(parts) + "\n"


def schedule() -> str:
    """Return the page of the options that say how a kernel is compiled."""
    rows = (
        f"| `{one.name}` | {one.summary} | {_codes(targets_of(one.name))} "
        f"| {_codes(one.candidates)} | {_range(one.legal)} |"
        for one in SCHEDULE.values()
    )
    return (
        "# Schedule options\n\nThey change how a kernel is compiled, never what it computes: "
        "`k.variant(stages=3)`, `k.autotune(space=dict(stages=[2, 3]))`.\n\n"
        "| option | meaning | targets | the tuner tries | legal values |\n|---|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


def _codes(values: Iterable[object]) -> str:
    return ", ".join(f"`{value}`" for value in values)


def _range(values: tuple[object, ...]) -> str:
    """Return the values, or the first two and the last of many."""
    return _codes(values) if len(values) <= 6 else f"{_codes(values[:2])}, ..., `{values[-1]}`"


def setting() -> str:
    """Return the page of the settings."""
    kind = settings.Settings
    return (
        "# Settings\n\nSet one with `tessera.configure(threads=4)`, or with its environment variable before Python "
        "starts.\n\n" + restructured(f".. autoclass:: {kind.__module__}.{kind.__qualname__}")
    )


def pages() -> dict[str, str]:
    """Return every page of the reference as Markdown, by name."""
    tables = {"magics": magics(), "schedule": schedule(), "settings": setting()}
    return {"language": language(), "python": python(), **tables, **{n: module(n, m) for n, m in modules().items()}}
