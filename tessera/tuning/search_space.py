"""Search spaces: combinations of tuning parameters, those the user names or those the kernel itself suggests."""

import ast
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import BadKernelOption
from tessera.core.program.program import Attribute, Program
from tessera.core.schedule.options import SCHEDULE, applicable, clash, illegal
from tessera.core.targets import Target
from tessera.frontend.syntax.kernel_source import KernelSource
from tessera.kernels.closures.closure import FreeNames
from tessera.kernels.kernel import Kernel
from tessera.kernels.options import has_no_effect, own_names
from tessera.performance.cost_model import impossible, predict
from tessera.performance.device_model import Machine
from tessera.performance.launch_shape import bound_extents, estimated_shape
from tessera.performance.work_count import count_work
from tessera.runtime.binding.grid import Grid
from tessera.tuning.results import ILLEGAL, PRUNED, Config, Trial, config_key

_SMALLEST: Final = 16
_LARGEST: Final = 512
_MOST_NAMED: Final = 6
"""Values of a parameter that a message names."""
_PIECE: Final = 8
"""Registers are given to a warp in pieces of this many a lane (CUDA occupancy calculator)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration that may be worth a try: its kernel, and what the cost model says of it, if it was asked.

    predicted: seconds; flops, traffic: operations, and bytes that memory must move at least
    """

    config: Config
    kernel: Kernel
    predicted: float | None = None
    flops: float = 0.0
    traffic: float = 0.0

    def trial(self, status: str, *, error: str = "", code: str = "") -> Trial:
        """Return a trial of it without times."""
        return Trial(
            self.config, status, (), code, error, None, self.predicted, (), self.flops, self.traffic, time.time()
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """The configurations that a search tries, in order: first the default, where the kernel has one.

    default: the kernel's own values of the names of the space
    notes: which names of the space have no effect, and why
    """

    configs: tuple[Config, ...]
    default: Config | None
    notes: tuple[str, ...]


def plan_search(kernel: Kernel, space: Mapping[str, Sequence[Attribute]], target: str) -> Plan:
    """Return every combination of the values of a space, behind the default one.

    Names without an effect are left out: schedule options of other targets than `target`, and keywords of
    iterators that it has not.
    """
    notes = {name: has_no_effect(name, kernel.source.function, target) for name in space}
    kept = [name for name in space if not notes[name]]
    chosen = [dict(zip(kept, values, strict=True)) for values in itertools.product(*(space[name] for name in kept))]
    default = _default(kernel, kept)
    if default is not None:
        chosen = [default, *(config for config in chosen if config_key(config) != config_key(default))]
    return Plan(tuple(chosen), default, tuple(filter(None, notes.values())))


def _default(kernel: Kernel, names: Sequence[str]) -> dict[str, Attribute] | None:
    """Return the kernel's own values of `names`, as far as it has them; None where one is defined nowhere.

    They are what `variant` fixed, what the keywords of the text say, or what free names stand for.  A schedule option
    has none: the compiler chooses.
    """
    function = kernel.source.function
    written, free = dict[str, Attribute | None](), FreeNames(kernel.function)
    for name, value in _keywords(function):
        written[name] = value if written.get(name, value) == value else None  # several calls that differ: no one value
    body = ast.Module(function.body, [])  # names in annotations are extents, which the arguments tell
    used = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
    local = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    local |= {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    default: dict[str, Attribute] = {}
    for name in names:
        value = kernel.options.constants.get(name, written.get(name, free.get(name)))
        if isinstance(value, int | float | str):
            default[name] = value
        elif name in used and name not in local and name not in free:
            return None
    return default


def check_values(config: Config, plan: Plan) -> None:
    """Check that values are of the kinds that a search has for their names: numbers where it has numbers.

    Raises BadKernelOption.
    """
    for name, value in config.items():
        known = [each[name] for each in (*plan.configs, plan.default or {}) if name in each]
        if known and not any(_is_like(value, each) for each in known):
            values = list(dict.fromkeys(map(str, known)))
            listed = ", ".join([*values[:_MOST_NAMED], *["..."][: len(values) > _MOST_NAMED]])
            message = f"{name} = {value!r} is of another kind than its values in the search"
            raise BadKernelOption(message, hint=f"the search has {name} = {listed}")


def _is_like(value: Attribute, other: Attribute) -> bool:
    numbers = (int, float) if isinstance(other, float) else (int,)
    if isinstance(value, bool) or isinstance(other, bool) or not isinstance(other, int | float):
        return type(value) is type(other)
    return isinstance(value, numbers)


def suggested_space(source: KernelSource, program: Program, target: str) -> dict[str, tuple[Attribute, ...]]:
    """Return the parameters and values to try where the user names none.

    Keywords of iterators over tiles, such as `BM=64`: half, the same and twice; and the schedule options that may make
    a difference to this kernel on this target.
    """
    space: dict[str, tuple[Attribute, ...]] = {}
    for name, value in _keywords(source.function):
        if not name.isupper():
            continue
        near = (value // 2, value, value * 2)
        space[name] = tuple(v for v in near if _SMALLEST <= v <= _LARGEST) or (value,)
    for option in applicable(program, target):
        space.setdefault(option.name, option.candidates)
    return space


def _keywords(function: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                value = keyword.value
                if keyword.arg is not None and isinstance(value, ast.Constant) and type(value.value) is int:
                    yield keyword.arg, value.value


def propose(
    kernel: Kernel, config: Config, values: tuple[object, ...], grid: Grid | None, machine: Machine | None, *,
    own: bool = False,
) -> Proposal | Trial:  # fmt: skip
    """Return a configuration as something to compile, or the trial that says why not; nothing is compiled or run.

    machine: None: the cost model is not asked
    own: these are the kernel's own values: it may be compiled already, as it is
    """
    reason = unfit(kernel, config, kernel.target_for(values).name)
    if reason:
        return Trial(config, ILLEGAL, error=reason)
    variant = kernel.with_constants({} if own else config)
    if machine is None:
        return Proposal(config, variant)
    try:
        return predicted(Proposal(config, variant), values, grid, machine)
    except TesseraError as error:
        return Trial(config, ILLEGAL, error=headline(error))


def unfit(kernel: Kernel, config: Config, target: str) -> str:
    """Return why a configuration's schedule options are impossible on a target for every kernel; "" if they are not."""
    own = own_names(kernel.source.function)
    options = {n: v for n, v in config.items() if n in SCHEDULE and n not in own}
    reasons = [*(illegal(n, v, target) for n, v in options.items()), clash(options)]
    return next(filter(None, reasons), "")


def predicted(
    proposal: Proposal, values: tuple[object, ...], grid: Grid | None, machine: Machine
) -> Proposal | Trial:  # fmt: skip
    """Ask the cost model about a proposal: it comes back with an answer, or as a trial that cannot run anyhow.

    Raises the mistakes of a kernel that cannot be built with these values.
    """
    kernel = proposal.kernel
    program = kernel.program(values)
    extents = bound_extents(program, kernel.described(values).arguments)
    shape = estimated_shape(program, extents, Target(kernel.target_for(values).name, ""), grid)
    work = count_work(program, shape)
    seconds = predict(work, machine, shape.lanes).seconds
    found = Proposal(proposal.config, kernel, seconds, work.total_flops, work.least_bytes)
    reason = impossible(work, machine)
    return found.trial(PRUNED, error=reason) if reason else found


def beyond(artifact: Artifact, machine: Machine) -> str:
    """Return why compiled code cannot run on a machine: a group needs more than a multiprocessor has; or ""."""
    resources, threads = artifact.resources, artifact.launch.threads
    if machine.shared_bytes and resources.shared_bytes > machine.shared_bytes:
        return f"a group needs {resources.shared_bytes} bytes of shared memory, there are {machine.shared_bytes}"
    registers = -(-(resources.registers or 0) // _PIECE) * _PIECE * threads
    if machine.registers and registers > machine.registers:
        return f"a group needs {registers} registers, there are {machine.registers}"
    return ""


def headline(error: TesseraError) -> str:
    """Return a mistake as one line."""
    return f"{error.code} {error.title}: {error.message}"
