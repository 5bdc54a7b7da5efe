"""Display of Tessera's objects in notebooks: formatters registered from above, so that nothing below knows of display.

Every object has a plain text, short and the same in every run, and where it helps an HTML view.  Classes are registered
by name, and how they are shown (`renderings.py`) is loaded with the first one: loading the extension stays quick.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, cast

if TYPE_CHECKING:
    from tessera.core.compilation import Compilation
    from tessera.session.compiled import Compiled
    from tessera.viz.renderings import Rendering

Bundle = dict[str, str]
CLASSES: Final = (
    ("tessera.kernels.kernel", "Kernel"),
    ("tessera.tuning.results", "Tuning"),
    ("tessera.tuning.background", "BackgroundSearch"),
    ("tessera.profiling.results", "Profile"),
    ("tessera.session.compiled", "Compiled"),
    ("tessera.core.compilation", "Compilation"),
    ("tessera.core.listing", "Listing"),
    ("tessera.session.compiled", "IrText"),
    ("tessera.core.resources", "ResourceReport"),
    ("tessera.core.errors.base", "TesseraError"),
    ("tessera.dist.meshes", "Mesh"),
    ("tessera.dist.tensors", "Tensor"),
    ("tessera.core.planning.device_timeline", "DeviceTimeline"),
    ("tessera.profiling.mesh_profile", "MeshProfile"),
    ("tessera.core.planning.parallel_plan", "PlanSearch"),
    ("tessera.core.planning.parallel_plan", "ParallelPlan"),
)
"""Module and name of each class that `renderings.RENDERINGS` shows."""


class TypeFormatter(Protocol):
    """The part of IPython's `BaseFormatter` that is used here."""

    def for_type_by_name(self, type_module: str, type_name: str, func: Callable[..., object]) -> object:
        """Add the formatter of a class that need not be imported."""
        ...

    def pop(self, typ: str, default: object) -> object:
        """Remove the formatter of a class, by its module and name."""
        ...


class DisplayFormatter(Protocol):
    """The part of IPython's `DisplayFormatter` that is used here; `formatters` by MIME type."""

    mimebundle_formatter: TypeFormatter
    formatters: Mapping[str, TypeFormatter]


class Printer(Protocol):
    """The part of IPython's `RepresentationPrinter` that is used here."""

    def text(self, obj: str, /) -> None:
        """Add text."""
        ...

    def break_(self) -> None:
        """Begin a new line."""
        ...


def register(formatter: DisplayFormatter) -> None:
    """Add our views to IPython's `DisplayFormatter`; doing it twice changes nothing."""
    for kind in CLASSES:
        formatter.mimebundle_formatter.for_type_by_name(*kind, _bundle(kind))
        # IPython's own views of strings and exceptions would go before a bundle's text.
        formatter.formatters["text/plain"].for_type_by_name(*kind, _plain(kind))


def unregister(formatter: DisplayFormatter) -> None:
    """Take our views away again."""
    for kind in map(".".join, CLASSES):
        formatter.mimebundle_formatter.pop(kind, None)
        formatter.formatters["text/plain"].pop(kind, None)


def compiled_bundle(compiled: "Compiled | Compilation", opened: tuple[str, ...] = ()) -> Bundle:
    """Return the text and the HTML of a compilation, ready to be displayed, with the levels `opened` first."""
    show: Callable[..., Bundle] = importlib.import_module("tessera.viz.renderings").compiled_bundle
    return show(compiled, opened)


def _rendering(kind: tuple[str, str]) -> "Rendering":
    known = importlib.import_module("tessera.viz.renderings").RENDERINGS
    return cast("Mapping[type, Rendering]", known)[getattr(importlib.import_module(kind[0]), kind[1])]


def _bundle(kind: tuple[str, str]) -> Callable[..., Bundle]:
    """Return a view as IPython calls it; it filters the formats itself."""

    def bundle(value: object, include: object = None, exclude: object = None) -> Bundle:  # noqa: ARG001
        view = _rendering(kind)
        return {"text/plain": view.text(value), "text/html": view.html(value)}

    return bundle


def _plain(kind: tuple[str, str]) -> Callable[[object, Printer, bool], None]:
    """Return a view as IPython's pretty printer calls it, inside lists and dictionaries too."""

    def plain(value: object, printer: Printer, _cycle: bool) -> None:
        for number, line in enumerate(_rendering(kind).text(value).split("\n")):
            if number:
                printer.break_()
            printer.text(line)

    return plain
