"""Print what `make coverage` measured: the share of lines that the tests ran by folder, and the modules behind.

`python docs/covered.py` reads the data that `coverage combine` left; `python docs/covered.py NAME` lists the lines that
no test ran of the modules with NAME in their path.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from coverage import Coverage

GOAL: Final = 95.0
"""Per cent of all lines."""
BEHIND: Final = 25
"""How many modules the report names."""


@dataclass(frozen=True, slots=True)
class Lines:
    """How many lines of code there are, and the numbers of those that no test ran."""

    total: int
    missing: tuple[int, ...]

    @property
    def share(self) -> float:
        """Return the per cent of lines that ran; an empty file has nothing missing."""
        return 100.0 * (self.total - len(self.missing)) / self.total if self.total else 100.0


def measured() -> dict[str, Lines]:
    """Return what was measured of every module, by path."""
    data = Coverage()
    data.load()
    found: dict[str, Lines] = {}
    for path in sorted(data.get_data().measured_files()):
        _, statements, _, missing, _ = data.analysis2(path)
        found[Path(path).relative_to(Path.cwd()).as_posix()] = Lines(len(statements), tuple(missing))
    return found


def together(parts: Iterable[Lines]) -> Lines:
    """Return several measurements as one."""
    held = list(parts)
    return Lines(sum(part.total for part in held), tuple(line for part in held for line in part.missing))


def ranges(lines: Iterable[int]) -> str:
    """Return line numbers as text, neighbours together: 3, 7-9."""
    groups: list[list[int]] = []
    for line in sorted(lines):
        if groups and line == groups[-1][-1] + 1:
            groups[-1].append(line)
        else:
            groups.append([line])
    return ", ".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)


def report(modules: Mapping[str, Lines]) -> str:
    """Return the table by folder, the modules with the most lines that no test ran, and the figure of everything."""
    folders: dict[str, list[Lines]] = defaultdict(list)
    for path, lines in modules.items():
        folders[path.rpartition("/")[0]].append(lines)
    rows = [f"{'folder':50}{'lines':>8}{'not run':>9}{'share':>9}"]
    rows += [_row(folder, together(parts)) for folder, parts in sorted(folders.items())]
    furthest = sorted(modules.items(), key=lambda entry: -len(entry[1].missing))[:BEHIND]
    rows += ["", f"{'module':50}{'lines':>8}{'not run':>9}{'share':>9}"]
    rows += [_row(path, lines) for path, lines in furthest if lines.missing]
    total = together(modules.values())
    return "\n".join([*rows, "", f"Coverage: {total.share:.1f} % of {total.total} lines (goal: {GOAL:.0f} %)"]) + "\n"


def _row(name: str, lines: Lines) -> str:
    return f"{name:50}{lines.total:>8}{len(lines.missing):>9}{lines.share:>8.1f}%"


if __name__ == "__main__":
    modules = measured()
    if len(sys.argv) > 1:
        chosen = {path: lines for path, lines in modules.items() if sys.argv[1] in path and lines.missing}
        sys.stdout.write("".join(f"{path}: {ranges(lines.missing)}\n" for path, lines in chosen.items()))
    else:
        sys.stdout.write(report(modules))
