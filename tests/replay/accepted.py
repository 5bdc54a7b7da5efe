"""The accepted hashes: two text files, one line a case and target, and the versions that they belong to."""

import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
_MACHINE_CODE, _TILE_IR = "machine_code.txt", "tile_ir.txt"
_PACKAGES: Final = ("llvmlite", "torch-mlir", "cuda-tile")
_VERSIONS: Final = "# versions: "
_HEAD: Final = f"""\
# {{title}}; `make replay` compares them, `make replay ACCEPT=1` accepts new ones.
{_VERSIONS}{{versions}}
"""
_LINE: Final = re.compile(r"(?P<target>\S+)  (?P<name>.+?) = (?P<value>.*)")
_PASSES: Final = re.compile(r"passes (?P<number>\d+) = (?P<names>.*)")
_SAME: Final = "-"
"""In place of the hash after a pass that changed nothing."""

Key = tuple[str, str]
"""A target and the name of a unit: a case, with a number where it has several programs."""


@dataclass(frozen=True, slots=True)
class Hashes:
    """What one program became.

    machine: the hash of its machine code, or the code of the mistake that refuses it
    stages: the hash of Tile IR after each pass, in order; passes: their names
    """

    machine: str
    stages: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()


@dataclass(slots=True)
class Accepted:
    """The hashes of every unit, and the versions of the tools that they were made with."""

    versions: str
    units: dict[Key, Hashes] = field(default_factory=dict[Key, Hashes])

    def of_case(self, name: str, target: str) -> dict[str, Hashes]:
        """Return the units of one case for one target."""
        named = re.compile(re.escape(name) + r"(?: #\d+)?")
        return {unit: found for (at, unit), found in self.units.items() if at == target and named.fullmatch(unit)}


def versions() -> str:
    """Return the versions of what decides about machine code besides this project."""
    packages = [f"{name} {metadata.version(name)}" for name in _PACKAGES]
    return ", ".join([*packages, f"{sys.platform} {platform.machine()}"])


def read(folder: Path = FOLDER) -> Accepted:
    """Read the accepted hashes."""
    machine, tile_ir = (
        (folder / name).read_text(encoding="utf-8") if (folder / name).is_file() else ""
        for name in (_MACHINE_CODE, _TILE_IR)
    )
    stated = re.search(rf"^{_VERSIONS}(.*)$", machine, re.MULTILINE)
    passes = {
        found["number"]: tuple(found["names"].split())
        for found in map(_PASSES.fullmatch, tile_ir.splitlines())
        if found
    }
    chains = dict(_lines(tile_ir))
    accepted = Accepted(stated[1] if stated is not None else "")
    for key, value in _lines(machine):
        number, *chain = chains.get(key, "0").split()
        accepted.units[key] = Hashes(value, _expanded(chain), passes.get(number, ()))
    return accepted


def write(accepted: Accepted, folder: Path = FOLDER) -> None:
    """Write the accepted hashes, sorted."""
    units = sorted(accepted.units.items(), key=lambda item: (item[0][1], item[0][0]))
    numbers: dict[tuple[str, ...], int] = {}
    for _, found in units:
        if found.stages:
            numbers.setdefault(found.passes, len(numbers) + 1)
    machine = [_line(key, found.machine) for key, found in units]
    tile_ir = [f"passes {number} = {' '.join(names)}" for names, number in numbers.items()]
    tile_ir += [_line(key, " ".join([str(numbers[found.passes]), *_shortened(found.stages)]))
                for key, found in units if found.stages]  # fmt: skip
    for name, title, lines in (
        (_MACHINE_CODE, "Hashes of machine code", machine), (_TILE_IR, "Hashes of Tile IR after each pass", tile_ir),
    ):  # fmt: skip
        head = _HEAD.format(title=title, versions=accepted.versions)
        (folder / name).write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")


def moved(before: Mapping[str, Hashes], now: Mapping[str, Hashes]) -> Iterable[tuple[str, str]]:
    """Yield the units that differ, each with what differs first; names of passes are not compared."""
    for unit in sorted({*before, *now}):
        old, new = before.get(unit), now.get(unit)
        if old is None or new is None:
            yield unit, "is new" if old is None else "is gone"
        elif old.machine != new.machine:
            yield unit, f"machine code ({_first_stage(old, new) or 'Tile IR is the same'})"
        elif found := _first_stage(old, new):
            yield unit, found


def _first_stage(old: Hashes, new: Hashes) -> str:
    """Return the first pass after which Tile IR differs, by number and name."""
    for number, (one, other) in enumerate(zip(old.stages, new.stages, strict=False)):
        if one != other:
            return f"Tile IR from {number:02} {new.passes[number]} on"
    if len(old.stages) != len(new.stages):
        return f"{len(new.stages)} passes on Tile IR, {len(old.stages)} before"
    return ""


def _lines(text: str) -> Iterable[tuple[Key, str]]:
    for found in map(_LINE.fullmatch, text.splitlines()):
        if found is not None:
            yield (found["target"], found["name"]), found["value"]


def _line(key: Key, value: str) -> str:
    return f"{key[0]}  {key[1]} = {value}"


def _shortened(chain: tuple[str, ...]) -> list[str]:
    before = ("", *chain)
    return [_SAME if one == last else one for one, last in zip(chain, before, strict=False)]


def _expanded(chain: list[str]) -> tuple[str, ...]:
    found: list[str] = []
    for one in chain:
        found.append(found[-1] if one == _SAME else one)
    return tuple(found)
