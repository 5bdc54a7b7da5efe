"""The layout view: which lane, warp and register, or which bank, holds each element of a tile, with the formulas."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, cast

from tessera.core.errors.catalog import NothingToShow
from tessera.core.layouts import Layout, Swizzle
from tessera.core.targets import DEFAULT_ON_GPU
from tessera.kernels.kernel import Configured, Kernel
from tessera.session.compiled import Compiled
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.selection import group_of
from tessera.viz.base.subjects import launched, wrong
from tessera.viz.base.view import View
from tessera.viz.layouts.banks import SharedLayout
from tessera.viz.layouts.fragments import Fragment
from tessera.viz.layouts.model import (
    Grid,
    LayoutModel,
    compiled_model,
    fragment_model,
    instruction_model,
    named_accesses,
    register_grid,
    shared_grid,
)

_PLAIN_ROWS: Final = 16
_PLAIN_COLUMNS: Final = 8
_HINT: Final = 'give a kernel, "mma.sync.m16n8k16", or a Layout, SharedLayout or Swizzle of tessera.core.layouts'
Shown = Configured | Layout | Fragment | SharedLayout | Swizzle | Compiled | Kernel | str


def layout(
    x: Shown, *, operand: str | None = None, dtype: str | None = None,
    accesses: Mapping[str, Sequence[Sequence[int]]] | None = None, access_bytes: int = 4,
) -> "LayoutView":  # fmt: skip
    """Show where the elements of tiles lie: in lanes' registers, or in the banks of shared memory.

    x: a kernel or a compilation (all layouts that the compiler chose; a kernel not yet compiled for a GPU is compiled
        for one, which needs none); `"mma.sync.m16n8k16"` or `"wgmma.m64n128k16"` (`operand`: "A", "B" or "accumulator";
        `dtype`: of the factors); a `Fragment`, a `Layout`, a `SharedLayout`, or a `Swizzle`
    accesses: of a `SharedLayout`: by name, for each lane of a warp the indices where it accesses `access_bytes` bytes;
        None: rows, columns and what MMAs read

    Raises:
        NothingToShow: `x` is something else, a kernel has no tile in registers or in shared memory, there is no such
            instruction or operand, or accesses do not fit; with the reason.
    """
    try:
        return _shown(x, operand, dtype, accesses, access_bytes)
    except ValueError as reason:
        raise NothingToShow(str(reason)) from None


def _shown(
    x: Shown, operand: str | None, dtype: str | None, accesses: Mapping[str, Sequence[Sequence[int]]] | None,
    access_bytes: int,
) -> "LayoutView":  # fmt: skip
    if isinstance(x, Kernel | Configured):
        kernel = launched(x, "layout")[0]
        last = kernel.last
        x = last if last is not None and last.target.kind.on_gpu else kernel.compile(target=DEFAULT_ON_GPU)
    if isinstance(x, Compiled):
        return LayoutView(compiled_model(x), group_of(x.name, x.program.source))
    if isinstance(x, str):
        return LayoutView(instruction_model(x, operand, dtype))
    if isinstance(x, Fragment):
        return LayoutView(fragment_model([x], x.title))
    if isinstance(x, Layout):
        extents = " x ".join(map(str, x.shape))
        return LayoutView(LayoutModel(f"layout of {extents}", (register_grid(x, f"tile of {extents}: {x.text()}"),)))
    if isinstance(x, Swizzle):
        x = SharedLayout((32, 32), 4, x)
    if not isinstance(cast("object", x), SharedLayout):
        raise wrong("layout", "kernels, compilations, names of MMA instructions and layouts", x, _HINT)
    extents = " x ".join(map(str, x.shape))
    title = f"{extents} elements of {x.itemsize} B in shared memory{_swizzle(x)}"
    own = named_accesses(x, accesses, access_bytes) if accesses is not None else None
    return LayoutView(LayoutModel(title, (shared_grid(x, title, own),)))


def _swizzle(x: SharedLayout) -> str:
    if x.padding:
        return f", rows padded by {x.padding} B"
    if isinstance(x.swizzle, Swizzle):
        return ", swizzled"
    return f", swizzle {x.swizzle}{' B' if isinstance(x.swizzle, int) else ''}" if x.swizzle else ""


class LayoutView(View[LayoutModel]):
    """Grids of lanes, registers and banks; `group` links it with the other views of a kernel."""

    kind = "layout"

    def __init__(self, data: LayoutModel, group: str | None = None) -> None:
        super().__init__(data)
        self.group: Final = group

    @property
    def title(self) -> str:
        """Say which layouts are shown."""
        return self.data.title

    def text(self) -> str:
        """Return a line for each layout, with its formula and its bank conflicts."""
        lines = [self.title]
        for grid in self.data.grids:
            name = "" if grid.title == self.title else f"{grid.title}: "
            lines.append(f"  {name}{grid.forward}")
            lines += [f"    {access.text}" for access in grid.accesses]
        return "\n".join(lines)

    def plain_html(self) -> str:
        """Return the formulas, a corner of each grid, and the bank conflicts."""
        parts = [f"<div><b>{escape(self.title)}</b></div>"]
        parts += [_plain(grid) for grid in self.data.grids[:4]]
        if len(self.data.grids) > 4:
            parts.append(f"<div>and {len(self.data.grids) - 4} more layouts</div>")
        return "".join(parts)

    def payload(self) -> Json:
        """Return the model, and the group where there is one."""
        fields = cast("Mapping[str, Json]", encode(self.data))
        return {"text": self.text(), **({"group": self.group} if self.group is not None else {}), **fields}


def _plain(grid: Grid) -> str:
    said = "".join(f"<div>{escape(each)}</div>" for each in (grid.title, grid.forward, grid.backward, *grid.facts))
    rows = -(-len(grid.fields[0].values) // grid.columns)
    shown = range(min(rows, _PLAIN_ROWS))
    lines = [
        [_cell(grid, row * grid.columns + column) for column in range(min(grid.columns, _PLAIN_COLUMNS))]
        for row in shown
    ]
    width = max((len(cell) for line in lines for cell in line), default=0)
    body = "\n".join(" ".join(cell.rjust(width) for cell in line) for line in lines)
    legend = "lane:register" if grid.kind == "registers" else "bank"
    corner = f"<div>{legend} of the first {min(rows, _PLAIN_ROWS)} x {min(grid.columns, _PLAIN_COLUMNS)} elements</div>"
    accesses = "".join(f"<div>{escape(each.text)}</div>" for each in grid.accesses)
    return f"{said}{accesses}{corner}<pre>{body}</pre>"


def _cell(grid: Grid, at: int) -> str:
    """Return what one element is called; "" past the end of the last row."""
    if at >= len(grid.fields[0].values):
        return ""
    if grid.kind == "shared":
        return str(grid.fields[0].values[at])
    return f"{grid.fields[0].values[at]}:{grid.fields[1].values[at]}"
