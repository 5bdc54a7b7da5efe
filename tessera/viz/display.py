"""How Tessera's objects show in notebooks: formatters registered from above, so that nothing below knows of display.

Every object has a plain text, short and the same in every run, and where it helps an HTML view.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from tessera.core.compilation import Compilation
from tessera.core.errors.base import TesseraError, render
from tessera.core.listing import Listing
from tessera.core.resources import ResourceReport
from tessera.kernels.kernel import Kernel
from tessera.lowering.cuda.resources import resource_report
from tessera.profiling.results import Profile
from tessera.session.compiled import Compiled, IrText
from tessera.tuning.results import Tuning
from tessera.viz.error_view import error_html
from tessera.viz.ir_html import ir_html
from tessera.viz.ir_view import ir_view
from tessera.viz.kernel_view import kernel_html, kernel_text
from tessera.viz.profile_view import profile_html, profile_text
from tessera.viz.resources_view import resources_html, resources_text
from tessera.viz.tuning_view import tuning_html, tuning_text

Bundle = dict[str, str]
_PRE: Final = "white-space:pre;overflow:auto;max-height:32em;font-size:12px;line-height:1.4"


def compiled_html(compiled: Compiled | Compilation, opened: tuple[str, ...] = ()) -> str:
    """Return the IR viewer of a compilation, with the levels `opened` first; of GPU code, its resources below."""
    viewer = ir_html(ir_view(compiled.artifact, compiled.listings), opened)
    if compiled.artifact.resources.registers is None:
        return viewer
    found = compiled.resources() if isinstance(compiled, Compiled) else resource_report(compiled.artifact)
    report = resources_html(found)
    return f"{viewer}<details><summary>resources: registers, occupancy, instructions</summary>{report}</details>"


def compiled_text(compiled: Compiled | Compilation) -> str:
    """Return one line: the kernel, its target, and the levels it went through."""
    artifact = compiled.artifact
    levels = compiled.levels if isinstance(compiled, Compiled) else _levels(compiled)
    return f"{artifact.name} for {artifact.target.name}: {', '.join(levels) or 'nobody looked at its levels'}"


def _levels(compilation: Compilation) -> list[str]:
    return list(dict.fromkeys(listing.level for listing in compilation.listings))


def compiled_bundle(compiled: Compiled | Compilation, opened: tuple[str, ...] = ()) -> Bundle:
    """Return both, ready to be displayed."""
    return {"text/plain": compiled_text(compiled), "text/html": compiled_html(compiled, opened)}


def listing_html(listing: Listing) -> str:
    """Return the text of one level, scrolling."""
    return f'<pre style="{_PRE}"><code>{escape(listing.text)}</code></pre>'


@dataclass(frozen=True, slots=True)
class View:
    """How the objects of one class show."""

    text: Callable[[Any], str]
    html: Callable[[Any], str]


VIEWS: Final[Mapping[type, View]] = {
    Kernel: View(kernel_text, kernel_html),
    Tuning: View(tuning_text, tuning_html),
    Profile: View(profile_text, profile_html),
    Compiled: View(compiled_text, compiled_html),
    Compilation: View(compiled_text, compiled_html),
    Listing: View(lambda listing: listing.text, listing_html),
    IrText: View(str, lambda text: listing_html(text.listing)),
    ResourceReport: View(resources_text, resources_html),
    TesseraError: View(render, error_html),
}


def register(formatter: Any) -> None:
    """Add our views to IPython's `DisplayFormatter`; doing it twice changes nothing."""
    for kind, view in VIEWS.items():
        formatter.mimebundle_formatter.for_type(kind, _bundle(view))
        # IPython's own views of strings and exceptions would go before a bundle's text.
        formatter.formatters["text/plain"].for_type(kind, _plain(view))


def unregister(formatter: Any) -> None:
    """Take our views away again."""
    for kind in VIEWS:
        formatter.mimebundle_formatter.pop(kind, None)
        formatter.formatters["text/plain"].pop(kind, None)


def _bundle(view: View) -> Callable[..., Bundle]:
    """A view as IPython calls it; it filters the formats itself."""

    def bundle(value: object, include: object = None, exclude: object = None) -> Bundle:  # noqa: ARG001
        return {"text/plain": view.text(value), "text/html": view.html(value)}

    return bundle


def _plain(view: View) -> Callable[[Any, Any, bool], None]:
    """A view as IPython's pretty printer calls it, inside lists and dictionaries too."""

    def plain(value: object, printer: Any, _cycle: bool) -> None:
        for number, line in enumerate(view.text(value).split("\n")):
            if number:
                printer.break_()
            printer.text(line)

    return plain
