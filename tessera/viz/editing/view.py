"""The editor: a kernel's text, options, Tile IR or PTX, changed in the page, compiled and compared by the kernel."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Final, cast

from tessera.kernels.kernel import Configured, Kernel
from tessera.kernels.like_last_call import arguments_like_last_call
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.selection import group_of
from tessera.viz.base.subjects import launched
from tessera.viz.base.view import Send, View
from tessera.viz.editing import drafts
from tessera.viz.editing.drafts import Option
from tessera.viz.editing.editor import Editor

_PRE: Final = "white-space:pre;overflow:auto;max-height:32em;margin:4px 0;font-size:12px;line-height:1.4"


@dataclass(frozen=True, slots=True)
class EditModel:
    """Texts of a kernel by level, its schedule options, and the first line of its own text in the user's file."""

    kernel: str
    target: str
    first_line: int
    texts: Mapping[str, str]
    options: tuple[Option, ...]
    group: str


def edit(kernel: Kernel | Configured, *args: object) -> "EditView":
    """Show a kernel's texts to be edited, compiled and compared with the original; live as `edit(k, x, y).widget()`.

    kernel: a kernel, or `kernel[grid, block]`
    args: what both are run on, copies of them; left out, arguments like those of the last call
    Raises NothingToShow for what is no kernel, NotCalledYet without arguments for a kernel that was not called, and
    what compiling the kernel raises.
    """
    kernel, grid = launched(kernel, "edit")
    return EditView(Editor(kernel, args or arguments_like_last_call(kernel), grid))


class EditView(View[EditModel]):
    """A kernel in an editor; `apply` does without a page what its button does."""

    kind = "edit"

    def __init__(self, editor: Editor) -> None:
        kernel = editor.kernel
        super().__init__(EditModel(
            kernel.source.name, kernel.target_for(editor.values).name, drafts.first_line(kernel),
            {level: text for level, text in editor.texts.items() if text},
            drafts.options_of(kernel, editor.values), group_of(kernel.source.name, kernel.source.source),
        ))  # fmt: skip
        self.editor: Final = editor

    @property
    def title(self) -> str:
        """Say which kernel is edited."""
        return f"edit {self.data.kernel}"

    def text(self) -> str:
        """Return one line."""
        return f"editor of kernel {self.data.kernel} for {self.data.target}: {', '.join(self.data.texts)}, options"

    def plain_html(self) -> str:
        """Return the kernel's own text."""
        text = escape(self.data.texts[drafts.SOURCE])
        return f'<div><b>{escape(self.title)}</b></div><pre style="{_PRE}"><code>{text}</code></pre>'

    def answer(self, message: Mapping[str, object], send: Send) -> None:
        """Compile and compare an edit: `{"type": "apply", "level": ..., "given": ...}`."""
        level = message.get("level")
        if message.get("type") != "apply" or level not in drafts.LEVELS:
            super().answer(message, send)
        given = message.get("given")
        if isinstance(given, str):
            outcome = self.editor.apply(cast("str", level), given)
        else:
            outcome = self.editor.apply(cast("str", level), cast("Mapping[str, object]", given or {}))
        send({"type": "outcome", "outcome": encode(outcome)})

    @property
    def latest(self) -> Kernel | None:
        """The last edit that compiled, as a kernel to call; None: there was none."""
        return self.editor.latest

    def payload(self) -> Json:
        """Return the model; the view's order of levels."""
        return {**cast("dict[str, Json]", encode(self.data)), "title": self.title, "levels": list(drafts.LEVELS)}
