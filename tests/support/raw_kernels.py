"""Artifacts written by hand, of PTX: for what the runtime offers whether or not the compiler uses it yet."""

from tessera.core.artifact import Artifact, Binding, LaunchRule, Resources, Slot, TensorMap
from tessera.core.base.dtypes import f32, i64
from tessera.core.base.source import Source, Span
from tessera.core.program.types import Array, Scalar
from tessera.core.targets import Target

SOURCE = Source("raw.py", "def raw(x, y): ...")
SPAN = Span("raw.py", 1, 5, 1, 8)
_HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"

# Copies the window of BOX elements whose first element is (rows of the box) * block into `out`, through shared memory.
_WINDOW = """
.visible .entry window(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 x) .reqntid 32
{
  .reg .b64 %map, %out, %state;
  .reg .b32 %t, %tile, %bar, %row, %off, %v, %zero;
  .reg .pred %p, %q;
  .shared .align 1024 .b8 tile[4096];
  .shared .align 8 .b64 bar;
  mov.b64 %map, window_param_map;
  mov.u32 %t, %tid.x;
  mov.u32 %tile, tile;
  mov.u32 %bar, bar;
  mov.u32 %zero, 0;
  mov.u32 %row, %ctaid.x;
  mul.lo.u32 %row, %row, 16;
  setp.ne.u32 %p, %t, 0;
  @%p bra READY;
  mbarrier.init.shared.b64 [%bar], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 %state, [%bar], 4096;
  cvta.param.u64 %map, %map;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%map, {%zero, %row}], [%bar];
READY:
  bar.sync 0;
WAIT:
  mbarrier.try_wait.parity.shared.b64 %q, [%bar], 0;
  @!%q bra WAIT;
  ld.param.u64 %out, [window_param_out];
  mul.wide.u32 %state, %row, 256;
  add.u64 %out, %out, %state;
  mul.lo.u32 %off, %t, 4;
LOOP:
  add.u32 %v, %tile, %off;
  ld.shared.b32 %v, [%v];
  cvt.u64.u32 %state, %off;
  add.u64 %state, %out, %state;
  st.global.b32 [%state], %v;
  add.u32 %off, %off, 128;
  setp.lt.u32 %p, %off, 4096;
  @%p bra LOOP;
  ret;
}
""".replace("window_param_", "")
# Adds 1 to out[group] for each group of a persistent launch: `groups` of them, in blocks that stride by their number.
_STRIDE = """
.visible .entry stride(.param .u64 out, .param .u64 groups) .reqntid 32
{
  .reg .b64 %out, %at, %n, %g, %step;
  .reg .b32 %t, %v;
  .reg .pred %p;
  ld.param.u64 %out, [out];
  ld.param.u64 %n, [groups];
  mov.u32 %t, %tid.x;
  setp.ne.u32 %p, %t, 0;
  @%p ret;
  mov.u32 %t, %ctaid.x;
  cvt.u64.u32 %g, %t;
  mov.u32 %t, %nctaid.x;
  cvt.u64.u32 %step, %t;
LOOP:
  setp.ge.u64 %p, %g, %n;
  @%p ret;
  shl.b64 %at, %g, 2;
  add.u64 %at, %out, %at;
  red.global.add.f32 [%at], 0f3F800000;
  add.u64 %g, %g, %step;
  bra LOOP;
}
"""
# out[block] = number of its cluster's blocks.
_CLUSTER = """
.visible .entry cluster(.param .u64 out) .reqntid 32
{
  .reg .b64 %out, %at;
  .reg .b32 %t;
  .reg .f32 %f;
  ld.param.u64 %out, [out];
  mov.u32 %t, %ctaid.x;
  mul.wide.u32 %at, %t, 4;
  add.u64 %out, %out, %at;
  mov.u32 %t, %cluster_nctaid.x;
  cvt.rn.f32.u32 %f, %t;
  st.global.f32 [%out], %f;
  ret;
}
"""
_FAULT = """
.visible .entry fault(.param .u64 out) .reqntid 32
{
  .reg .b64 %out;
  mov.u64 %out, 64;
  st.global.u32 [%out], 1;
  ret;
}
"""
_SPIN = """
.visible .entry spin(.param .u64 out, .param .u64 cycles) .reqntid 32
{
  .reg .b64 %begin, %now, %n;
  .reg .pred %p;
  ld.param.u64 %n, [cycles];
  mov.u64 %begin, %clock64;
LOOP:
  mov.u64 %now, %clock64;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %p, %now, %n;
  @%p bra LOOP;
  ret;
}
"""
_NULL = ".visible .entry null(.param .u64 out) .reqntid 32\n{\n  ret;\n}\n"


def _artifact(
    name: str,
    text: str,
    bindings: tuple[Binding, ...],
    symbols: tuple[tuple[str, int, int, int], ...],
    slots: tuple[Slot, ...],
    launch: LaunchRule,
) -> Artifact:
    code = (_HEAD + text).encode() + b"\0"
    target = Target("cuda", "sm_90a")
    return Artifact(
        name, name, target, code, name, bindings, symbols, slots, launch, Resources(), bounded=False, source=SOURCE, span=SPAN
    )  # fmt: skip


def _array(name: str, *shape: int | str, mutable: bool = True) -> Binding:
    return Binding(name, Array(f32, shape), mutable, SPAN)


def window(box: tuple[int, int] = (16, 64), *, padded_rows: bool = False) -> Artifact:
    """x: f32[m, k] into out: f32[r, 64], 16 rows a block, zeros where x ends; `padded_rows`: x by way of a copy."""
    slots = (
        Slot("tensor_map", 0, tensor_map=TensorMap(box, padded_rows=padded_rows)),
        Slot("pointer", 1),
        Slot("pointer", 0),
    )
    rule = LaunchRule("groups", group=(32,), lanes_per_group=32, count=("r16",))
    bindings = (_array("x", "m", "k", mutable=False), _array("out", "r16", 16, 64))
    return _artifact("window", _WINDOW, bindings, (("r16", 1, 0, 1),), slots, rule)


def stride(persistent: bool = True) -> Artifact:
    slots = (Slot("pointer", 0), Slot("symbol", symbol="n"))
    rule = LaunchRule("groups", group=(32,), lanes_per_group=32, count=("n",), persistent=persistent)
    return _artifact("stride", _STRIDE, (_array("out", "n"),), (("n", 0, 0, 1),), slots, rule)


def cluster(size: int) -> Artifact:
    rule = LaunchRule("groups", group=(32,), lanes_per_group=32, count=("n",), cluster=size)
    return _artifact("cluster", _CLUSTER, (_array("out", "n"),), (("n", 0, 0, 1),), (Slot("pointer", 0),), rule)


def fault() -> Artifact:
    return _artifact(
        "fault",
        _FAULT,
        (_array("out", "n"),),
        (("n", 0, 0, 1),),
        (Slot("pointer", 0),),
        LaunchRule("single", lanes_per_group=32),
    )


def spin() -> Artifact:
    """Keeps one multiprocessor busy for `cycles`."""
    bindings = (_array("out", "n"), Binding("cycles", Scalar(i64), False, SPAN))
    slots = (Slot("pointer", 0), Slot("scalar", 1))
    return _artifact("spin", _SPIN, bindings, (("n", 0, 0, 1),), slots, LaunchRule("single", lanes_per_group=32))


def null() -> Artifact:
    rule = LaunchRule("single", lanes_per_group=32)
    return _artifact("null", _NULL, (_array("out", "n"),), (("n", 0, 0, 1),), (Slot("pointer", 0),), rule)


def profiled() -> Artifact:
    """A kernel with a slot for profile records."""
    slots = (Slot("pointer", 0), Slot("profile"))
    text = ".visible .entry profiled(.param .u64 out, .param .u64 records) .reqntid 32\n{\n  ret;\n}\n"
    rule = LaunchRule("single", lanes_per_group=32)
    return _artifact("profiled", text, (_array("out", "n"),), (("n", 0, 0, 1),), slots, rule)
