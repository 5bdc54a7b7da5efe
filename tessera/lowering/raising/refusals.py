"""Why a kernel is no graph: what is raised where its text does something that has no mathematics of its own."""

from tessera.core.base.source import NOWHERE, Span

CUSTOM = "launch it in an operator of your own, with the adjoint that you write: @op.custom(adjoint=...)"


class NotRaised(Exception):
    """A kernel that is not raised.  span: of what stands in the way; hint: the remedy."""

    def __init__(self, reason: str, span: Span = NOWHERE, hint: str = CUSTOM) -> None:
        super().__init__(reason)
        self.reason, self.span, self.hint = reason, span, hint
