"""Assembly as a listing: the instructions and their labels, each linked to its origins and its place in the code."""

import re
from collections.abc import Mapping
from typing import Final

from tessera.core.listing import NO_ADDRESS, Line, Listing
from tessera.lowering.cpu.assembly_rows import rows_of_code
from tessera.lowering.cpu.origin_table import OriginTable

_LOC: Final = re.compile(r"\s*\.loc\s+\d+\s+(\d+)\s+(\d+)")
_DEBUG_LABELS: Final = re.compile(r"\.L(tmp|func_begin|func_end|info_|line_|debug|sec_end)\w*:")


def listing_of_assembly(text: str, table: OriginTable, addresses: Mapping[int, int]) -> Listing:
    """List one module's assembly, without directives; `.loc` says where instructions come from.

    What was made for the whole kernel (its first and last instructions, who does which group) leads to where the kernel
    is defined, and stands for none of its operations, as in SASS.
    addresses: by the number of a row of the text, the offset of its instruction in the code
    """
    lines: list[Line] = []
    here = (0, 0)
    for row in rows_of_code(text):
        if row.kind == "instruction":
            line = table.line(row.text.expandtabs(8), *here)
            lines.append(Line(line.text, line.spans, line.ops, address=addresses.get(row.number, NO_ADDRESS)))
        elif row.kind == "label" and not _DEBUG_LABELS.match(row.text):
            lines.append(Line(row.text))
        elif (place := _LOC.match(row.text)) is not None:
            here = int(place[1]), int(place[2])
    return Listing("asm", "", tuple(lines))
