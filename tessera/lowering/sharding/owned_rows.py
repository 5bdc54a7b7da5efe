"""Number the rows of a table from the first one that a device owns: for gathers and sums by index over cut rows.

before: y = gather(w[1000@tp, 64], i)
after:  p = collective slice over tp (iota 4); y = gather(w[250, 64], i - 250 p): zeros for rows of others
        and a collective that chooses: bits of all devices are combined, of which one has any

An index outside of the table is 0 in a gather and dropped from a sum: so are the rows that others own, and indices
past the end of the table where the last shard is padded.
"""

from tessera.core.base.dtypes import i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.graph import Value
from tessera.lowering.sharding.padding import NO_ROW


def index_of_owned(builder: GraphBuilder, index: Value, place: Value, rows: int, end: int = 0) -> Value:
    """Return indices that count from the first row of a device.

    place: of the device along the axes that cut the rows, of which each device has so many; end: the first index that
    is no row, where devices have room for more; 0: they have none
    """
    first = apply("mul", Argument(1, i64), Literal(rows, i64))
    mine: Expr = apply("sub", Argument(0, i64), first)
    if end:
        inside = apply("cmp", Argument(0, i64), Literal(end, i64), predicate="lt")
        mine = apply("select", inside, mine, Literal(NO_ROW, i64))
    return builder.elementwise(mine, [builder.cast(index, i64), place])
