"""The tiles view: steps a recorded launch by statements, and shows which elements each tile and lane touches."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Final, cast

from tessera.core.base.plurals import counted
from tessera.core.errors.catalog import BadExpectation
from tessera.kernels.kernel import Configured, Kernel
from tessera.kernels.like_last_call import arguments_like_last_call
from tessera.profiling.expected import wrong_outputs
from tessera.profiling.wrong_elements import WrongElements
from tessera.runtime.binding.grid import Grid, read_grid
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.selection import group_of
from tessera.viz.base.subjects import launched
from tessera.viz.base.view import Send, View
from tessera.viz.operators.captured import Capturable, captured, is_capturable
from tessera.viz.operators.chosen_kernel import ChosenKernel
from tessera.viz.operators.kernel_arguments import kernel_arguments
from tessera.viz.tile_debugger.model import TilesModel, model_of, variable_model
from tessera.viz.tile_debugger.recording import Launch, Limits, record
from tessera.viz.tile_debugger.trace import Focus, Trace
from tessera.viz.tile_debugger.writers import trace_of_first_wrong

MADE_UP: Final = "the arguments are random numbers, of the types and shapes of the last call's"
_PLAIN_ROWS: Final = 24
_CELL: Final = "padding:1px 12px 1px 0;border:none;text-align:left"
_ASKED_VALUES: Final = 1 << 16
"""Values of one variable that the live view may ask for at once."""


def tiles(
    k: Kernel | Configured | Capturable, *args: object, grid: object = None, limits: Limits | None = None,
    expect: object = None, **keywords: object,
) -> "TilesView":  # fmt: skip
    """Run a kernel in the interpreter, on copies of its arguments, and show what every tile and lane touches.

    The view steps the kernel statement by statement, like a debugger: variables of every lane or element, contents of
    arrays, masks at edges, who wrote an element.

    k: a kernel, or `k[grid, block]`; grid: the same, as `grid=(blocks, threads)`
    args: the arguments of a call; none: random ones, of the types and shapes of the kernel's last call
    Of a function of operators one kernel is run, on what those before it give: `kernel=1`, or what computes most.
    limits: bounds of what is recorded; the default takes about a second
    expect: what the results should be: an array, of the only output, or several by name or in order; a function of the
        arguments; or NumPy code, `"y[:] = 2 * x"`.  The view begins where the first wrong element is written

    Raises NothingToShow for what is no kernel, NotCalledYet where no arguments are given and there was no call,
    BadExpectation, and what the call itself would raise.
    """
    if is_capturable(k):
        if expect is not None:
            raise BadExpectation("expect= is compared with the outputs of a kernel", hint="give a kernel")
        return _of_operators(k, args, keywords, limits)
    kernel, own = launched(k, "tiles")
    made_up = not args and not keywords and bool(inspect.signature(kernel.function).parameters)
    if made_up:
        args = arguments_like_last_call(kernel)
    launch = Launch.of(kernel, args, keywords, own if grid is None else _grid(grid))
    wrong: tuple[WrongElements, ...] = ()
    if expect is not None:
        wrong = wrong_outputs(kernel, kernel.ordered(args, keywords), expect, launch.grid)
    trace, focus, first = (
        trace_of_first_wrong(launch, wrong[0], limits) if wrong else (record(launch, limits), None, "")
    )
    if made_up:
        trace = replace(trace, left_out=(MADE_UP, *trace.left_out))
    findings = (first, *map(str, wrong[1:])) if wrong else ()
    return TilesView(trace, launch, limits, findings=findings, focus=focus)


def _of_operators(
    function: Capturable, args: Sequence[object], keywords: Mapping[str, object], limits: Limits | None
) -> "TilesView":
    """Return the view of one kernel of a function of operators."""
    unknown = sorted(set(keywords) - {"kernel"})
    if unknown:
        raise TypeError(f"tiles() of a function of operators has no argument {unknown[0]!r}: give examples in order")
    chosen = ChosenKernel(captured(function, args, "tiles"), cast("int | None", keywords.get("kernel")))
    lowered = chosen.interpreted
    values, made_up = kernel_arguments(chosen, lowered)
    launch = Launch(lowered.program.name, lowered.program, values, (object,) * len(values), None)
    trace = record(launch, limits)
    if made_up:
        trace = replace(trace, left_out=(MADE_UP, *trace.left_out))
    return TilesView(trace, launch, limits, chosen.graph.selection)


def _grid(grid: object) -> Grid:
    if isinstance(grid, Grid):
        return grid
    parts = cast("tuple[object, ...]", grid) if isinstance(grid, tuple) else (grid,)
    return read_grid(*parts)


class TilesView(View[TilesModel]):
    """Tiles, the elements they touch, and a debugger that steps them; `trace` is all that was recorded."""

    kind = "tiles"

    def __init__(
        self, trace: Trace, launch: Launch, limits: Limits | None = None, group: str = "", *,
        findings: tuple[str, ...] = (), focus: Focus | None = None,
    ) -> None:  # fmt: skip
        super().__init__(replace(model_of(trace), findings=findings, focus=focus))
        self._group: Final = group
        self.trace: Final = trace
        self._launch: Final = launch
        self._limits: Final = limits
        self._traces: Final[dict[int, Trace]] = {}

    @property
    def title(self) -> str:
        """The kernel, and how many tiles its launch has."""
        return f"tiles of {self.data.kernel}"

    def text(self) -> str:
        """Return one line."""
        data = self.data
        arrays = ", ".join(f"{each.name} {each.dtype}{list(each.shape)}" for each in data.arrays)
        recorded = sum(tile.number >= 0 for tile in data.tiles)
        some = f", {recorded} recorded" if recorded < data.total else ""
        steps = counted(len(data.steps), "statement")
        return f"tiles of {data.kernel}: {counted(data.total, 'tile')}{some}, {steps}; {arrays}"

    def plain_html(self) -> str:
        """Return a table of tiles, with the slices of each array that they read and write."""
        data = self.data
        used = [n for n, _ in enumerate(data.arrays) if any(t.reads[n] or t.writes[n] for t in data.tiles)]
        rows = [["tile", "lanes", *(data.arrays[n].name for n in used)]]
        shown = [tile for tile in data.tiles if any(tile.reads) or any(tile.writes)]
        for tile in shown[:_PLAIN_ROWS]:
            lanes = f"{tile.lanes[0]} to {tile.lanes[1] - 1}" if data.kind != "trip" else "all"
            rows.append([tile.name, lanes, *(_uses(tile.reads[n], tile.writes[n]) for n in used)])
        if len(shown) > _PLAIN_ROWS:
            rows.append([f"and {len(shown) - _PLAIN_ROWS:,} more", *[""] * (len(used) + 1)])
        said = "".join(f"<div>{escape(each)}</div>" for each in data.left_out)
        wrong = "".join(f'<div style="color:#b42318"><b>{escape(each)}</b></div>' for each in data.findings)
        body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{escape(c)}</td>' for c in row) + "</tr>" for row in rows)
        head = f"<div><b>{escape(self.text())}</b></div>"
        return f'{head}{wrong}<table style="margin:4px 0;border-collapse:collapse">{body}</table>{said}'

    def payload(self) -> Json:
        """Return the model, and the group that all views of the kernel share."""
        return self._payload(self.data)

    def answer(self, message: Mapping[str, object], send: Send) -> None:
        """Send another tile (`{"type": "tile", "tile": 5}`), or all values of a variable.

        The latter is `{"type": "variable", "tile": 5, "step": 7, "name": "acc"}`, where `tile` is null for the trace
        that the view began with.  Raises ValueError for other messages, IndexError for what is not there.
        """
        if message.get("type") == "tile":
            number = int(cast("int", message["tile"]))
            send({"type": "tile", "data": self._payload(model_of(self._trace(number)))})
        elif message.get("type") == "variable":
            tile = message.get("tile")
            trace = self.trace if tile is None else self._trace(int(cast("int", tile)))
            step = trace.steps[int(cast("int", message["step"]))]
            for variable in step.variables:
                if variable.name == message["name"]:
                    found = variable_model(variable, values=True, most=_ASKED_VALUES)
                    send({"type": "variable", "variable": encode(found)})
                    return
            raise IndexError(f"the statement makes no {message['name']}")
        else:
            super().answer(message, send)

    def _trace(self, number: int) -> Trace:
        if number not in self._traces:
            self._traces[number] = record(self._launch, self._limits, number)
        return self._traces[number]

    def _payload(self, data: TilesModel) -> Json:
        source = self.trace.source
        fields = cast("Mapping[str, Json]", encode(data))
        group = self._group or group_of(data.kernel, source)
        return {"title": self.title, "text": self.text(), "group": group, **fields}


def _uses(reads: str, writes: str) -> str:
    if reads and reads == writes:
        return f"reads and writes {reads}"
    return "; ".join(f"{verb} {what}" for verb, what in (("reads", reads), ("writes", writes)) if what)
