"""Suggest the name that was probably meant."""

import difflib
from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" for the name nearest to `word`, or an empty string."""
    near = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f"; did you mean {near[0]}?" if near else ""
