"""Tell subscribers of launches and copies; costs a launch nothing where nothing subscribed.

While something is subscribed to launches, calls of kernels leave their quick way (see `Recorder`).
"""

import time
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.events import BytesMoved, Launched, publish, wanted, when_wanted
from tessera.runtime.launchers import Launcher
from tessera.runtime.recording import Recorder

HOST: Final = "host"


def told_launch(launcher: Launcher) -> AbstractContextManager[None]:
    """Publish the launch that `launcher` makes inside the `with`, unless that raises."""
    return _timed(launcher) if wanted(Launched) else nullcontext()


@contextmanager
def _timed(launcher: Launcher) -> Generator[None]:
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
