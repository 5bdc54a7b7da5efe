"""Ten thousand damaged kernels through reading and building: TesseraErrors or Programs, never anything else."""

import ast
import copy
import random
import re
from typing import cast

import pytest

from frontend.build.test_build import DOCUMENTS
from support.documents import KERNELS
from tessera.core.errors.base import TesseraError
from tessera.frontend.build.build import specialise
from tessera.frontend.syntax.source_file import read_cell, to_plain_python

MUTANTS = 10_000
PLAIN = {name: to_plain_python(KERNELS[name]) for name in DOCUMENTS}
TOKEN = re.compile(r"\w+|\S|[ ]+|\n")
VOCABULARY = [
    "tile",
    "tshared",
    "tbarrier",
    "launch",
    "cp_async",
    "reduce_sum",
    "n",
    "m",
    "x",
    "y",
    "X",
    "Y",
    "A",
    "B",
    "C",
    "i",
    "k",
    "t",
    "acc",
    "0",
    "1",
    "2",
    "-1",
    "128",
    "0.5",
    "1e9",
    "True",
    "None",
    "f32",
    "f16",
    "i8",
    "mut",
    "tensor",
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "@",
    "&",
    "|",
    "^",
    "<<",
    ">>",
    "<",
    "<=",
    "==",
    "!=",
    "and",
    "or",
    "not",
    "is",
    "in",
    "if",
    "else",
    "elif",
    "for",
    "while",
    "break",
    "continue",
    "return",
    "pass",
    "range",
    "sum",
    "max",
    "softmax",
    "dot",
    "load",
    "store",
    "exp",
    "where",
    "arange",
    "full",
    "zeros",
    "cast",
    "reshape",
    "T",
    "shape",
    "dtype",
    "start",
    "stop",
    "size",
    ":",
    ",",
    ".",
    "(",
    ")",
    "[",
    "]",
    "=",
    "+=",
    "lambda",
    "def",
    "class",
    "try",
    "with",
    "import",
    "del",
    "global",
    "yield",
    "await",
    "print",
    "min",
    "abs",
    "len",
    "float",
    "int",
    "bool",
    "8_KiB",
    "axis=0",
    "step=128",
    "index=",
    "value=",
    "'\"'",
    "#",
    "\\",
]


def mutate(text: str, rng: random.Random) -> str:
    """One to four edits of tokens or characters."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(tokens))
        kind = rng.random()
        if kind < 0.35:
            tokens[at] = rng.choice(VOCABULARY)
        elif kind < 0.5:
            del tokens[at]
        elif kind < 0.65:
            tokens.insert(at, rng.choice(VOCABULARY))
        elif kind < 0.8:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind < 0.9:
            tokens.insert(at, tokens[rng.randrange(len(tokens))])
        else:
            tokens[at] = rng.choice(["é", "\t", "\x00", "日", "\\\n", "    ", "\n", "'''"])
        if not tokens:
            tokens = ["\n"]
    return "".join(tokens)


EXPRESSIONS = [
    ast.parse(text, mode="eval").body
    for text in (
        "0", "-1", "3", "0.5", "True", "None", "n", "x", "X", "X[0]", "X[0:8]", "X[:, 0:8]", "X.shape", "X.T", "tile", "f32", "()", "(1, 2)",
        "[4, 2]", "tile.linear_id()", "tile.lane_id", "tile.sum(X)", "tile.zeros((8, 8))", "tile.arange(8)", "tile.exp(0.5)", "range(4)",
        "tile.range(X, step=8)", "tshared.alloc[f32](8)", "tile.alloc_shared()", "X[0] < 1.0", "X[0:8] * 2", "tile.dot(X, X)", "1 // 0",
        "tile.cooperative_group(size=32)", "tile.where(X[0:4] > 0, 1, 2)", "min(1, X[0])", "2 ** 0.5", "'text'", "not X[0]", "...",
        "X[None]", "X[..., 0]", "X[-1]", "X[0:4][:, None]", "10 ** 400", "1 << 70", "abs(-3)", "tile.warp_shuffle_xor(1.0, 2)",
    )
]  # fmt: skip


def graft(text: str, rng: random.Random) -> str:
    """Replace expressions by others, and drop, repeat or move statements: the result parses, and means something else."""
    tree = ast.parse(text)
    for _ in range(rng.randint(1, 3)):
        parents = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr | ast.keyword)]
        parent = rng.choice(parents)
        body: object = getattr(parent, "body", None)  # an expression too may have one, which is no list
        if rng.random() < 0.25 and isinstance(body, list) and body:
            statements = cast("list[ast.stmt]", body)
            at, donor = rng.randrange(len(statements)), rng.choice([n for n in parents if isinstance(n, ast.stmt)])
            statements[at : at + rng.randint(0, 1)] = (
                [copy.deepcopy(donor)] if not isinstance(donor, ast.FunctionDef) else []
            )
            continue
        fields = [
            (name, value)
            for name, value in ast.iter_fields(parent)
            if isinstance(value, ast.expr) and name != "annotation"
        ]
        if fields:
            name, _ = rng.choice(fields)
            expressions = [n for n in ast.walk(tree) if isinstance(n, ast.expr)]
            setattr(parent, name, copy.deepcopy(rng.choice(EXPRESSIONS if rng.random() < 0.7 else expressions)))
    return ast.unparse(ast.fix_missing_locations(tree))


def outcome(text: str, name: str) -> str:
    """What becomes of one text: "built", or the code of the error."""
    arguments, options = DOCUMENTS[name]
    try:
        for kernel in read_cell(text, "<mutant>").kernels:
            specialise(kernel, arguments, {}, **options)
    except TesseraError as error:
        return str(error).split()[0]
    return "built"


@pytest.mark.parametrize("part", range(8))
def test_damaged_kernels_end_in_tessera_errors(part: int):
    rng = random.Random(f"tessera {part}")
    seen: dict[str, int] = {}
    for turn in range(MUTANTS // 8):
        name = rng.choice(list(DOCUMENTS))
        text = mutate(KERNELS[name], rng) if turn % 3 == 0 else graft(PLAIN[name], rng)
        try:
            result = outcome(text, name)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error
        seen[result] = seen.get(result, 0) + 1
    # The fuzzer reaches every stage: text, names, types, shapes; and some mutants are still kernels.
    assert seen.get("built", 0) > MUTANTS // 8 * 0.05
    assert {"TSR-E001", "TSR-E101", "TSR-E104", "TSR-E105"} <= set(seen)
    assert seen["TSR-E001"] < MUTANTS // 8 * 0.6
