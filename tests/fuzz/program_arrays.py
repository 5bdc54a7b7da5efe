"""Arguments of a random program in the libraries that people bring: NumPy, PyTorch and CuPy, in several layouts."""

# Arrays of any library, nested in dicts and lists, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import importlib
import importlib.util
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from support.operators import Array

Tree: TypeAlias = Array
"""Arrays, nested in dicts and lists."""
LIBRARIES: Final = ("numpy", "torch", "cupy")
LAYOUTS: Final = ("plain", "plain", "plain", "fortran", "step", "reversed")


def library_of(number: int, target: str) -> str:
    """Return a library whose arrays `target` takes, of those installed: on a GPU its own, on the CPU NumPy and PyTorch."""
    fitting = LIBRARIES if target == "cuda" else LIBRARIES[:2]
    there = [name for name in fitting if importlib.util.find_spec(name)]
    return there[number % len(there)]


def laid(x: Array, layout: str) -> Array:
    """Return an equal array that lies in memory as `layout` says; PyTorch has no steps below zero."""
    if layout == "fortran":
        return x.T.copy().T if isinstance(x, np.ndarray) else x.mT.contiguous().mT
    if layout == "step":
        return x.repeat(2, -1)[..., ::2] if isinstance(x, np.ndarray) else x.repeat_interleave(2, -1)[..., ::2]
    return x[..., ::-1].copy()[..., ::-1] if layout == "reversed" and isinstance(x, np.ndarray) else x


def placed(array: Array, library: str, target: str, layout: str = "plain") -> Array:
    """Return a NumPy array as one of a library, in the memory of the target."""
    if library == "torch":
        torch = importlib.import_module(library)
        return laid(torch.tensor(array, device="cuda" if target == "cuda" else "cpu"), layout)
    if library == "cupy":
        return importlib.import_module(library).asarray(laid(array, layout))
    return laid(array, layout)


def to_numpy(array: Array, library: str) -> Array:
    """Return a result, which has to be an array of a library, as one of NumPy."""
    assert type(array).__module__.split(".")[0] == library, f"a result is {type(array)}"
    if library == "torch":
        return array.detach().cpu().numpy()
    return array.get() if library == "cupy" else np.asarray(array)


def leaves(tree: Tree) -> list[Array]:
    """Return the arrays of a tree, in order."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [leaf for each in tree for leaf in leaves(each)] if isinstance(tree, list | tuple) else [tree]


def mapped(function: Callable[..., Array], tree: Tree, *others: Tree) -> Tree:
    """Apply a function to the arrays of trees that are alike."""
    if isinstance(tree, dict):
        return {name: mapped(function, each, *(other[name] for other in others)) for name, each in tree.items()}
    if isinstance(tree, list | tuple):
        return [mapped(function, *each) for each in zip(tree, *others, strict=True)]
    return function(tree, *others)


def shared(arrays: list[Array]) -> bool:
    """Return whether two of some arrays of NumPy lie in the same memory."""
    return any(np.shares_memory(a, b) for place, a in enumerate(arrays) for b in arrays[:place])
