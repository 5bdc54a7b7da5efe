"""PTX instructions that have no operation of their own: one function each.

Addresses of shared memory are i32 values; barriers are `mbarrier` objects of 8 bytes there.  The instructions are
described in the PTX ISA, chapters 9.7.13 (mbarrier), 9.7.9.27 (cp.async.bulk.tensor) and 9.7.15 (wgmma).
"""

from collections.abc import Sequence
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.inline_ptx import inline_ptx

_SUSPEND: Final = 10_000_000  # nanoseconds a waiting lane may sleep before it looks again


# -- barriers ----------------------------------------------------------------------------------------------------


def barrier_init(build: IndexBuilder, barrier: ir.Value, arrivals: int) -> None:
    """Make a barrier that completes a phase after `arrivals` arrivals."""
    inline_ptx(build, f"mbarrier.init.shared::cta.b64 [$0], {arrivals};", "r", [barrier])


def fence_barrier_init(build: IndexBuilder) -> None:
    """Make initialised barriers visible to the copy engine and the cluster."""
    inline_ptx(build, "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;", "")


def barrier_expect(build: IndexBuilder, barrier: ir.Value, size: int) -> None:
    """Arrive, and let the phase also wait for `size` bytes of bulk copies."""
    inline_ptx(build, f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {size};", "r", [barrier])


def barrier_arrive(build: IndexBuilder, barrier: ir.Value) -> None:
    """Arrive once."""
    inline_ptx(build, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r", [barrier])


def barrier_wait(build: IndexBuilder, barrier: ir.Value, parity: ir.Value) -> None:
    """Wait until the phase of this parity (i32, 0 or 1) is complete."""
    text = (
        "{ .reg .pred done; again_${:uid}: "
        f"mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1, {_SUSPEND}; "
        "@done bra ready_${:uid}; bra again_${:uid}; ready_${:uid}: }"
    )
    inline_ptx(build, text, "r,r", [barrier, parity])


def barrier_test(build: IndexBuilder, barrier: ir.Value, parity: ir.Value) -> ir.Value:
    """Return 1 (an i32) where the phase of this parity (i32, 0 or 1) is complete, else 0."""
    text = "{ .reg .pred done; mbarrier.test_wait.parity.shared::cta.b64 done, [$1], $2; selp.u32 $0, 1, 0, done; }"
    return inline_ptx(build, text, "=r,r,r", [barrier, parity], ["i32"])[0]


def cluster_wait(build: IndexBuilder) -> None:
    """Wait for all lanes of all blocks of the cluster."""
    inline_ptx(build, "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;", "")


def cluster_rank(build: IndexBuilder) -> ir.Value:
    """Return the number of this block in its cluster, an i32."""
    return inline_ptx(build, "mov.u32 $0, %cluster_ctarank;", "=r", (), ["i32"])[0]


def barrier_arrive_at(build: IndexBuilder, barrier: ir.Value, rank: ir.Value) -> None:
    """Arrive once at the same barrier of block `rank` (i32) of the cluster.

    Only the tensor cores have read before, and they have been waited for: a release at cluster scope would cost a fence
    of the whole memory in every iteration.
    """
    text = (
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; mbarrier.arrive.shared::cluster.b64 _, [there]; }"
    )
    inline_ptx(build, text, "r,r", [barrier, rank])


def named_barrier(build: IndexBuilder, number: Index, lanes: int) -> None:
    """Wait for `lanes` lanes at hardware barrier `number` (0 to 15; an i32, or known)."""
    if isinstance(number, int):
        inline_ptx(build, f"bar.sync {number}, {lanes};", "")
    else:
        inline_ptx(build, f"bar.sync $0, {lanes};", "r", [number])


def named_barrier_arrive(build: IndexBuilder, number: int, lanes: int) -> None:
    """Arrive at hardware barrier `number` without waiting."""
    inline_ptx(build, f"bar.arrive {number}, {lanes};", "")


def wait_for_kernels_before(build: IndexBuilder) -> None:
    """Wait until the kernels before this one on its stream have ended and their writes are visible."""
    inline_ptx(build, "griddepcontrol.wait;", "")


def let_next_kernel_begin(build: IndexBuilder) -> None:
    """Allow the next kernel on the stream to start its blocks once all blocks of this one have come here."""
    inline_ptx(build, "griddepcontrol.launch_dependents;", "")


# -- bulk copies -------------------------------------------------------------------------------------------------


def tensor_load(
    build: IndexBuilder,
    target: ir.Value,
    tensor_map: ir.Value,
    coordinates: Sequence[ir.Value],
    barrier: ir.Value,
    cluster: int = 1,
) -> None:
    """Start a copy of a box of an array into shared memory; `coordinates` are i32, innermost axis first.

    All blocks of a `cluster` receive it at the same address, and their barriers count its bytes.
    """
    rank = len(coordinates)
    places = ", ".join(f"${2 + number}" for number in range(rank))
    many, mask = (".multicast::cluster", f", {(1 << cluster) - 1}") if cluster > 1 else ("", "")
    text = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{many} "
        f"[$0], [$1, {{{places}}}], [${2 + rank}]{mask};"
    )
    inline_ptx(build, text, ",".join(["r", "l", *["r"] * rank, "r"]), [target, tensor_map, *coordinates, barrier])


def tensor_prefetch(build: IndexBuilder, tensor_map: ir.Value, coordinates: Sequence[ir.Value]) -> None:
    """Let the copy engine bring a box of an array into the L2 cache; `coordinates` are i32, innermost axis first."""
    rank = len(coordinates)
    places = ", ".join(f"${1 + number}" for number in range(rank))
    text = f"cp.async.bulk.prefetch.tensor.{rank}d.L2.global [$0, {{{places}}}];"
    inline_ptx(build, text, ",".join(["l", *["r"] * rank]), [tensor_map, *coordinates])


def tensor_map_prefetch(build: IndexBuilder, tensor_map: ir.Value) -> None:
    """Let the copy engine fetch a tensor map before the first copy needs it."""
    inline_ptx(build, "prefetch.tensormap [$0];", "l", [tensor_map])


def tensor_store(build: IndexBuilder, tensor_map: ir.Value, coordinates: Sequence[ir.Value], source: ir.Value) -> None:
    """Start a copy of a box out of shared memory into an array; what lies outside it is not written."""
    rank = len(coordinates)
    places = ", ".join(f"${1 + number}" for number in range(rank))
    text = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [$0, {{{places}}}], [${1 + rank}];"
    inline_ptx(build, text, ",".join(["l", *["r"] * rank, "r"]), [tensor_map, *coordinates, source])


def bulk_commit(build: IndexBuilder) -> None:
    """End a group of stores."""
    inline_ptx(build, "cp.async.bulk.commit_group;", "")


def bulk_wait_read(build: IndexBuilder, pending: int) -> None:
    """Wait until all but the last `pending` groups of stores have read their shared memory."""
    inline_ptx(build, f"cp.async.bulk.wait_group.read {pending};", "")


def bulk_wait(build: IndexBuilder, pending: int) -> None:
    """Wait until what all but the last `pending` groups of this lane's stores have written is in the array."""
    inline_ptx(build, f"cp.async.bulk.wait_group {pending};", "")


def fence_async_global(build: IndexBuilder) -> None:
    """Let what this lane stored in arrays come before what the copy engine stores there later."""
    inline_ptx(build, "fence.proxy.async.global;", "")


def fence_async_shared(build: IndexBuilder) -> None:
    """Let what this lane stored in shared memory be seen by the copy engine and the tensor cores."""
    inline_ptx(build, "fence.proxy.async.shared::cta;", "")


def set_registers(build: IndexBuilder, count: int, *, more: bool) -> None:
    """Give a warp group `count` registers a lane."""
    inline_ptx(build, f"setmaxnreg.{'inc' if more else 'dec'}.sync.aligned.u32 {count};", "")


def rounded_pair(build: IndexBuilder, values: Sequence[ir.Value], element: str) -> ir.Value:
    """Convert two f32 to a pair of 16-bit floats, to nearest even; the first is in the lower half of an i32."""
    low, high = values
    return inline_ptx(build, f"cvt.rn.{element}x2.f32 $0, $1, $2;", "=r,f,f", [high, low], ["i32"])[0]


# -- warp group MMAs ---------------------------------------------------------------------------------------------


def wgmma_fence(build: IndexBuilder) -> None:
    """Let the tensor cores see the registers written so far."""
    inline_ptx(build, "wgmma.fence.sync.aligned;", "")


def pinned(build: IndexBuilder, values: Sequence[ir.Value]) -> list[ir.Value]:
    """Pin f32 or i32 values in front of the PTX that is emitted next: they are computed before it."""
    kinds = [str(value.type) for value in values]
    outputs = ["=f" if kind == "f32" else "=r" for kind in kinds]
    constraints = ",".join([*outputs, *(str(number) for number in range(len(values)))])
    return inline_ptx(build, "", constraints, values, kinds)


def hidden(build: IndexBuilder, word: ir.Value) -> ir.Value:
    """Hide an i32 from the optimizers: what is made of it is computed here, not far above."""
    return inline_ptx(build, "mov.b32 $0, $1;", "=r,r", [word], ["i32"])[0]


def kept(build: IndexBuilder, word: ir.Value) -> ir.Value:
    """Keep what is computed of an i32 from moving up, where it would take registers earlier."""
    return inline_ptx(build, "", "=r,0", [word], ["i32"])[0]


def hidden_zero(build: IndexBuilder) -> ir.Value:
    """Return an i32 that is always 0 and that no optimizer knows to be: grids have one block along z."""
    return inline_ptx(
        build, "{ .reg .b32 blocks; mov.u32 blocks, %nctaid.z; add.s32 $0, blocks, -1; }", "=r", (), ["i32"]
    )[0]


def wgmma_commit(build: IndexBuilder) -> None:
    """End a group of MMAs."""
    inline_ptx(build, "wgmma.commit_group.sync.aligned;", "")


def wgmma_wait(
    build: IndexBuilder, pending: int, values: Sequence[ir.Value] = (), after: Sequence[ir.Value] = ()
) -> list[ir.Value]:
    """Wait until all but the last `pending` groups are done; return `values`, which nothing may use before.

    after: values that are computed first, so that the wait does not move up in front of the work that hides it
    """
    text = f"wgmma.wait_group.sync.aligned {pending};"
    if not values:
        inline_ptx(build, text, "")
        return []
    kinds = [str(value.type) for value in values]
    outputs = ["=f" if kind == "f32" else "=r" for kind in kinds]
    late = ["f" if str(value.type) == "f32" else "r" for value in after]
    constraints = ",".join([*outputs, *(str(number) for number in range(len(values))), *late])
    return inline_ptx(build, text, constraints, [*values, *after], kinds)


def wgmma(
    build: IndexBuilder, shape: tuple[int, int, int], element: str, accumulators: Sequence[ir.Value] | None,
    steps: Sequence[tuple[Sequence[ir.Value], ir.Value]], *, transposed: tuple[bool, bool],
    unless: ir.Value | None = None,
) -> list[ir.Value]:  # fmt: skip
    """Compute `d = a b` or `d += a b` for 64 x n elements with f32 accumulators, k at a time; return d.

    accumulators: the registers of d; None: `d = a b`
    steps: a pair (a, b) for each k: a is one i64 descriptor, or four i32 registers; b an i64 descriptor
    transposed: whether a and b lie with their outer axis contiguous (16-bit elements only)
    unless: an i32, for `d = a b` in the registers of the accumulators; they are added only where it is not 0
    """
    m, n, k = shape
    count = n // 2
    outputs = ", ".join(f"${number}" for number in range(count))
    next_operand = count if accumulators is None else 2 * count
    lines: list[str] = []
    inputs: list[ir.Value] = []
    constraints: list[str] = []
    for number, (a, b) in enumerate(steps):
        names = [f"${next_operand + i}" for i in range(len(a) + 1)]
        next_operand += len(names)
        left = names[0] if len(a) == 1 else "{" + ", ".join(names[:-1]) + "}"
        first = "go" if unless is not None else str(int(accumulators is not None))
        flags = ["1" if number else first, "1", "1"]
        if element in ("f16", "bf16"):
            flags += [str(int(flag)) for flag in (transposed if len(a) == 1 else transposed[1:])]
        name = f"wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.f32.{element}.{element}"
        lines.append(f"{name} {{{outputs}}}, {left}, {names[-1]}, {', '.join(flags)};")
        inputs += [*a, b]
        constraints += ["l" if len(a) == 1 else "r"] * len(a) + ["l"]
    places = [] if accumulators is None else [str(number) for number in range(count)]
    text = "\n".join(lines)
    if unless is not None:
        text = f"{{ .reg .pred go; setp.ne.u32 go, ${next_operand}, 0;\n{text} }}"
        inputs.append(unless)
        constraints.append("r")
    operands = [*(accumulators or ()), *inputs]
    return inline_ptx(build, text, ",".join(["=f"] * count + places + constraints), operands, ["f32"] * count)
