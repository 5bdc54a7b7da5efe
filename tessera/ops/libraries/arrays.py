"""The library that an array belongs to: NumPy, or CuPy for arrays in a GPU's memory."""

import importlib
from typing import Any, TypeAlias

import numpy as np

from tessera.runtime.arrays.interop import is_cupy

Library: TypeAlias = Any  # NumPy, or CuPy, which has its functions and is optional
Numbers: TypeAlias = Any  # its arrays


def library_for(array: object) -> Library:
    """Return the module that an array belongs to: NumPy or CuPy."""
    return importlib.import_module("cupy") if is_cupy(array) else np
