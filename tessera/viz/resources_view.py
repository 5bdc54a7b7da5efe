"""The resources of a compiled kernel on its GPU, as tables: figures, limits of the occupancy, instructions by kind."""

from html import escape
from typing import Final

from tessera.core.resources import ResourceReport
from tessera.viz.table import Table, table_html

_BAR: Final = "display:inline-block;height:10px;background-color:#56b4e9"
_WIDEST: Final = 200


def resources_text(report: ResourceReport) -> str:
    """Return the report as aligned lines."""
    return str(report)


def resources_html(report: ResourceReport) -> str:
    """Return the report as HTML with inline styles, for notebooks trusted or not; phases one after the other."""
    return "".join(_one_html(one) for one in (report, *report.next_phases))


def _one_html(report: ResourceReport) -> str:
    parts = [table_html(Table(f"{report.kernel} for {report.target}", ("resource", "use"), report.figures))]
    parts += [table_html(table) for table in (limits_table(report), instructions_table(report)) if table is not None]
    if report.occupancy is not None:
        width = round(_WIDEST * report.occupancy.fraction)
        # The bar stands above the tables that explain it.
        parts.insert(1, f'<div>occupancy <span style="{_BAR};width:{width}px"></span> of {_frame()}</div>')
    parts += [f"<div>note: {escape(note)}</div>" for note in report.notes]
    return f"<div>{''.join(parts)}</div>"


def limits_table(report: ResourceReport) -> Table | None:
    """Return what each resource of a multiprocessor allows; the causes that decide are marked.  None: not known."""
    found = report.occupancy
    if found is None:
        return None
    rows = tuple(
        (
            limit.cause,
            f"{limit.used:,} of {limit.available:,} {limit.unit}",
            str(limit.blocks),
            "limits" if limit.cause in found.limited_by else "",
        )
        for limit in found.limits
    )
    return Table("blocks on a multiprocessor", ("as far as", "one block takes", "blocks", ""), rows)


def instructions_table(report: ResourceReport) -> Table | None:
    """Return the instructions of the machine code by kind; None where they are not known."""
    if not report.instructions:
        return None
    rows = tuple((kind.name, f"{kind.count:,}", kind.meaning) for kind in report.instructions)
    return Table(f"{report.total:,} instructions", ("instruction", "count", "what it does"), rows)


def _frame() -> str:
    return f'<span style="display:inline-block;width:{_WIDEST}px;height:10px;border:1px solid currentColor"></span>'
