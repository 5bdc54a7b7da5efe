"""The fusion view: why operators are one kernel and why others are not, with what each decision costs."""

from collections.abc import Iterator
from html import escape
from typing import Final

from tessera.core.base.plurals import counted, short_bytes, short_count
from tessera.core.schedule.decisions import Cost
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.texts import largest
from tessera.viz.base.view import View
from tessera.viz.operators.captured import Capturable, captured
from tessera.viz.plans.fusion_model import AppliedRule, BoundaryCard, Forms, FusionModel, KernelCard, fusion_model

_MOST_KERNELS: Final = 8
"""Kernels in the text: those that move the most."""
_MOST_PAIRS: Final = 3
"""Pairs of kernels in the text: those that would save the most as one."""
_PRE: Final = "white-space:pre;overflow:auto;margin:2px 0 6px 16px;font-size:12px;line-height:1.4"


def fusion(f: Capturable, *arguments: object) -> "FusionView":
    """Show why the operators of a function are the kernels that they are: what was fused, what was not, at which cost.

    For each pair of neighbouring kernels it says why they are two, and what would make them one, where something
    would.  A derived kernel (a cascade) shows its algebra.  Below are the equal forms of the function that rewriting
    rejected, with their prices, rules and lines, and what further permissions would give.

    arguments: examples; without any, the last call is shown

    Raises:
        NothingToShow: `f` is no function of operators.
        NotCalledYet: there was no call, and there are no arguments.
    """
    return FusionView(fusion_model(captured(f, arguments, "fusion")))


class FusionView(View[FusionModel]):
    """The kernels of a captured function, and between them the reasons."""

    kind = "fusion"

    @property
    def title(self) -> str:
        """The function."""
        return f"fusion of {self.data.name}"

    def text(self) -> str:
        """Return what fusion saved, a line a kernel, and a line for each pair that is not one kernel.

        Of many kernels only those that move the most are told, and of many pairs those that would save the most.
        """
        return "\n".join(_told(self.data))

    def summary(self) -> str:
        """Return all of it in words: the text, then each kernel's equations and algebra."""
        parts = [self.text()]
        for kernel in self.data.kernels:
            rows = (f"  {row}" for row in (*(each.text for each in kernel.rows), *_algebra(kernel)))
            parts += ["", f"{_kernel(kernel)}: {kernel.words}", *rows]
        return "\n".join([*parts, "", *_forms(self.data.forms)])

    def plain_html(self) -> str:
        """Return the kernels with their equations, their algebra, and why they are not one."""
        parts = [f"<div><b>{escape(self.title)}</b></div><div>{escape(_saved(self.data))}</div>"]
        for kernel in self.data.kernels:
            parts += [
                f'<div style="margin:2px 0 2px 16px">{escape(_boundary(each))}</div>'
                for each in self.data.boundaries
                if each.consumer == kernel.number
            ]
            parts.append(f"<div><b>{escape(_kernel(kernel))}</b>: {escape(kernel.words)}</div>")
            rows = [*(row.text for row in kernel.rows), *_algebra(kernel)]
            parts.append(f'<pre style="{_PRE}">{escape(chr(10).join(rows))}</pre>')
        parts.append(f'<pre style="{_PRE}">{escape(chr(10).join(_forms(self.data.forms)))}</pre>')
        return "".join(parts)

    def payload(self) -> Json:
        """Return the model, with the texts that the page shows of numbers."""
        data = self.data
        return {
            "title": self.title, "group": data.group, "saved": _saved(data),
            "separate": encode(data.separate), "fused": encode(data.fused), "kernels": encode(data.kernels),
            "boundaries": encode(data.boundaries), "trials": encode(data.trials), "forms": encode(data.forms),
        }  # fmt: skip


def _told(data: FusionModel) -> Iterator[str]:
    yield f"fusion of {data.name}: {_saved(data)}"
    kernels = largest(data.kernels, [each.cost.bytes for each in data.kernels], _MOST_KERNELS)
    yield from (f"  {_kernel(each)}" for each in kernels)
    left = len(data.kernels) - len(kernels)
    if left > 0:
        yield f"  and {counted(left, 'kernel')} more"
    pairs = largest(data.boundaries, [each.saved for each in data.boundaries], _MOST_PAIRS)
    yield from (f"  {_boundary(each)}" for each in pairs)
    left = len(data.boundaries) - len(pairs)
    if left > 0:
        yield f"  and {counted(left, 'pair')} more"


def _saved(data: FusionModel) -> str:
    """Return the totals before and after."""
    before, after = data.separate, data.fused
    less = f", {before.bytes / after.bytes:.3g} x less" if after.bytes and before.bytes > after.bytes else ""
    return f"{_cost(before)}, one for each operator; {_cost(after)} as scheduled{less} through memory"


def _cost(cost: Cost) -> str:
    return f"{counted(cost.kernels, 'kernel')} with {short_bytes(cost.bytes)} and {short_count(cost.operations)}FLOP"


def _kernel(kernel: KernelCard) -> str:
    moved = f"{short_bytes(kernel.cost.bytes)}, {short_count(kernel.cost.operations)}FLOP"
    return f"kernel {kernel.number} {kernel.name} [{kernel.form}]: {moved}"


def _boundary(boundary: BoundaryCard) -> str:
    """Return a pair of kernels and why they are two, in one line."""
    detail = f" ({boundary.detail})" if boundary.detail else ""
    remedy = f"; remedy: {boundary.remedy}" if boundary.remedy else ""
    saved = f"; one kernel would move {short_bytes(boundary.saved)} less" if boundary.saved else ""
    arrays = ", ".join(boundary.arrays)
    return f"{boundary.producer} and {boundary.consumer} ({arrays}) are two: {boundary.words}{detail}{saved}{remedy}"


def _algebra(kernel: KernelCard) -> Iterator[str]:
    section = ""
    for row in kernel.algebra:
        if row.section != section:
            section = row.section
            yield f"{section}:"
        where = f"  (line {', '.join(map(str, row.lines))})" if row.lines else ""
        yield f"  {row.symbol} = {row.text}{where}"


def _forms(forms: Forms) -> Iterator[str]:
    """Yield the form that is scheduled, those that are not, and what permissions would give."""
    permitted = ", ".join(forms.permitted)
    yield f"forms, permitted: {permitted}; as written {_time(forms.written)} on the reference machine"
    for form in forms.forms:
        more = f"{_time(form.nanoseconds)}" if form.verdict == "chosen" else f"+{_time(form.more)}"
        yield f"  {form.verdict} {more}, {_cost(form.cost)}: {'; '.join(map(_rule, form.rules)) or 'as it is written'}"
    if forms.limit:
        yield f"  the search {forms.limit}"
    for each in forms.permissions:
        yield f"  algebra={each.name!r} would give {_time(each.nanoseconds)}, {_cost(each.cost)}"


def _rule(rule: AppliedRule) -> str:
    where = f", line {', '.join(map(str, rule.lines))}" if rule.lines else ""
    return f"{rule.name} [{rule.permission}]{where}"


def _time(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.2f} us"
