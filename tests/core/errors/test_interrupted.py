"""What a stopped kernel tells."""

from tessera.core.base.source import Source, Span
from tessera.core.errors.interrupted import KernelInterrupted, interrupted_call


def test_ipython_shows_the_users_line_and_none_of_ours():
    source = Source("cell", "import numpy\nslow(x, y)\n", 1, "cell 3")
    shown = KernelInterrupted("slow", Span("cell", 2, 1, 2, 11), source)._render_traceback_()  # pyright: ignore[reportPrivateUsage]
    assert shown == [
        "KeyboardInterrupt: slow was stopped; what it had written stays written",
        "  --> cell 3, line 2, column 1",
        "   2 | slow(x, y)",
        "     | ^^^^^^^^^^",
    ]
    assert len(KernelInterrupted("slow")._render_traceback_()) == 1  # pyright: ignore[reportPrivateUsage]


def test_it_is_a_keyboard_interrupt_of_the_call():
    error = interrupted_call("slow")
    assert isinstance(error, KeyboardInterrupt)
    assert error.source is not None
    assert "interrupted_call" in error.source.line(error.span.line)
