"""Run text in Tessera syntax: a cell's kernels and host code, in a namespace that also knows the language's names."""

import builtins
import dataclasses
import hashlib
import importlib
from collections.abc import MutableMapping
from dataclasses import dataclass
from types import ModuleType
from typing import cast

from tessera.api.autodiff import autodiff
from tessera.api.declarations import store_declared
from tessera.api.decorator import kernel
from tessera.api.index_launches.region import Region, read, write
from tessera.api.jit import jit
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import NoSource
from tessera.core.graph.numerics import ALIASES, FORMATS, accum, round_, rounding, scale
from tessera.frontend.language.namespace import LANGUAGE
from tessera.frontend.syntax.declarations import STORE
from tessera.frontend.syntax.source_file import read_cell
from tessera.kernels.kernel import Kernel
from tessera.ops import op
from tessera.ops.elementary.universal import NUMPY_NAMES


@dataclass(frozen=True, slots=True)
class CellRun:
    """The kernels that a cell defined, by name, in the order of the text."""

    kernels: dict[str, Kernel]


def language_names() -> dict[str, object]:
    """Return every name that a cell may use without importing it.

    These are the names of the language, the decorators and the operators.  Operators named like a builtin of
    Python, such as `op.sum`, and NumPy's names for Python's operators, such as `op.add`, need their `op.`.
    """
    autotune = importlib.import_module("tessera.tuning.autotune")  # as late as the package itself loads it
    named = [name for name in op.__all__ if not hasattr(builtins, name) and name not in NUMPY_NAMES]
    operators = {name: getattr(op, name) for name in named}
    formats = {name: each for name, each in FORMATS.items() if name not in LANGUAGE} | ALIASES
    own: dict[str, object] = {
        **formats, "accum": accum, "round": round_, "rounding": rounding, "scale": scale,
        "kernel": kernel, "autotune": autotune, "TesseraError": TesseraError, "jit": jit, "autodiff": autodiff,
        "Region": Region, "read": read, "write": write,
    }  # fmt: skip
    return {**operators, **LANGUAGE, **own}


def run_cell(
    text: str, namespace: MutableMapping[str, object], *, name: str, first_line: int = 1, label: str = ""
) -> CellRun:
    """Run a cell of Tessera syntax in `namespace`, where everything it defines lands.

    `name` is the file name that tracebacks show, `first_line` the number of the text's first line in it, `label` what
    a person calls it ("Cell In[3]").  The language's names are visible to the cell's code without being put into
    `namespace`; a name that `namespace` holds goes first.  Raises SyntaxMistake for text that is not Tessera, and
    whatever the cell's own code raises.
    """
    cell = read_cell(text, name, first_line, label)
    code = cell.compile()
    earlier = dict(namespace)
    had = "__builtins__" in namespace
    before = namespace.get("__builtins__")
    # Functions keep the builtins of the moment they are defined in: this reaches all code of the cell, also when it
    # is called later, and leaves the namespace clean.
    namespace["__builtins__"] = {**vars(builtins), **language_names(), STORE: store_declared}
    try:
        exec(code, namespace)  # noqa: S102 - running the user's cell is the purpose  # pyright: ignore[reportArgumentType]
    except TesseraError as error:
        if error.source is not None and error.source.name == name and not error.source.label:
            error.source = dataclasses.replace(error.source, label=label)  # a call's place (`at_call`) has none
        raise
    finally:
        if had:
            namespace["__builtins__"] = before
        else:
            del namespace["__builtins__"]
    found: dict[str, Kernel] = {}
    for source in cell.kernels:
        value = namespace.get(source.name)
        if isinstance(value, Kernel) and value is not earlier.get(source.name):
            found[source.name] = value
    return CellRun(found)


def compile_source(text: str, name: str | None = None) -> ModuleType:
    """Return a module with everything that `text`, in Tessera syntax, defines.

    `name` is what errors call it; left out, it is made from the text.
    Raises SyntaxMistake, NoSource for what is no text.
    """
    if not isinstance(cast("object", text), str):
        raise NoSource(f"{text!r} is no text", hint="give the text of the kernel, or its file to read_text()")
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()
    file = name or f"<tessera {digest}>"
    module = ModuleType(f"tessera_source_{digest}", "Compiled from Tessera source.")
    run_cell(text, vars(module), name=file)
    return module
