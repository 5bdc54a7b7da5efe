"""The catalogue of mistakes: one class and one code each, with the text a user sees as its title.

Raise the class with a message that names the user's own things, the span, and the remedy as `hint`.  Codes: E0xx the
text, E1xx names and types, E2xx shapes and memory, E3xx control flow, E4xx launches, E5xx sanitizer,
E6xx meshes, E8xx graphs of operators, E9xx ours.
"""

from tessera.core.errors.base import TesseraError


class SyntaxMistake(TesseraError):
    """The cell is not Python, nor Tessera's additions to it.  Example: `y: mut f32[n` without the bracket."""

    code = "TSR-E001"
    title = "syntax error"


class UnsupportedSyntax(TesseraError):
    """Python that has no meaning in a kernel.  Example: `try:` inside a kernel."""

    code = "TSR-E002"
    title = "not available in a kernel"


class OutsideKernel(TesseraError):
    """An operation of the language used in ordinary Python.  Example: `tile.linear_id()` at top level."""

    code = "TSR-E003"
    title = "used outside a kernel"


class BadAnnotation(TesseraError):
    """A parameter's annotation that is not a type.  Example: `x: f33[n]`."""

    code = "TSR-E004"
    title = "unknown annotation"


class BadKernelOption(TesseraError):
    """A decorator option that is not legal.  Example: `@kernel tile[(0,)]`."""

    code = "TSR-E005"
    title = "bad kernel option"


class UndefinedName(TesseraError):
    """A name that nothing defines.  Example: `y[i] = alfa * x[i]`."""

    code = "TSR-E101"
    title = "unknown name"


class UnknownAttribute(TesseraError):
    """An attribute that does not exist.  Example: `tile.linear_idx()`."""

    code = "TSR-E102"
    title = "unknown attribute"


class MaybeUndefined(TesseraError):
    """A name that only some paths define.  Example: `v` set in one branch of an `if` and used after it."""

    code = "TSR-E103"
    title = "may have no value here"


class WrongArguments(TesseraError):
    """An operation called with the wrong arguments.  Example: `tile.dot(a)`."""

    code = "TSR-E104"
    title = "wrong arguments"


class TypeMismatch(TesseraError):
    """An operation applied to a type it has no meaning for.  Example: `x[i] << 1` with f32 `x`."""

    code = "TSR-E105"
    title = "type mismatch"


class LossyStore(TesseraError):
    """A float stored into integers.  Example: `counts[i] = 0.5`, or `a: i32 = x[i]` of f32."""

    code = "TSR-E106"
    title = "store would lose the fraction"


class NotAValue(TesseraError):
    """A thing of the language used where a value is needed.  Example: `y[i] = tile.linear_id`."""

    code = "TSR-E107"
    title = "not a value"


class NotCallable(TesseraError):
    """Something that cannot be called in a kernel.  Example: `print(x)`."""

    code = "TSR-E108"
    title = "cannot be called in a kernel"


class ConstantNeeded(TesseraError):
    """A number that must be known when the kernel is compiled.  Example: `tshared.alloc[f32](k)` with a loop's `k`."""

    code = "TSR-E109"
    title = "must be a constant"


class LiteralOverflow(TesseraError):
    """A literal outside its type.  Example: `b[i] = 300` with i8 `b`."""

    code = "TSR-E110"
    title = "number does not fit"


class DivisionByZero(TesseraError):
    """A constant division by zero.  Example: `x[i // 0]`."""

    code = "TSR-E111"
    title = "division by zero"


class ShapeMismatch(TesseraError):
    """Tiles whose shapes do not broadcast.  Example: a (128,) tile plus a (64,) tile."""

    code = "TSR-E201"
    title = "shapes do not agree"


class DotShape(TesseraError):
    """A matrix product whose inner extents differ.  Example: `tile.dot(a, b)` of (16, 8) and (16, 8)."""

    code = "TSR-E202"
    title = "matrix shapes do not agree"


class WrongRank(TesseraError):
    """Too many indices, or an operation that needs another rank.  Example: `x[i, j]` with `x: f32[n]`."""

    code = "TSR-E203"
    title = "wrong number of indices"


class BadAxis(TesseraError):
    """An axis the tile does not have.  Example: `tile.sum(t, axis=2)` of a matrix."""

    code = "TSR-E204"
    title = "no such axis"


class BadSlice(TesseraError):
    """A slice whose extent is not a constant, or with a step.  Example: `x[i:j]`."""

    code = "TSR-E205"
    title = "slice has no fixed extent"


class ReadOnlyParameter(TesseraError):
    """A write to a parameter without `mut`.  Example: `x[i] = 0.0` with `x: f32[n]`."""

    code = "TSR-E206"
    title = "parameter is read only"


class SharedOverflow(TesseraError):
    """More shared memory than the kernel's budget.  Example: 16 KiB allocated under `shared(8_KiB)`."""

    code = "TSR-E207"
    title = "shared memory budget exceeded"


class SharedNeedsTile(TesseraError):
    """Shared memory or a barrier in a kernel without `tile[...]`.  Example: `@kernel` alone over a `tbarrier()`."""

    code = "TSR-E208"
    title = "groups are not given"


class UnknownSharedShape(TesseraError):
    """`tile.alloc_shared()` of which nothing tells the shape.  Example: `s = tile.alloc_shared()`, then `s[0]`."""

    code = "TSR-E209"
    title = "shared memory without a shape"


class BadReshape(TesseraError):
    """A reshape that changes the number of elements.  Example: `tile.reshape(t, (3, 2))` of 8 elements."""

    code = "TSR-E210"
    title = "cannot reshape"


class BadCopy(TesseraError):
    """An asynchronous copy whose two sides differ.  Example: 64 elements into a buffer of 128."""

    code = "TSR-E211"
    title = "copy does not fit"


class BadWidth(TesseraError):
    """A cooperative group or shuffle whose size is not a power of two that fits.  Example: `size=48`."""

    code = "TSR-E212"
    title = "bad group size"


class UnknownSwizzle(TesseraError):
    """A swizzle that does not exist.  Example: `swizzle="xorr"`."""

    code = "TSR-E213"
    title = "unknown swizzle"


class LaneIndexedTile(TesseraError):
    """A tile indexed by a running index.  Example: `t[i]` with a tile `t`."""

    code = "TSR-E214"
    title = "tiles are not indexed element by element"


class NoSuchItem(TesseraError):
    """A constant index outside a list or tuple of the kernel's.  Example: `[1, 2][2]`."""

    code = "TSR-E217"
    title = "no such item"


class BeyondExtent(TesseraError):
    """A negative index that counts past the first element of its axis.  Example: `x[-7]` with `x: f32[6]`."""

    code = "TSR-E215"
    title = "index before the first element"


class AxesWithoutGroups(TesseraError):
    """Groups, warps or a linear index in a kernel without `tile[...]` whose lanes lie along several axes.

    Example: `tile.linear_id()` beside `launch.thread_id(1)`.
    """

    code = "TSR-E216"
    title = "lanes along several axes, without groups"


class UnsupportedReturn(TesseraError):
    """A `return` with a value, or inside a loop.  Example: `return x[i]`."""

    code = "TSR-E301"
    title = "return not possible here"


class UnsupportedLoop(TesseraError):
    """A loop over something that is not a range.  Example: `for v in x:` over an array."""

    code = "TSR-E302"
    title = "cannot loop over this"


class ZeroStep(TesseraError):
    """A range with a step of zero, or a running step.  Example: `range(0, n, 0)`."""

    code = "TSR-E303"
    title = "bad step"


class UnstableLoopType(TesseraError):
    """A variable that changes shape or kind from one trip of a loop to the next.

    Example: `t = tile.sum(t)` in a loop that begins with a tile `t`.
    """

    code = "TSR-E304"
    title = "variable changes its type in the loop"


class BranchMismatch(TesseraError):
    """A variable that has one kind of value after `if` and another after `else`.

    Example: `v = x[0:8]` in one, `v = x[0:4]` in the other.
    """

    code = "TSR-E305"
    title = "branches disagree"


class MmaOutsideRange(TesseraError):
    """`tile.mma_sync` outside `for m, n, k in tile.mma(...)`.  Example: `tile.mma_sync(0, 0, 0)` on its own."""

    code = "TSR-E306"
    title = "mma_sync without its loop"


class DeadBreak(TesseraError):
    """`break` or `continue` that is not the last statement of its branch.

    Example: `break` with `y[i] = 1.0` right after it.
    """

    code = "TSR-E307"
    title = "statement is never reached"


class MissingSchedule(TesseraError):
    """A launch domain that cannot be derived from the kernel.

    Example: lanes that are compared with `n // 4` only, or a kernel without lanes that uses `tile.group_id(1)`.
    """

    code = "TSR-E401"
    title = "how many lanes?"


class NoImplementation(TesseraError):
    """A kernel whose body is `...`, called.  Example: `def tp_gemm(A, B, C): ...`, called."""

    code = "TSR-E402"
    title = "kernel has no body"


class NotDivisible(TesseraError):
    """An annotation's division that has no value or leaves a remainder.  Example: `K/tp` without `tp`."""

    code = "TSR-E403"
    title = "extent does not divide"


class ArgumentType(TesseraError):
    """An argument whose dtype or rank is not the parameter's.  Example: an f64 array for `x: f32[n]`."""

    code = "TSR-E404"
    title = "wrong argument type"


class CompilerCrash(TesseraError):
    """The code generator died or produced invalid IR: our fault.  The message names a reproducer file.

    Example: an abort inside LLVM.
    """

    code = "TSR-E900"
    title = "the compiler failed"


class ToolMissing(TesseraError):
    """A program of the CUDA toolkit that is neither in the environment nor on PATH.  Example: no `ptxas`."""

    code = "TSR-E701"
    title = "a CUDA tool is missing"


class UnknownArchitecture(TesseraError):
    """A GPU architecture Tessera does not compile for.  Example: `cuda:sm_70`."""

    code = "TSR-E702"
    title = "unknown GPU architecture"


class NotOnCuda(TesseraError):
    """A construct or size the CUDA target cannot run.  Example: a group of 2048 lanes (a block holds 1024)."""

    code = "TSR-E703"
    title = "cannot run on a GPU"


class CudaFailure(TesseraError):
    """The CUDA driver refused something.  Example: no GPU, or a launch that needs more shared memory than there is."""

    code = "TSR-E704"
    title = "the CUDA driver reports an error"


class OutOfDeviceMemory(CudaFailure):
    """More memory than is free on a GPU, after all caches have given theirs back.

    Example: a product of arrays of 60 GB each whose rows are not aligned, so that it has to copy them.
    """

    code = "TSR-E705"
    title = "out of GPU memory"


class CompileTimeout(TesseraError):
    """A compilation that took longer than the setting `compile_timeout` allows.

    Example: a loop unrolled ten thousand times.
    """

    code = "TSR-E901"
    title = "the compiler took too long"


class BadSetting(TesseraError):
    """A setting that does not exist or cannot have that value.  Example: `TESSERA_THREADS=0`."""

    code = "TSR-E902"
    title = "bad setting"


class NoSource(TesseraError):
    """The text of a kernel cannot be found.  Example: `kernel(lambda x: x)`, or a function that `exec` made."""

    code = "TSR-E006"
    title = "no source"


class Race(TesseraError):
    """Two lanes touch one element, one of them writes, and nothing orders them.

    Example: `y[0] = x[i]` in every lane.
    """

    code = "TSR-E501"
    title = "race between lanes"


class MissingBarrier(TesseraError):
    """Shared memory one lane writes and another uses, with no barrier between.

    Example: `smem[i] = v` and then `smem[i - 1]` without `tbarrier()`.
    """

    code = "TSR-E502"
    title = "missing barrier"


class DivergentBarrier(TesseraError):
    """A barrier that only some lanes of the group reach.  Example: `if i < 16: tbarrier()`."""

    code = "TSR-E503"
    title = "not every lane reaches the barrier"


class OutOfBounds(TesseraError):
    """An element outside its array, seen by the sanitizer.  Example: `y[i + 1]` in the last lane."""

    code = "TSR-E504"
    title = "index out of bounds"


class UninitialisedRead(TesseraError):
    """Shared memory read before anything wrote it.

    Example: `y[i] = s[i]` right after `s = tshared.alloc[f32](128)`.
    """

    code = "TSR-E505"
    title = "uninitialised shared memory"


class CopyInFlight(TesseraError):
    """Shared memory used while an asynchronous copy may still be filling it: a `tbarrier()` has to come first.

    Example: `s[i]` right after `cp_async.shared.global(s, x[0:128])`.
    """

    code = "TSR-E506"
    title = "copy still in flight"


class LaneDependentTile(TesseraError):
    """A tile that would differ between lanes.  Example: `x[i:i+4]` with `i = tile.linear_id()`."""

    code = "TSR-E507"
    title = "tile depends on the lane"


class MeetingTrips(TesseraError):
    """Two trips of a loop that is said to be parallel touch one element, and one of them writes it.

    Example: `for r in tile.range(n, parallel=True): y[i[r]] = x[r]`, and `i` holds a number twice.
    """

    code = "TSR-E508"
    title = "trips of a parallel loop meet"


class DependentTrips(TesseraError):
    """A loop that is said to be parallel and cannot be.

    Example: `total += x[r]` in `for r in tile.range(n, parallel=True)`: each trip needs the total of the one before.
    """

    code = "TSR-E509"
    title = "parallel trips depend on each other"


class ArgumentCount(TesseraError):
    """A call with too few, too many or misnamed arguments.  Example: `scale(x, y)` without `alpha`."""

    code = "TSR-E410"
    title = "wrong number of arguments"


class NotAnArray(TesseraError):
    """Something that is no array, given for one.  Example: `scale([1.0, 2.0], y, 3.0)`."""

    code = "TSR-E411"
    title = "not an array"


class ReadOnlyArray(TesseraError):
    """An array that must not be written, given for a `mut` parameter.  Example: a NumPy array that is not writeable."""

    code = "TSR-E412"
    title = "array is read only"


class WrongDevice(TesseraError):
    """An array in another device's memory.  Example: a CUDA array given to a kernel compiled for the CPU."""

    code = "TSR-E413"
    title = "array lies on another device"


class ExtentMismatch(TesseraError):
    """Arguments that give one shape name two values.  Example: `x` has n = 100 and `y` has n = 90."""

    code = "TSR-E414"
    title = "extents do not agree"


class ScalarRange(TesseraError):
    """A number that the parameter's type cannot hold.  Example: 300 for `k: i8`, or 2.5 for `k: i32`."""

    code = "TSR-E415"
    title = "number does not fit the parameter"


class OverlappingArrays(TesseraError):
    """Two different views of one memory, one of them written.  Example: `shift(x[:-1], x[1:])`."""

    code = "TSR-E416"
    title = "arrays overlap"


class BadGrid(TesseraError):
    """A grid or block that cannot be launched.  Example: `k[(4,), (64,)]` for a kernel of `tile[(128,)]`."""

    code = "TSR-E417"
    title = "bad launch grid"


class NotAvailableYet(TesseraError):
    """A part of the language that this version does not have.  Example: streams."""

    code = "TSR-E418"
    title = "not available yet"


class UnknownLevel(TesseraError):
    """A level of the compiler that does not exist, or not for this target.  Example: `inspect_ir("ptx")` on the CPU."""

    code = "TSR-E419"
    title = "no such level"


class NotCalledYet(TesseraError):
    """A kernel that is to run on arguments like those of its last call, and had none.

    Example: `autotune.search(kernel=k, params=space)` before `k(x, y)`.
    """

    code = "TSR-E421"
    title = "not called yet"


class TuningFailed(TesseraError):
    """A search in which no configuration could be compiled and run.

    Example: every `BM` of the space needs more shared memory than there is.
    """

    code = "TSR-E420"
    title = "nothing to choose from"


class NothingToShow(TesseraError):
    """A view of something that is not there.

    Example: `layout(k)` of a kernel that has no tile in registers or in shared memory.
    """

    code = "TSR-E422"
    title = "nothing to show"


class BadExpectation(TesseraError):
    """An expectation of results that fits no output of the kernel.

    Example: `diff(a, b, args=(x, y), expect={"z": x})` of kernels that write `y`.
    """

    code = "TSR-E423"
    title = "not what the kernel writes"


class OperandMismatch(TesseraError):
    """Arrays given to a kernel of the library that do not fit it, or each other.

    Example: `gemm(a, b)` with 64 columns in `a` and 32 rows in `b`.
    """

    code = "TSR-E430"
    title = "operands do not fit"


class CannotTrace(TesseraError):
    """Python that needs numbers while a graph is captured, which has none yet.

    Example: `if x.sum() > 0:` in a function under `@graph.module`.
    """

    code = "TSR-E440"
    title = "cannot be captured in a graph"


class CannotRaise(TesseraError):
    """A kernel without a graph of its own mathematics, which a derivative would need.

    Example: one whose lanes exchange values, launched in a function that `tessera.grad` differentiates.
    """

    code = "TSR-E441"
    title = "kernel cannot be raised to a graph"


class ContextLost(CudaFailure):
    """A kernel faulted on the GPU, and with it went the process's CUDA context.

    Example: a kernel of another library that wrote past its array; every launch after it says so too.
    """

    code = "TSR-E710"
    title = "a kernel faulted, the CUDA context is lost"


class UnfitForBulkCopy(TesseraError):
    """An array that the GPU's bulk copies (TMA) cannot read.  Example: `k(a[:, 1:])`, whose address does not fit."""

    code = "TSR-E711"
    title = "array does not fit bulk copies"


class BadStream(TesseraError):
    """Something that is no stream, or a weight that is none.  Example: `k.on("fast")(x)`, `stream.new(weight=0)`."""

    code = "TSR-E712"
    title = "not a stream"


class BadTransfer(TesseraError):
    """A copy between arrays that differ.  Example: `stream.memcpy_async(dst=y, src=x)` of 100 and 90 elements."""

    code = "TSR-E713"
    title = "arrays of a copy differ"


class BadCapture(TesseraError):
    """A graph that cannot be captured or launched.  Example: `stream.synchronize()` inside `graph.capture()`."""

    code = "TSR-E714"
    title = "cannot be part of a graph"


class BadPermission(TesseraError):
    """Something that no graph can be permitted.  Example: `@graph.module("block", algebra="fast")`."""

    code = "TSR-E719"
    title = "no such permission"


class BadTileIR(TesseraError):
    """Edited Tile IR that cannot be compiled.  Example: `k.compile(x, from_ir=text)` with 40 stages of a pipeline."""

    code = "TSR-E715"
    title = "not legal Tile IR"


class BadPtx(TesseraError):
    """Edited PTX that cannot be compiled.  Example: `k.with_ir(text)` with an instruction that ptxas does not know."""

    code = "TSR-E716"
    title = "not legal PTX"


class NotOnCudaTile(TesseraError):
    """A construct that CUDA Tile IR lacks.  Example: `tile.linear_id()` in a kernel compiled for `cuda_tile`."""

    code = "TSR-E708"
    title = "cannot be a CUDA Tile kernel"


class LibraryMissing(TesseraError):
    """A library that an operator calls, and that is not installed.  Example: `op.svd` on a GPU without CuPy."""

    code = "TSR-E803"
    title = "a library is missing"


class WrongResult(TesseraError):
    """An operator of one's own that returns other arrays than it declares.

    Example: `@op.custom(shape=lambda x: x.shape)` on a function that returns the sum of x.
    """

    code = "TSR-E804"
    title = "not what was declared"


class NoDecomposition(TesseraError):
    """A matrix that has no decomposition of this kind.  Example: `op.cholesky(a)` with a negative eigenvalue in a."""

    code = "TSR-E806"
    title = "no such decomposition"


class NotDifferentiable(TesseraError):
    """Something without a derivative in a gradient.  Example: `grad` by an input of integers, or through a sort."""

    code = "TSR-E801"
    title = "no derivative"


class WrongAdjoint(TesseraError):
    """An adjoint that is not the transpose of its operator's derivative.  Example: one that forgets a factor 2."""

    code = "TSR-E802"
    title = "wrong adjoint"


class BadMesh(TesseraError):
    """Devices, axes and extents that make no mesh.  Example: `dist.Mesh(axes=["tp"], devices=range(8), shape=(9,))`."""

    code = "TSR-E601"
    title = "not a mesh"


class BadReductionTree(TesseraError):
    """A tree that does not fold these leaves.  Example: `op.all_reduce(x, mesh=mesh, tree=(2, 2), leaves=8)`."""

    code = "TSR-E660"
    title = "bad reduction tree"


class BadReduction(TesseraError):
    """A reduction over ranks that has no meaning for its operands.  Example: `op.all_reduce(integers, op="mean")`."""

    code = "TSR-E661"
    title = "no such reduction over ranks"


class RankMismatch(TesseraError):
    """Values of ranks that do not go together.  Example: `op.all_reduce([a, b], mesh=mesh)` over three devices."""

    code = "TSR-E662"
    title = "ranks do not agree"


class RanksMissing(TesseraError):
    """Ranks that did not come to a barrier in time.  Example: one of four that waits for something else."""

    code = "TSR-E663"
    title = "ranks are missing"


class ReplicasDiffer(TesseraError):
    """Replicas of one value that differ in bits.  Example: `check_replicas(x)` after one rank has changed its own."""

    code = "TSR-E664"
    title = "replicas differ"


class CollectiveStopped(TesseraError):
    """A collective that was ended before it was done.  Example: Ctrl-C, or another rank that failed."""

    code = "TSR-E665"
    title = "stopped before its end"


class NeedsMesh(TesseraError):
    """A collective outside of a mesh, or a mesh of devices that cannot run it.

    Example: a graph with `op.all_reduce(x, axis="tp")` that is called with an array of NumPy.
    """

    code = "TSR-E652"
    title = "needs a mesh"


class AmbiguousSharding(TesseraError):
    """Two ways to cut an operation over a mesh that cost the same, and both move something.

    Example: a product of `x[8@dp, 8]` and `w[8@dp, 8]`, where either may be gathered.
    """

    code = "TSR-E651"
    title = "ambiguous sharding"


class BadShardSpec(TesseraError):
    """Dimensions or mesh axes that cannot be cut so.

    Example: `ShardSpec(partition=("row", "col"), mesh_axes=("tp", "tp"))`, which cuts two dimensions by one axis.
    """

    code = "TSR-E602"
    title = "cannot be sharded so"


class UnevenShards(TesseraError):
    """An extent that a mesh does not divide, where that was ruled out.

    Example: `ShardSpec(partition=("row",), mesh_axes=("tp",), uneven="refuse")` for 8192 rows and 9 devices.
    """

    code = "TSR-E603"
    title = "the mesh does not divide the extent"


class MeshMemory(TesseraError):
    """A plan that does not fit the memory of the mesh's devices, with one that would.

    Example: `dist.tensor(shape=(1_000_000, 1_000_000), ...)` over 2 devices of 80 GiB.
    """

    code = "TSR-E604"
    title = "does not fit the devices' memory"


class NotStored(TesseraError):
    """A tensor that is read while it is only declared.  Example: `numpy.asarray(W)` before `W[...] = w`."""

    code = "TSR-E605"
    title = "nothing is stored yet"


class RegionConflict(TesseraError):
    """Points of an index launch that get in each other's way.

    Example: `index_launch(axis="tp")(norm_layer)(X.parts("tp"), Y)`, where tp does not cut Y: every point writes it.
    """

    code = "TSR-E606"
    title = "points conflict"


class BadIndexLaunch(TesseraError):
    """An index launch that says too little, or does not fit its arguments.

    Example: `index_launch(axis="tp")(k)(x)` with arrays alone, which lie on no mesh.
    """

    code = "TSR-E607"
    title = "cannot be launched over a mesh"


class BadModel(TesseraError):
    """A model that cannot be planned: extents that do not fit each other, or arguments that are missing.

    Example: `dist.Transformer(layers=12, width=768, heads=7, sequence=1024, batch=8)`: 7 does not divide 768.
    """

    code = "TSR-E608"
    title = "no model that can be planned"


class NoPlanFits(TesseraError):
    """A search among ways to spread a model over devices of which none fits, with what would.

    Example: `dist.plan.search(model, 8)` for a model of a trillion parameters.
    """

    code = "TSR-E609"
    title = "no plan fits the devices"


class BadPipeline(TesseraError):
    """A pipeline whose functions, places, parameters and micro-batches do not go together.

    Example: `tessera.pipeline([f, g, h], mesh=mesh, axis="pp")` on a mesh with two places along pp.
    """

    code = "TSR-E610"
    title = "no pipeline"
