"""A hand-made compilation of saxpy: two passes at the tile level, then target, LLVM and assembly."""

from tessera.core.artifact import Artifact, Binding, LaunchRule, Resources, Slot
from tessera.core.base.dtypes import f32
from tessera.core.base.source import Source, Span
from tessera.core.compilation import Compilation
from tessera.core.events import PassRan
from tessera.core.listing import Line, Listing
from tessera.core.program.types import Array, Scalar
from tessera.core.targets import Target

CELL = "cell.py"
TEXT = """\
import numpy as np

@kernel
def saxpy(x: f32[n], y: mut f32[n], alpha: f32):
    i = tile.linear_id()
    if i < n:
        y[i] = alpha * x[i] + y[i]

x = np.ones(4)
"""

# text | columns as line:start-end,... | operations
TILE = """\
func.func @saxpy(%x: memref<?xf32>, %y: memref<?xf32>, %alpha: f32) { | 4:1-48 |
  %0 = tessera.id {of = "lane"} : i64 | 5:9-25 | 1
  %1 = tessera.dim {symbol = "n"} : i64 | 6:12-13 | 2
  %2 = arith.cmpi slt, %0, %1 : i64 | 6:8-13 | 3
  scf.if %2 { | 6:5-14 | 4
    %3 = tessera.read %x[%0] : f32 | 7:24-28 | 5
    %4 = arith.mulf %alpha, %3 : f32 | 7:16-28 | 6
    %5 = tessera.read %y[%0] : f32 | 7:31-35 | 7
    %6 = arith.addf %4, %5 : f32 | 7:16-35 | 8
    tessera.write %6, %y[%0] : f32 | 7:9-35 | 9
  } | |
  return | |
} | |
"""
SIMPLIFIED = TILE.replace("%0", "%lane").replace('  %1 = tessera.dim {symbol = "n"} : i64 | 6:12-13 | 2\n', "")
MASKED = SIMPLIFIED.replace("tessera.read %x[%lane] : f32", "tessera.read %x[%lane] {in_bounds} : f32").replace(
    "  return | |", "  tessera.fence | | 12\n  return | |"
)
TARGET = """\
func.func @saxpy(%slots: memref<?xi64>) { | 4:1-48 |
  %c32 = arith.constant 32 : index | |
  %m = vector.create_mask %n : vector<32xi1> | 6:8-13 | 3
  %a = vector.maskedload %x[%i], %m, %z : vector<32xf32> | 7:24-28 | 5
  %b = vector.fma %a, %alpha, %y : vector<32xf32> | 7:16-28,7:16-35 | 6,8
  vector.maskedstore %y[%i], %m, %b : vector<32xf32> | 7:9-35 | 9
} | |
"""
ASM = """\
saxpy: | |
\tvmovups\t(%rdi,%rax,4), %zmm0{%k1}{z} | 7:24-28 | 5
\tvfmadd213ps\t(%rsi,%rax,4), %zmm1, %zmm0 | 7:16-35 |
\tvmovups\t%zmm0, (%rsi,%rax,4){%k1} | 7:9-35 | 9
\tretq | |
"""


def listing(level: str, stage: str, table: str) -> Listing:
    """Read a listing from rows of `text | places | operations`."""
    lines: list[Line] = []
    for row in table.splitlines():
        text, places, ops = row.rsplit("|", 2)
        spans: list[Span] = []
        for place in filter(None, places.strip().split(",")):
            line, columns = place.split(":")
            start, stop = columns.split("-")
            spans.append(Span(CELL, int(line), int(start), int(line), int(stop)))
        lines.append(Line(text[:-1], tuple(spans), tuple(int(op) for op in filter(None, ops.strip().split(",")))))
    return Listing(level, stage, tuple(lines))


def saxpy_artifact() -> Artifact:
    """Saxpy, as if compiled for the CPU."""
    vector = Array(f32, ("n",))
    place = Span(CELL, 4, 11, 4, 20)
    return Artifact(
        key="0" * 64,
        name="saxpy",
        target=Target("cpu", "znver5"),
        code=b"",
        entry="saxpy",
        bindings=(
            Binding("x", vector, False, place),
            Binding("y", vector, True, place),
            Binding("alpha", Scalar(f32), False, place),
        ),
        symbols=(("n", 0, 0, 1),),
        slots=(Slot("pointer"),),
        launch=LaunchRule("lanes", extents=("n",), lanes_per_group=1024),
        resources=Resources(),
        bounded=True,
        source=Source(CELL, TEXT, 1, "Cell In[3]"),
        span=Span(CELL, 4, 1, 7, 35),
    )


def saxpy_compilation() -> Compilation:
    """Saxpy with listings of four levels, three of them at the tile level."""
    return Compilation(
        saxpy_artifact(),
        (
            listing("tile", "build", TILE),
            listing("tile", "tile-simplify", SIMPLIFIED),
            listing("tile", "tile-mask-edges", MASKED),
            listing("tile", "", MASKED),
            listing("target", "", TARGET),
            listing("asm", "", ASM),
        ),
        (
            PassRan("scale", "cpu", "tile", "tile-simplify", 0.001, True),
            PassRan("scale", "cpu", "tile", "tile-mask-edges", 0.002, True),
        ),
    )
