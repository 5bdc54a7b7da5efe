"""Live views over anywidget: one hub carries the frontend's scripts, each view is a few lines that wait for it.

A hub is made with the first view and lives in the page as a model without a view, so the scripts are sent once,
however many views there are.  Data travel as messages, deflated, and never as traits: what is a trait is kept in the
notebook file.  See docs/viz.md, "Live views".
"""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import ClassVar, Final, Protocol, cast

import anywidget
import traitlets
from IPython.display import HTML, display  # pyright: ignore[reportUnknownVariableType]
from ipywidgets import widget_serialization  # pyright: ignore[reportUnknownVariableType, reportMissingTypeStubs]

from tessera.viz.base.page import LAZY, script
from tessera.viz.base.payload import Json, as_text, deflated, encode

_LOG: Final = logging.getLogger("tessera.viz")

_HUB: Final = """
export default {{
  initialize() {{
    if (globalThis.__tessera_v1?.complete) return;
    {scripts}
    globalThis.__tessera_v1.complete = true;
  }}
}};
"""

_VIEW: Final = """
const wait = () => new Promise((done) => {
  const look = () => globalThis.__tessera_v1?.complete ? done(globalThis.__tessera_v1) : setTimeout(look, 10);
  look();
});
export default {
  async render({ model, el }) {
    const core = await wait();
    const heard = new Set();
    const asked = new Map();
    let number = 0;
    let data;
    const ready = new Promise((resolve) => (data = resolve));
    const receive = async (message, buffers) => {
      const value = buffers.length ? core.lib.parse(await core.lib.inflate(buffers[0])) : message;
      if (message.type === "data") data(value);
      else if (message.reply) { asked.get(message.reply)?.(value); asked.delete(message.reply); }
      else for (const listener of heard) listener(value);
    };
    model.on("msg:custom", receive);
    const channel = {
      send: (message) => model.send(message),
      ask: (message) => new Promise((resolve) => { asked.set(++number, resolve); model.send({ ...message, number }); }),
      listen: (listener) => { heard.add(listener); return () => heard.delete(listener); },
    };
    model.send({ type: "ready" });
    const view = await core.mount(el, model.get("kind"), await ready, channel);
    return () => { model.off("msg:custom", receive); view.destroy(); };
  }
};
"""


class Source(Protocol):
    """A view as a live widget needs it."""

    kind: ClassVar[str]

    def payload(self) -> Json:
        """Return what the renderer gets."""
        ...

    def html(self) -> str:
        """Return the static form."""
        ...

    def text(self) -> str:
        """Return the plain text."""
        ...

    def answer(self, message: Mapping[str, object], send: "Send") -> None:
        """Do what the page asks for."""
        ...


class Send(Protocol):
    """Sends a message to the page."""

    def __call__(self, message: Mapping[str, object], /) -> None:
        """Send it."""
        ...


class Comm(Protocol):
    """The part of `ipywidgets.Widget` that is used here, which has no types."""

    def send(self, content: Mapping[str, object], buffers: list[bytes]) -> None:
        """Send a message with bytes beside it."""
        ...

    def on_msg(self, callback: Callable[[object, Mapping[str, object], object], None]) -> None:
        """Call `callback` with every message of the page."""
        ...


class Handle(Protocol):
    """The part of IPython's `DisplayHandle` that is used here."""

    def update(self, obj: object, /) -> None:
        """Replace what is shown."""
        ...


def _folded(html: str) -> str:
    return f"<details><summary>static form of this view</summary>{html}</details>"


@lru_cache
def _scripts() -> str:
    """Return the core and every renderer, one after the other."""
    folder = files("tessera.viz").joinpath("static")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".js"))
    names = [name for name in names if name != "core.js" and name.removesuffix(".js") not in LAZY]
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in ("core.js", *names))


class Hub(anywidget.AnyWidget):
    """Carries the scripts to the page, once."""

    _esm = traitlets.Unicode().tag(sync=True)

    def __init__(self) -> None:
        super().__init__(_esm=_HUB.format(scripts=_scripts()))


@lru_cache
def hub() -> Hub:
    """Return the hub of this process."""
    return Hub()


class LiveView(anywidget.AnyWidget):
    """A live view: draws what its source gives, passes on what the page asks for."""

    _esm = _VIEW
    kind = traitlets.Unicode().tag(sync=True)
    _hub = traitlets.Instance(Hub).tag(sync=True, **widget_serialization)

    def __init__(self, source: Source) -> None:
        self.source: Final = source
        super().__init__(kind=source.kind, _hub=hub())
        self._comm: Final = cast("Comm", self)
        self._comm.on_msg(self._hear)

    def push(self, message: Mapping[str, object]) -> None:
        """Send a message to the page; from any thread."""
        self._comm.send({"type": "push"}, [deflated(as_text(encode(message)))])

    def refresh(self) -> None:
        """Send the view's data again, which draws it anew where the renderer listens for `{"type": "data"}`."""
        self._send_data()

    def _send_data(self) -> None:
        self._comm.send({"type": "data"}, [deflated(as_text(self.source.payload()))])

    def _send_script(self, name: str, number: object) -> None:
        """Send the script of a large library; an empty text for one that there is not."""
        text = script(name) if name in LAZY else ""
        self._comm.send({"type": "reply", "reply": number}, [deflated(as_text({"text": text}))])

    def _hear(self, _: object, message: Mapping[str, object], __: object) -> None:
        if message.get("type") == "ready":
            self._send_data()
            return
        if message.get("type") == "script":
            self._send_script(str(message.get("name")), message.get("number"))
            return

        def reply(answer: Mapping[str, object]) -> None:
            number = message.get("number")
            head = {"type": "reply", "reply": number} if number is not None else {"type": "push"}
            self._comm.send(head, [deflated(as_text(encode(answer)))])

        try:
            self.source.answer(message, reply)
        except Exception as error:  # noqa: BLE001 - the page shows it; without that it would wait for ever
            _LOG.exception("a view could not answer")
            reply({"type": "error", "error": f"{type(error).__name__}: {error}"})

    def show(self) -> Callable[[str], None]:
        """Show the live view and, folded, its static form: what a notebook opened without a kernel still shows.

        Return how to replace the static form, from any thread, for a source that has changed.
        """
        display({"text/plain": self.source.text(), **self._bundle()}, raw=True)  # pyright: ignore[reportUnknownMemberType]
        handle = cast("Handle", display(HTML(_folded(self.source.html())), display_id=True))  # pyright: ignore[reportUnknownMemberType]
        return lambda html: handle.update(HTML(_folded(html)))

    def _ipython_display_(self) -> None:
        self.show()

    def _bundle(self) -> dict[str, object]:
        return {
            "application/vnd.jupyter.widget-view+json": {
                "version_major": 2, "version_minor": 1, "model_id": self.model_id,
            }
        }  # fmt: skip
