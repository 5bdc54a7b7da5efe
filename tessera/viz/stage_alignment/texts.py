"""Lines as texts: what they say without the names of values, and which words of two lines differ."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.subsequences import longest_common
from tessera.viz.stage_alignment.changes import LOCATIONS, Marks

VALUE: Final = re.compile(r'%(?:[\w.$-]+(?:#\d+)?|"[^"]*")')
"""A value of an SSA form, or a virtual register of PTX."""
_SSA: Final = r'%(?:[\w.$-]+(?:#\d+)?|"[^"]*")|\^bb\d+|![0-9]+|#[a-z]\w*'
"""Values, blocks, metadata of LLVM, aliases of MLIR."""
_NUMBERED: Final = {
    "target": re.compile(_SSA),
    "llvm": re.compile(_SSA),
    "ptx": re.compile(r"%[\w.]+|\$L\w+"),
    "sass": re.compile(r"/\*[0-9a-f]{4,}\*/|\b(?:U?R|U?P|B)\d+\b|\.L_x_\d+"),
    "asm": re.compile(r"%\w+|\.L\w+"),
}
_ANY: Final = re.compile(rf"/\*[0-9a-f]{{4,}}\*/|{_SSA}")
_LOCATION: Final = re.compile(r"\s*(?:,\s*!dbg !\d+|loc\((?:[^()]|\([^()]*\))*\)|^\s*\.loc\b.*)")
_DICTIONARY: Final = re.compile(r"\s*\{[^{}]*=[^{}]*\}")
_WORD: Final = re.compile(r'%(?:[\w.$-]+(?:#\d+)?|"[^"]*")|[\w.]+|[^\w\s]')
_MACHINE_REGISTER: Final = re.compile(
    r"U?[RP]\d+|[xyz]mm\d+|%?(?:r\d+[dwb]?|[re]?[abcd]x|[re]?[sd]il?|[re]?[sb]pl?|[xyz]mm\d+|k\d)"
)


def blanked(text: str, level: str) -> str:
    """Return what a line says whatever its values, registers, labels and addresses are called; no indentation."""
    return _NUMBERED.get(level, _ANY).sub("%", text).strip()


class Renaming:
    """Match the names of values of two texts: by the majority of the lines that say the same."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        votes: Counter[tuple[str, str]] = Counter()
        for old, new in pairs:
            mine, theirs = VALUE.findall(old), VALUE.findall(new)
            if len(mine) == len(theirs):
                votes.update(zip(mine, theirs, strict=True))
        self._forward: dict[str, str] = {}
        self._backward: dict[str, str] = {}
        for (old, new), _ in votes.most_common():
            self._forward.setdefault(old, new)
            self._backward.setdefault(new, old)

    def same(self, old: str, new: str) -> bool:
        """Return whether two words say the same: equal, or one value under two names, or registers of a machine."""
        if old == new or self._forward.get(old) == new or self._backward.get(new) == old:
            return True
        return bool(_MACHINE_REGISTER.fullmatch(old) and _MACHINE_REGISTER.fullmatch(new))

    def same_values(self, old: str, new: str) -> bool:
        """Return whether the values of two lines are the same, one by one."""
        mine, theirs = VALUE.findall(old), VALUE.findall(new)
        return len(mine) == len(theirs) and all(map(self.same, mine, theirs))

    def marks(self, old: str, new: str) -> tuple[Marks, Marks]:
        """Return the ranges of words that differ: what is between the common beginning and end, and not in both."""
        mine, theirs = list(_WORD.finditer(old)), list(_WORD.finditer(new))
        names, others = [self._forward.get(word[0], word[0]) for word in mine], [word[0] for word in theirs]
        shortest = min(len(mine), len(theirs))
        head = 0
        while head < shortest and (names[head] == others[head] or self.same(mine[head][0], others[head])):
            head += 1
        tail = 1
        while tail <= shortest - head and (names[-tail] == others[-tail] or self.same(mine[-tail][0], others[-tail])):
            tail += 1
        ends = (len(mine) - tail + 1, len(theirs) - tail + 1)
        common = longest_common(names[head : ends[0]], others[head : ends[1]])
        kept_a, kept_b = {head + i for i, _ in common}, {head + j for _, j in common}
        return (
            _ranges(old, [mine[i].span() for i in range(head, ends[0]) if i not in kept_a]),
            _ranges(new, [theirs[j].span() for j in range(head, ends[1]) if j not in kept_b]),
        )


def _ranges(text: str, spans: Sequence[tuple[int, int]]) -> Marks:
    """Join ranges between which only spaces are."""
    found: list[tuple[int, int]] = []
    for start, stop in spans:
        if found and not text[found[-1][1] : start].strip():
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return tuple(found)


def text_fields(old: str, new: str, level: str) -> tuple[str, ...]:
    """Return in what two lines differ that say different things: "locations", "attributes" or "text"."""
    placeless = [blanked(_LOCATION.sub("", text), level) for text in (old, new)]
    if placeless[0] == placeless[1]:
        return (LOCATIONS,)
    bare = [_DICTIONARY.sub("", text) for text in placeless]
    return ("attributes",) if bare[0] == bare[1] else ("text",)


@dataclass(frozen=True, slots=True)
class Text:
    """A text to be compared: what each line says (see `blanked`), and the name of its operation, "" for none."""

    said: Sequence[str]
    names: Sequence[str]


def text_pairs(before: Text, after: Text) -> list[tuple[int, int]]:
    """Return which lines of two texts are counterparts.

    First those that say the same, in order, as many as possible; between them those of operations with one name; then
    what is left and says the same somewhere else.
    """
    chain = longest_common(before.said, after.said)
    pairs = list(chain)
    for a, b, c, d in gaps(chain, len(before.said), len(after.said)):
        mine = [i for i in range(a, b) if before.names[i]]
        theirs = [j for j in range(c, d) if after.names[j]]
        common = longest_common([before.names[i] for i in mine], [after.names[j] for j in theirs])
        pairs += [(mine[i], theirs[j]) for i, j in common]
    free: dict[str, list[int]] = defaultdict(list)
    taken, found = {i for i, _ in pairs}, {j for _, j in pairs}
    for i in reversed(range(len(before.said))):
        if i not in taken and before.names[i]:
            free[before.said[i]].append(i)
    for j, said in enumerate(after.said):
        if j not in found and after.names[j] and free.get(said):
            pairs.append((free[said].pop(), j))
    return pairs


def gaps(chain: Sequence[tuple[int, int]], before: int, after: int) -> Iterable[tuple[int, int, int, int]]:
    """Yield what is between pairs in order: from and to, on either side."""
    a = c = 0
    for i, j in (*chain, (before, after)):
        if i > a and j > c:
            yield a, i, c, j
        a, c = i + 1, j + 1
