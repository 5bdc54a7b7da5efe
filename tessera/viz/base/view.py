"""Base class of all views: shows a view model in notebooks, pages and terminals, and live."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from errno import EISDIR
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Generic, NoReturn, Self, TypeVar

from tessera.core.base.collector import collector_paused
from tessera.viz.base.page import document, fragment
from tessera.viz.base.payload import Json, encode

if TYPE_CHECKING:
    from tessera.viz.base.live import LiveView

ModelT = TypeVar("ModelT")
Send = Callable[[Mapping[str, object]], None]
"""Sends a message to the page: plain data, see `payload.encode`.  May be called from any thread."""


class View(ABC, Generic[ModelT]):
    """A view: shown where it is a cell's last value, `save`d as a page, or live as a `widget`.

    data: the view model, plain data
    kind: the renderer in the frontend, `frontend/src/views/<kind>.ts`
    parts: renderers of other views that it mounts inside of it
    """

    kind: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, data: ModelT) -> None:
        self.data: Final = data

    @property
    @abstractmethod
    def title(self) -> str:
        """Say in a few words what is shown."""

    @abstractmethod
    def text(self) -> str:
        """Return the view as plain text: short, and the same in every run."""

    @abstractmethod
    def plain_html(self) -> str:
        """Return what is left where scripts are removed: HTML with inline styles, no script, style or svg element."""

    def payload(self) -> Json:
        """Return what the renderer gets."""
        return encode(self.data)

    def answer(self, message: Mapping[str, object], send: Send) -> None:  # noqa: ARG002 - for those who override it
        """Do what the live page asks for; `send` replies, now or later.  A static view is asked nothing.

        Raises ValueError for a message that this view does not know.
        """
        raise ValueError(f"{type(self).__name__} knows no message {message.get('type')!r}")

    @collector_paused()
    def html(self) -> str:
        """Return the view as self-contained HTML for an output or a page."""
        return fragment(self.kind, self.payload(), self.plain_html(), self.parts)

    def save(self, path: str | Path) -> Path:
        """Write the view as one HTML file that needs nothing else; return its path.

        The folder is made where there is none.  The file is there as a whole or not at all.
        Raises OSError where it cannot be written.
        """
        target, text = Path(path), document(self.title, self.html())
        if target.is_dir():
            raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            draft.write_text(text, encoding="utf-8")
            draft.replace(target)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, str(target)) from None
        finally:
            draft.unlink(missing_ok=True)
        return target

    def __copy__(self) -> Self:
        """Return another view of the same model."""
        made = object.__new__(type(self))
        for name, value in vars(self).items():
            setattr(made, name, value)
        return made

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: a view may hold a kernel, threads and arrays of a GPU."""
        raise TypeError(
            f"{type(self).__name__} cannot be pickled; save(path) keeps it as a page, and data is its model"
        )

    def widget(self) -> "LiveView":
        """Return the view as a live widget of the notebook.

        Raises ImportError without anywidget.
        """
        try:
            from tessera.viz.base.live import LiveView  # noqa: PLC0415 - anywidget is optional
        except ImportError as missing:
            raise ImportError('live views need anywidget: pip install "tessera[notebook]"') from missing
        return LiveView(self)

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}
