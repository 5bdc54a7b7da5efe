"""Recipes of the library's functions: the machine, the variants of kernels, and the arguments of their launches."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypedDict, TypeVar

from tessera.core.base.dtypes import ComputeType
from tessera.core.errors.catalog import BadKernelOption
from tessera.core.program.program import Attribute
from tessera.core.schedule.options import SCHEDULE, illegal
from tessera.core.settings import current
from tessera.core.targets import DEFAULT_ON_GPU, TARGETS, find_kind, generation
from tessera.kernels.kernel import Kernel
from tessera.performance.machine_kind import MachineKind
from tessera.runtime.launch.launchers import runtime_of
from tessera.runtime.memory.device_arrays import device_of
from tessera.runtime.memory.operands import Operand

T_co = TypeVar("T_co", covariant=True)
Schedule = Mapping[str, Attribute]
Space = Mapping[str, Iterable[Attribute]]


class ScheduleArguments(TypedDict, total=False):
    """The arguments that every function of the library takes besides its operands.

    schedule: tuning parameters in place of the default ones, e.g. `dict(BM=128, BN=256)`
    tune: search the function's space at the first call with such operands, and keep the best configuration
    stream: where to launch; None: where kernels run by default
    """

    schedule: Schedule | None
    tune: bool
    stream: object


class MatmulArguments(ScheduleArguments, total=False):
    """The arguments that `gemm` takes besides its operands.

    compute: what elements are rounded to before they are multiplied
    """

    compute: ComputeType | str | None


def require_known(
    how: ScheduleArguments, parameters: Iterable[str], arguments: type[ScheduleArguments] = ScheduleArguments
) -> None:
    """Raise BadKernelOption for an argument or a tuning parameter that a function does not take.

    parameters: the tuning parameters it has besides the schedule options; arguments: the keywords it takes
    """
    known = tuple(arguments.__annotations__)
    for name in how:
        if name not in known:
            raise BadKernelOption(f"there is no argument {name!r}", hint=f"besides operands it takes {_listed(known)}")
    legal = tuple(dict.fromkeys((*parameters, *SCHEDULE)))
    schedule: Schedule = how.get("schedule") or {}
    for name, value in schedule.items():
        if name not in legal:
            raise BadKernelOption(f"there is no tuning parameter {name!r}", hint=f"choose from {_listed(legal)}")
        reason = illegal(name, value) if name in SCHEDULE else ""
        if reason:
            raise BadKernelOption(reason, hint=f"{name} says: {SCHEDULE[name].summary}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def machine_of(array: Operand[object]) -> MachineKind:
    """Return the machine that kernels on `array` run on: by the setting `target`, and by the memory it lies in."""
    kind, name = find_kind(current().target)
    if not kind.on_gpu and not array.on_device:
        return MachineKind()
    if name:
        name = kind.architecture(name).name
    else:
        gpu = TARGETS[DEFAULT_ON_GPU]
        name = runtime_of(gpu).architecture(gpu, device_of((array.value,)))
    return MachineKind(generation(name), None if kind.on_gpu else DEFAULT_ON_GPU, kind.tile_elements)


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel and its arguments."""

    kernel: Kernel
    arguments: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class LaunchRecipe(Generic[T_co]):
    """A function of the library made ready on its arrays: `run` may be called again and again.

    finish: gives what the function returns, once the launches are under way
    recipe: how to do the same on other arrays like these, see `tessera.ops.recipes.recipe_cache`; None: anew
    """

    launches: tuple[Launch, ...]
    finish: Callable[[], T_co]
    recipe: object = None

    def run(self, stream: object = None) -> T_co:
        """Launch everything, in order, and return the result."""
        for launch in self.launches:
            if stream is None:
                launch.kernel(*launch.arguments)
            else:
                launch.kernel.on(stream)(*launch.arguments)
        return self.finish()


def variant(
    kernel: Kernel, machine: MachineKind, default: Schedule, space: Space, how: ScheduleArguments, **fixed: Attribute
) -> Kernel:
    """Return `kernel` with the constants `fixed`, and the schedule that `how` asks for.

    default: the tuning parameters for this machine and these operands; space: what `tune` searches
    """
    given = how.get("schedule") or {}
    constants: dict[str, Attribute] = {**default, **given, **fixed}
    searched: dict[str, tuple[Attribute, ...]] = {}
    if how.get("tune"):
        # The constants stay: they are the default, which a search compares all else with.
        searched = {name: tuple(values) for name, values in space.items() if name not in given}
    # By their text: 0, -0.0 and False are three constants, and one key of a dictionary.
    key = (kernel, machine.target, repr(sorted(constants.items())), repr(sorted(searched.items())))
    if key not in _VARIANTS:
        options = replace(kernel.options, target=machine.target, constants=constants, space=searched or None)
        _VARIANTS[key] = kernel.with_options(options)
    return _VARIANTS[key]


_VARIANTS: Final[dict[tuple[Kernel, str | None, str, str], Kernel]] = {}
