"""Search a space of tuning parameters for the fastest kernel, by running each configuration that has a chance.

Configurations that cannot be compiled or held by the machine, and those a cost model gives no chance, never run.  The
rest are compiled several at once and timed as they are ready, on copies of the arguments that together exceed the
cache; the best are then compared with the kernel's own values, the default, which wins where nothing is faster.
What is found is kept on disk for this kernel text, class of shapes and device, and used again; every trial is written
down as soon as it is measured, so a search that was interrupted, or died, goes on where it stopped.
"""

from collections.abc import Sequence
from typing import Final

from tessera.core.errors.catalog import BadKernelOption
from tessera.kernels.kernel import Kernel
from tessera.kernels.like_last_call import arguments_like_last_call
from tessera.kernels.options import Space, check_space, with_space
from tessera.runtime.binding.grid import Grid
from tessera.tuning.background import BackgroundSearch
from tessera.tuning.progress import Status
from tessera.tuning.record import reopen
from tessera.tuning.results import Config, Trial, Tuning
from tessera.tuning.search import Listener, Search
from tessera.tuning.search_space import suggested_space
from tessera.tuning.setup import pinned_kernel

__all__ = ["BackgroundSearch", "Search", "Trial", "Tuning", "follow", "reopen", "search", "start"]
BUDGET: Final = 60.0


def search(  # noqa: PLR0913 - what a user may say, all of it by name
    *, kernel: Kernel, params: Space | None = None, objective: str = "runtime", args: Sequence[object] | None = None,
    budget: float = BUDGET, grid: Grid | None = None, again: bool = False, on_trial: Listener | None = None,
    progress: bool | None = None,
) -> Tuning:  # fmt: skip
    """Return the outcome of trying every combination of `params`, which as a mapping is the best configuration.

    kernel: what to tune; its own values, the default, are tried first, and taken where nothing is faster
    params: values to try for each parameter, e.g. `{"BM": [64, 128], "BN": [64, 128]}`, and for schedule options, e.g.
            `{"stages": [2, 3]}` (see `tessera.core.schedule.options`); left out, what the kernel suggests
    objective: "runtime": the median of several launches
    args: arguments to run on, and where: arrays on a GPU mean that GPU; left out, random arrays of the types and shapes
          of the kernel's last call, on what it ran on.  They are never written: every trial has copies
    budget: seconds after which no further configuration is begun
    again: measure everything anew instead of using what is recorded
    on_trial: called with every trial when it is settled, and again when more was measured of it
    progress: whether to show how far the search is; None: what the setting `progress` says

    Raises BadKernelOption for a name in `params` that stands for nothing, TuningFailed when no configuration runs,
    ContextLost when one of them faults on a GPU: after a restart of the process, the search goes on without it.
    KeyboardInterrupt ends the search and keeps what it found: the best so far is returned, or the default when nothing
    was measured; only where there is no default either, it goes on.
    """
    if objective != "runtime":
        raise BadKernelOption(f"there is no objective {objective!r}", hint='write objective="runtime"')
    following = follow(kernel=kernel, params=params, args=args, budget=budget, grid=grid, again=again)
    return following.run(on_trial, progress)


def follow(
    *, kernel: Kernel, params: Space | None = None, args: Sequence[object] | None = None, budget: float = BUDGET,
    grid: Grid | None = None, again: bool = False,
) -> "Search":  # fmt: skip
    """Return a search that goes on while it is iterated over, a trial at a time; after that, it has an `outcome`.

    The parameters are those of `search`.
    """
    if args is not None:
        values = kernel.ordered(tuple(args), {})
        pinned = pinned_kernel(kernel, kernel.target_for(values), values)
    else:
        values = arguments_like_last_call(kernel)
        pinned = pinned_kernel(kernel, kernel.last.target if kernel.last is not None else kernel.target_for(), values)
    if params is None:
        params = suggested_space(kernel.source, pinned.program(values), pinned.target_for(values).name)
    space = with_space(kernel.options, params, {}).space or {}
    check_space(kernel.function, kernel.source.function, space)
    return Search(pinned, space, values, grid, budget, again)


def start(
    *, kernel: Kernel, params: Space | None = None, args: Sequence[object] | None = None, budget: float = BUDGET,
    grid: Grid | None = None, again: bool = False,
) -> BackgroundSearch:  # fmt: skip
    """Start a search in the background of the notebook and return its handle, by which it is watched and steered.

    The parameters are those of `search`.  It runs in a thread of this process on copies of the arguments: pause it,
    resume it, stop it and keep the best, add configurations, and see it in `tessera.viz.dashboard`.  Ctrl-C in a cell
    does not touch it.  Cells may run meanwhile: a launch that they disturb is timed again.
    """
    return BackgroundSearch(follow(kernel=kernel, params=params, args=args, budget=budget, grid=grid, again=again))


def tuned_constants(kernel: Kernel, values: Sequence[object], grid: Grid | None) -> Config:
    """Return the best configuration of a kernel that has a space, searching when none is recorded.

    KeyboardInterrupt goes on, as in any call; what was measured is kept, and the next call's search continues there.
    """
    given = tuple(values)
    pinned = pinned_kernel(kernel, kernel.target_for(given), given)
    found = Search(pinned, kernel.options.space or {}, given, grid, BUDGET, again=False)
    if len(found.plan.configs) == 1:
        return found.plan.configs[0]
    tuning = found.run()
    if tuning.interrupted:
        raise KeyboardInterrupt(Status(tuning, "", 0.0).last_line)
    return tuning.config
