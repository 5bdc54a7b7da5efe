"""The shape of the project: every module has a docstring, a size, a test and a place on the map."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any, Final

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

# Modules that are tested through another's door, under the test whose assertions fail when they are wrong.
COVERED_BY: Final = {
    module: test
    for test, modules in {
        "tests/graphs/test_raised_kernel.py": (
            "tessera/graphs/raised.py",
            "tessera/kernels/captured_launch.py",
            "tessera/lowering/raising/evaluate.py",
            "tessera/lowering/raising/loops.py",
            "tessera/lowering/raising/materialize.py",
            "tessera/lowering/raising/memory.py",
            "tessera/lowering/raising/reductions.py",
            "tessera/lowering/raising/refusals.py",
            "tessera/lowering/raising/scopes.py",
            "tessera/lowering/raising/terms.py",
        ),
        "tests/core/tile/test_spec.py": ("tessera/core/tile/verify.py",),
        "tests/agreement/test_extreme_positions.py": ("tessera/frontend/operations/extreme_positions.py",),
        "tests/agreement/test_gather.py": ("tessera/lowering/tile/masking/gathered_indices.py",),
        "tests/agreement/test_scans.py": ("tessera/frontend/operations/scans.py",),
        "tests/agreement/test_scatter.py": ("tessera/frontend/base/scatter.py",),
        "tests/core/tile/test_text.py": ("tessera/core/tile/forms.py",),
        "tests/core/tile/test_types.py": ("tessera/core/program/types.py",),
        "tests/docs/test_docs.py": (
            "tessera/core/errors/catalog.py",
            "tessera/frontend/language/namespace.py",
            "tessera/frontend/operations/intrinsics.py",
        ),
        "tests/frontend/build/test_build.py": (
            "tessera/core/program/arguments.py",
            "tessera/core/program/program.py",
            "tessera/core/program/spec.py",
            "tessera/frontend/base/affine.py",
            "tessera/frontend/base/bindings.py",
            "tessera/frontend/base/builder.py",
            "tessera/frontend/base/context.py",
            "tessera/frontend/build/control.py",
            "tessera/frontend/build/dead_code.py",
            "tessera/frontend/build/expressions.py",
            "tessera/frontend/build/inlining.py",
            "tessera/frontend/build/loops.py",
            "tessera/frontend/build/python_functions.py",
            "tessera/frontend/build/statements.py",
            "tessera/frontend/operations/lane_operations.py",
            "tessera/frontend/operations/memory_operations.py",
            "tessera/frontend/operations/tile_operations.py",
        ),
        "tests/frontend/build/test_reduction_loops.py": ("tessera/frontend/build/accumulations.py",),
        "tests/frontend/syntax/test_source_file.py": ("tessera/frontend/syntax/kernel_source.py",),
        "tests/frontend/test_mistakes.py": (
            "tessera/frontend/base/describe.py",
            "tessera/frontend/build/annotations.py",
        ),
        "tests/lowering/analysis/test_divergence.py": ("tessera/lowering/analysis/ir_tree.py",),
        "tests/lowering/artifact_cache/test_codec.py": ("tessera/core/artifact.py",),
        "tests/lowering/cpu/simt/test_loop_versioning.py": ("tessera/lowering/cpu/simt/operand_facts.py",),
        "tests/lowering/cpu/test_backend.py": (
            "tessera/lowering/base/host_cpu.py",
            "tessera/lowering/cpu/codegen.py",
            "tessera/lowering/cpu/simt/copies.py",
            "tessera/lowering/cpu/simt/entry_point.py",
            "tessera/lowering/cpu/simt/group.py",
            "tessera/lowering/cpu/simt/lane_context.py",
            "tessera/lowering/cpu/simt/masked_access.py",
            "tessera/lowering/cpu/simt/masked_control.py",
            "tessera/lowering/cpu/simt/memory.py",
            "tessera/lowering/cpu/simt/structured_control.py",
        ),
        "tests/lowering/cpu/test_to_cpu.py": (
            "tessera/lowering/cpu/simt/context_arrays.py",
            "tessera/lowering/cpu/simt/divergent_control.py",
            "tessera/lowering/cpu/simt/parallel_regions.py",
            "tessera/lowering/cpu/simt/uniform_control.py",
            "tessera/lowering/cpu/simt/vector_lanes.py",
            "tessera/lowering/cpu/simt/vectors.py",
            "tessera/lowering/cpu/simt/warp.py",
        ),
        "tests/lowering/cpu/tile/test_dot.py": (
            "tessera/lowering/cpu/base/cache_model.py",
            "tessera/lowering/cpu/tile/blocking.py",
            "tessera/lowering/cpu/tile/destinations.py",
            "tessera/lowering/cpu/tile/micro_kernel.py",
            "tessera/lowering/cpu/tile/panel_packing.py",
            "tessera/lowering/cpu/tile/prefetch.py",
            "tessera/lowering/cpu/tile/transposition.py",
        ),
        "tests/lowering/cpu/tile/test_lowering.py": (
            "tessera/lowering/base/indices.py",
            "tessera/lowering/base/structured_control.py",
            "tessera/lowering/cpu/base/emit_context.py",
            "tessera/lowering/cpu/tile/elementwise.py",
            "tessera/lowering/cpu/tile/loop_nests.py",
            "tessera/lowering/cpu/tile/memory.py",
            "tessera/lowering/math/float_conversions.py",
        ),
        "tests/lowering/cpu/tile/test_reduce.py": (
            "tessera/lowering/cpu/tile/column_sums.py",
            "tessera/lowering/cpu/tile/combine.py",
            "tessera/lowering/cpu/tile/operands.py",
        ),
        "tests/lowering/cuda/kernel/test_function.py": (
            "tessera/lowering/cuda/base/inline_ptx.py",
            "tessera/lowering/cuda/base/kernel_parameters.py",
            "tessera/lowering/cuda/kernel/kernel_emission.py",
            "tessera/lowering/cuda/storage/emit_context.py",
        ),
        "tests/lowering/cuda/kernel/test_tile_operations.py": ("tessera/lowering/cuda/kernel/emitter.py",),
        "tests/lowering/cuda/mma/test_async_accumulate.py": ("tessera/lowering/cuda/storage/shared_access.py",),
        "tests/lowering/cuda/mma/test_fma.py": ("tessera/lowering/cuda/storage/shared_scratch.py",),
        "tests/lowering/cuda/mma/test_lazy_rescale.py": (
            "tessera/lowering/cuda/mma/overlapped_attention_loop.py",
            "tessera/lowering/cuda/schedule/lazy_rescale.py",
        ),
        "tests/lowering/cuda/mma/test_mma_sync.py": (
            "tessera/lowering/cuda/isa/sm80.py",
            "tessera/lowering/cuda/pipeline/cp_async_pipeline.py",
        ),
        "tests/lowering/cuda/mma/test_overlapped_mma.py": ("tessera/lowering/cuda/mma/prefetch_scores.py",),
        "tests/lowering/cuda/mma/test_wgmma_operands.py": (
            "tessera/lowering/cuda/mma/wgmma.py",
            "tessera/lowering/cuda/storage/swizzle_atom.py",
        ),
        "tests/lowering/cuda/pipeline/test_bulk_copies.py": (
            "tessera/lowering/cuda/isa/sm90.py",
            "tessera/lowering/cuda/pipeline/mbarrier_pipeline.py",
            "tessera/lowering/cuda/pipeline/shared_plan.py",
        ),
        "tests/lowering/cuda/schedule/test_cp_async_loads.py": ("tessera/lowering/cuda/schedule/loads.py",),
        "tests/lowering/cuda/schedule/test_fp8_mma.py": ("tessera/lowering/cuda/storage/register_to_shared.py",),
        "tests/lowering/cuda/schedule/test_mma_overlap.py": (
            "tessera/lowering/cuda/schedule/legality.py",
            "tessera/lowering/cuda/schedule/mma.py",
        ),
        "tests/lowering/cuda/schedule/test_mma_selection.py": (
            "tessera/lowering/cuda/schedule/context.py",
            "tessera/lowering/cuda/storage/shared_tile.py",
        ),
        "tests/lowering/cuda/schedule/test_passes.py": (
            "tessera/lowering/cuda/schedule/rasterization.py",
            "tessera/lowering/cuda/schedule/view.py",
        ),
        "tests/lowering/cuda/schedule/test_stores.py": ("tessera/lowering/cuda/schedule/store_legality.py",),
        "tests/lowering/cuda/simt/test_async_copies.py": ("tessera/lowering/cuda/simt/copies.py",),
        "tests/lowering/cuda/simt/test_lowering.py": (
            "tessera/lowering/cuda/base/gpu_function.py",
            "tessera/lowering/cuda/base/memory.py",
            "tessera/lowering/cuda/simt/hoisting.py",
        ),
        "tests/lowering/cuda/simt/test_tile_operations.py": (
            "tessera/lowering/cuda/simt/buffer_lifetimes.py",
            "tessera/lowering/cuda/simt/control.py",
            "tessera/lowering/cuda/simt/dot.py",
            "tessera/lowering/cuda/simt/reductions.py",
            "tessera/lowering/cuda/simt/tile_values.py",
        ),
        "tests/lowering/driver/test_compile.py": ("tessera/lowering/base/target_code.py",),
        "tests/lowering/graph/rules/test_reassociate.py": ("tessera/lowering/graph/rules/scaling.py",),
        "tests/lowering/graph/rules/test_table.py": ("tessera/lowering/graph/rules/rule.py",),
        "tests/lowering/math/test_vector_math.py": (
            "tessera/lowering/math/algebra.py",
            "tessera/lowering/math/double_double.py",
            "tessera/lowering/math/exponential.py",
            "tessera/lowering/math/power.py",
            "tessera/lowering/math/saturating.py",
            "tessera/lowering/math/trigonometric.py",
        ),
        "tests/lowering/tile/test_distribute_ranges.py": ("tessera/lowering/analysis/memory_accesses.py",),
        "tests/lowering/tile/test_distribute_rows.py": ("tessera/lowering/analysis/row_dependence.py",),
        "tests/lowering/tile/test_mask_absent.py": (
            "tessera/lowering/tile/masking/availability.py",
            "tessera/lowering/tile/masking/carried_validity.py",
            "tessera/lowering/tile/masking/demanded_elements.py",
            "tessera/lowering/tile/masking/index_comparisons.py",
            "tessera/lowering/tile/masking/mask_values.py",
            "tessera/lowering/tile/masking/validity.py",
        ),
        "tests/magics/test_extension.py": ("tessera_magics/tracebacks.py",),
        "tests/magics/test_magics.py": (
            "tessera/viz/table.py",
            "tessera_magics/cell.py",
            "tessera_magics/doctor.py",
            "tessera_magics/ipython.py",
            "tessera_magics/line.py",
        ),
        "tests/magics/puzzles/test_check.py": ("tessera_magics/puzzles/findings.py",),
        "tests/magics/puzzles/test_course.py": (
            "tessera_magics/puzzles/exercise.py",
            "tessera_magics/puzzles/lanes.py",
            "tessera_magics/puzzles/tiles.py",
        ),
        "tests/ops/libraries/test_gpu_cholesky.py": ("tessera/ops/tiles/factorization.py",),
        "tests/ops/libraries/test_poisson.py": ("tessera/ops/tiles/poisson.py",),
        "tests/ops/libraries/test_sparse.py": ("tessera/ops/tiles/sparse.py",),
        "tests/ops/test_attention.py": ("tessera/ops/tiles/attention.py",),
        "tests/ops/test_matrix.py": ("tessera/ops/tiles/matrix.py",),
        "tests/ops/test_reductions.py": ("tessera/ops/tiles/reductions.py",),
        "tests/ops/test_rows.py": ("tessera/ops/tiles/rows.py",),
        "tests/ops/test_transposition.py": ("tessera/ops/tiles/transposition.py",),
        "tests/profiling/test_results.py": ("tessera/profiling/documents.py",),
        "tests/runtime/arrays/test_interop.py": ("tessera/runtime/arrays/protocols.py",),
        "tests/runtime/launch/test_launch_events.py": ("tessera/runtime/memory/copy_events.py",),
        "tests/runtime/launch/test_launchers.py": (
            "tessera/runtime/launch/on_gpu.py",
            "tessera/runtime/launch/on_host.py",
        ),
        "tests/runtime/memory/test_device_arrays.py": ("tessera/runtime/arrays/dlpack.py",),
        "tests/viz/ir/opcodes/test_lookup.py": (
            "tessera/viz/ir/opcodes/mlir.py",
            "tessera/viz/ir/opcodes/ptx.py",
            "tessera/viz/ir/opcodes/sass.py",
            "tessera/viz/ir/opcodes/x86.py",
        ),
        "tests/viz/test_display.py": ("tessera/viz/kernel_view.py",),
    }.items()
    for module in modules
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
    inside = path.parent.parts[1:]
    folder = Path("tests", *inside) if path.parts[0] == "tessera" else Path("tests", "magics", *inside)
    return folder / f"test_{path.stem}.py"


def is_tested(path: Path) -> bool:
    """A module has a test of its own, or is on the list."""
    return path.as_posix() in COVERED_BY or (ROOT / mirrored(path)).is_file()


def test_every_module_has_a_test():
    assert [str(path) for path in MODULES if path.name != "__init__.py" and not is_tested(path)] == []


def test_the_list_of_covered_modules_is_true():
    for module, test in COVERED_BY.items():
        assert (ROOT / module).is_file(), module
        assert (ROOT / test).is_file(), test
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


# Programs that tests and benchmarks start, and modules that they import by name, stand in texts: no linter reads them.
IMPORTED: Final = re.compile(r"""from (tessera[\w.]*) import (\w+)|import_module\(\\?["'](tessera[\w.]*)\\?["']\)""")


def test_what_texts_import_exists():
    found = {
        (module or named, name)
        for folder in ("tests", "benchmarks", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md"} and path.name != "documents.md"  # whose blocks say what nothing defines
        for module, name, named in IMPORTED.findall(path.read_text(encoding="utf-8"))
    }
    missing: list[Any] = []
    for module, name in sorted(found):
        try:
            holder = importlib.import_module(module)
            assert not name or hasattr(holder, name) or importlib.util.find_spec(f"{module}.{name}")
        except (ImportError, AssertionError):
            missing.append(f"{module} {name}".strip())
    assert missing == []


def test_python_is_parsed_behind_one_door():
    door = "tessera/core/base/syntax_trees.py"
    assert {path.as_posix() for path in MODULES if re.search(r"\bast\.parse\(", read(path))} == {door}


# Targets are told apart by the properties and features of their rows; these modules name some, each for its reason.
NAMES_OF_TARGETS: Final = {
    "tessera/core/arrays/numpy_functions.py": "PyTorch's tensors have methods of these names",
    "tessera/core/placement/devices.py": "devices as meshes call them",
    "tessera/core/targets.py": "the table itself",
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
        ('"""Of cuda."""', set[str]()),
    ):
        module = tmp_path / "module.py"
        module.write_text(text)
        assert names_of_targets(module) == names
