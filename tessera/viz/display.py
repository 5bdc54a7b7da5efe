"""How Tessera's objects show in notebooks: formatters registered from above, so that nothing below knows of display.

Every object has a plain text, short and the same in every run, and where it helps an HTML view.
"""

from collections.abc import Callable, Mapping
from html import escape
from typing import Any, Final

from tessera.compiled import Compiled, IrText
from tessera.core.compilation import Compilation
from tessera.core.errors import TesseraError, render
from tessera.core.listing import Listing
from tessera.kernels import Kernel
from tessera.viz.error_view import error_html
from tessera.viz.ir_html import ir_html
from tessera.viz.ir_view import ir_view
from tessera.viz.kernel_view import kernel_html, kernel_text

Bundle = dict[str, str]
_PRE: Final = "white-space:pre;overflow:auto;max-height:32em;font-size:12px;line-height:1.4"


def compiled_bundle(compiled: Compiled | Compilation, opened: tuple[str, ...] = ()) -> Bundle:
    """Return the IR viewer of a compilation, with the levels `opened` first, and one line of text."""
    html = ir_html(ir_view(compiled.artifact, compiled.listings), opened)
    return {"text/plain": compilation_text(compiled), "text/html": html}


def compilation_text(compiled: Compiled | Compilation) -> str:
    """Return one line: the kernel, its target, and the levels it went through."""
    artifact = compiled.artifact
    levels = dict.fromkeys(listing.level for listing in compiled.listings)
    return f"{artifact.name} for {artifact.target.name}: {', '.join(levels) or 'nobody looked at its levels'}"


def listing_bundle(listing: Listing) -> Bundle:
    """Return the text of one level."""
    return {"text/plain": listing.text, "text/html": f'<pre style="{_PRE}">{escape(listing.text)}</pre>'}


def text_bundle(text: IrText) -> Bundle:
    """Return the text of one level, as text."""
    return listing_bundle(text.listing)


def kernel_bundle(kernel: Kernel) -> Bundle:
    """Return a kernel's card."""
    return {"text/plain": kernel_text(kernel), "text/html": kernel_html(kernel)}


def error_bundle(error: TesseraError) -> Bundle:
    """Return a mistake with its place and its remedy."""
    return {"text/plain": render(error), "text/html": error_html(error)}


def bundles() -> Mapping[type, Callable[[Any], Bundle]]:
    """The view of each class, by class."""
    return {
        Kernel: kernel_bundle,
        Compiled: compiled_bundle,
        Compilation: compiled_bundle,
        Listing: listing_bundle,
        IrText: text_bundle,
        TesseraError: error_bundle,
    }


def register(formatter: Any) -> None:
    """Add our views to IPython's `DisplayFormatter`; doing it twice changes nothing."""
    for kind, bundle in bundles().items():
        formatter.mimebundle_formatter.for_type(kind, _only_data(bundle))


def unregister(formatter: Any) -> None:
    """Take our views away again."""
    for kind in bundles():
        formatter.mimebundle_formatter.pop(kind, None)


def _only_data(bundle: Callable[[Any], Bundle]) -> Callable[..., Bundle]:
    """Adapt a view to what IPython calls: it may ask for some formats only, and filters the rest itself."""

    def view(value: object, include: object = None, exclude: object = None) -> Bundle:  # noqa: ARG001
        return bundle(value)

    return view
