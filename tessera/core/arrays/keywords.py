"""Keywords of other libraries, and mistaken ones: what the parameter is called here."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import ArgumentCount

OTHER_KEYWORDS: Final[Mapping[str, str]] = {
    "a_max": "high", "a_min": "low", "correction": "ddof", "diagonal": "k", "dim": "axis", "dim0": "axis1",
    "dim1": "axis2", "dimension": "axis", "dims": "axis", "end_dim": "end", "keepdim": "keepdims", "max": "high",
    "min": "low", "shifts": "shift", "start_dim": "start", "unbiased": "ddof",
}  # fmt: skip
"""Parameters of operators by the names that NumPy, JAX or PyTorch have for them."""


def require_parameters(function: str, parameters: Sequence[str], keywords: Iterable[str]) -> None:
    """Raise ArgumentCount, with the place of the call, for a keyword that is no parameter of a function."""
    for name in keywords:
        if name not in parameters:
            close = next(iter(get_close_matches(OTHER_KEYWORDS.get(name, name), parameters, 1)), "")
            hint = f"did you mean {close}=?" if close else f"its parameters are {', '.join(parameters)}"
            raise at_call(ArgumentCount(f"{function} has no parameter {name}", hint=hint))
