"""`KernelInterrupted`: Ctrl-C, or the notebook's stop button, while a kernel was called."""

from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.errors.base import excerpt
from tessera.core.errors.call_site import call_place


class KernelInterrupted(KeyboardInterrupt):
    """A call of a kernel that was stopped.  IPython shows the user's line, and none of our frames.

    kernel: its name; span, source: of the call, where its text is known
    """

    def __init__(self, kernel: str, span: Span = NOWHERE, source: Source | None = None) -> None:
        super().__init__(f"{kernel} was stopped; what it had written stays written")
        self.span, self.source = span, source

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}", *excerpt(self.source, self.span)]


def interrupted_call(kernel: str) -> KernelInterrupted:
    """Return the interrupt of a call of a kernel, with the place of the call in the user's text."""
    return KernelInterrupted(kernel, *call_place())
