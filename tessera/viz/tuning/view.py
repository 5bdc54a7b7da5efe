"""The autotuning dashboard: parallel coordinates, scatter, best so far and every trial, live while a search runs."""

import ast
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from tessera.core.errors.catalog import TuningFailed
from tessera.core.settings import current
from tessera.kernels.kernel import Configured, Kernel
from tessera.kernels.like_last_call import arguments_like_last_call
from tessera.tuning.background import BackgroundSearch
from tessera.tuning.record import logs_of, reopen, source_digest
from tessera.tuning.results import Config, Tuning, choose, show
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.selection import group_of
from tessera.viz.base.subjects import wrong
from tessera.viz.base.view import Send, View
from tessera.viz.tuning.detail import Embedded, detail, diff_with_best, parsed, profile_beside_best
from tessera.viz.tuning.figure import parallel_coordinates
from tessera.viz.tuning.importance import importance
from tessera.viz.tuning.live import Follower, head_of, payload_of
from tessera.viz.tuning.model import TuningModel, model_of
from tessera.viz.tuning.table import tuning_html, tuning_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # pyright: ignore[reportMissingTypeStubs]

    from tessera.viz.base.live import LiveView

ShowBoth = Callable[[Kernel, Sequence[object], Config, Config], Sequence[Embedded]]
Searched = Tuning | BackgroundSearch | Kernel | Configured | str | Path


def dashboard(search: Searched, *, kernel: Kernel | None = None) -> "Dashboard":
    """Show a search: one that runs in the background, an outcome, a stored log, or a kernel's last search.

    search: what `autotune.start` or `autotune.search` returned; the path of a log (`Tuning.log`, a .jsonl file); or a
            kernel, of which the last search on disk is shown
    kernel: what was tuned, where `search` does not know it: then points show the resources of their code

    Raises TuningFailed where there is no search to show, NothingToShow for what is none of these.
    """
    if isinstance(search, Configured):
        search = search.kernel
    if not isinstance(cast("object", search), BackgroundSearch | Tuning | Kernel | str | Path):
        raise wrong(
            "dashboard", "a search, its log or a kernel", search, "search first: autotune.search(kernel=k, params=...)"
        )
    if isinstance(search, BackgroundSearch):
        return LiveDashboard(search)
    if isinstance(search, Kernel):
        return Dashboard(last_search(search), search)
    return Dashboard(search if isinstance(search, Tuning) else reopen(search), kernel)


def last_search(kernel: Kernel) -> Tuning:
    """Return a kernel's last search from its log.  Raises TuningFailed where there was none."""
    source = kernel.source
    logs = logs_of(current().cache_dir / "tuning", source.name, source_digest(ast.unparse(source.function)))
    if not logs:
        hint = f"search first: autotune.search(kernel={source.name}, params=...)"
        raise TuningFailed(f"no search of {source.name} is on disk", hint=hint)
    return reopen(logs[0])


class Dashboard(View[TuningModel]):
    """A search that has ended, or was stored."""

    kind = "dashboard"

    def __init__(self, tuning: Tuning, kernel: Kernel | None = None) -> None:
        super().__init__(model_of(tuning))
        self._tuning = tuning
        self._kernel = kernel
        self._answers: dict[str, Callable[[Mapping[str, object]], object]] = {
            "detail": self._detail,
            "use": self._use,
            "diff": lambda message: self._beside(message, diff_with_best),
            "profile": lambda message: self._beside(message, profile_beside_best),
        }

    @property
    def tuning(self) -> Tuning:
        """The search as it is now."""
        return self._tuning

    @property
    def title(self) -> str:
        """The kernel and the device."""
        return f"tuning of {self.data.kernel} on {self.data.device}"

    def text(self) -> str:
        """Return one line."""
        return tuning_text(self.tuning)

    def plain_html(self) -> str:
        """Return a table of the best trials, and which parameter matters most."""
        found = importance(model_of(self.tuning))
        told = "; ".join(f"{each.name} {each.share:.0%} (best {each.best})" for each in found.effects)
        matters = f"<div>share of the variance of the times that each parameter explains: {escape(told)}</div>"
        return tuning_html(self.tuning) + (matters if told else "")

    def payload(self) -> Json:
        """Return the columns, and what stands above the charts."""
        state = "interrupted" if self._tuning.interrupted else "finished" if self._tuning.complete else "incomplete"
        return self._titled(payload_of(self.data, head_of(self.data, state)))

    def _titled(self, payload: dict[str, Json]) -> dict[str, Json]:
        kernel = self._kernel
        group = group_of(kernel.source.name, kernel.source.source) if kernel else f"tuning of {self.data.kernel}"
        return {**payload, "title": self.title, "text": self.text(), "group": group, "steered": False}

    def figure(self) -> "Figure":
        """Return the parallel coordinates as a plotly figure.  Raises ImportError without plotly."""
        return parallel_coordinates(model_of(self.tuning))

    def answer(self, message: Mapping[str, object], send: Send) -> None:
        """Answer a page: details of a configuration; a search that runs is steered too."""
        answer = self._answers.get(str(message.get("type")))
        if answer is None:
            super().answer(message, send)
            return
        send({"type": "answer", "result": encode(answer(message))})

    def _detail(self, message: Mapping[str, object]) -> object:
        model = model_of(self.tuning)
        row = int(str(message["row"]))
        values = self._values()
        if self._kernel is None or values is None:
            return {"rows": [], "error": "resources need the kernel: dashboard(..., kernel=k), which was called once"}
        best = model.config(model.best) if model.best >= 0 else None
        return detail(self._kernel, values, model.config(row), best)

    def _use(self, message: Mapping[str, object]) -> dict[str, str]:
        """Return the line that gives the kernel a configuration."""
        config = model_of(self.tuning).config(int(str(message["row"])))
        values = ", ".join(f"{name}={value!r}" for name, value in config.items())
        return {"code": f"{self.data.kernel} = {self.data.kernel}.variant({values})"}

    def _beside(self, message: Mapping[str, object], show_both: ShowBoth) -> dict[str, object]:
        """Return views of a configuration and of the best one."""
        model = model_of(self.tuning)
        values = self._values()
        if self._kernel is None or values is None or model.best < 0:
            raise TuningFailed("there is nothing to compare with, or no kernel to compile")
        config = model.config(int(str(message["row"])))
        return {"views": encode(show_both(self._kernel, values, config, model.config(model.best)))}

    def _values(self) -> tuple[object, ...] | None:
        """Return arguments that the trials are compiled for; None where none are known."""
        kernel = self._kernel
        return None if kernel is None or kernel.last_arguments is None else arguments_like_last_call(kernel)


class LiveDashboard(Dashboard):
    """A search that runs in the background: what changes is pushed to its pages, which steer it."""

    def __init__(self, search: BackgroundSearch) -> None:
        self.search: Final = search
        super().__init__(search.result, search.kernel)
        self._follower = Follower(search)
        self._answers |= {
            "pause": lambda _: self.search.pause(),
            "resume": lambda _: self.search.resume(),
            "stop": lambda _: self._stop(),
            "pin": self._pin,
            "add": self._add,
            "since": lambda message: self._follower.since(int(str(message["version"]))),
            "snapshot": lambda _: self.payload(),
        }

    @property
    def tuning(self) -> Tuning:
        """The search as it is now."""
        return self.search.result

    def text(self) -> str:
        """Return one line."""
        return f"{tuning_text(self.tuning)}; {self.search.state}"

    def payload(self) -> Json:
        """Return the columns as they are now, and what stands above the charts."""
        return {**self._titled(self._follower.payload()), "steered": True}

    def widget(self) -> "LiveView":
        """Return the live form, which is told of every change."""
        made = super().widget()
        self._follower.follow(made.push)
        return made

    def _ipython_display_(self) -> None:
        """Show the live form: a search that runs is to be watched and steered."""
        shown = self.widget().show()
        self._follower.when_ended(lambda: shown(self.html()))

    def _stop(self) -> dict[str, str]:
        found = self.search.stop()
        best = choose(found.trials, found.default)
        return {"told": "stopped; " + (f"the best is {show(best.config)}" if best else "nothing was measured")}

    def _pin(self, message: Mapping[str, object]) -> None:
        config = model_of(self.tuning).config(int(str(message["row"])))
        if message.get("on"):
            self.search.pin(config)
        else:
            self.search.unpin(config)

    def _add(self, message: Mapping[str, object]) -> dict[str, str]:
        return {"told": f"next: {show(self.search.add(**parsed(str(message['text']))))}"}

    def _values(self) -> tuple[object, ...]:
        return self.search.values
