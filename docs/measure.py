"""Measure the shape of the code: `python docs/measure.py` prints one table of figures with their goals.

`python docs/measure.py Any` lists every place behind the figures that have "Any" in their name.
Each figure has the goal that the project works towards and a limit that the tests hold.  A figure that has reached its
goal has the goal as its limit; any other limit may only shrink.  Import graphs come from grimp, complexity, statements
and imports inside functions from ruff, everything else from Python's own parser.
"""

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("tessera", "tessera_magics")
MOST_LINES: Final = 450
MOST_MODULES: Final = 22
CATALOGS: Final = ("tessera/core/errors/catalog.py",)
"""One class per mistake: long, and still one thing to look something up in."""

OPENINGS: Final = ("The same", "What", "Where", "Which", "Who", "Whether")
PRONOUNS: Final = re.compile(r"\b(nobody|somebody|whoever)\b", re.IGNORECASE)

# The private vocabulary, from which the code is moving to the words of CUTLASS, MLIR, Triton and LLVM.  A module counts
# where its name stands in a folder of that name; a class by its whole name; a word as a part of an identifier that is
# defined in such a folder.
PRIVATE_MODULES: Final[Mapping[str, str]] = {
    "cuda": "generate lower decision decisions plan team engine host room parking panels dealing order uneven ring "
    "stages copy_ring running overlap overlapped_loop ahead later_stores later_rows row_stores warp_stores realignment "
    "lost_products rescaling streams product_choice product_decisions store_decisions infer eligible flight hazards "
    "coarsening elements lifetimes arena build fast",
    "cpu": "stretch homes code flow facts tree versions lengths nests places sources stripes ahead micro processor",
    "lowering": "walk bounds packing warm reports",
    "runtime": "items prepared single slots launching interpreted outstanding dispatch recording",
    "frontend": "elsewhere remedies scan surface prune",
    "tessera": "plans free_names launch_space index_values mistakes cells launches",
}
PRIVATE_CLASSES: Final = frozenset(
    ("Team", "Engine", "Host", "Room", "NeedsRoomError", "Dealing", "Ring", "Round", "Stages", "Flight", "Build",
     "Stretches", "Home", "PreparedLaunch", "SingleLaunch", "Family", "Prepared", "Decision", "SerialisedProducts")
)  # fmt: skip
PRIVATE_OPTIONS: Final = frozenset(
    ("ahead", "turns", "later", "apart", "band", "store_blocks", "promote", "realign", "resident", "lanes", "elements",
     "warps", "vector", "rows")
)  # fmt: skip
PRIVATE_WORDS: Final[Mapping[str, str]] = {
    "tessera": "team room parking park parked homes stretch stretches dealing dealt later ahead band apart "
    "realign realigned",
    # An operand of an MMA, its accumulators, and the turns of warp groups; a scale is a factor elsewhere.
    "cuda": "factor factors sums turns",
    "cuda_tile": "factor factors sums",
    "tile": "factor factors",
    "frontend": "factor factors",
    "core": "factor factors",
}


@dataclass(frozen=True, slots=True)
class Module:
    """One source file of the packages, read and parsed."""

    path: str
    text: str
    tree: ast.Module

    @classmethod
    def parse(cls, path: str, text: str) -> "Module":
        """Parse `text`, the content of the file `path`."""
        return cls(path, text, ast.parse(text))

    @property
    def folder(self) -> str:
        """Return the folder that the file lies in."""
        return self.path.rpartition("/")[0]

    @property
    def stem(self) -> str:
        """Return the name of the module."""
        return self.path.rpartition("/")[2].partition(".")[0]

    @property
    def layer(self) -> str:
        """Return the layer: the first folder inside the package, or the package for files that lie loose in it."""
        parts = self.path.split("/")
        return "/".join(parts[:2]) if len(parts) > 2 else parts[0]

    def definitions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
        """Yield every function, method and class."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure: what was counted, its goal, the limit that the tests hold, and the places behind it.

    rising: a share that is to be high, such as that of documented functions
    """

    name: str
    value: int
    goal: int
    limit: int
    places: tuple[str, ...] = ()
    rising: bool = False

    @property
    def holds(self) -> bool:
        """Return whether the figure keeps its limit."""
        return self.value >= self.limit if self.rising else self.value <= self.limit


def modules(root: Path = ROOT) -> list[Module]:
    """Read every Python file and stub of the packages."""
    paths = sorted(path for package in PACKAGES for path in (root / package).rglob("*.py*") if path.suffix != ".pyc")
    return [Module.parse(p.relative_to(root).as_posix(), p.read_text(encoding="utf-8")) for p in paths]


# -- imports ---------------------------------------------------------------------------------------------------------


def import_graph() -> dict[str, set[str]]:
    """Return what each module imports, imports inside functions included and those for type checkers left out."""
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


def package_graph(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return what each folder imports.  A folder and the folders inside it are different packages."""
    packages = {name.rpartition(".")[0] for name in imports}

    def folder(name: str) -> str:
        return name if name in packages else name.rpartition(".")[0]

    edges: dict[str, set[str]] = defaultdict(set)
    for name, targets in imports.items():
        edges[folder(name)].update(folder(target) for target in targets)
    return {name: targets - {name} for name, targets in edges.items()}


def cycles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one node, the largest first."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        stack = [start]
        while stack:
            fresh = edges.get(stack.pop(), set()) - seen
            seen |= fresh
            stack.extend(fresh)
        return seen

    reach = {name: reachable(name) for name in edges}
    groups = {tuple(sorted(other for other in reach[name] if name in reach.get(other, ()))) for name in edges}
    return sorted((list(group) for group in groups if len(group) > 1), key=len, reverse=True)


# -- what ruff counts ------------------------------------------------------------------------------------------------


def ruff_findings(*rules: str, root: Path = ROOT) -> dict[str, list[str]]:
    """Return the places that break each rule of ruff, exceptions on the line counted too."""
    arguments = [
        "check", "--isolated", "--no-cache", "--ignore-noqa", "--exit-zero", "--output-format=json",
        f"--select={','.join(rules)}", "--config=lint.mccabe.max-complexity=10",
        "--config=lint.pylint.max-statements=40", *(str(root / package) for package in PACKAGES),
    ]  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "ruff", *arguments], capture_output=True, text=True, check=True)
    found: dict[str, list[str]] = {rule: [] for rule in rules}
    for finding in json.loads(done.stdout):
        path = Path(finding["filename"]).relative_to(root.resolve()).as_posix()
        found[finding["code"]].append(f"{path}:{finding['location']['row']}")
    return found


def has_reason(place: str, lines: Mapping[str, list[str]]) -> bool:
    """Return whether an exception gives its reason on its line: `# noqa: CODE - the reason`."""
    path, _, row = place.partition(":")
    return bool(re.search(r"#.* - \w", lines[path][int(row) - 1]))


# -- what the parser shows -------------------------------------------------------------------------------------------


def comment_lines(text: str) -> set[int]:
    """Return the numbers of the lines that carry a comment."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def places_with_any(module: Module) -> dict[int, bool]:
    """Return the lines that use `Any`, and whether a comment there or on the line above gives the reason."""
    lines = {
        node.lineno
        for node in ast.walk(module.tree)
        if (isinstance(node, ast.Name) and node.id == "Any") or (isinstance(node, ast.Attribute) and node.attr == "Any")
    }
    comments = comment_lines(module.text) if lines else set[int]()
    return {line: bool(comments & {line, line - 1}) for line in sorted(lines)}


def repeated_classes(sources: Iterable[Module]) -> list[str]:
    """Return the class names that one layer uses more than once, as `layer Name xN`."""
    count = Counter(
        (m.layer, node.name) for m in sources for node in ast.walk(m.tree) if isinstance(node, ast.ClassDef)
    )
    return [f"{layer} {name} x{times}" for (layer, name), times in sorted(count.items()) if times > 1]


def docstrings(module: Module) -> Iterator[tuple[int, str]]:
    """Yield every docstring with its line."""
    for node in (module.tree, *module.definitions()):
        text = ast.get_docstring(node)
        if text:
            yield node.body[0].lineno, text


def private_identifiers(module: Module) -> Iterator[tuple[int, str]]:
    """Yield each identifier defined with a private word in it: `_later_rows`, `factors`, `TeamStore`."""
    folders = module.folder.split("/")
    private = {word for folder, words in PRIVATE_WORDS.items() if folder in folders for word in words.split()}
    for node in ast.walk(module.tree):
        for name in _defined(node):
            parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)
            if any(part.lower() in private for part in parts):
                yield getattr(node, "lineno", 1), name


def _defined(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds: definitions, parameters, variables and attributes."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr


def private_modules(sources: Iterable[Module]) -> list[str]:
    """Return the modules that have a private name."""
    return [
        module.path
        for module in sources
        for folder, names in PRIVATE_MODULES.items()
        if folder in module.folder.split("/") and module.stem in names.split()
    ]


def private_classes(sources: Iterable[Module]) -> list[str]:
    """Return the classes that have a private name."""
    return [
        f"{module.path}:{node.lineno} {node.name}"
        for module in sources
        for node in module.definitions()
        if isinstance(node, ast.ClassDef) and node.name in PRIVATE_CLASSES
    ]


def private_options(sources: Iterable[Module]) -> list[str]:
    """Return the schedule options that have a private name, from the calls of `ScheduleOption`."""
    return [
        str(node.args[0].value)
        for module in sources
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ScheduleOption"
        if node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value in PRIVATE_OPTIONS
    ]


def undocumented(sources: Iterable[Module]) -> tuple[int, list[str]]:
    """Return how many public functions, methods and classes there are, and those without a docstring."""
    public = [
        (f"{module.path}:{node.lineno} {node.name}", ast.get_docstring(node))
        for module in sources
        for node in _public(module.tree.body)
    ]
    return len(public), [place for place, text in public if not text]


def _public(body: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the public functions and classes of a module, and the public methods of these classes."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            if any(isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list):
                continue  # the implementation has the docstring of all its overloads
            yield node
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body)


# -- the table -------------------------------------------------------------------------------------------------------


def count(name: str, found: Iterable[str], limit: int, goal: int = 0) -> Measurement:
    """Make a measurement of a list of places."""
    places = tuple(found)
    return Measurement(name, len(places), goal, limit, places)


def imports() -> Iterator[Measurement]:
    """Measure the import graph."""
    edges = import_graph()
    packages = cycles(package_graph(edges))
    yield count("package cycles", map(" ".join, packages), 0)
    yield count("packages in cycles", (name for cycle in packages for name in cycle), 0)
    yield count("import cycles", map(" ".join, cycles(edges)), 0)


def sizes(sources: list[Module]) -> Iterator[Measurement]:
    """Measure folders, modules and functions."""
    code = [module for module in sources if module.path.endswith(".py")]
    folders = Counter(module.folder for module in code).most_common()
    crowded = (f"{folder}: {held}" for folder, held in folders if held > MOST_MODULES)
    yield count(f"folders of more than {MOST_MODULES} modules", crowded, 0)
    lengths = {module.path: module.text.count("\n") for module in code if module.path not in CATALOGS}
    yield count(f"modules of more than {MOST_LINES} lines", (p for p, n in lengths.items() if n > MOST_LINES), 0)
    found = ruff_findings("C901", "PLR0915", "PLC0415")
    lines = {module.path: module.text.split("\n") for module in code}
    yield count("functions of a complexity above 10", found["C901"], 0)
    yield count("functions of more than 40 statements", found["PLR0915"], 0)
    inner = found["PLC0415"]
    yield count("imports inside functions", inner, 25, goal=25)
    yield count("imports inside functions that give no reason", (p for p in inner if not has_reason(p, lines)), 0)


def types(sources: list[Module]) -> Iterator[Measurement]:
    """Measure what types and names leave open."""
    places = {f"{m.path}:{line}": why for m in sources for line, why in places_with_any(m).items()}
    yield count("places with Any", places, 60, goal=60)
    yield count("places with Any that give no reason", (place for place, why in places.items() if not why), 0)
    yield count("class names used twice in one layer", repeated_classes(sources), 0)


def words(sources: list[Module]) -> Iterator[Measurement]:
    """Measure the language that names and docstrings are written in."""
    code = [module for module in sources if module.path.endswith(".py")]
    texts = [(f"{module.path}:{line}", text) for module in code for line, text in docstrings(module)]
    opens = re.compile(rf"(?:{'|'.join(OPENINGS)})\b")
    yield count("docstrings that begin with The same, What, Where, ...", (p for p, t in texts if opens.match(t)), 0)
    lines = ((module.path, number, line) for module in code for number, line in enumerate(module.text.split("\n"), 1))
    spoken = (f"{path}:{number}" for path, number, line in lines if PRONOUNS.search(line))
    yield count("lines with nobody, somebody, whoever", spoken, 0)
    yield count("modules with a private name", private_modules(code), 0)
    yield count("classes with a private name", private_classes(code), 0)
    yield count("schedule options with a private name", private_options(code), 0)
    named = (f"{module.path}:{line} {name}" for module in code for line, name in private_identifiers(module))
    yield count("identifiers with a private word", named, 0)
    total, missing = undocumented(code)
    share = 100 * (total - len(missing)) // total
    yield Measurement("per cent of public functions documented", share, 100, 100, tuple(missing), rising=True)


def measurements() -> list[Measurement]:
    """Measure everything."""
    sources = modules()
    return [*imports(), *sizes(sources), *types(sources), *words(sources)]


def table(rows: Iterable[Measurement]) -> str:
    """Return the figures as text, one line each, with the first place behind each."""
    lines = [f"{'':56}{'now':>6}{'goal':>6}{'limit':>7}  first place"]
    for row in rows:
        mark = "" if row.holds else "  <- breaks its limit"
        first = row.places[0][:60] if row.places else ""
        lines.append(f"{row.name:56}{row.value:>6}{row.goal:>6}{row.limit:>7}  {first}{mark}".rstrip())
    return "\n".join(lines) + "\n"


def listing(rows: Iterable[Measurement], part: str) -> str:
    """Return every place behind the figures that have `part` in their name."""
    return "".join(f"{row.name}: {place}\n" for row in rows if part in row.name for place in row.places)


if __name__ == "__main__":
    figures = measurements()
    sys.stdout.write(listing(figures, sys.argv[1]) if len(sys.argv) > 1 else table(figures))
