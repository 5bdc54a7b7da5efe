"""The stream of a launch that names none: the current one of the library that its arrays are of.

The first array on a GPU decides; what the libraries of the other arrays have under way comes before the launch, and
what they do later after it, by events.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tessera.core.errors.catalog import BadCapture
from tessera.runtime.arrays.host import is_array
from tessera.runtime.arrays.interop import Stream, default_stream, stream_of, waits_for_the_end
from tessera.runtime.driver import driver as door
from tessera.runtime.driver.driver import Driver
from tessera.runtime.memory.device_arrays import device_of, is_on_device

_FIRST: str = "call the kernel once before the capture"


@dataclass(frozen=True, slots=True)
class ArgumentStreams:
    """The streams that the arrays of a launch are worked on in.

    current: that of the first array, where the launch goes; others: those of other libraries
    waits: whether the launch has to be waited for, see `waits_for_the_end`
    """

    current: Stream = default_stream
    others: tuple[Stream, ...] = ()
    waits: bool = False

    @staticmethod
    def of(values: Sequence[object], device: int) -> "ArgumentStreams":
        """Return the company of a call's arguments, whose arrays lie on `device`."""
        arrays = [value for value in values if is_array(value) and is_on_device(value)]
        first, *others = dict.fromkeys(stream_of(value, device) for value in arrays) or (default_stream,)
        return ArgumentStreams(first, tuple(others), any(map(waits_for_the_end, arrays)))

    def together(self, other: "ArgumentStreams") -> "ArgumentStreams":
        """Return the company of two launches of which this is the first."""
        streams = dict.fromkeys((*self.others, other.current, *other.others))
        streams.pop(self.current, None)
        return ArgumentStreams(self.current, tuple(streams), self.waits or other.waits)

    @property
    def alone(self) -> bool:
        """Return whether a launch needs nothing but its stream."""
        return not (self.others or self.waits)

    def agrees(self, stream: int) -> bool:
        """Return whether all libraries are at work on `stream` now, and none has to be waited for."""
        return not self.waits and all(other() == stream for other in self.others)

    @contextmanager
    def around(self, api: Driver, stream: int) -> Generator[None]:
        """Order a launch on `stream` after and before what the other libraries do.

        A context of the device is current.  In the capture of a graph there is only the order of what is captured.
        """
        others = [] if self.alone or api.capturing(stream) else [other() for other in self.others]
        foreign = dict.fromkeys(other for other in others if other != stream)
        for other in foreign:
            order(api, other, stream)
        yield
        for other in foreign:
            order(api, stream, other)
        if self.waits and not api.capturing(stream):
            api.wait(stream)


def order(api: Driver, first: int, second: int) -> None:
    """Let what `second` gets from now on begin after all that `first` has."""
    mark = api.new_event(timing=False)
    try:
        api.record(mark, first)
        api.follow(second, mark)
    finally:
        api.close_event(mark)


def settle(api: Driver, values: Sequence[object], device: int) -> None:
    """Let what the default stream gets from now on find the arrays as their libraries' streams leave them."""
    company = ArgumentStreams.of(values, device)
    for stream in dict.fromkeys((company.current(), *(other() for other in company.others))):
        if stream:
            order(api, stream, 0)


def forbid_in_capture(values: Sequence[object], what: str) -> None:
    """Raise BadCapture where the arrays' library captures a graph, of which `what` cannot be part."""
    device = device_of(values)
    if device is None:
        return
    api = door.driver()
    with api.inside(device):
        if api.capturing(ArgumentStreams.of(values, device).current()):
            raise BadCapture(f"{what} cannot be captured", hint=_FIRST)
