"""Memory over time: which arrays are alive at which kernel, how many bytes they are, and the peak."""

from html import escape
from typing import Final

from tessera.core.base.plurals import counted, short_bytes
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.texts import largest
from tessera.viz.base.view import View
from tessera.viz.operators.captured import Capturable, captured
from tessera.viz.plans.memory_model import INTERMEDIATE, Lifetime, MemoryModel, memory_model

_MOST_TOLD: Final = 16
"""Kernels in the text: those at which the most is alive."""
_BARS: Final = 24
"""Characters of the widest bar of the text."""


def memory(f: Capturable, *arguments: object) -> "MemoryView":
    """Show the memory of a function of operators over time: which arrays are alive at which kernel, and the peak.

    An array is alive from the kernel that writes it to the last one that reads it; arguments from the start to the
    end, and results to the end, as they are the caller's.  On a GPU, what a launch takes by itself counts too: copies
    of arrays whose rows are not multiples of 16 bytes, and workspaces; the kernels are compiled for that.

    arguments: examples; without any, the last call is shown

    Raises:
        NothingToShow: `f` is no function of operators.
        NotCalledYet: there was no call, and there are no arguments.
    """
    return MemoryView(memory_model(captured(f, arguments, "memory")))


class MemoryView(View[MemoryModel]):
    """Bytes at each kernel, and the lifetimes of arrays."""

    kind = "memory"

    @property
    def title(self) -> str:
        """The function."""
        return f"memory of {self.data.name}"

    def text(self) -> str:
        """Return the peak, and a bar for each kernel; of many, for those at which the most is alive."""
        data = self.data
        widest = max(data.peak_bytes, 1)
        lines = [f"{self.title}: {_summary(data)}"]
        told = largest(list(enumerate(data.moments)), [each.total for each in data.moments], _MOST_TOLD)
        for number, moment in told:
            bar = "#" * max(1, round(_BARS * moment.total / widest))
            mark = " peak" if number == data.peak else ""
            if moment.launch:
                mark += f" ({short_bytes(moment.launch)} taken by the launch)"
            lines.append(f"  {moment.kernel:32.32} {short_bytes(moment.total):>8} {bar}{mark}")
        left = len(data.moments) - len(told)
        return "\n".join([*lines, *([f"  and {counted(left, 'kernel')} more"] if left > 0 else [])])

    def plain_html(self) -> str:
        """Return a table of the arrays with the kernels that they live at."""
        cell = '<td style="padding:1px 12px 1px 0;border:none;text-align:left">{}</td>'
        head = "".join(cell.format(f"<b>{name}</b>") for name in ("array", "type", "bytes", "what", "alive", "place"))
        rows = "".join(
            "<tr>{}</tr>".format("".join(cell.format(escape(text)) for text in _cells(each)))
            for each in self.data.arrays
        )
        bars = escape(self.text())
        return f'<pre style="white-space:pre;margin:0">{bars}</pre><table><tr>{head}</tr>{rows}</table>'

    def payload(self) -> Json:
        """Return the model, its peak, and the summary."""
        data = self.data
        return {
            "title": self.title, "group": data.group, "summary": _summary(data), "arrays": encode(data.arrays),
            "moments": encode(data.moments), "peak": data.peak, "most": data.peak_bytes, "unfused": data.unfused,
        }  # fmt: skip


def _summary(data: MemoryModel) -> str:
    between = [each for each in data.arrays if each.kind == INTERMEDIATE]
    where = f" at kernel {data.peak}" if len(data.moments) > 1 else ""
    told = f"{counted(len(between), 'intermediate')} of {short_bytes(sum(each.bytes for each in between))}"
    without = f"{short_bytes(data.unfused)} without fusion"
    arena = f" in an arena of {short_bytes(data.arena)}" if data.arena else ""
    taken = f", launches take up to {short_bytes(data.launch_bytes)}" if data.launch_bytes else ""
    return f"peak {short_bytes(data.peak_bytes)}{where} ({without}), {told}{arena}{taken}"


def _cells(each: Lifetime) -> tuple[str, ...]:
    made = "from the start" if each.made < 0 else f"from kernel {each.made}"
    place = "" if each.offset is None else f"at {each.offset:,} in the arena"
    return each.name, each.type, f"{each.bytes:,}", each.kind, f"{made} to kernel {each.last}", place
