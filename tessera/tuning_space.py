"""What a search tries: combinations of tuning parameters, those the user names or those the kernel itself suggests."""

import ast
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.errors import TesseraError
from tessera.core.program.program import Attribute, Program
from tessera.core.schedule import SCHEDULE, applicable, clash, illegal
from tessera.core.targets import Target
from tessera.cost_model import hopeless, impossible, predict
from tessera.frontend.surface import KernelSource
from tessera.kernel_class import Kernel
from tessera.kernel_options import own_names
from tessera.launch_shape import bound_extents, estimated_shape
from tessera.machine import Machine
from tessera.runtime.grid import Grid
from tessera.tuning import ILLEGAL, PRUNED, Config, Trial
from tessera.work import count_work

_SMALLEST: Final = 16
_LARGEST: Final = 512
_PIECE: Final = 8
"""Registers are given to a warp in pieces of this many a lane (CUDA occupancy calculator)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A configuration that may be worth a try: its kernel, and the seconds the cost model expects, if it was asked."""

    config: Config
    kernel: Kernel
    predicted: float | None = None


def configurations(kernel: Kernel, space: Mapping[str, Sequence[Attribute]], target: str) -> list[dict[str, Attribute]]:
    """Every combination of the values of a space; schedule options of other targets than `target` are left out."""
    own = own_names(kernel.source.function)
    kept = [n for n in space if n in own or n not in SCHEDULE or target in SCHEDULE[n].targets]
    return [dict(zip(kept, chosen, strict=True)) for chosen in itertools.product(*(space[name] for name in kept))]


def suggested_space(source: KernelSource, program: Program, target: str) -> dict[str, tuple[Attribute, ...]]:
    """Parameters and values to try where the user names none.

    Keywords of iterators over tiles, such as `BM=64`: half, the same and twice; and the schedule options that may make
    a difference to this kernel on this target.
    """
    space: dict[str, tuple[Attribute, ...]] = {}
    for name, value in _keywords(source.function):
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
                named = keyword.arg is not None and keyword.arg.isupper()
                if named and isinstance(value, ast.Constant) and type(value.value) is int:
                    yield str(keyword.arg), value.value


def propose(
    kernel: Kernel, configs: Sequence[Config], values: tuple[object, ...], grid: Grid | None,
    machine: Machine | None, late: Callable[[], bool] = lambda: False,
) -> tuple[list[Proposal], list[Trial]]:  # fmt: skip
    """What to compile, and what not, each with its reason; nothing is compiled or run.

    machine: None: no cost model (interpreted kernels)
    late: when it says so, the rest of `configs` is left as it is: neither proposed nor refused
    """
    target = kernel.target_for(values).name
    own = own_names(kernel.source.function)
    proposals: list[Proposal] = []
    refused: list[Trial] = []
    for config in configs:
        if late() and proposals:
            break
        options = {n: v for n, v in config.items() if n in SCHEDULE and n not in own}
        reasons = [*(illegal(n, v, target) for n, v in options.items()), clash(options)]
        reason = next(filter(None, reasons), "") if machine is not None else ""
        if reason:
            refused.append(Trial(config, ILLEGAL, error=reason))
            continue
        variant = kernel.with_constants(config)
        if machine is None:
            proposals.append(Proposal(config, variant))
            continue
        try:
            predicted, reason = _predicted(variant, values, grid, machine)
        except TesseraError as error:
            refused.append(Trial(config, ILLEGAL, error=headline(error)))
            continue
        if reason:
            refused.append(Trial(config, PRUNED, error=reason, predicted=predicted))
        else:
            proposals.append(Proposal(config, variant, predicted))
    return proposals, refused


def prune(proposals: Sequence[Proposal], others: Sequence[float]) -> tuple[list[Proposal], list[Trial]]:
    """Leave out what the cost model gives no chance beside the best of the rest and of `others` (predictions)."""
    predictions = [*others, *(p.predicted for p in proposals if p.predicted is not None)]
    kept: list[Proposal] = []
    pruned: list[Trial] = []
    for proposal in proposals:
        reason = "" if proposal.predicted is None else hopeless(proposal.predicted, predictions)
        if reason:
            pruned.append(Trial(proposal.config, PRUNED, error=reason, predicted=proposal.predicted))
        else:
            kept.append(proposal)
    return kept, pruned


def _predicted(
    kernel: Kernel, values: tuple[object, ...], grid: Grid | None, machine: Machine
) -> tuple[float | None, str]:
    """Seconds, and why it cannot run however it is compiled."""
    program = kernel.program(values)
    extents = bound_extents(program, kernel.described(values).arguments)
    shape = estimated_shape(program, extents, Target(kernel.target_for(values).name, ""), grid)
    work = count_work(program, shape)
    return predict(work, machine, shape.lanes).seconds, impossible(work, machine)


def beyond(artifact: Artifact, machine: Machine) -> str:
    """Why compiled code cannot run on a machine: one group needs more than a multiprocessor has; "" when it can."""
    resources, threads = artifact.resources, artifact.launch.threads
    if machine.shared_bytes and resources.shared_bytes > machine.shared_bytes:
        return f"a group needs {resources.shared_bytes} bytes of shared memory, there are {machine.shared_bytes}"
    registers = -(-(resources.registers or 0) // _PIECE) * _PIECE * threads
    if machine.registers and registers > machine.registers:
        return f"a group needs {registers} registers, there are {machine.registers}"
    return ""


def headline(error: TesseraError) -> str:
    """A mistake in one line."""
    return f"{error.code} {error.title}: {error.message}"
