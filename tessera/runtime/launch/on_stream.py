"""Launches on streams: straight to the driver, behind what a stream's queue holds, or into a recording."""

from collections.abc import Callable

from tessera.core.errors.base import TesseraError
from tessera.runtime.binding.grid import Grid
from tessera.runtime.launch.launch_events import tell_launch
from tessera.runtime.launch.launch_plan import LaunchPlan
from tessera.runtime.launch.launchers import Launcher, StreamLauncher
from tessera.runtime.launch.phases import PhasesPlan
from tessera.runtime.streams.graph_capture import CapturedGraph, HostWork
from tessera.runtime.streams.in_flight_limit import outstanding
from tessera.runtime.streams.streams import Stream


def launch_on(stream: Stream, launcher: Launcher, values: tuple[object, ...], grid: Grid | None) -> None:
    """Launch in the order of `stream`.

    What is wrong with the arguments is raised at once; what goes wrong later, where the stream is waited for.
    """
    on_gpu = launcher.on_streams
    if on_gpu is not None:
        _on_gpu(stream, on_gpu, values, grid)
        tell_launch(launcher.artifact, repr(stream))
        return
    work = launcher.prepare(values, grid)
    if work is not None and not isinstance(work, LaunchPlan | PhasesPlan):
        artifact = launcher.artifact
        stream.submit(_named(work.run, artifact.name, artifact.span.line), "compute", work.cancel)
        tell_launch(artifact, repr(stream))


def record_launch(
    noted: CapturedGraph, stream: Stream | None, launcher: Launcher, values: tuple[object, ...], grid: Grid | None
) -> None:  # fmt: skip
    """Note a launch in a recording.  Raises what is wrong with the arguments."""
    work = launcher.prepare(values, grid)
    if isinstance(work, PhasesPlan):
        for step in work.launches:
            noted.add(stream, step, (*values, *work.keep))
    elif work is not None:
        step = work if isinstance(work, LaunchPlan) else HostWork(launcher.artifact.name, work)
        noted.add(stream, step, values)


def _on_gpu(stream: Stream, launcher: StreamLauncher, values: tuple[object, ...], grid: Grid | None) -> None:
    if not stream.queued:
        launcher(*values, grid=grid, stream=stream)
        return
    if not launcher.on_device(values):  # copies of NumPy arrays wait for their end anyway
        stream.synchronize()
        launcher(*values, grid=grid, stream=stream)
        return
    prepared = launcher.prepare(values, grid)
    if isinstance(prepared, PhasesPlan):
        for launch in prepared.launches:
            submit_prepared(stream, launch, (values, prepared.keep))
    elif prepared is not None:
        submit_prepared(stream, prepared, values)


def submit_prepared(stream: Stream, prepared: LaunchPlan, keep: object) -> None:
    """Launch `prepared` when its turn has come; `keep` lives until then."""

    def run(keep: object = keep) -> None:  # noqa: ARG001 - arrays must outlive the wait for the turn
        prepared.set_stream(stream.handle(prepared.device))
        prepared.begin()
        with prepared.driver.within(prepared.context):
            outstanding.add(prepared.driver, prepared.stream)

    stream.submit(run, "gpu")


def _named(run: Callable[[], None], name: str, line: int) -> Callable[[], None]:
    """Return `run` with the kernel's name added to its exceptions."""

    def named() -> None:
        try:
            run()
        except TesseraError:
            raise
        except Exception as error:
            error.add_note(f"in kernel {name}, line {line}, launched on a stream")
            raise

    return named
