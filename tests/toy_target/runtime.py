"""The printed functions, run by Python: one call a group."""

from typing import Any, Final

from tessera.core.artifact import Artifact
from tessera.runtime.binding.grid import Grid, GridRule
from tessera.runtime.binding.signature import Binder
from tessera.runtime.launch.launchers import Launcher, Loadable, Runtime


class ToyLaunch:
    """One launch with its arguments bound."""

    def __init__(self, launcher: "ToyLauncher", values: tuple[Any, ...], grid: Grid | None) -> None:
        self._launcher, self._values, self._grid = launcher, values, grid

    def run(self) -> None:
        """Run every group."""
        self._launcher(*self._values, grid=self._grid)

    def cancel(self) -> None:
        """A launch ends by itself."""


class ToyLauncher:
    """One printed kernel."""

    quick: None = None
    on_streams: None = None

    def __init__(self, artifact: Artifact, types: tuple[type, ...]) -> None:
        self.artifact = artifact
        self.last_groups: tuple[int | None, ...] = (None,)
        self._binder = Binder(artifact, types)
        self._grid = GridRule(artifact, self._binder.symbol)
        found: dict[str, Any] = {}
        exec(artifact.code.decode(), found)
        self._function = found[artifact.entry]

    def __call__(self, *arguments: object, grid: Grid | None = None) -> None:
        """Run every group; raises the TesseraError of what is wrong with the arguments."""
        values = self._binder.check(arguments)
        facts = self._binder.facts(values)
        assert facts is not None
        groups = self._grid.shape(facts, grid).units
        self.last_groups = (groups,)
        for group in range(groups):
            self._function(group, *values)

    def prepare(self, arguments: tuple[Any, ...], grid: Grid | None = None) -> ToyLaunch:
        """Bind arguments, to launch later."""
        return ToyLaunch(self, tuple(self._binder.check(arguments)), grid)


def _load(made: Loadable) -> Launcher:
    return ToyLauncher(made.artifacts[0], made.types)


RUNTIME: Final = Runtime(_load)
