"""Tell subscribers of launches; costs a launch nothing where nothing subscribed.

While something is subscribed to launches, calls of kernels leave their quick way (see `CaptureSession`).
"""

import time
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, nullcontext

from tessera.core.artifact import Artifact
from tessera.core.events import Launched, publish, wanted, when_wanted
from tessera.runtime.launch.launchers import Launcher
from tessera.runtime.streams.graph_capture import CaptureSession


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


when_wanted(Launched, CaptureSession.watch)
