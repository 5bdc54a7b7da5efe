"""`Region[read]`, `Region[write]`, `Region[reduce_sum]`: what a `@jit` function does with an array that it is given.

@jit
def step(W: Region[read], X: Region[read], Y: Region[reduce_sum]):
Y += gemm(X, W)
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, Self, cast

import numpy as np

from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadCapture, CannotTrace, OperandMismatch
from tessera.core.graph.graph import Value
from tessera.graphs.trace import Trace
from tessera.graphs.tracer import Tracer, as_tracer, binary
from tessera.runtime.arrays.host import AnyArray, as_array
from tessera.runtime.memory.device_arrays import is_on_device
from tessera.runtime.streams.graph_capture import HostWork, recording

_PRIVILEGES: Final = ("read", "write", "reduce_sum")
_TEXT: Final = re.compile(r"(?:\w+\.)*Region\[(?:\w+\.)*(\w+)\]")


@dataclass(frozen=True, slots=True)
class Privilege:
    """Permission to `read` or to `write` an array."""

    name: str


read: Final = Privilege("read")
write: Final = Privilege("write")


@dataclass(frozen=True, slots=True)
class RegionOf:
    """An annotation: `Region[write]`."""

    privilege: str


class Region:
    """`Region[read]`: a parameter that is an array, with what the function may do with it."""

    def __class_getitem__(cls, privilege: object) -> RegionOf:
        """Make an annotation of `read`, `write` or `reduce_sum`.  Raises OperandMismatch for anything else."""
        # `reduce_sum` is also an operation of the language.
        name = str(getattr(privilege, "spelling", getattr(privilege, "name", privilege)))
        if name not in _PRIVILEGES:
            raise at_call(OperandMismatch(f"there is no Region[{name}]", hint=f"choose from {', '.join(_PRIVILEGES)}"))
        return RegionOf(name)


def regions_of(function: Callable[..., object]) -> dict[str, str]:
    """Return the privileges of a function's parameters, by their names."""
    found: dict[str, str] = {}
    for name, annotation in inspect.get_annotations(inspect.unwrap(function)).items():
        if isinstance(annotation, RegionOf):
            found[name] = annotation.privilege
        elif isinstance(annotation, str) and (text := _TEXT.fullmatch(annotation.strip())):
            found[name] = cast("RegionOf", Region[text[1]]).privilege
    return found


class RegionTracer(Tracer):
    """A parameter with a privilege: `Y[:] = ...` where it is written, `Y += ...` where it is added to."""

    def __init__(self, trace: Trace, value: Value, name: str, privilege: str) -> None:
        super().__init__(trace, value)
        self.given, self.name, self.privilege = value, name, privilege
        self.changed: Tracer | None = None

    def __setitem__(self, index: object, new: object) -> None:
        if self.privilege == "reduce_sum" and new is self:
            return  # the end of `Y[:] += ...`
        self._must("write", "written")
        if index not in (slice(None), Ellipsis):
            raise at_call(
                CannotTrace(f"{self.name}[{index!r}] is a part", hint=f"write all of it, {self.name}[:] = ..., joined")
            )
        self.changed = self._like_me(new)
        self.value = self.changed.value

    def __iadd__(self, other: object) -> Self:
        self._must("reduce_sum", "added to")
        self._like_me(other)
        added = as_tracer(other, self.trace) if not isinstance(other, int | float) else self.constant(other)
        self.changed = added if self.changed is None else self.changed + added
        return self

    def constant(self, number: float) -> Tracer:
        """Return one number everywhere."""
        kept = float(number) if self.dtype.is_float else int(number)
        return self.of(self.trace.builder.full(kept, self.dtype, self.shape))

    @property
    def result(self) -> Tracer:
        """Return the value that the array holds afterwards."""
        assert self.changed is not None
        if self.privilege == "write":
            return self.changed
        return binary("add", Tracer(self.trace, self.given), self.changed).astype(self.dtype)

    def _like_me(self, new: object) -> Tracer:
        """Return a value in this array's shape and dtype.  Raises OperandMismatch where it does not broadcast."""
        if isinstance(new, int | float):
            return self.constant(new)
        value = as_tracer(new, self.trace)
        rank = len(self.shape)
        first = rank - value.ndim
        fits = first >= 0 and all(
            mine in (1, size) for mine, size in zip(value.shape, self.shape[max(first, 0) :], strict=True)
        )
        if not fits:
            raise at_call(
                OperandMismatch(
                    f"{value.shape} does not fill {self.name}, which is {self.shape}", hint="give it that shape"
                )
            )
        kept = [axis for axis, extent in enumerate(value.shape) if extent == self.shape[first + axis]]
        small = value.reshape(*(value.shape[axis] for axis in kept)) if len(kept) < value.ndim else value
        builder = self.trace.builder
        wide = builder.broadcast(small.value, [first + axis for axis in kept], self.shape)
        return self.of(wide).astype(self.dtype)

    def _must(self, privilege: str, what: str) -> None:
        if self.privilege != privilege:
            raise at_call(
                CannotTrace(
                    f"{self.name} is {what}, and it is Region[{self.privilege}]",
                    hint=f"annotate it: {self.name}: Region[{privilege}]",
                )
            )


class _Assignable(Protocol):
    def __setitem__(self, index: object, value: object) -> None: ...


@dataclass(frozen=True, slots=True)
class _HostCopy:
    """A copy that a captured graph does."""

    target: AnyArray
    source: AnyArray

    def run(self) -> None:
        np.copyto(self.target, self.source)

    def cancel(self) -> None:
        """It is short."""


def store(targets: Mapping[str, object], results: Mapping[str, object]) -> None:
    """Copy results into the caller's arrays, all or none.  Raises ReadOnlyArray, BadCapture."""
    noted = recording()
    on_host = {name: as_array(array, name, mutable=True) for name, array in targets.items() if not is_on_device(array)}
    for name, array in targets.items():
        if name in on_host:
            copy = _HostCopy(on_host[name], as_array(results[name], name))
            if noted is None:
                copy.run()
            else:
                noted.add(None, HostWork(f"copy {name}", copy))
            continue
        if noted is not None:
            raise BadCapture(
                f"writing {name} of a GPU cannot be captured", hint=f"return it instead of {name}[:] = ..."
            )
        cast("_Assignable", array)[...] = results[name]
