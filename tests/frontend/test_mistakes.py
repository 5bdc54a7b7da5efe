"""Every mistake a user can make in a kernel: its class, its place (the line of carets) and its remedy."""

from collections.abc import Mapping
from typing import Unpack

import numpy as np
import pytest

from frontend.kernels import Options, array, build, scalar
from tessera.core.base.dtypes import f16, f32, f64, i8, i32
from tessera.core.errors import catalog
from tessera.core.errors.base import TesseraError
from tessera.core.program.arguments import Argument
from tessera.frontend.language.namespace import tile

OUTSIDE = {"table": np.zeros(4, np.float32), "numpy": np}
X, Y, A = array(f32, 100), array(f32, 100), scalar(f32)
HEAD = "@kernel\ndef k(x: f32[n], y: mut f32[n], alpha: f32):\n    i = tile.linear_id()\n"
TILE = "@kernel\ndef k(x: f32[n], y: mut f32[n], alpha: f32):\n"

# name: (class, text with a line of carets under the mistake, part of the message, part of the remedy)
CASES = {
    "misspelt name": (catalog.UndefinedName, HEAD + "    y[i] = alfa * x[i]\n           ^^^^\n", "nothing is named 'alfa'", "did you mean 'alpha'?"),
    "unknown name": (catalog.UndefinedName, HEAD + "    y[i] = zzz\n           ^^^\n", "nothing is named 'zzz'", "define it"),
    "misspelt operation": (catalog.UnknownAttribute, TILE + "    i = tile.linear_idx()\n        ^^^^^^^^^^^^^^^\n", "no 'linear_idx'", "'linear_id'"),
    "operation not called": (catalog.NotAValue, HEAD + "    y[i] = tile.lane_id\n    ^^^^\n", "the operation tile.lane_id", "use a number"),
    "attribute of an operation": (catalog.UnknownAttribute, HEAD + "    y[i] = tile.lane_id.x\n           ^^^^^^^^^^^^^^\n", "no 'x'", "call it"),
    "attribute of an array": (catalog.UnknownAttribute, HEAD + "    y[i] = x.shpe[0]\n           ^^^^^^\n", "no 'shpe'", "'shape'"),
    "set on one path": (catalog.MaybeUndefined, HEAD + "    if i < n:\n        v = 1.0\n    y[i] = v\n           ^\n", "one path", "before the branch"),
    "set in a loop": (catalog.MaybeUndefined, HEAD + "    for j in range(i):\n        v = x[j]\n    y[i] = v\n           ^\n", "inside the loop", "before the branch"),
    "too few arguments": (catalog.WrongArguments, HEAD + "    y[i] = tile.where(i < n)\n           ^^^^^^^^^^^^^^^^^\n", "tile.where", "it takes (condition, a, b)"),
    "unknown keyword": (catalog.WrongArguments, TILE + "    y[:] = tile.softmax(x[0:8], axs=0)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "axs", "axis"),
    "bits of a float": (catalog.TypeMismatch, HEAD + "    y[i] = x[i] << 1\n           ^^^^^^^^^\n", "bit operations need integers", "i32(...)"),
    "float index": (catalog.TypeMismatch, HEAD + "    y[i] = x[alpha]\n             ^^^^^\n", "an index must be an integer", "i64(...)"),
    "read-only parameter": (catalog.ReadOnlyParameter, HEAD + "    x[i] = 0.0\n    ^^^^\n", "x is not declared mut", "x: mut"),
    "read-only update": (catalog.ReadOnlyParameter, HEAD + "    x[i] += 1.0\n    ^^^^\n", "x is not declared mut", "x: mut"),
    "too many indices": (catalog.WrongRank, HEAD + "    y[i] = x[i, i]\n           ^^^^^^^\n", "x has 1 axes and is given 2 indices", "at most 1"),
    "running slice": (catalog.BadSlice, HEAD + "    y[i] = tile.sum(x[0:i])\n                      ^^^\n", "not a constant", "start:start+128"),
    "slice with a step": (catalog.BadSlice, TILE + "    y[0:4] = x[0:8:2]\n               ^^^^^\n", "a step", "tile.where"),
    "empty slice": (catalog.BadSlice, TILE + "    y[0:4] = x[4:4]\n               ^^^\n", "0 elements", "after the start"),
    "shapes": (catalog.ShapeMismatch, TILE + "    y[0:8] = x[0:8] + x[0:4]\n             ^^^^^^^^^^^^^^^\n", "(8,) tile and a (4,) tile", "or one of them 1"),
    "dot of vectors": (catalog.DotShape, TILE + "    y[0:8] = tile.dot(x[0:8], x[0:8])\n             ^^^^^^^^^^^^^^^^^^^^^^^^\n", "not a matrix", "rank 2"),
    "compute in f16": (catalog.TypeMismatch, TILE + "    t = tile.dot(tile.zeros((4, 4)), tile.zeros((4, 4)), compute=f16)\n        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "the type f16 is nothing to compute products in", "compute= takes tf32"),
    "compute of f16": (catalog.TypeMismatch, TILE + "    t = tile.dot(tile.zeros((4, 4), f16), tile.zeros((4, 4), f16), compute=tf32)\n        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "compute=tf32 rounds factors of f32, and these are f16", "leave it out"),
    "compute exactly": (catalog.WrongArguments, TILE + "    t = tile.dot(tile.zeros((4, 4)), tile.zeros((4, 4)), exact=True, compute=\"tf32\")\n        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "exact=True does not go with compute=tf32", "choose one"),
    "a type of no tile": (catalog.TypeMismatch, TILE + "    t = tile.cast(x[0:8], tf32)\n        ^^^^^^^^^^^^^^^^^^^^^^^\n", "the type tf32 is not a dtype", "tile.cast"),
    "axis": (catalog.BadAxis, TILE + "    y[0] = tile.sum(x[0:8], axis=1)\n           ^^^^^^^^^^^^^^^^^^^^^^^^\n", "no axis 1", "use -1 to 0"),
    "reshape": (catalog.BadReshape, TILE + "    t = tile.reshape(x[0:8], (3, 2))\n        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "8 elements", ""),
    "tile element": (catalog.LaneIndexedTile, HEAD + "    t = x[0:8]\n    y[i] = t[i]\n           ^^^^\n", "worked on as a whole", "shared memory"),
    "tile into element": (catalog.WrongRank, HEAD + "    y[i] = x[0:8]\n    ^^^^\n", "does not fit one element", "slice"),
    "shared without tile": (catalog.SharedNeedsTile, HEAD + "    s = tshared.alloc[f32](128)\n        ^^^^^^^^^^^^^^^^^^^^^^^\n    s[i] = x[i]\n    tbarrier()\n", "how large a group", "tile[(128,)]"),
    "CUDA's barrier": (catalog.UndefinedName, HEAD + "    __syncthreads()\n    ^^^^^^^^^^^^^\n", "'__syncthreads'", "tbarrier()"),
    "atomic operation": (catalog.UnknownAttribute, HEAD + "    tile.atomic_add(y, i, 1.0)\n    ^^^^^^^^^^^^^^^\n", "no 'atomic_add'", "a second kernel"),
    "NumPy's mean": (catalog.UnknownAttribute, HEAD + "    y[i] = tile.mean(x[0:8])\n           ^^^^^^^^^\n", "no 'mean'", "tile.sum"),
    "method of NumPy": (catalog.UnknownAttribute, HEAD + "    y[i] = x[0:8].ravel()\n           ^^^^^^^^^^^^\n", "no 'ravel'", "tile.reshape(t, (-1,))"),
    "Python's function": (catalog.NotCallable, HEAD + "    print(x[i])\n    ^^^^^^^^^^^\n", "Python's print", "look at it after the launch"),
    "NumPy's function": (catalog.NotCallable, HEAD + '    y[i] = numpy.exp(x[i])\n           ^^^^^^^^^^^^^^^\n', "NumPy's exp cannot be called", 'write tile.exp(...)'),
    "a function that there is none of": (catalog.NotCallable, HEAD + '    y[i] = numpy.arctan(x[i])\n           ^^^^^^^^^^^^^^^^^^\n', "NumPy's arctan", 'inverse trigonometric'),
    "NumPy's type": (catalog.NotCallable, HEAD + '    y[i] = numpy.int8(x[i])\n           ^^^^^^^^^^^^^^^^\n', "NumPy's int8", 'write i8(...)'),
    "Python's round": (catalog.NotCallable, HEAD + '    y[i] = round(x[i])\n           ^^^^^^^^^^^\n', "Python's round", 'write tile.floor(v + 0.5)'),
    "Python's zip": (catalog.NotCallable, HEAD + '    for a, b in zip([1], [2]): y[i] = a\n                ^^^^^^^^^^^^^\n', "Python's zip", 'loop over indices'),
    "Triton's load": (catalog.UndefinedName, HEAD + '    y[i] = tl.load(x)\n           ^^^^^^^\n', "nothing is named 'tl'", 'by index or slice'),
    "Numba's grid": (catalog.UndefinedName, HEAD + '    y[cuda.grid(1)] = 0.0\n      ^^^^^^^^^\n', "nothing is named 'cuda'", 'launch.thread_id()'),
    "NumPy's constant": (catalog.UndefinedName, HEAD + '    y[i] = np.pi\n           ^^^^^\n', "nothing is named 'np'", 'import numpy as np'),
    "a function without its module": (catalog.UndefinedName, HEAD + '    y[i] = sin(x[i])\n           ^^^\n', "nothing is named 'sin'", 'write tile.sin(...)'),
    "a list changed": (catalog.TypeMismatch, HEAD + '    l = [1, 2]\n    l[0] = 3\n    ^^^^\n', 'only arrays and buffers', 'lists are fixed'),
    "a list grown": (catalog.NotCallable, HEAD + '    l = [1, 2]\n    l.append(3)\n    ^^^^^^^^^^^\n', "Python's append", 'lists are fixed'),
    "a list and a running index": (catalog.ConstantNeeded, HEAD + '    l = [1, 2]\n    y[i] = l[i]\n           ^^^^\n', 'a list of 2 items, indexed by a scalar of i64', 'loop over the list itself'),
    "a list's end": (catalog.NoSuchItem, HEAD + '    l = [1, 2]\n    y[i] = l[2]\n           ^^^^\n', '2 items, and none has the index 2', 'use -2 to 1'),
    "several axes": (catalog.BadAxis, TILE + '    y[0] = tile.sum(x[0:8], axis=(0, 1))\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n', 'an axis is one number', 'tile.sum(tile.sum(x, axis=1), axis=0)'),
    "a tile as a loop's condition": (catalog.TypeMismatch, TILE + '    t = x[0:8]\n    while t > 0:\n          ^^^^^\n        t = t - 1.0\n    y[0:8] = t\n', 'one truth, and this is a (8,) tile of bool', 'tile.max(...) for any'),
    "an array outside the kernel": (catalog.TypeMismatch, HEAD + '    y[i] = table[i]\n           ^^^^^^^^\n', 'the ndarray outside the kernel cannot be indexed', 'add table: f32[n]'),
    "an array outside the kernel as a number": (catalog.NotAValue, HEAD + '    y[i] = table\n    ^^^^\n', 'the ndarray outside the kernel', 'pass it as one'),
    "infinity as text": (catalog.NotAValue, HEAD + "    y[i] = float('inf')\n           ^^^^^^^^^^^^\n", "the constant 'inf'", 'write math.inf'),
    "an array's type": (catalog.BadAnnotation, '@kernel\ndef k(x: np.ndarray, y: mut f32[n], alpha: f32):\n         ^^^^^^^^^^\n    pass\n', 'np.ndarray is not a dtype', 'f32[rows, columns]'),
    "an axis without a name": (catalog.BadAnnotation, '@kernel\ndef k(x: f32[:], y: mut f32[n], alpha: f32):\n             ^\n    pass\n', '', 'give the axis a name: f32[n]'),
    "copy into a part of a buffer": (catalog.BadCopy, TILE + "    s = tshared.alloc[f32](2, 8)\n    cp_async.shared.global_(s[0, :], x[0:8])\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "a whole buffer", "a buffer for each stage"),
    "linear index of lanes along two axes": (catalog.AxesWithoutGroups, "@kernel\ndef k(x: f32[n], y: mut f32[n], alpha: f32):\n    j = launch.thread_id(1)\n    y[j] = x[tile.linear_id()]\n             ^^^^^^^^^^^^^^^^\n", "along several axes", "tile[(16, 16)]"),
    "warps of lanes along two axes": (catalog.AxesWithoutGroups, "@kernel\ndef k(x: f32[n], y: mut f32[n], alpha: f32):\n    j = launch.thread_id(1)\n    y[j] = tile.warp_shuffle_down(x[j], 1)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "along several axes", "tile[(16, 16)]"),
    "barrier of lanes along two axes": (catalog.SharedNeedsTile, "@kernel\ndef k(x: f32[n], y: mut f32[n], alpha: f32):\n    j = launch.thread_id(1)\n    tbarrier()\n    ^^^^^^^^^^\n    y[j] = x[j]\n", "how large a group", "tile[(128,)]"),
    "barrier without tile": (catalog.SharedNeedsTile, HEAD + "    tbarrier()\n    ^^^^^^^^^^\n    y[i] = x[i]\n", "how large a group", "tile[(128,)]"),
    "shared without shape": (catalog.UnknownSharedShape, TILE + "    s = tile.alloc_shared()\n        ^^^^^^^^^^^^^^^^^^^\n    y[0] = s[0]\n", "nothing tells the shape", "copy into it"),
    "swizzle": (catalog.UnknownSwizzle, TILE + "    s = tshared.alloc[f32](8, swizzle=\"xorr\")\n        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "'xorr'", "xor"),
    "copy sizes": (catalog.BadCopy, TILE + "    s = tshared.alloc[f32](8)\n    cp_async.shared.global(s, x[0:4])\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "(8,) of f32", "same shape"),
    "copy backwards": (catalog.BadCopy, TILE + "    s = tshared.alloc[f32](8)\n    cp_async.shared.global(y, x[0:4])\n    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "not shared memory", "tshared.alloc"),
    "group size": (catalog.BadWidth, TILE + "    g = tile.cooperative_group(size=48)\n        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "not 48", ""),
    "shuffle of several warps": (
        catalog.BadWidth,
        TILE + "    y[0] = tile.cooperative_group(size=64).shuffle_down(x[0], 4)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n",
        "a group of 64 are in several warps", "",
    ),
    "shuffle width": (catalog.BadWidth, HEAD + "    y[i] = tile.warp_shuffle_down(x[i], 1, width=5)\n           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n", "not 5", ""),
    "value returned": (catalog.UnsupportedReturn, HEAD + "    return x[i]\n    ^^^^^^^^^^^\n", "returns nothing", "mut parameter"),
    "return in a loop": (catalog.UnsupportedReturn, HEAD + "    for j in range(4):\n        return\n        ^^^^^^\n", "inside a loop", "break"),
    "loop over an array": (catalog.UnsupportedLoop, TILE + "    for v in x:\n             ^\n        y[0] = v\n", "the array x", "range(n)"),
    "zero step": (catalog.ZeroStep, TILE + "    for j in range(0, n, 0):\n             ^^^^^^^^^^^^^^\n        y[j] = 0.0\n", "a step of 0", "at least 1"),
    "running step": (catalog.ConstantNeeded, HEAD + "    for b in tile.range(n, step=i):\n             ^^^^^^^^^^^^^^^^^^^^^\n        y[b] = 0.0\n", "the step of tile.range", "a number or an extent"),
    "shape changes in a loop": (catalog.UnstableLoopType, TILE + "    t = x[0:8]\n    for j in range(4):\n    ^^^^^^^^^^^^^^^^^^\n        t = tile.sum(t)\n", "at the start of a trip", "before the loop"),
    "branches disagree": (catalog.BranchMismatch, HEAD + "    v = 1.0\n    if i < n:\n    ^^^^^^^^^\n        v = x[0:8]\n    else:\n        v = x[0:4]\n    y[i] = 1.0\n", "on one path", "two names"),
    "mma_sync alone": (catalog.MmaOutsideRange, TILE + "    tile.mma_sync(0, 0, 0)\n    ^^^^^^^^^^^^^^^^^^^^^^\n", "no blocks here", "tile.mma(A, B, C"),
    "statement after break": (catalog.DeadBreak, HEAD + "    for j in range(4):\n        break\n        y[i] = 1.0\n        ^^^^^^^^^^\n", "nothing after", "remove it"),
    "running shape": (catalog.ConstantNeeded, HEAD + "    s = tshared.alloc[f32](i)\n        ^^^^^^^^^^^^^^^^^^^^^\n", "the shape of shared memory", "a number or an extent"),
    "division by zero": (catalog.DivisionByZero, HEAD + "    y[i] = x[4 // 0]\n             ^^^^^^\n", "4 divided by 0", "must not be 0"),
    "division of an index by zero": (catalog.DivisionByZero, HEAD + "    y[i] = x[i // 0]\n             ^^^^^^\n", "a scalar of i64 is divided by 0", "must not be 0"),
    "remainder of zero in place": (catalog.DivisionByZero, HEAD + "    i %= 0\n    ^^^^^^\n    y[i] = 0.0\n", "a scalar of i64 is divided by 0", "must not be 0"),
    "negative beyond the extent": (catalog.BeyondExtent, TILE + "    s = tshared.alloc[f32](6)\n    s[-7] = 0.0\n      ^^\n", "s has 6 elements here, and -7 counts 7 from the end", "use -6 to 5"),
    "negative slice beyond the extent": (catalog.BeyondExtent, TILE + "    s = tshared.alloc[f32](6)\n    y[0:7] = s[-7:]\n               ^^\n", "s has 6 elements here", "use -6 to 5"),
    "a bool as an index": (catalog.TypeMismatch, HEAD + "    y[i] = x[True]\n             ^^^^\n", "an index must be an integer, and this is the constant True", "i64(...)"),
    "a condition as an index": (catalog.TypeMismatch, HEAD + "    y[i] = x[i < 3]\n             ^^^^^\n", "a scalar of bool", "i64(...)"),
    "or of numbers": (catalog.TypeMismatch, HEAD + "    y[i] = x[i] or 7.0\n           ^^^^\n", "`or` joins conditions, and this is a scalar of f32", "`a if a != 0 else b`"),
    "and with a number": (catalog.TypeMismatch, HEAD + "    y[i] = i < n and 5.0\n                     ^^^\n", "`and` joins conditions, and this is the constant 5.0", "`b if a != 0 else a`"),
    "or of tiles": (catalog.TypeMismatch, TILE + "    y[0:8] = x[0:8] or 7.0\n             ^^^^^^\n", "this is a (8,) tile of f32", "`a if a != 0 else b`"),
    "is of numbers": (catalog.UnsupportedSyntax, HEAD + "    y[i] = 1.0 if i is 1 else 0.0\n                  ^^^^^^\n", "`is` does not compare numbers", "write =="),
    "is not of numbers": (catalog.UnsupportedSyntax, HEAD + "    y[i] = 1.0 if x[i] is not alpha else 0.0\n                  ^^^^^^^^^^^^^^^^^\n", "`is` does not compare numbers", "write !="),
    "a float declared an integer": (catalog.LossyStore, HEAD + "    a: i32 = x[i] + 0.7\n             ^^^^^^^^^^\n    y[i] = a\n", "f32 does not go into i32", "i32(...)"),
    "a fraction declared an integer": (catalog.LossyStore, HEAD + "    a: i32 = 0.7\n             ^^^\n    y[i] = a\n", "a float does not go into i32", "i32(...)"),
    "print": (catalog.NotCallable, HEAD + "    print(i)\n    ^^^^^^^^\n", "cannot be called", "look at it after the launch"),
    "try": (catalog.UnsupportedSyntax, HEAD + "    try:\n    ^^^^\n        y[i] = 0.0\n    except ValueError:\n        pass\n", "try has no meaning", "outside"),
    "lambda": (catalog.UnsupportedSyntax, HEAD + "    f = lambda v: v\n        ^^^^^^^^^^^\n", "a lambda", ""),
    "comprehension": (catalog.UnsupportedSyntax, HEAD + "    v = [j for j in range(4)]\n        ^^^^^^^^^^^^^^^^^^^^^\n", "a comprehension", ""),
    "string condition on tiles": (catalog.UnsupportedSyntax, TILE + "    if x[0:8] > 0.0:\n       ^^^^^^^^^^^^\n        y[0] = 1.0\n", "a condition of", "tile.where"),
    "in": (catalog.UnsupportedSyntax, HEAD + "    y[i] = i in (1, 2)\n           ^^^^^^^^^^^\n", "`in`", "=="),
    "assigning a parameter": (catalog.TypeMismatch, TILE + "    y = x[0:8]\n    ^\n", "y is a parameter", "y[:] = ..."),
    "unpacking": (catalog.TypeMismatch, TILE + "    a, b = 1, 2, 3\n    ^^^^\n", "does not unpack into 2 names", ""),
    "mma without matrices": (catalog.DotShape, TILE + "    for m, n2, k in tile.mma(x, x, y):\n                    ^^^^^^^^^^^^^^^^^\n        tile.mma_sync(m, n2, k)\n", "A is the array x", "rank-2"),
    "number of a tile": (catalog.TypeMismatch, HEAD + "    y[i] = tile.softmax(x[i])\n           ^^^^^^^^^^^^^^^^^^\n", "tile.softmax needs a tile", "slice"),
    "in a list": (catalog.UnsupportedSyntax, HEAD + '    y[i] = 1.0 if i in [1, 2] else 0.0\n                  ^^^^^^^^^^^\n', '`in` has no meaning in a kernel', '== and or'),
    "length of a number": (catalog.TypeMismatch, HEAD + '    y[i] = len(alpha)\n           ^^^^^^^^^^\n', 'len() of a scalar of f32', '.shape[0]'),
    "length of a tile": (catalog.TypeMismatch, TILE + '    y[0] = len(x[0:8])\n           ^^^^^^^^^^^\n', 'len() of a (8,) region of x', '.shape[0]'),
    "maximum of one": (catalog.WrongArguments, HEAD + '    y[i] = max(x[i])\n           ^^^^^^^^^\n', 'max takes two values or more', 'max(a, b)'),
    "spread arguments": (catalog.UnsupportedSyntax, HEAD + '    y[i] = tile.exp(*[x[i]])\n           ^^^^^^^^^^^^^^^^^\n', '* and ** arguments have no meaning', 'write the arguments out'),
    "division of one": (catalog.WrongArguments, HEAD + '    y[i] = x[ceil_div(n)]\n             ^^^^^^^^^^^\n', 'ceil_div takes two numbers', 'ceil_div(a, b)'),
    "a value as a type": (catalog.TypeMismatch, HEAD + '    v: alpha = 1.0\n       ^^^^^\n    y[i] = v\n', "a local's annotation is a dtype", 'acc: f32 = 0.0'),
    "declaration": (catalog.UnsupportedSyntax, HEAD + '    v: f32\n    ^^^^^^\n    y[i] = 1.0\n', 'a declaration without a value', 'give it a value'),
    "attribute of a block": (catalog.UnknownAttribute, TILE + '    for b in tile.range(x, step=4):\n        y[b.first] = 0.0\n          ^^^^^^^\n', "a block has no 'first'", 'start, stop and size'),
    "item of a tuple in place": (catalog.TypeMismatch, HEAD + '    t = (1.0, 2.0)\n    t[0] += 1.0\n    ^^^^^^^^^^^\n    y[i] = t[0]\n', 'the constant 1.0 cannot be changed in place', 'change a name or an array'),
    "wide character before the mistake": (catalog.UndefinedName, HEAD + "    größe = 1.0; y[i] = grüße2\n                        ^^^^^^\n", "'grüße2'", "'größe'"),
}  # fmt: skip


def split(text: str) -> tuple[str, int, int, int]:
    """The text without its line of carets, and where they point: line, column, end column (1-based)."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip() and set(line.strip()) == {"^"})
    marks = lines.pop(at)
    start = len(marks) - len(marks.lstrip())
    return "\n".join(lines) + "\n", at, start + 1, len(marks) + 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_mistake_names_its_place_and_its_remedy(case: str):
    kind, marked, message, remedy = CASES[case]
    text, line, column, end = split(marked)
    with pytest.raises(TesseraError) as caught:
        build(text, X, Y, A, namespace=OUTSIDE)
    error = caught.value
    assert type(error) is kind, str(error)
    assert message in error.message
    assert remedy in error.hint
    assert (error.span.line, error.span.column) == (line, column), str(error)
    shown_end = error.span.end_column if error.span.end_line == line else len(text.splitlines()[line - 1]) + 1
    assert shown_end == end, str(error)
    rendered = str(error).splitlines()
    assert rendered[0] == f"{kind.code} {kind.title}: {error.message}"
    assert rendered[2].endswith(text.splitlines()[line - 1])


class Surroundings(Options, total=False):
    """What a kernel's decorator may say, and the names outside the kernel."""

    namespace: Mapping[str, object]


def raises(kind: type[TesseraError], text: str, *arguments: Argument, **options: Unpack[Surroundings]) -> TesseraError:
    with pytest.raises(kind) as caught:
        build(text, *arguments, **options)
    return caught.value


def test_annotations():
    error = raises(catalog.BadAnnotation, "def k(x: f33[n]):\n    pass\n", X)
    assert "did you mean 'f32'?" in error.hint
    assert (error.span.line, error.span.column) == (2, 10)
    raises(catalog.BadAnnotation, "def k(x: f32[n + 1]):\n    pass\n", X)
    raises(catalog.NotDivisible, "def k(x: f32[n/tp]):\n    pass\n", X)
    assert "f64" in raises(catalog.ArgumentType, "def k(x: f32[n]):\n    pass\n", array(f64, 4)).message
    assert "2 axes" in raises(catalog.ArgumentType, "def k(x: f32[n, m]):\n    pass\n", X).message
    raises(catalog.ArgumentType, "def k(x: f32[n]):\n    pass\n", A)
    raises(catalog.ArgumentType, "def k(x: f32):\n    pass\n", X)
    raises(catalog.ArgumentType, "def k(x: i32):\n    pass\n", A)
    raises(catalog.ArgumentType, "def k(x: f32[n]):\n    pass\n", X, X)


def test_declared_only():
    error = raises(catalog.NoImplementation, "def tp_gemm(A: f16[M, K]): ...\n", array(f16, 4, 4))
    assert "its body is `...`" in error.message


def test_shared_budget_says_by_how_much():
    text = "def k(x: f32[n]):\n    s = tshared.alloc[f32](128, 32)\n    s[0, 0] = x[0]\n"
    error = raises(catalog.SharedOverflow, text, X, group=(128,), shared_limit=8192)
    assert "16384 bytes of shared memory are allocated, 8192 more than the budget of 8192" in error.message
    assert "shared(16_KiB)" in error.hint


def test_kernel_options():
    raises(catalog.BadKernelOption, "def k(x: f32[n]):\n    pass\n", X, group=(0,))
    raises(catalog.BadKernelOption, "def k(x: f32[n]):\n    pass\n", X, group=(2048,))
    raises(catalog.BadKernelOption, "def k(x: f32[n]):\n    pass\n", X, shared_limit=-1)


def test_literals_and_stores():
    text = "def k(b: mut i8[n]):\n    i = tile.linear_id()\n    b[i] = 300\n"
    assert "-128 to 127" in raises(catalog.LiteralOverflow, text, array(i8, 4)).hint
    text = "def k(b: mut i32[n], a: f32):\n    i = tile.linear_id()\n    b[i] = a\n"
    assert "i32(...)" in raises(catalog.LossyStore, text, array(i32, 4), A).hint


def test_mma_extents_disagree():
    text = "def g(A, B, C):\n    for m, n, k in tile.mma(A, B, C):\n        tile.mma_sync(m, n, k)\n"
    error = raises(catalog.DotShape, text, array(f32, 8, 16), array(f32, 8, 8), array(f32, 8, 8))
    assert "A.shape[1] is 16 and B.shape[0] is 8" in error.message


def test_outside_a_kernel():
    with pytest.raises(catalog.OutsideKernel, match=r"tile\.linear_id works only inside a kernel"):
        tile.linear_id()  # pyright: ignore[reportCallIssue] - it has types inside a kernel alone


def test_a_function_that_calls_itself():
    def again(v: float) -> float:
        return again(v)

    text = "def k(x: f32[n], y: mut f32[n]):\n    i = tile.linear_id()\n    y[i] = again(x[i])\n"
    assert "calls itself" in raises(catalog.NotCallable, text, X, Y, namespace={"again": again}).message
