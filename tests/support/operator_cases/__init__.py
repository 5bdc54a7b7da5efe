"""One row for each operator of `tessera.op`: how to call it, what NumPy gives in f64, and what it refuses."""

from typing import Final

from support.operator_cases.case import Case, Spec
from support.operator_cases.elements_and_arrays import ARRAYS, ELEMENTS
from support.operator_cases.functions import ACTIVATIONS, NUMBERS
from support.operator_cases.images import IMAGES
from support.operator_cases.networks import CONTROL, NETWORKS, RANDOM
from support.operator_cases.normalizations import NORMALIZATIONS
from support.operator_cases.products import PRODUCTS, TRANSFORMS
from support.operator_cases.rearranging import REARRANGING, REDUCTIONS
from support.operator_cases.universal import UNIVERSAL

__all__ = ["CASES", "Case", "Spec"]

CASES: Final[dict[str, Case]] = {
    **ELEMENTS, **ARRAYS, **REARRANGING, **REDUCTIONS, **PRODUCTS, **TRANSFORMS, **IMAGES, **RANDOM, **NETWORKS,
    **CONTROL, **ACTIVATIONS, **NUMBERS, **NORMALIZATIONS, **UNIVERSAL,
}  # fmt: skip
