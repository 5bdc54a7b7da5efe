"""Find what a search on disk measured for the kernel and the arguments of a profile: advice is held against it."""

import ast
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tessera.core.program.program import Attribute
from tessera.core.settings import current
from tessera.kernels.kernel import Kernel
from tessera.profiling.origin import Origin
from tessera.tuning.record import log_path, logs_of, reopen, source_digest
from tessera.tuning.results import ILLEGAL, Config, Tuning
from tessera.tuning.setup import device_name, pinned_kernel, record_of


@dataclass(frozen=True, slots=True)
class MeasuredVariants:
    """A search, and the configuration in it that a profile is of."""

    tuning: Tuning
    own: Config

    def ratio(self, options: Mapping[str, Attribute]) -> float | None:
        """Return a variant's time by that of the profiled values, both as the search measured them.

        inf where it cannot be compiled; None where the search did not measure it.
        """
        if not set(options) <= set(self.own):
            return None
        here, there = self.tuning.find(self.own), self.tuning.find({**self.own, **options})
        if there is not None and there.status == ILLEGAL:
            return math.inf
        if here is None or there is None or not here.median or there.median is None:
            return None
        return there.median / here.median

    @property
    def fastest(self) -> Config:
        """The values of the best configuration that differ from the profiled ones; none where these are the best."""
        best = self.tuning.config
        return {name: value for name, value in best.items() if self.own.get(name) != value}


def measured_variants(origin: Origin | None) -> MeasuredVariants | None:
    """Return the last search on disk for a profile's kernel, argument types, class of shapes, and device.

    None where there was none, or the arguments are gone.
    """
    values = origin.arguments.values() if origin is not None else None
    if origin is None or values is None or not current().cache:
        return None
    source = origin.kernel.source
    for path in logs_of(current().cache_dir / "tuning", source.name, source_digest(ast.unparse(source.function))):
        tuning = reopen(path)
        names = {name for trial in tuning.trials for name in trial.config}
        if path != log_path(_record(origin.kernel, values, names)) or not any(trial.median for trial in tuning.trials):
            continue
        constants = origin.kernel.options.constants
        own = {**(tuning.default or {}), **{name: constants[name] for name in names if name in constants}}
        return MeasuredVariants(tuning, own) if set(own) == names else None
    return None


def _record(kernel: Kernel, values: Sequence[object], names: set[str]) -> Path:
    """Return the record of searches over some names: of the kernel without values for these."""
    arguments = tuple(values)
    target = kernel.target_for(arguments)
    pinned = pinned_kernel(kernel, target, arguments)
    constants = {name: value for name, value in pinned.options.constants.items() if name not in names}
    pinned = pinned.with_options(dataclasses.replace(pinned.options, constants=constants, space=None))
    return record_of(pinned, arguments, dict.fromkeys(names), device_name(pinned.target_for(arguments), arguments))
