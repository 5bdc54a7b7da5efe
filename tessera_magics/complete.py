"""Tab completion of `%%tessera` options and `%tessera` commands."""

import re
from collections.abc import Callable
from typing import Any

from tessera_magics.line import kernel_names
from tessera_magics.options import complete_cell, complete_line


def completer(shell: Any) -> Callable[[Any, Any], list[str]]:
    """Return the hook for IPython's `complete_command`."""

    def complete(_shell: Any, event: Any) -> list[str]:
        text: str = event.text_until_cursor
        if text.lstrip().startswith("%%"):
            return complete_cell(text)
        return complete_line(text, kernel_names(shell.user_ns))

    return complete


def forget_completer(shell: Any, pattern: str) -> None:
    """Remove the hook; IPython itself has no way to."""
    dispatcher = shell.strdispatchers.get("complete_command")
    if dispatcher is not None:
        dispatcher.regexs.pop(re.compile(pattern), None)
