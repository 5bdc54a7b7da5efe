"""Complete names in a cell, with a line about each: what IPython's Tab offers, for editors that show more."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.schedule.options import SCHEDULE
from tessera.frontend.language.namespace import Intrinsic, Namespace
from tessera_magics.language.names import complete_body, find
from tessera_magics.language.scopes import function_at

_PATH: Final = re.compile(r"(?:[^\W\d]\w*\s*\.\s*)+\Z")


@dataclass(frozen=True, slots=True)
class Offer:
    """One completion: the text, what it is ("function", "class", ...), its signature or type, and one line about it."""

    text: str
    kind: str
    detail: str
    summary: str


@dataclass(frozen=True, slots=True)
class Offers:
    """Completions for the characters `start` to the cursor; alone: nothing else can stand there."""

    start: int
    offers: tuple[Offer, ...]
    alone: bool


def complete(body: str, offset: int, own: Mapping[str, object]) -> Offers:
    """Return what may stand at an offset of a cell's body; `own` holds the user's names."""
    text = body[:offset]
    found = complete_body(text, own)
    if found is None:
        return Offers(offset, (), alone=False)
    start = offset - len(found.fragment)
    owner = _owner(text[:start])
    around = function_at(body, offset)
    offers: list[Offer] = []
    for name, kind in found.names:
        if around is not None and not owner and kind == "instance":
            offers.append(Offer(name, kind, around.parameters.get(name, around.kind_of(name)), ""))
        else:
            offers.append(_offer(name, kind, find([*owner, name], own)))
    return Offers(start, tuple(offers), found.alone)


def _owner(before: str) -> list[str]:
    """Return the path before the last dot of a text that ends in one: ["tile"] of `y = tile.`."""
    found = _PATH.search(before)
    return [] if found is None else [name.strip() for name in found.group().split(".")[:-1]]


def _offer(name: str, kind: str, value: object) -> Offer:
    if isinstance(value, Intrinsic):
        operation = value.operation
        return Offer(name, kind, f"({operation.parameters})" if operation.parameters else "", operation.summary)
    if isinstance(value, Namespace):
        return Offer(name, kind, "namespace", (value.__doc__ or "").partition("\n")[0])
    if isinstance(value, DType):
        return Offer(name, kind, f"{value.bits} bits", "")
    option = SCHEDULE.get(name.removesuffix("="))
    return Offer(name, kind, "", option.summary if option is not None and name.endswith("=") else "")
