"""PTX instructions that have no operation of their own: one function each.

Addresses of shared memory are i32 values; barriers are `mbarrier` objects of 8 bytes there.  The instructions are
described in the PTX ISA, chapters 9.7.13 (mbarrier), 9.7.9.27 (cp.async.bulk.tensor) and 9.7.15 (wgmma).
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.lowering.target.cuda.build import Build

_SUSPEND: Final = 10_000_000  # nanoseconds a waiting lane may sleep before it looks again


def assembly(
    build: Build, text: str, constraints: str, operands: Sequence[Any] = (), results: Sequence[str] = ()
) -> list[Any]:
    """Emit one piece of PTX; gives its results.  Every piece is kept, in order, and may touch memory."""
    attributes = {
        "asm_string": ir.StringAttr.get(text),
        "constraints": ir.StringAttr.get(",".join(filter(None, (constraints, "~{memory}")))),
        "has_side_effects": "unit",
        "asm_dialect": "0 : i64",
        "tail_call_kind": "#llvm.tailcallkind<none>",
    }
    if not results:
        build.create("llvm.inline_asm", operands, (), attributes)
        return []
    if len(results) == 1:
        return [build.value("llvm.inline_asm", operands, results[0], attributes)]
    # A name for the type, as every level below writes it out again for each of its 128 elements otherwise.
    name = " ".join(f"{len(list(alike))}x{kind}" for kind, alike in groupby(results))
    kind = f'!llvm.struct<"{name}", ({", ".join(results)})>'
    packed = build.value("llvm.inline_asm", operands, kind, attributes)
    return [
        build.value("llvm.extractvalue", [packed], result, {"position": f"array<i64: {number}>"})
        for number, result in enumerate(results)
    ]


# -- barriers ----------------------------------------------------------------------------------------------------


def barrier_init(build: Build, barrier: Any, arrivals: int) -> None:
    """Make a barrier that completes a phase after `arrivals` arrivals."""
    assembly(build, f"mbarrier.init.shared::cta.b64 [$0], {arrivals};", "r", [barrier])


def fence_barrier_init(build: Build) -> None:
    """Make initialised barriers visible to the copy engine and the cluster."""
    assembly(build, "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;", "")


def barrier_expect(build: Build, barrier: Any, size: int) -> None:
    """Arrive, and let the phase also wait for `size` bytes of bulk copies."""
    assembly(build, f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {size};", "r", [barrier])


def barrier_arrive(build: Build, barrier: Any) -> None:
    """Arrive once."""
    assembly(build, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r", [barrier])


def barrier_wait(build: Build, barrier: Any, parity: Any) -> None:
    """Wait until the phase of this parity (i32, 0 or 1) is complete."""
    text = (
        "{ .reg .pred done; again_${:uid}: "
        f"mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1, {_SUSPEND}; "
        "@done bra ready_${:uid}; bra again_${:uid}; ready_${:uid}: }"
    )
    assembly(build, text, "r,r", [barrier, parity])


def barrier_test(build: Build, barrier: Any, parity: Any) -> Any:
    """An i32: 1 where the phase of this parity (i32, 0 or 1) is complete, 0 where it is not."""
    text = "{ .reg .pred done; mbarrier.test_wait.parity.shared::cta.b64 done, [$1], $2; selp.u32 $0, 1, 0, done; }"
    return assembly(build, text, "=r,r,r", [barrier, parity], ["i32"])[0]


def cluster_wait(build: Build) -> None:
    """Wait for all lanes of all blocks of the cluster."""
    assembly(build, "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;", "")


def cluster_rank(build: Build) -> Any:
    """An i32: the number of this block in its cluster."""
    return assembly(build, "mov.u32 $0, %cluster_ctarank;", "=r", (), ["i32"])[0]


def barrier_arrive_at(build: Build, barrier: Any, rank: Any) -> None:
    """Arrive once at the same barrier of block `rank` (i32) of the cluster.

    Only reads came before, by the tensor cores, which have been waited for: releasing more than they need, at cluster
    scope, costs a fence of the whole memory in every round.
    """
    text = (
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; mbarrier.arrive.shared::cluster.b64 _, [there]; }"
    )
    assembly(build, text, "r,r", [barrier, rank])


def named_barrier(build: Build, number: Any, lanes: int) -> None:
    """Wait for `lanes` lanes at hardware barrier `number` (0 to 15; an i32, or known)."""
    if isinstance(number, int):
        assembly(build, f"bar.sync {number}, {lanes};", "")
    else:
        assembly(build, f"bar.sync $0, {lanes};", "r", [number])


def named_barrier_arrive(build: Build, number: int, lanes: int) -> None:
    """Arrive at hardware barrier `number` without waiting."""
    assembly(build, f"bar.arrive {number}, {lanes};", "")


def wait_for_kernels_before(build: Build) -> None:
    """Wait until the kernels in front of this one on its stream have ended, and what they wrote is there."""
    assembly(build, "griddepcontrol.wait;", "")


def let_next_kernel_begin(build: Build) -> None:
    """Allow blocks of the next kernel on the stream to begin, where it may, once all blocks have come here."""
    assembly(build, "griddepcontrol.launch_dependents;", "")


# -- bulk copies -------------------------------------------------------------------------------------------------


def tensor_load(
    build: Build, target: Any, tensor_map: Any, coordinates: Sequence[Any], barrier: Any, cluster: int = 1
) -> None:
    """Start a copy of a box of an array into shared memory; `coordinates` are i32, innermost axis first.

    All blocks of a `cluster` get it, at the same place, and their barriers are told.
    """
    rank = len(coordinates)
    places = ", ".join(f"${2 + number}" for number in range(rank))
    many, mask = (".multicast::cluster", f", {(1 << cluster) - 1}") if cluster > 1 else ("", "")
    text = (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes{many} "
        f"[$0], [$1, {{{places}}}], [${2 + rank}]{mask};"
    )
    assembly(build, text, ",".join(["r", "l", *["r"] * rank, "r"]), [target, tensor_map, *coordinates, barrier])


def tensor_map_prefetch(build: Build, tensor_map: Any) -> None:
    """Let the copy engine fetch a tensor map before the first copy needs it."""
    assembly(build, "prefetch.tensormap [$0];", "l", [tensor_map])


def tensor_store(build: Build, tensor_map: Any, coordinates: Sequence[Any], source: Any) -> None:
    """Start a copy of a box out of shared memory into an array; what lies outside it is not written."""
    rank = len(coordinates)
    places = ", ".join(f"${1 + number}" for number in range(rank))
    text = f"cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [$0, {{{places}}}], [${1 + rank}];"
    assembly(build, text, ",".join(["l", *["r"] * rank, "r"]), [tensor_map, *coordinates, source])


def bulk_commit(build: Build) -> None:
    """End a group of stores."""
    assembly(build, "cp.async.bulk.commit_group;", "")


def bulk_wait_read(build: Build, pending: int) -> None:
    """Wait until all but the last `pending` groups of stores have read their shared memory."""
    assembly(build, f"cp.async.bulk.wait_group.read {pending};", "")


def fence_async_shared(build: Build) -> None:
    """Let what this lane stored in shared memory be seen by the copy engine and the tensor cores."""
    assembly(build, "fence.proxy.async.shared::cta;", "")


def set_registers(build: Build, count: int, *, more: bool) -> None:
    """Give a warp group `count` registers a lane."""
    assembly(build, f"setmaxnreg.{'inc' if more else 'dec'}.sync.aligned.u32 {count};", "")


# -- warp group products -----------------------------------------------------------------------------------------


def wgmma_fence(build: Build) -> None:
    """Let the tensor cores see the registers written so far."""
    assembly(build, "wgmma.fence.sync.aligned;", "")


def pinned(build: Build, values: Sequence[Any]) -> list[Any]:
    """These f32 or i32, computed before whatever PTX is emitted next."""
    kinds = [str(value.type) for value in values]
    outputs = ["=f" if kind == "f32" else "=r" for kind in kinds]
    constraints = ",".join([*outputs, *(str(number) for number in range(len(values)))])
    return assembly(build, "", constraints, values, kinds)


def hidden(build: Build, word: Any) -> Any:
    """An i32 of which no optimizer knows that it is `word`: what is made of it is computed here, not far above."""
    return assembly(build, "mov.b32 $0, $1;", "=r,r", [word], ["i32"])[0]


def kept(build: Build, word: Any) -> Any:
    """An i32 as it is; what is computed of it is computed here or later, and takes no registers before."""
    return assembly(build, "", "=r,0", [word], ["i32"])[0]


def hidden_zero(build: Build) -> Any:
    """An i32 that is 0 whenever a kernel runs, and that no optimizer knows: grids have one block along z."""
    return assembly(
        build, "{ .reg .b32 blocks; mov.u32 blocks, %nctaid.z; add.s32 $0, blocks, -1; }", "=r", (), ["i32"]
    )[0]


def wgmma_commit(build: Build) -> None:
    """End a group of products."""
    assembly(build, "wgmma.commit_group.sync.aligned;", "")


def wgmma_wait(build: Build, pending: int, values: Sequence[Any] = (), after: Sequence[Any] = ()) -> list[Any]:
    """Wait until all but the last `pending` groups are done; gives `values`, which nothing may use before.

    after: values that are computed first, so that the wait does not move up in front of the work that hides it
    """
    text = f"wgmma.wait_group.sync.aligned {pending};"
    if not values:
        assembly(build, text, "")
        return []
    kinds = [str(value.type) for value in values]
    outputs = ["=f" if kind == "f32" else "=r" for kind in kinds]
    late = ["f" if str(value.type) == "f32" else "r" for value in after]
    constraints = ",".join([*outputs, *(str(number) for number in range(len(values))), *late])
    return assembly(build, text, constraints, [*values, *after], kinds)


def wgmma(
    build: Build, shape: tuple[int, int, int], element: str, accumulators: Sequence[Any],
    steps: Sequence[tuple[Sequence[Any], Any]], *, accumulate: bool, transposed: tuple[bool, bool],
    unless: Any | None = None,
) -> list[Any]:  # fmt: skip
    """`d = a b` or `d += a b` for 64 x n elements with f32 accumulators, k at a time; gives d.

    steps: a pair (a, b) for each k: a is one i64 descriptor, or four i32 registers; b an i64 descriptor
    transposed: whether a and b lie with their outer axis contiguous (16-bit elements only)
    unless: an i32, for `d = a b` in the registers of the accumulators; they are added only where it is not 0
    """
    m, n, k = shape
    count = len(accumulators)
    outputs = ", ".join(f"${number}" for number in range(count))
    kept = accumulate or unless is not None
    next_operand = 2 * count if kept else count
    lines: list[str] = []
    inputs: list[Any] = []
    constraints: list[str] = []
    for number, (a, b) in enumerate(steps):
        names = [f"${next_operand + i}" for i in range(len(a) + 1)]
        next_operand += len(names)
        left = names[0] if len(a) == 1 else "{" + ", ".join(names[:-1]) + "}"
        first = "go" if unless is not None else str(int(accumulate))
        flags = ["1" if number else first, "1", "1"]
        if element in ("f16", "bf16"):
            flags += [str(int(flag)) for flag in (transposed if len(a) == 1 else transposed[1:])]
        name = f"wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.f32.{element}.{element}"
        lines.append(f"{name} {{{outputs}}}, {left}, {names[-1]}, {', '.join(flags)};")
        inputs += [*a, b]
        constraints += ["l" if len(a) == 1 else "r"] * len(a) + ["l"]
    tied = [str(number) for number in range(count)] if kept else []
    text = "\n".join(lines)
    if unless is not None:
        text = f"{{ .reg .pred go; setp.ne.u32 go, ${next_operand}, 0;\n{text} }}"
        inputs.append(unless)
        constraints.append("r")
    operands = [*(accumulators if kept else ()), *inputs]
    return assembly(build, text, ",".join(["=f"] * count + tied + constraints), operands, ["f32"] * count)
