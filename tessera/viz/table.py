"""A small table that shows as HTML in notebooks and as aligned text elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_CELL: Final = "padding:2px 10px 2px 0;border:none;text-align:left;vertical-align:top"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words under `headings`; `title` goes above.  The last column may be long."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        return table_text(self)

    def _repr_html_(self) -> str:
        return table_html(self)


def table_text(table: Table) -> str:
    """Return the table as lines of aligned columns."""
    lines = [table.headings, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.headings))]
    rows = (_line(cells, widths) for cells in lines)
    return "\n".join(filter(None, (table.title, *rows)))


def table_html(table: Table) -> str:
    """Return the table as HTML with inline styles."""
    head = _cells("th", table.headings)
    body = "".join(f"<tr>{_cells('td', row)}</tr>" for row in table.rows)
    title = f"<b>{escape(table.title)}</b>" if table.title else ""
    return f"<div>{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _cells(tag: str, texts: Sequence[str]) -> str:
    return "".join(f'<{tag} style="{_CELL}">{escape(text)}</{tag}>' for text in texts)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
