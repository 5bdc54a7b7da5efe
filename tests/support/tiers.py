"""The tiers of the suite: which tests `make check`, `make test` and `make test-all` run.

A test belongs to the cheapest tier that can fail for its reason.  `RULES` says which by folder, file or function, and
`docs/testing.md` how to choose.  Without `--tier`, as in `pytest tests/viz`, every test that is named runs.
"""

import hashlib
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from support.own_process import sends_signals
from tessera.session.session import Session

ROOT: Final = Path(__file__).resolve().parents[2]


class Tier(IntEnum):
    """What runs when: between two edits, before a change lands, once a week."""

    CHECK = 0
    """`make check`: pure Python; starts no process, compiles nothing."""
    TEST = 1
    """`make test`, and so CI: every kind of test, on a fixed sample."""
    ALL = 2
    """`make test-all`: searches, all cases, documents, notebooks, browsers, interrupts at every line."""


RULES: Final[Mapping[str, Tier]] = {
    "": Tier.TEST,
    # Pure Python, but for the files that compile.
    "tests/core": Tier.CHECK,
    "tests/core/arrays/test_array_methods.py::test_operators_are_loaded_by_the_first_method": Tier.TEST,
    "tests/core/base/test_syntax_trees.py": Tier.TEST,
    "tests/core/graph/test_text.py": Tier.TEST,
    "tests/core/test_compilation.py": Tier.TEST,
    "tests/core/test_lineage.py": Tier.TEST,
    "tests/core/test_mlir.py": Tier.TEST,
    "tests/core/test_object_files.py": Tier.TEST,
    "tests/core/test_profile.py": Tier.TEST,
    "tests/core/test_stage.py": Tier.TEST,
    "tests/core/test_stage_diff.py": Tier.TEST,
    "tests/core/tile": Tier.TEST,
    "tests/distribution": Tier.CHECK,
    "tests/frontend": Tier.CHECK,
    "tests/frontend/base/test_subscripts.py": Tier.TEST,
    "tests/frontend/language": Tier.TEST,
    "tests/frontend/syntax/test_source_file.py::test_reading_needs_neither_ipython_nor_mlir": Tier.TEST,
    "tests/frontend/syntax/test_tree_depth.py::test_deep_nesting_is_a_mistake_with_a_place": Tier.TEST,
    "tests/lowering/autodiff": Tier.CHECK,
    "tests/lowering/autodiff/test_linearize.py": Tier.TEST,
    "tests/lowering/autodiff/test_reverse.py::test_the_same_graph_in_every_run": Tier.TEST,
    "tests/lowering/graph": Tier.CHECK,
    "tests/lowering/graph/test_chunk.py": Tier.TEST,
    "tests/lowering/graph/test_simplify.py::test_products_of_rounded_operands_that_sum_nothing_sum_one": Tier.TEST,
    "tests/lowering/graph/test_split_reductions.py": Tier.TEST,
    "tests/lowering/placement": Tier.CHECK,
    "tests/lowering/raising": Tier.CHECK,
    "tests/lowering/raising/test_raise_program.py": Tier.TEST,
    "tests/lowering/schedule": Tier.CHECK,
    "tests/lowering/schedule/emit": Tier.TEST,
    "tests/lowering/schedule/test_allocate.py": Tier.TEST,
    "tests/lowering/schedule/test_channels_last.py": Tier.TEST,
    "tests/lowering/schedule/test_in_place.py": Tier.TEST,
    "tests/lowering/schedule/test_plan_graph.py": Tier.TEST,
    "tests/lowering/schedule/test_regroup.py": Tier.TEST,
    "tests/lowering/schedule/test_separate_uses.py": Tier.TEST,
    "tests/lowering/schedule/test_siblings.py": Tier.TEST,
    "tests/lowering/sharding": Tier.CHECK,
    "tests/magics/language": Tier.CHECK,
    "tests/magics/language/test_check.py": Tier.TEST,
    "tests/performance": Tier.CHECK,
    "tests/performance/parallel/test_search.py": Tier.TEST,
    "tests/performance/test_lane_accesses.py": Tier.TEST,
    "tests/performance/test_launch_shape.py": Tier.TEST,
    "tests/performance/test_work_count.py": Tier.TEST,
    "tests/runtime/interpret": Tier.CHECK,
    "tests/runtime/interpret/test_poison.py": Tier.TEST,
    "tests/runtime/shards": Tier.CHECK,
    "tests/test_changed.py": Tier.CHECK,
    "tests/test_tiers.py": Tier.CHECK,
    # Searches: random inputs by the hundred.
    "tests/agreement/test_fuzz_cascades.py": Tier.ALL,
    "tests/agreement/test_fuzz_graphs.py": Tier.ALL,
    "tests/agreement/test_fuzz_kernels.py": Tier.ALL,
    "tests/agreement/test_fuzz_meshes.py": Tier.ALL,
    "tests/agreement/test_fuzz_programs.py::test_gpu_targets_compile_them": Tier.ALL,
    "tests/frontend/test_fuzz.py": Tier.ALL,
    "tests/frontend/test_mutants.py": Tier.ALL,
    "tests/lowering/schedule/test_random_cascades.py": Tier.ALL,
    "tests/lowering/schedule/test_random_graphs.py": Tier.ALL,
    "tests/test_anything_handed.py": Tier.ALL,
    # Sweeps: a compilation per case, or the PTX machine.
    "tests/agreement/test_attention_gradients.py::test_compiled_for_gpus": Tier.ALL,
    "tests/agreement/test_integer_casts.py": Tier.ALL,
    "tests/agreement/test_long.py": Tier.ALL,
    "tests/agreement/test_shipped.py": Tier.ALL,
    "tests/api/test_source_module.py::test_definitions_that_were_replaced_are_let_go": Tier.ALL,
    "tests/lowering/cuda/kernel/test_function.py": Tier.ALL,
    "tests/lowering/cuda/pipeline/test_bulk_copies.py::test_parts_of_everything_else": Tier.ALL,
    "tests/lowering/cuda/pipeline/test_bulk_copies.py::test_products_of_any_parts": Tier.ALL,
    "tests/lowering/cuda/pipeline/test_unaligned_copy.py::test_any_shifts_of_any_arrays": Tier.ALL,
    "tests/lowering/cuda/simt": Tier.ALL,
    "tests/lowering/cuda/storage/test_reductions.py": Tier.ALL,
    "tests/lowering/graph/test_rewrite.py::test_hash_seeds_do_not_count": Tier.ALL,
    "tests/ops/definitions": Tier.ALL,
    "tests/ops/images": Tier.ALL,
    "tests/ops/networks": Tier.ALL,
    "tests/replay/test_replay.py": Tier.ALL,
    "tests/tuning/test_autotune.py::test_on_cuda": Tier.ALL,
    "tests/viz/ir/test_machine_columns.py": Tier.ALL,
    # Documents, notebooks, browsers, and the wheel.
    "tests/agreement/test_documents.py": Tier.ALL,
    "tests/agreement/test_graph_documents.py": Tier.ALL,
    "tests/benchmarks/test_notebook.py": Tier.ALL,
    "tests/browser": Tier.ALL,
    "tests/distribution/test_distribution.py": Tier.ALL,
    "tests/docs/test_docs.py::test_examples_run": Tier.ALL,
    "tests/docs/test_site.py": Tier.ALL,
    "tests/magics/test_kernel.py": Tier.ALL,
    "tests/notebooks/test_execution.py": Tier.ALL,
    # They measure this machine, or search for a while: others of their kind do with less.
    "tests/benchmarks/test_tuning.py": Tier.ALL,
    "tests/performance/test_device_model.py::test_the_cpu": Tier.ALL,
    "tests/profiling/advice/test_program_rules.py::test_a_loop_outside_is_told_to_be_the_innermost": Tier.ALL,
    "tests/tuning/test_record.py::test_a_search_under_an_ascii_file_system": Tier.ALL,
    # Worker processes that are killed, and signals.
    "tests/lowering/service/test_server.py": Tier.ALL,
    "tests/runtime/launch/test_program_counters.py": Tier.ALL,
    "tests/test_own_process.py": Tier.ALL,
    # One of each of these kinds is in `make test` all the same.
    "tests/browser/test_live.py::test_a_live_view_comes_back_with_the_page": Tier.TEST,
    "tests/distribution/test_distribution.py::test_a_kernel_runs_from_the_installed_wheel": Tier.TEST,
    "tests/lowering/service/test_server.py::test_an_abort_is_an_error_and_the_next_request_works": Tier.TEST,
    "tests/lowering/service/test_server.py::test_compiles_in_another_process": Tier.TEST,
    "tests/notebooks/test_execution.py::test_the_tour": Tier.TEST,
    "tests/ops/images/test_window_products.py": Tier.TEST,
    "tests/ops/networks/test_saturation.py": Tier.TEST,
}
"""The tier of a folder, a file or a function; the longest name that matches a test decides."""

INTERRUPT: Final = "tests/runtime/launch/test_cpu.py::test_an_interrupt_ends_a_launch_and_leaves_everything_usable"
"""The test with a signal that is in `TEST`: all others are in `ALL`, but for those that `RULES` names."""

CASES: Final = 3
"""At most so many cases of one function in `TEST`, always the same ones; the others run in `ALL`."""

EXAMPLES: Final[Mapping[Tier, int]] = {Tier.CHECK: 10, Tier.TEST: 10}
"""At most so many examples per property; `ALL` runs as many as each test asks for."""


def tier_of(node: str) -> Tier:
    """Look up the tier of a test by its node id, such as `tests/viz/test_viz.py::test_a_view[cpu]`."""
    name = node.partition("[")[0].removeprefix(".")
    while name not in RULES:
        name = name.rpartition("::" if "::" in name else "/")[0]
    return RULES[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tier`."""
    names = [tier.name.lower() for tier in Tier]
    parser.addoption("--tier", choices=names, default="all", help="run the tests of this tier and of the cheaper ones")
    parser.addoption("--above", choices=names, help="but leave out the tests of this tier and of the cheaper ones")


def _requested(config: pytest.Config) -> Tier:
    return Tier[str(config.getoption("--tier")).upper()]


def _above(config: pytest.Config) -> int:
    """Return the tier that `--above` names; below all tiers without it."""
    name = config.getoption("--above")
    return Tier.CHECK - 1 if name is None else Tier[str(name).upper()]


def _tiers_in(path: str) -> set[Tier]:
    """Return the tiers of what a file or a folder holds."""
    return {tier_of(path), *(tier for name, tier in RULES.items() if name.startswith((f"{path}/", f"{path}::")))}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the files of tiers that do not run."""
    if ROOT not in collection_path.parents:
        return None
    tiers = _tiers_in(collection_path.relative_to(ROOT).as_posix())
    return min(tiers) > _requested(config) or max(tiers) <= _above(config) or None


def select(items: Iterable[pytest.Item], tier: Tier) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Split `items` into those that `tier` runs and the others."""
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        (chosen if _tier_of_item(item) <= tier else others).append(item)
    dropped = _beyond_sample(item.nodeid for item in chosen if tier_of(item.nodeid) is Tier.TEST)
    others += [item for item in chosen if item.nodeid in dropped]
    return [item for item in chosen if item.nodeid not in dropped], others


def _tier_of_item(item: pytest.Item) -> Tier:
    function = item.nodeid.partition("[")[0]
    alone = sends_signals(item) and function not in RULES and function != INTERRUPT
    return Tier.ALL if alone else tier_of(item.nodeid)


def _beyond_sample(nodes: Iterable[str]) -> set[str]:
    """Choose by hash, since a step through a grid of parameters could always meet the same dtype or target."""
    functions: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        functions[node.partition("[")[0]].append(node)
    return {
        node
        for cases in functions.values()
        for node in sorted(cases, key=lambda node: hashlib.sha256(node.encode()).digest())[CASES:]
    }


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Keep the tests of the tier, and cap the examples of properties."""
    tier, above = _requested(config), _above(config)
    if tier is not Tier.ALL:
        items[:], others = select(items, tier)
        config.hook.pytest_deselected(items=others)
    config.hook.pytest_deselected(items=[item for item in items if _tier_of_item(item) <= above])
    items[:] = [item for item in items if _tier_of_item(item) > above]
    for item in items if tier is not Tier.ALL else ():
        cap_examples(getattr(item, "obj", None), EXAMPLES[tier])


def cap_examples(test: object, most: int) -> None:
    """Lower the number of examples of a property; leave other tests as they are."""
    # Hypothesis offers no way to change the settings of a test that has some: this attribute is where they are.
    attribute = "_hypothesis_internal_use_settings"
    own: settings | None = getattr(test, attribute, None)
    if own is not None and own.max_examples > most:
        setattr(test, attribute, settings(own, max_examples=most))


class _Guard:
    """Refuse what no test of `CHECK` does: to start a process, or to load a compiler."""

    PROCESSES: Final = frozenset({"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"})
    COMPILERS: Final = frozenset({"torch_mlir", "llvmlite"})
    testing = False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "import" and str(arguments[0]).partition(".")[0] in self.COMPILERS:
            raise RuntimeError(f"a test of `make check` loads {arguments[0]}: see tests/support/tiers.py")
        if self.testing and event in self.PROCESSES:
            raise RuntimeError(f"a test of `make check` starts a process ({event}): see tests/support/tiers.py")


_GUARD: Final = _Guard()


def pytest_configure(config: pytest.Config) -> None:
    """Install the guard, which no later call can take out again, where only tests of `CHECK` run."""
    if _requested(config) is Tier.CHECK:
        # A kernel that is defined has its compiler started in the background, for the call that will come.
        setattr(Session, "warm", lambda _: None)  # noqa: B010 - assigned, it would be a type error
        sys.addaudithook(_GUARD)


def pytest_runtest_logstart() -> None:
    """Begin to guard."""
    _GUARD.testing = True


def pytest_runtest_logfinish() -> None:
    """End it: the tools around the tests may start processes."""
    _GUARD.testing = False
