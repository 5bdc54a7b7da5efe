"""A kernel as a card: its parameters, its options, what its last call compiled, its text."""

import ast
from dataclasses import dataclass
from html import escape
from typing import Final

from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.kernels.kernel import Kernel
from tessera.session.compiled import Compiled

_KIB: Final = 1024
_PRE: Final = "white-space:pre;overflow:auto;margin:4px 0;font-size:12px;line-height:1.4"
_CELL: Final = "padding:1px 14px 1px 0;border:none;text-align:left"


@dataclass(frozen=True, slots=True)
class KernelView:
    """The contents of a kernel's view.

    parameters: name, annotation as written ("" for none), and what the last call gave ("" before a call)
    remarks: options and the last call, in words
    """

    name: str
    where: str
    parameters: tuple[tuple[str, str, str], ...]
    remarks: tuple[str, ...]
    source: str


def kernel_view(kernel: Kernel) -> KernelView:
    """Return the card of `kernel`; the same kernel after the same calls gives the same card."""
    last = kernel.last_arguments
    given = [_given(argument) for argument in last.arguments] if last is not None else []
    arguments = kernel.source.function.args.args
    parameters = tuple(
        (argument.arg, _annotation(argument.annotation), given[i] if i < len(given) else "")
        for i, argument in enumerate(arguments)
    )
    source = kernel.source.source
    where = f"{source.label or source.name}, line {source.first_line}"
    return KernelView(kernel.source.name, where, parameters, tuple(_remarks(kernel)), source.text)


def kernel_text(kernel: Kernel) -> str:
    """Return one line: the kernel and its parameters as written."""
    view = kernel_view(kernel)
    inside = ", ".join(f"{name}: {written}" if written else name for name, written, _ in view.parameters)
    return f"kernel {view.name}({inside})"


def kernel_html(kernel: Kernel) -> str:
    """Return the card as HTML with inline styles, for notebooks trusted or not."""
    view = kernel_view(kernel)
    called = any(given for _, _, given in view.parameters)
    head = ["parameter", "declared", *(["last call"] if called else [])]
    rows = [[name, written or "(any)", *([given] if called else [])] for name, written, given in view.parameters]
    table = _row("th", head) + "".join(_row("td", row) for row in rows)
    remarks = "".join(f"<div>{escape(remark)}</div>" for remark in view.remarks)
    return (
        f"<div><b>kernel {escape(view.name)}</b> ({escape(view.where)})</div>"
        f'<table style="margin:4px 0">{table}</table>{remarks}'
        f'<details><summary>source</summary><pre style="{_PRE}"><code>{escape(view.source)}</code></pre></details>'
    )


def _annotation(node: ast.expr | None) -> str:
    if node is None:
        return ""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    # Both spellings show as Tessera's own.
    return f"mut {text[4:-1]}" if text.startswith("mut[") and text.endswith("]") else text


def _given(argument: Argument) -> str:
    if isinstance(argument, ArrayArgument):
        extents = ", ".join(map(str, argument.shape))
        return f"{argument.dtype.name}[{extents}]" + ("" if argument.contiguous else ", with strides")
    return argument.dtype.name


def _remarks(kernel: Kernel) -> list[str]:
    options, last = kernel.options, kernel.last
    found: list[str] = []
    if options.tile is not None:
        found.append(f"groups of {' x '.join(map(str, options.tile))} lanes")
    if options.shared is not None:
        found.append(f"at most {options.shared / _KIB:g} KiB of shared memory a group")
    if options.sanitize:
        found.append("interpreted, with the sanitizer")
    elif options.target is not None:
        found.append(f"for target {options.target}")
    if options.fast:
        found.append("fast: approximate functions and fused arithmetic on GPUs")
    if options.constants:
        found.append("with " + ", ".join(f"{name} = {value}" for name, value in options.constants.items()))
    if options.space is not None:
        found.append("tuned over " + ", ".join(f"{name} in {list(values)}" for name, values in options.space.items()))
    if last is not None:
        found.append(f"compiled for {last.target.name}{_resources(last)}")
    return found


def _resources(last: Compiled) -> str:
    """Return the figures of GPU code that decide; all of them are in `kernel.last.resources()`."""
    found = last.artifact.resources
    if found.registers is None:
        return ""
    spilled = f"{found.spill_bytes or 0} bytes spilled"
    return f": {found.registers} registers a lane, {spilled}, {found.shared_bytes:,} bytes of shared memory a group"


def _row(tag: str, texts: list[str]) -> str:
    cells = "".join(f'<{tag} style="{_CELL}">{escape(text)}</{tag}>' for text in texts)
    return f'<tr style="background-color:transparent">{cells}</tr>'
