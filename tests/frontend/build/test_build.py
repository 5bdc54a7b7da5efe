"""From text to Programs: the documents' kernels against golden texts, and the rules one by one."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessera
from frontend.kernels import Options, array, build, scalar
from support.documents import KERNELS
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i32, i64, u8
from tessera.core.program.arguments import Argument
from tessera.core.program.expressions import Expression
from tessera.core.program.program import Program, Value
from tessera.core.program.text import to_text
from tessera.core.program.types import Extent, Scalar, Tile
from tessera.frontend.build.build import chosen_group

V, M = array(f32, 512), array(f32, 64, 64)

# The types each kernel of the documents is built for, with the options its decorator gives.
DOCUMENTS: dict[str, tuple[tuple[Argument, ...], Options]] = {
    "scale": ((V, V, scalar(f32)), {}),
    "group_sum": ((V, array(f32, 4)), {"group": (128,), "shared_limit": 8192}),
    "axpy_tiled": ((array(f16, 512), array(f16, 512), scalar(f16)), {"constants": {"BM": 128, "stages": 3}}),
    "saxpy": ((V, V, scalar(f32)), {}),
    "saxpy_launch": ((scalar(f32), V, V, V), {}),
    "gemm_tc": ((array(bf16, 256, 256), array(bf16, 256, 256), array(f32, 256, 256)), {"constants": {"BM": 64}}),
    "flash_attention": ((array(f16, 512, 64),) * 4, {}),
    "warp_reduce_sum": ((array(f32, 128), array(f32, 4)), {}),
    "pipeline": ((M, array(f32, 64, 32), array(f32, 64, 32)), {}),
    "coop_example": ((array(f32, 64),), {}),
    "fused_mlp": ((M, M, array(f32, 64), M, array(f32, 64), M), {}),
    "tp_axpy": ((array(f16, 512), array(f16, 512), scalar(f16)), {}),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_kernel_of_the_documents(name: str, golden: Callable[[str, str], None]):
    arguments, options = DOCUMENTS[name]
    golden(f"{name}.txt", to_text(build(KERNELS[name], *arguments, **options)))


def opcodes(program: Program) -> list[str]:
    return [op.opcode for op in program.body.walk()]


def shape(value: Value) -> tuple[Extent, ...]:
    assert not isinstance(value.type, Scalar)
    return value.type.shape


HEAD = "def k(x: f32[n], y: mut f32[n]):\n    i = tile.linear_id()\n"


def test_literals_take_the_dtype_of_what_they_meet():
    program = build(
        "def k(x: f64[n], y: mut f64[n]):\n    i = tile.linear_id()\n    y[i] = x[i] * 2 + 0.5\n",
        array(f64, 4),
        array(f64, 4),
    )
    constants = [op for op in program.body.walk() if op.opcode == "const"]
    assert [(op.attributes["value"], op.result.type) for op in constants] == [(2, Scalar(f64)), (0.5, Scalar(f64))]


def test_a_carried_literal_takes_the_dtype_that_the_loop_gives_it():
    text = (
        "def k(x: f64[n], y: mut f64[n]):\n    acc = 0.0\n    for j in range(n):\n        acc += x[j]\n    y[0] = acc\n"
    )
    loop = next(op for op in build(text, array(f64, 4), array(f64, 4)).body.walk() if op.opcode == "for")
    assert [r.type for r in loop.results] == [Scalar(f64)]


@pytest.mark.parametrize("dtype", [f16, bf16])
@pytest.mark.parametrize(
    "change",
    ["acc += x[j]", "acc = max(acc, x[j])", "acc = acc * x[j]", "acc = x[j]", "acc = tile.fma(x[j], x[j], acc)"],
)
@pytest.mark.parametrize("loop", ["for j in range(n):\n        ", "j = 0\n    while j < n:\n        j += 1\n        "])
def test_a_carried_literal_that_meets_short_floats_is_f32(dtype: DType, change: str, loop: str):
    for declared, expected in (("", f32), (f": {dtype}", dtype)):
        text = f"def k(x: {dtype}[n], y: mut f32[1]):\n    acc{declared} = 0.0\n    {loop}{change}\n    y[0] = acc\n"
        program = build(text, array(dtype, 4), array(f32, 1))
        carried = next(op for op in program.body.walk() if op.opcode in ("for", "while"))
        assert [r.type.dtype for r in carried.results if r.type.dtype.is_float] == [expected]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [(f16, f32, f32), (f16, bf16, f32), (i32, i64, i64), (u8, i32, i32), (i32, f16, f16), (boolean, i32, i32)],
)
def test_promotion(a: DType, b: DType, expected: DType):
    text = "def k(x, y, z):\n    i = tile.linear_id()\n    z[i] = tile.cast(x[i] + y[i], f32)\n"
    program = build(text, array(a, 4), array(b, 4), V)
    add = next(op for op in program.body.walk() if op.opcode == "add")
    assert add.result.type == Scalar(expected)


def test_constants_fold():
    assert opcodes(build(HEAD + "    y[i] = x[i] if 2 > 1 else x[i + 1]\n", V, V)) == ["id", "read", "write"]
    program = build(HEAD + "    y[2 * 3 - 5] = x[-1]\n", V, V)
    assert "write %y, %1, %" in to_text(program) or "write" in opcodes(program)
    assert any(op.opcode == "const" and op.attributes["value"] == -1 for op in program.body.walk())


def test_only_extents_of_tiles_are_fixed():
    program = build(
        "def k(x: f32[n, m], y: mut f32[n, m]):\n    for b in tile.range(x, axis=0, step=8):\n        y[b] = x[b] * 2.0\n",
        M,
        M,
    )
    assert [shape(p.value) for p in program.parameters] == [("n", 64), ("n", 64)]


def test_a_slice_has_the_length_its_ends_tell():
    text = "def k(x: f32[n], y: mut f32[n]):\n    for t in range(4):\n        y[t * 8 : (t + 1) * 8] = x[t * 8 + 1 : t * 8 + 9]\n"
    program = build(text, V, V)
    load = next(op for op in program.body.walk() if op.opcode == "load")
    assert load.result.type == Tile(f32, (8,))


@pytest.mark.parametrize("kind", [i64, i32, u8])
def test_a_slice_may_begin_at_an_integer_of_any_type(kind: DType):
    text = "def k(at: i32[m], x: f32[n], y: mut f32[n]):\n    c = at[0] * 4\n    y[c:c+8] = x[c+1:c+9]\n"
    program = build(text.replace("i32[m]", f"{kind}[m]"), array(kind, 4), V, V)
    load = next(op for op in program.body.walk() if op.opcode == "load")
    assert load.result.type == Tile(f32, (8,))


def test_broadcasting():
    text = "def k(x: f32[8, 4], y: mut f32[8, 4]):\n    m = tile.max(x, axis=1)\n    y[:] = x - m[:, None]\n"
    program = build(text, array(f32, 8, 4), array(f32, 8, 4))
    shapes = [shape(op.result) for op in program.body.walk() if op.opcode in ("reduce", "reshape", "broadcast")]
    assert shapes == [(8,), (8, 1), (8, 4)]


def test_early_return_becomes_the_other_branch():
    program = build(HEAD + "    if i >= n:\n        return\n    y[i] = x[i]\n", V, V)
    branch = next(op for op in program.body.walk() if op.opcode == "if")
    assert [op.opcode for op in branch.regions[0].ops] == ["yield"]
    assert [op.opcode for op in branch.regions[1].ops] == ["read", "write", "yield"]


def test_a_nested_return_skips_everything_that_follows():
    text = HEAD + "    if i > 2:\n        if i > 5:\n            return\n        y[i] = 1.0\n    y[i] = x[i]\n"
    outer = next(op for op in build(text, V, V).body.ops if op.opcode == "if")
    inner = next(op for op in outer.regions[0].ops if op.opcode == "if")
    assert [op.opcode for op in inner.regions[0].ops] == ["yield"]
    assert [op.opcode for op in inner.regions[1].ops].count("write") == 2


def test_break_and_continue():
    text = (
        HEAD
        + "    acc = 0.0\n    for j in range(n):\n        if x[j] < 0.0:\n            continue\n        if j > i:\n            break\n        acc += x[j]\n    y[i] = acc\n"
    )
    program = build(text, V, V)
    assert "while" in opcodes(program)
    assert "for" not in opcodes(program)


@pytest.mark.parametrize("second", ["for j in range(4):", "while i < n:", "if i < n:"])
@pytest.mark.parametrize("first", ["for j in range(4):", "while i < n:", "if i < n:"])
def test_a_name_may_be_set_anew_where_it_has_no_value(first: str, second: str):
    """What a loop or branch leaves without a value has none; another loop or branch may use the name again."""
    body = "        v = x[i]\n        y[i] = v\n        i += 1\n"
    nested = "        if y[i] > 0.0:\n            v = x[i] + 1.0\n            y[i] = v\n        i += 1\n"
    for inside in (body, nested):
        program = build(HEAD + f"    {first}\n{body}    {second}\n{inside}", V, V)
        assert opcodes(program).count("write") == 2


def test_a_loop_over_a_tuple_is_unrolled():
    program = build(HEAD + "    for o in (1, 2, 4):\n        y[i + o] = x[i]\n", V, V)
    assert opcodes(program).count("write") == 3


def test_downward_ranges_count_trips():
    program = build("def k(x: f32[n], y: mut f32[n]):\n    for j in range(10, 0, -3):\n        y[j] = x[j]\n", V, V)
    loop = next(op for op in program.body.walk() if op.opcode == "for")
    values = {op.result: op.attributes["value"] for op in program.body.walk() if op.opcode == "const"}
    assert [values[v] for v in loop.operands[:3]] == [0, 4, 1]


def test_functions_are_expanded_in_place():
    def twice(v: float, by: float = 2.0) -> float:
        scaled = v * by
        return scaled + 0.0

    program = build(HEAD + "    y[i] = twice(x[i])\n", V, V, namespace={"twice": twice})
    assert opcodes(program) == ["id", "read", "const", "mul", "const", "add", "write"]


def test_user_names_go_before_the_language():
    program = build(HEAD + "    y[i] = ceil_div(7)\n", V, V, namespace={"ceil_div": lambda_like})
    assert any(op.opcode == "const" and op.attributes["value"] == 14 for op in program.body.walk())


def lambda_like(v: int) -> int:
    return v * 2


def test_tuning_parameters_go_before_everything():
    text = "def k(x: f32[n], y: mut f32[n]):\n    for b in tile.range(x, step=BM):\n        y[b] = x[b]\n"
    loads = [build(text, V, V, constants={"BM": size}, namespace={"BM": 8}) for size in (16, 32)]
    shapes = [shape(next(op for op in p.body.walk() if op.opcode == "load").result) for p in loads]
    assert shapes == [(16,), (32,)]


def test_divided_extents_bind_the_whole():
    program = build(
        "def k(a: f32[K/tp], c: mut f32[n]):\n    i = tile.linear_id()\n    if i < K:\n        c[i] = a[i]\n",
        V,
        V,
        namespace={"tp": 4},
    )
    assert [(s.name, s.parameter, s.scale) for s in program.symbols] == [("K", 0, 4), ("K/tp", 0, 1), ("n", 1, 1)]


@pytest.mark.parametrize(
    ("text", "group", "domain"),
    [
        (HEAD + "    if i < n:\n        y[i] = x[i]\n", None, ("lanes", ("n",))),
        (HEAD + "    y[i] = x[i]\n", None, ("lanes", ("n",))),
        (
            "def k(x: f32[n], y: mut f32[m]):\n    i = launch.thread_id()\n    if i < m:\n        y[i] = x[0]\n",
            (128,),
            ("lanes", ("m",)),
        ),
        ("def k(x: f32[n], y: mut f32[m]):\n    y[group_linear_id()] = x[0]\n", (128,), ("groups", ("m",))),
        (
            "def k(x: f32[n], y: mut f32[m]):\n    i, j = launch.thread_id(0), launch.thread_id(1)\n    if i < m and j < n:\n        y[i] = x[j]\n",
            (8, 8),
            ("lanes", (("m",), ("n",))),
        ),
        ("def k(x: f32[n], y: mut f32[m]):\n    y[tile.group_id(1)] = x[tile.group_id(0)]\n", None, ("groups", ())),
        ("def k(x: f32[n], y: mut f32[m]):\n    y[group_linear_id() * 8] = x[0]\n", (128,), ("lanes", ())),
        ("def k(x: f32[n], y: mut f32[m]):\n    y[tile.linear_id(1) * 8] = x[0]\n", (8, 8), ("groups", (1,))),
        (
            "def k(x: f32[n], y: mut f32[m]):\n    for j in range(group_linear_id(), n, grid_group_count()):\n        y[0] += x[j]\n",
            (128,),
            ("groups", (1,)),
        ),
        ("def k(x: f32[n], y: mut f32[m]):\n    y[0] = x[0]\n", None, ("single", ())),
    ],
)
def test_launch_domains(
    text: str,
    group: tuple[int, ...] | None,
    domain: tuple[str, tuple[Expression | tuple[Expression, ...], ...]],
):
    program = build(text, V, array(f32, 4), group=group)
    assert (program.domain.kind, program.domain.axes or program.domain.extents) == domain


# What lanes are compared with, and how many there are.
BOUNDS = {
    "if t < h * w:": "h * w",
    "if t < h * w * 3:": "h * w * 3",
    "if t < 3 * (w * h):": "3 * (w * h)",
    "if t < x.shape[0] * x.shape[1]:": "h * w",
    "if t < (h - 2) * (w - 2):": "(h - 2) * (w - 2)",
    "if h * w > t:": "h * w",
    "if t <= h * w - 1:": "h * w",
    "if not t >= h * w:": "h * w",
    "if t < 2 * n:": "2 * n",
    "if t < n // 4:": "n // 4",
    "if t < ceil_div(n, 4):": "(n + 3) // 4",
    "if t < min(n, h):": "min(n, h)",
    "if t < n + 3:": "n + 3",
    "if t - 3 < n:": "n + 3",
    "if t + 3 < n:": "n",
    "if t < n - 1:": "n",
    "if 0 < t < n - 1:": "n",
    "if t < 100:": "100",
    "if t < n or t < h * w:": "n h * w",
}


@pytest.mark.parametrize("group", [None, (64,)])
@pytest.mark.parametrize("guard", BOUNDS)
def test_bounds_of_lanes(guard: str, group: tuple[int, ...] | None):
    head = "def k(x: f32[h, w], y: mut f32[n]):\n    t = launch.thread_id()\n"
    program = build(
        f"{head}    {guard}\n        y[t // 2] = x[t // w, t % w]\n", array(f32, 6, 500), array(f32, 40), group=group
    )
    assert f"  domain lanes {BOUNDS[guard]}\n" in to_text(program)
    assert program.group == group
    assert not program.chosen


AXES = {
    # body, tile[...]: what the program's text says of groups and domain
    "compared": ("    if i < h and j < w:\n        y[i, j] = x[i, j]\n", None, "group (1, 256)\n  domain lanes h x w"),
    "indexed": ("    y[i, j] = x[i, j]\n", None, "group (1, 256)\n  domain lanes h x w"),
    "early exit": ("    if i >= h or j >= w:\n        return\n    y[i, j] = x[i, j]\n", None, "group (1, 256)\n  domain lanes h x w"),
    "with an offset": ("    if i + 1 < h and j < w - 1:\n        y[i, j] = x[i, j]\n", None, "group (1, 256)\n  domain lanes h x w"),
    "products": ("    if i < h and j < 2 * w:\n        y[i, j // 2] = 1.0\n", None, "group (1, 256)\n  domain lanes h x 2 * w"),
    "given groups": ("    if i < h and j < w:\n        y[i, j] = x[i, j]\n", (16, 16), "group (16, 16)\n  domain lanes h x w"),
    "a row of groups": ("    if i < h and j < w:\n        y[i, j] = x[i, j]\n", (1, 64), "group (1, 64)\n  domain lanes h x w"),
    "one axis is not bounded": ("    y[i, 2 * j] = 1.0\n", (16, 16), "group (16, 16)\n  domain lanes h\n"),
    "by hand": (
        ("    a = tile.group_id(0) * 4 + tile.linear_id(0)\n    b = tile.group_id(1) * 8 + tile.linear_id(1)\n"
         "    if a < h and b < w:\n        y[a, b] = 1.0\n"), (4, 8), "group (4, 8)\n  domain lanes h x w",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", AXES)
def test_bounds_along_axes(case: str):
    body, group, wanted = AXES[case]
    head = "def k(x: f32[h, w], y: mut f32[h, w]):\n    i, j = launch.thread_id(0), launch.thread_id(1)\n"
    if case == "by hand":
        head = head.splitlines()[0] + "\n"
    program = build(head + body, array(f32, 300, 500), array(f32, 300, 500), group=group)
    assert wanted in to_text(program)
    assert program.chosen == (group is None)


@pytest.mark.parametrize(
    ("shape", "group", "axes"),
    [
        ((300, 500, 3), (1, 64, 3), (("h",), ("w",), (3,))),
        ((300, 10, 3), (4, 16, 3), (("h",), (10,), (3,))),
        ((2, 3, 500), (1, 1, 256), (("h",), ("w",), ("c",))),
        ((9, 9, 9), (1, 16, 9), (("h",), (9,), (9,))),
        ((300, 500, 1), (1, 256, 1), (("h",), ("w",), (1,))),
        ((300, 500, 0), (1, 1, 256), (("h",), ("w",), ("c",))),
    ],
)
def test_short_axes_share_a_group(
    shape: tuple[int, ...], group: tuple[int, ...], axes: tuple[tuple[Expression, ...], ...]
):
    text = (
        "def k(x: mut f32[h, w, c]):\n    i, j, k = launch.thread_id(0), launch.thread_id(1), launch.thread_id(2)\n"
        "    if i < h and j < w and k < c:\n        x[i, j, k] = 1.0\n"
    )
    program = build(text, array(f32, *shape))
    assert (program.group, program.domain.axes) == (group, axes)


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=3))
def test_chosen_groups_are_full_and_lie_along_the_last_axis(extents: list[int]):
    group, short = chosen_group(extents)
    assert len(group) == len(extents)
    assert 1 <= math.prod(group) <= 256
    assert all(extents[axis] < 32 for axis in short)
    if not 0 < extents[-1] < 32:
        assert group[-1] == 256
    elif all(not 0 < extent < 32 for extent in extents[:-1]) and len(extents) > 1:
        assert math.prod(group) > 128


def test_every_operation_points_into_the_text():
    text = KERNELS["group_sum"]
    program = build(text, V, array(f32, 4), group=(128,))
    lines = text.splitlines()
    for op in program.body.walk():
        assert 1 <= op.span.line <= len(lines)
        assert op.span.column <= len(lines[op.span.line - 1]) + 1
    multiply = next(op for op in program.body.walk() if op.opcode == "reduce")
    line = lines[multiply.span.line - 1]
    assert line[multiply.span.column - 1 : multiply.span.end_column - 1] == "reduce_sum(smem)"


def test_adding_a_dot_in_place_continues_its_sums():
    text = "def k(a: f32[16, 64], c: mut f32[16, 16]):\n    acc = tile.zeros((16, 16))\n    for k in range(0, 64, 16):\n        acc += tile.dot(a[:, k:k+16], a[:, k:k+16].T)\n    c[:] = acc\n"
    program = build(text, array(f32, 16, 64), array(f32, 16, 16))
    dot = next(op for op in program.body.walk() if op.opcode == "dot")
    assert len(dot.operands) == 3
    assert "add" not in opcodes(program)
    kept = build(text.replace("acc += ", "acc = acc * 1.0 + "), array(f32, 16, 64), array(f32, 16, 16))
    assert "add" in opcodes(kept)


@pytest.mark.parametrize(
    "choice", ["tile.where(x[i] > 3, 1, 0)", "(1 if x[i] > 3 else 0)", "-tile.where(x[i] > 3, 1, 0)"]
)
def test_what_is_chosen_from_literals_is_a_value(choice: str):
    """Were it still a literal, it would become a u8 where it meets one, and wrap there."""
    x, y = np.array([3, 250], np.uint8), np.zeros(2, np.int64)
    text = f"@kernel\ndef k(x: u8[n], y: mut i64[n]):\n    i = tile.linear_id()\n    y[i] = x[i] + {choice} * 10\n"
    tessera.compile_source(text).k(x, y)
    assert (y == [3, 240 if choice.startswith("-") else 260]).all()


def test_a_literal_that_a_branch_or_a_loop_hands_on_is_a_value():
    text = """
@kernel
def k(x: u8[n], y: mut i64[n], z: mut i64[n]):
    i = tile.linear_id()
    step = 10
    if x[i] > 3:
        step = 20
    y[i] = x[i] + step
    count = 0
    for turn in range(10):
        z[i] = x[i] + count
        count = count + 1
"""
    x, y, z = np.array([3, 250], np.uint8), np.zeros(2, np.int64), np.zeros(2, np.int64)
    tessera.compile_source(text).k(x, y, z)
    assert (y == [13, 270]).all()
    assert (z == [12, 259]).all()


@pytest.mark.parametrize("kind", ["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64"])
def test_every_bit_of_an_integer_is_inverted(kind: str):
    dtype = np.dtype(("uint" if kind[0] == "u" else "int") + kind[1:])
    x = np.array([0, 1, 77, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    text = f"@kernel\ndef k(x: {kind}[n], y: mut {kind}[n]):\n    i = tile.linear_id()\n    y[i] = ~x[i]\n"
    tiles = f"@kernel\ndef k(x: {kind}[n], y: mut {kind}[n]):\n    y[:] = ~x\n"
    for source in (text, tiles):
        y = np.zeros_like(x)
        tessera.compile_source(source).k(x, y)
        assert (y == ~x).all()
