"""Arguments of operators: keywords of other libraries, and mistaken ones; too many, and none where one is needed."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from inspect import Parameter
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


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a function.

    names: by which arguments may be given; ordered: those that may be given by position, in order
    required: those without a default; any_number: whether further arguments may be given by position
    """

    names: tuple[str, ...]
    ordered: tuple[str, ...]
    required: tuple[str, ...]
    any_number: bool = False

    @staticmethod
    def of(function: Callable[..., object]) -> "Parameters | None":
        """Return the parameters of a function; None where it takes any keywords, or is a builtin."""
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):  # a builtin
            return None
        if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
            return None
        several = any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
        single = [each for each in parameters if each.kind is not Parameter.VAR_POSITIONAL]
        return Parameters(
            tuple([each.name for each in single if each.kind is not Parameter.POSITIONAL_ONLY]),
            tuple([each.name for each in single if each.kind is not Parameter.KEYWORD_ONLY]),
            tuple([each.name for each in single if each.default is Parameter.empty]), several,
        )  # fmt: skip

    def require_keywords(self, function: str, keywords: Iterable[str]) -> None:
        """Raise ArgumentCount, with the place of the call, for a keyword that is no parameter."""
        require_parameters(function, self.names, keywords)

    def require_arguments(self, function: str, count: int, keywords: Iterable[str]) -> None:
        """Raise ArgumentCount, with the place of the call, unless every argument has a parameter, and none is missing.

        count: of the arguments that are given by position
        """
        hint = f"its parameters are {', '.join(self.names)}"
        if count > len(self.ordered) and not self.any_number:
            taken = len(self.ordered)
            message = f"{function} takes {taken} argument{'s' * (taken != 1)} by position, and {count} are given"
            raise at_call(ArgumentCount(message, hint=hint))
        named, placed = set(keywords), self.ordered[:count]
        if twice := [name for name in placed if name in named]:
            raise at_call(ArgumentCount(f"{twice[0]} of {function} is given twice", hint=hint))
        if missing := [name for name in self.required if name not in named and name not in placed]:
            raise at_call(ArgumentCount(f"{function} needs {' and '.join(missing)}", hint=hint))
