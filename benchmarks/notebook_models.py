"""Views of known sizes for `notebook.py`: made-up listings, launches, graphs and searches, in the views' own models.

Everything is the same in every process.  What the texts say does not matter, but their form does: lines are as long as
real ones, opcodes repeat, and one line of the source stands for lines of every level.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

import tessera
from support.profiles import MACHINE, profile_of, work
from tessera import autotune, dist, op, viz
from tessera.core.artifact import Artifact
from tessera.core.base.dtypes import bf16
from tessera.core.base.source import Span
from tessera.core.listing import Line, Listing
from tessera.core.record import OpRecord, ValueRecord
from tessera.core.stage import Stage
from tessera.core.targets import every_level
from tessera.graphs.function import GraphFunction
from tessera.graphs.tracer import Tracer
from tessera.performance.tile_timeline import predict_tiles
from tessera.profiling.results import Profile
from tessera.tuning.results import ILLEGAL, MEASURED, Trial, Tuning
from tessera.viz.base.view import View
from tessera.viz.graph.model import Edge, Graph, Node
from tessera.viz.graph.view import GraphView
from tessera.viz.ir.explorer_model import explorer_model
from tessera.viz.ir.explorer_view import Explorer
from tessera.viz.mesh.model import Mesh, sharded
from tessera.viz.tuning.view import Dashboard

IR_LINES: Final = 10_000
DIFF_LINES: Final = 5_000
LEVELS: Final = every_level()[1:]
"""The cell is one more."""
TILES: Final = 100_000
TRIALS: Final = 10_000
CHANGED: Final = 0.2
_STATEMENTS: Final = 20
_EDGES_PER_NODE: Final = 1.5
_NEAR: Final = 40
"""Operations back from which a made-up operation takes its operands at most."""
_OPCODES: Final = ("fadd", "fmul", "fsub", "fneg", "load", "store", "getelementptr", "icmp", "select", "zext", "shl")
_TYPES: Final = ("float", "<8 x float>", "<16 x i1>", "i64", "bfloat")
_SPACE: Final = {"BM": (16, 32, 64, 128, 256), "BN": (16, 32, 64, 128, 256), "BK": (16, 32, 64, 128),
                 "stages": (1, 2, 3, 4), "warps": (2, 4, 8, 16, 32), "order": (1, 2, 4, 8, 16)}  # fmt: skip


def small_artifact() -> Artifact:
    """Compile a kernel of `_STATEMENTS` lines for the CPU: the source that made-up listings refer to."""
    body = "".join(f"        y[i] = {number}.5 * x[i] + y[i]\n" for number in range(_STATEMENTS - 2))
    text = f"@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    i = tile.linear_id()\n    if i < n:\n{body}"
    x = np.ones(16, np.float32)
    return tessera.compile_source(text).k.compile(x, x.copy(), target="cpu").artifact


def made_up_lines(count: int, file: str, first: int, level: str = "llvm") -> tuple[Line, ...]:
    """Return `count` lines of about 120 characters, each of one operation and one of the lines from `first` on."""
    chosen = random.Random(level)
    lines: list[Line] = []
    for number in range(count):
        op = number * 2000 // count
        place = first + op % _STATEMENTS
        operands = [f"%{max(0, number - chosen.randint(1, _NEAR))}" for _ in range(2)]
        opcode, of = chosen.choice(_OPCODES), chosen.choice(_TYPES)
        align = chosen.choice((4, 16, 64))
        text = (
            f"    %{number} = {opcode} contract reassoc {of} {operands[0]}, {operands[1]}, align {align}, "
            f"!tbaa !{chosen.randint(2, 9)}, !dbg !{number + 10}, !noalias !{chosen.randint(2, 9)}"
        )
        lines.append(Line(text, (Span(file, place, 9, place, 33),), (op,)))
    return tuple(lines)


def large_explorer(lines: int = IR_LINES, levels: Sequence[str] = ("llvm",)) -> Explorer:
    """Return an explorer of levels with `lines` lines each, side by side."""
    artifact = small_artifact()
    first = artifact.span.line + 2
    listings = [Listing(level, "", made_up_lines(lines, artifact.source.name, first, level)) for level in levels]
    return Explorer(explorer_model(artifact, listings), tuple(levels))


def text_stages(changed: float = 0.0, *, renumbered: bool = False, lines: int = DIFF_LINES) -> tuple[Stage, Stage]:
    """Return two stages of LLVM IR: the second has a share of its lines changed, or all of its values renumbered."""
    before = made_up_lines(lines, "cell.py", 1)
    chosen = random.Random(1)
    after: list[Line] = []
    for number, line in enumerate(before):
        text = _renumbered(line.text) if renumbered else line.text
        if chosen.random() < changed:
            text = f"    %new{number} = call float @llvm.fma.f32(float %{number}, float %new, float 1.5)"
        after.append(replace(line, text=text))
    return Stage("llvm", "before", listing=Listing("llvm", "before", before)), Stage(
        "llvm", "after", listing=Listing("llvm", "after", tuple(after))
    )


def _renumbered(text: str) -> str:
    name, _, rest = text.strip().partition(" = ")
    return f"    {name}.i = {rest.replace(', %', '.i, %', 1)}"


def tile_stages(changed: float = 0.0, *, renumbered: bool = False, lines: int = DIFF_LINES) -> tuple[Stage, Stage]:
    """Return two stages of Tile IR, which are compared by the identities of their operations.

    renumbered: every operation has another identity in the second stage, as in another compilation
    """
    before = _records(lines, 0)
    after = list(_records(lines, lines if renumbered else 0))
    chosen = random.Random(2)
    for number, record in enumerate(after):
        if chosen.random() < changed:
            after[number] = replace(record, name="arith.subf", attributes={"fastmath": "contract"})
    return _stage("before", before), _stage("after", after)


def _records(count: int, offset: int) -> tuple[OpRecord, ...]:
    chosen = random.Random(3)
    found: list[OpRecord] = []
    for number in range(count):
        operands = tuple(f"{max(0, number - chosen.randint(1, _NEAR)) + offset}:0" for _ in range(2))
        name = f"arith.{chosen.choice(_OPCODES)}"
        place = Span("cell.py", 1 + number % _STATEMENTS, 9, 1 + number % _STATEMENTS, 33)
        result = ValueRecord(f"{number + offset}:0", "tile<64x32xf32>")
        found.append(
            OpRecord(str(number + offset), name, "", 0, operands, (result,), spans=(place,), numbers=(number,))
        )
    return tuple(found)


def _stage(name: str, records: Sequence[OpRecord]) -> Stage:
    lines = tuple(
        Line(
            f"    %{number} = {record.name} {', '.join('%' + value.partition(':')[0] for value in record.operands)} "
            f"{dict(record.attributes) or ''} : {record.results[0].type}",
            record.spans, record.numbers, record.id,
        )
        for number, record in enumerate(records)
    )  # fmt: skip
    return Stage("tile", name, listing=Listing("tile", name, lines, tuple(records)), known=tuple(records))


def large_graph(nodes: int) -> GraphView:
    """Return the view of a flat graph with 1.5 edges a node, from operations to later ones near them."""
    chosen = random.Random(nodes)
    ops = tuple(Node(f"n{number}", f"arith.{chosen.choice(_OPCODES)}", "tile<64x32xf32>") for number in range(nodes))
    edges: dict[Edge, None] = {}
    while len(edges) < round(_EDGES_PER_NODE * nodes):
        target = chosen.randrange(1, nodes)
        edges[Edge(f"n{max(0, target - chosen.randint(1, _NEAR))}", f"n{target}")] = None
    return viz.graph_view(Graph(ops, tuple(edges)), title=f"{nodes:,} operations")


def large_profile(tiles: int = TILES) -> Profile:
    """Return a launch of so many tiles on 132 multiprocessors: as predicted, slower and uneven."""
    machine = replace(MACHINE, units=132)
    predicted = predict_tiles(work(tiles), machine, per_unit=2)
    length = (predicted.end - predicted.start) * (1.0 + 0.2 * np.cos(np.arange(tiles)))
    start = predicted.start * 1.3
    phases = {"load": (length * 0.3).tolist(), "compute": (length * 0.5).tolist()}
    return profile_of(predicted.unit.tolist(), start.tolist(), (start + length).tolist(), phases, machine)


def large_dashboard(trials: int = TRIALS) -> Dashboard:
    """Return the dashboard of a search with so many trials of six parameters; one in twenty cannot be compiled."""
    chosen = random.Random(4)
    names = list(_SPACE)
    found: list[Trial] = []
    for number in range(trials):
        rest = number
        config: dict[str, int] = {}
        for name in names:
            rest, place = divmod(rest, len(_SPACE[name]))
            config[name] = _SPACE[name][place]
        seconds = 1e-3 * (1 + abs(config["BM"] - 128) / 64 + abs(config["stages"] - 3)) * chosen.lognormvariate(0, 0.1)
        if number % 20 == 19:
            found.append(Trial(config, ILLEGAL, error="too much shared memory", at=1.0 + number))
            continue
        times = (seconds, seconds * 1.01)
        code = f"{number:x}"
        found.append(Trial(config, MEASURED, times, code, predicted=seconds, flops=1e9, traffic=1e6, at=1.0 + number))
    return viz.dashboard(Tuning("gemm", "made up", tuple(found), complete=True, default=found[0].config))


SMALL: Final = """
@kernel
def product(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i in tile.range(m, step=BM):
        for j in tile.range(n, step=16):
            C[i:i+BM, j:j+16] = tile.dot(A[i:i+BM, :], B[:, j:j+16])
"""


def small_views() -> dict[str, View[Any]]:
    """Return every view of `tessera.viz` by the name of its function: of a short kernel, or of two operators."""
    kernel: tessera.Kernel = tessera.compile_source(SMALL).product.variant(BM=16)
    a, b, c = np.ones((40, 16), np.float32), np.ones((16, 24), np.float32), np.zeros((40, 24), np.float32)
    compiled, other = kernel.compile(a, b, c), kernel.variant(BM=8).compile(a, b, c)
    profile = tessera.profile(kernel)(a, b, c)
    mesh = Mesh.of({"data": 2, "model": 4})
    arrays = [sharded(mesh, (64, 64), axes, bf16, "W") for axes in (("data", "model"), (None, "model"))]
    search = autotune.search(kernel=kernel, params={"BM": [8, 16]}, args=(a, b, c))

    def attend(x: Any, y: Any) -> Any:  # noqa: ANN401 - arrays of any library
        return op.softmax(op.matmul(x, y))

    def product_pair(x: Tracer, w: Tracer, v: Tracer) -> object:
        return op.matmul(op.gelu(op.matmul(x, w)), v)

    layer: GraphFunction[..., object] = GraphFunction(product_pair, "layer")
    place = dist.Mesh(axes=["dp", "tp"], devices=range(8), shape=(2, 4))
    placed = (
        dist.tensor((64, 32), dist.Block("dp"), place), dist.tensor((32, 64), dist.Block((None, "tp")), place),
        dist.tensor((64, 32), dist.Block("tp"), place),
    )  # fmt: skip
    plans = dist.plan.search(dist.Transformer(layers=8, width=1024, heads=16, sequence=512, batch=64), 8)
    return {
        "explore": viz.explore(compiled), "diff": viz.diff(compiled, other), "film": viz.film(compiled),
        "dataflow": viz.dataflow(compiled), "graph_view": large_graph(30), "tiles": viz.tiles(kernel, a, b, c),
        "layout": viz.layout(kernel.compile(a, b, c, target="cuda:sm_90a")),
        "schedule": viz.schedule(kernel, a, b, c), "timeline": viz.timeline(profile),
        "heatmap": viz.heatmap(profile), "roofline": viz.roofline(profile), "explain": viz.explain(profile),
        "dashboard": viz.dashboard(search), "edit": viz.edit(kernel, a, b, c),
        "mesh_view": viz.mesh_view(arrays[0], to=arrays[1]), "workbench": viz.workbench(kernel, a, b, c),
        "fusion": viz.fusion(attend, a, b), "memory": viz.memory(attend, a, b),
        "devices": viz.devices(layer, *placed), "collectives": viz.collectives(layer, *placed),
        "parallel": viz.parallel(plans),
    }  # fmt: skip
