"""Tell subscribers of launches and copies; costs a launch nothing where nothing subscribed.

While something is subscribed to launches, calls of kernels leave their quick way (see `Recorder`).
"""

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final, Protocol

from tessera.core.artifact import Artifact
from tessera.core.events import BytesMoved, Launched, publish, wanted, when_wanted
from tessera.runtime.recording import Recorder

HOST: Final = "host"


class AnyLauncher(Protocol):
    """What launches a kernel: on the CPU, on a GPU, or by interpreting it."""

    @property
    def artifact(self) -> Artifact:
        """What is launched, first where there are several phases."""
        ...

    @property
    def last_groups(self) -> Sequence[int | None]:
        """How many groups each phase of the last launch had."""
        ...


def told_launch(launcher: AnyLauncher) -> AbstractContextManager[None]:
    """Publish the launch that `launcher` makes inside the `with`, unless that raises."""
    return _timed(launcher) if wanted(Launched) else nullcontext()


@contextmanager
def _timed(launcher: AnyLauncher) -> Generator[None]:
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    numbers = [number for number in launcher.last_groups if number is not None]
    groups = sum(numbers) if len(numbers) == len(launcher.last_groups) else None
    tell_launch(launcher.artifact, groups=groups, seconds=seconds)


def tell_launch(
    artifact: Artifact, stream: str = "", *, groups: int | None = None, seconds: float | None = None
) -> None:
    """Publish a launch."""
    if wanted(Launched):
        publish(Launched(artifact.name, str(artifact.target), artifact.key, groups, stream, seconds))


def tell_graph(kernels: Iterable[str], device: str, stream: str) -> None:
    """Publish the launches of a graph's kernels."""
    if wanted(Launched):
        for name in kernels:
            publish(Launched(name, device, "", None, stream))


def tell_copy(size: int, source: int | None, destination: int | None) -> None:
    """Publish a copy between two memories: those of GPUs, by their numbers, or the host's (None)."""
    if wanted(BytesMoved) and size:
        publish(BytesMoved(size, _memory(source), _memory(destination)))


def _memory(device: int | None) -> str:
    return HOST if device is None else f"cuda:{device}"


when_wanted(Launched, Recorder.watch)
