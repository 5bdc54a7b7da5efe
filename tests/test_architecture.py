"""The shape of the project: every module has a docstring, a size, a test and a place on the map."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from tessera.core.targets import GENERATIONS, TARGETS

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("tessera", "tessera_magics")
MOST_LINES: Final = 450
MODULES: Final = sorted(
    path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py") if path.stat().st_size > 0
)
TEXTS: Final = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "*.toml", "Makefile", "docs/*", "tessera*/**/*.py", "tests/**/*.py", "benchmarks/*.py")
    for path in ROOT.glob(pattern)
    if path.is_file()
)

# Modules that are tested through another's door, with the test that covers them; a folder stands for all in it.
_BUILD: Final = "tests/frontend/build/test_build.py"
_ABSENT: Final = "tests/lowering/tile/test_mask_absent.py"
COVERED_BY: Final = {
    "tessera/core/artifact.py": "tests/lowering/artifact_cache/test_codec.py",
    "tessera/core/errors/catalog.py": "tests/docs/test_docs.py",
    "tessera/core/program/arguments.py": _BUILD,
    "tessera/core/program/program.py": _BUILD,
    "tessera/core/program/spec.py": _BUILD,
    "tessera/core/program/types.py": "tests/core/tile/test_types.py",
    "tessera/core/tile/forms.py": "tests/core/tile/test_text.py",
    "tessera/core/tile/verify.py": "tests/core/tile/test_spec.py",
    "tessera/frontend/build/accumulations.py": "tests/frontend/build/test_reduction_loops.py",
    "tessera/frontend/base/affine.py": _BUILD,
    "tessera/frontend/build/annotations.py": "tests/frontend/test_mistakes.py",
    "tessera/frontend/base/bindings.py": _BUILD,
    "tessera/frontend/base/builder.py": _BUILD,
    "tessera/frontend/base/context.py": _BUILD,
    "tessera/frontend/build/control.py": _BUILD,
    "tessera/frontend/base/describe.py": "tests/frontend/test_mistakes.py",
    "tessera/frontend/build/expressions.py": _BUILD,
    "tessera/frontend/build/python_functions.py": _BUILD,
    "tessera/frontend/build/inlining.py": _BUILD,
    "tessera/frontend/operations/intrinsics.py": "tests/docs/test_docs.py",
    "tessera/frontend/operations/lane_operations.py": _BUILD,
    "tessera/frontend/build/loops.py": _BUILD,
    "tessera/frontend/operations/memory_operations.py": _BUILD,
    "tessera/frontend/language/namespace.py": "tests/docs/test_docs.py",
    "tessera/frontend/build/dead_code.py": _BUILD,
    "tessera/frontend/build/statements.py": _BUILD,
    "tessera/frontend/syntax/kernel_source.py": "tests/frontend/syntax/test_source_file.py",
    "tessera/frontend/operations/tile_operations.py": _BUILD,
    "tessera/ops/tiles": "tests/ops",
    "tessera/lowering/analysis/ir_tree.py": "tests/lowering/analysis/test_divergence.py",
    "tessera/lowering/base/host_cpu.py": "tests/lowering/cpu/test_backend.py",
    "tessera/lowering/cpu": "tests/lowering/cpu",
    "tessera/lowering/cuda": "tests/lowering/cuda",
    "tessera/lowering/math": "tests/lowering/math/test_vector_math.py",
    "tessera/lowering/base/indices.py": "tests/lowering/cpu/tile/test_lowering.py",
    "tessera/lowering/base/structured_control.py": "tests/lowering/cpu/tile/test_lowering.py",
    "tessera/lowering/base/target_code.py": "tests/lowering/driver/test_compile.py",
    "tessera/lowering/analysis/memory_accesses.py": "tests/lowering/tile/test_distribute_ranges.py",
    "tessera/lowering/tile/masking/index_comparisons.py": _ABSENT,
    "tessera/lowering/tile/masking/validity.py": _ABSENT,
    "tessera/lowering/tile/masking/carried_validity.py": _ABSENT,
    "tessera/lowering/tile/masking/mask_values.py": _ABSENT,
    "tessera/lowering/tile/masking/availability.py": _ABSENT,
    "tessera/lowering/tile/masking/demanded_elements.py": _ABSENT,
    "tessera/lowering/analysis/row_dependence.py": "tests/lowering/tile/test_distribute_rows.py",
    "tessera/runtime/launch/on_gpu.py": "tests/runtime/launch/test_launchers.py",
    "tessera/runtime/launch/on_host.py": "tests/runtime/launch/test_launchers.py",
    "tessera/runtime/arrays/dlpack.py": "tests/runtime/memory/test_device_arrays.py",
    "tessera/runtime/memory/copy_events.py": "tests/runtime/launch/test_launch_events.py",
    "tessera/viz/table.py": "tests/magics/test_magics.py",
    "tessera/viz/kernel_view.py": "tests/viz/test_display.py",
    "tessera_magics": "tests/magics/test_magics.py",
}

# One class a mistake, each a few lines: long, and still one thing to look something up in.
CATALOGUES: Final = ("tessera/core/errors/catalog.py",)

# What never belongs in a file of the project: unfinished work, and places on somebody's machine.
FORBIDDEN: Final = re.compile(
    "|".join((r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bXX" + r"X\b", "/ro" + "ot/", "/ho" + "me/"))
)


def test_the_modules_are_found():
    assert len(MODULES) > 100


def read(path: Path) -> str:
    """The text of a file of the project."""
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_module_says_what_it_is():
    """Its docstring begins with a sentence."""
    first = {path: (ast.get_docstring(ast.parse(read(path))) or "").split("\n\n")[0].rstrip() for path in MODULES}
    assert [str(path) for path, sentence in first.items() if not sentence.endswith((".", ":", "?"))] == []


def test_no_module_is_too_long():
    lengths = {path.as_posix(): len(read(path).splitlines()) for path in MODULES}
    assert {path: n for path, n in lengths.items() if n > MOST_LINES and path not in CATALOGUES} == {}


def mirrored(path: Path) -> Path:
    """Where the test of a module belongs: `tessera/core/base/source.py` in `tests/core/base/test_source.py`."""
    folder = Path("tests", *path.parent.parts[1:]) if path.parts[0] == "tessera" else Path("tests", "magics")
    return folder / f"test_{path.stem}.py"


def is_tested(path: Path) -> bool:
    """A module has a test of its own, or it or a folder it lies in is on the list."""
    listed = any(name.as_posix() in COVERED_BY for name in (path, *path.parents))
    return listed or (ROOT / mirrored(path)).is_file()


def test_every_module_has_a_test():
    assert [str(path) for path in MODULES if path.name != "__init__.py" and not is_tested(path)] == []


def test_the_list_of_covered_modules_is_true():
    for module, test in COVERED_BY.items():
        assert (ROOT / module).exists(), module
        assert (ROOT / test).is_file() or any((ROOT / test).rglob("test_*.py")), f"{test} holds no test"
        assert not (ROOT / mirrored(Path(module))).is_file(), f"{module} has a test of its own now"


def test_the_list_of_modules_names_every_file():
    text = read(Path("docs", "modules.md"))
    assert [str(path) for path in MODULES if f"`{path.name}`" not in text] == [], "run `make docs`"


@pytest.mark.parametrize("page", ["architecture.md", "compiler.md"])
def test_the_map_names_files_that_exist(page: str):
    text = read(Path("docs", page))
    named = set(re.findall(r"[a-z_]+(?:/[a-z_]+)*\.py\b", text))
    files = [
        path.as_posix() for top in ("tessera", "tessera_magics", "tests", "docs") for path in (ROOT / top).rglob("*.py")
    ]
    assert [name for name in sorted(named) if not any(file.endswith(f"/{name}") for file in files)] == []


def test_the_map_fits_two_screens():
    assert len(read(Path("docs", "architecture.md")).splitlines()) <= 120


def test_nothing_unfinished_or_local():
    texts = {path: (ROOT / path).read_text(encoding="utf-8", errors="ignore") for path in TEXTS}
    assert {str(path): found.group() for path, text in texts.items() if (found := FORBIDDEN.search(text))} == {}


# Targets are told apart by the properties and features of their rows; these modules name some, each for its reason.
NAMES_OF_TARGETS: Final = {
    "tessera/core/targets.py": "the table itself",
    "tessera/core/schedule/options.py": "the table of schedule options says which targets read each",
    "tessera/frontend/language/porting_hints.py": "a package of Python's is called cuda",
    "tessera/runtime/arrays/host.py": "devices as DLPack calls them",
    "tessera/runtime/launch/graph_replay.py": "devices as PyTorch calls them",
}


def names_of_targets(path: Path) -> set[str]:
    """Texts in a module that are the name of a target or of an architecture, alone or with others behind it."""
    known = {*TARGETS, *GENERATIONS, *(name for kind in TARGETS.values() for name in kind.architectures)}
    nodes = list(ast.walk(ast.parse(read(path))))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}  # "cuda:{device}"
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in parts)
    return {text for text in texts if isinstance(text, str) and text.partition(":")[0] in known}


def test_targets_are_told_apart_by_their_features():
    found = {path.as_posix(): names for path in MODULES if (names := names_of_targets(path))}
    assert {path: names for path, names in found.items() if path not in NAMES_OF_TARGETS} == {}
    assert set(NAMES_OF_TARGETS) <= set(found), "a module on the list names none any more"


def test_a_name_of_a_target_is_found(tmp_path: Path):
    for text, names in (
        ('if target.name == "cuda":\n    pass', {"cuda"}),
        ('old = name in ("sm_80", "sm_89")', {"sm_80", "sm_89"}),
        ('match name:\n    case "cpu:x":\n        pass', {"cpu:x"}),
        ('"""Of cuda."""', set()),
    ):
        module = tmp_path / "module.py"
        module.write_text(text)
        assert names_of_targets(module) == names
