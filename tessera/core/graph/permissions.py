"""Classes of rewrite rules: what a rule may change about the bits of a result, and which of them a program permits."""

from collections.abc import Iterable
from typing import Final, cast

from tessera.core.errors.base import TesseraError
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadPermission

BITS: Final = "bits"
REAL: Final = "real"

CLASSES: Final = {
    BITS: "no bit changes; always on",
    "reassociate": "sums and products in another order: roundings of the accumulating type move",
    "fold": "a scale or a gain is rounded into an operand of a product; a sum that is carried, as its result is",
    "cancel": "what is undone is left out: x / x, exp(log(x)); an overflow or a NaN may go away",
    "widen": "a value that is not stored keeps its wide type: fewer roundings",
    "approximate": "hardware approximations of functions, with stated errors",
}
"""Classes of rules, each with the changes that it may make."""
ALGEBRA: Final = frozenset(CLASSES) - {BITS, "approximate"}
"""The classes of `algebra="real"`: everything that holds for real numbers."""


def read_permissions(given: object) -> frozenset[str]:
    """Return the permitted classes beyond `bits`, given as one name or several; "real" is all but `approximate`.

    Raises BadPermission for other names, with the choices.
    """
    if isinstance(given, str):
        return _named(given)
    if not isinstance(given, Iterable):
        raise _bad(given)
    found: frozenset[str] = frozenset()
    for each in cast("Iterable[object]", given):
        if not isinstance(each, str):
            raise _bad(each)
        found |= _named(each)
    return found


def _named(name: str) -> frozenset[str]:
    if name == REAL:
        return ALGEBRA
    if name not in CLASSES:
        raise _bad(name)
    return frozenset({name}) - {BITS}


def _bad(given: object) -> TesseraError:
    hint = f"choose from {', '.join((*CLASSES, REAL))}; several as a set"
    return at_call(BadPermission(f"algebra={given!r} is no class of rewrites", hint=hint))
