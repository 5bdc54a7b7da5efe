"""tanh and erf of f32 and f64: a polynomial near zero, one minus something small far from it.

Coefficients are minimax (Remez exchange in 50 digits), in relative error near zero, in absolute error far from it.
"""

from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.math.algebra import Algebra
from tessera.lowering.math.exponential import exp

# tanh(x) = x + x^3 * p(x^2) on |x| <= 0.625.
_TANH: Final = {
    32: (
    -0.3333333090252365, 0.1333320958923046, -0.05394718090628696, 0.021702832685728615,
    -0.00818232685298263, 0.0021472067241926638,
),
    64: (
    -0.3333333333333333, 0.13333333333333164, -0.053968253968132394, 0.021869488531771047,
    -0.008863235436509851, 0.0035921267554424327, -0.001455822478913063, 0.0005899501847486629,
    -0.00023877419512006336, 9.575905783120296e-05, -3.6637689964577776e-05, 1.180537851440919e-05,
    -2.276001547401123e-06,
),
}  # fmt: skip
_TANH_LIMIT: Final = 0.625
# erf(x) = x * p(x^2) on |x| <= 1.
_ERF: Final = {
    32: (
    1.1283791657258102, -0.37612625816904155, 0.11283585053356128, -0.026853807449101427,
    0.005188318213492611, -0.0008010102102554182, 7.853531793066391e-05,
),
    64: (
    1.1283791670955126, -0.37612638903183754, 0.11283791670955119, -0.026866170645129733,
    0.005223977625422067, -0.0008548327021851818, 0.00012055332899294825, -1.492564746319152e-05,
    1.6462043367639463e-06, -1.6364613848037174e-07, 1.479214023484312e-08, -1.2163007726636692e-09,
    8.703666661885872e-11, -4.222700140443682e-12,
),
}  # fmt: skip
ERF_NEAR: Final = _ERF[32]
"""Of f32: erf(x) = x * p(x^2) on |x| <= 1, the constant first."""
# log(1 - erf(x)) = p(x - 1) from 1 to where erf is 1.
_ERF_TAIL: Final = {
    32: (
    -1.8496055098311879, -2.6389675305654707, -0.8431068512102671, -0.04156478452591966,
    0.010050037175272966, -0.002017190761864031, 0.0002936211663601683, -2.3304061431171743e-05,
    2.513057247485363e-07,
),
    64: (
    -1.8496055099332482, -2.6389675142347913, -0.8431072563584869, -0.04156109804649037, 0.01003382543396496,
    -0.001977903019645438, 0.00023732470862672885, 2.6270325861729657e-05, -2.714083382666564e-05,
    9.57643795925192e-06, -2.016709402405606e-06, 9.97124375146624e-08, 1.3042964870241714e-07,
    -7.108574255486746e-08, 2.325642135753425e-08, -5.5948287694006525e-09, 1.0211288057130203e-09,
    -1.3871122786636415e-10, 1.3260275581555947e-11, -7.955328492102248e-13, 2.2489284782287693e-14,
),
}  # fmt: skip
_ERF_LIMIT: Final = {32: 4.0, 64: 6.0}


def tanh(k: Algebra, x: ir.Value) -> ir.Value:
    """Return the hyperbolic tangent, within 2 ulp."""
    square = k.mul(x, x)
    near = k.fma(k.mul(square, x), k.polynomial(square, _TANH[k.bits]), x)
    magnitude = k.abs(x)
    one = k.constant(1.0)
    grown = exp(k, k.add(magnitude, magnitude))
    far = k.sub(one, k.div(k.constant(2.0), k.add(grown, one)))
    small = k.less(magnitude, k.constant(_TANH_LIMIT))
    return k.with_sign(k.select(small, near, far), x)


def erf(k: Algebra, x: ir.Value) -> ir.Value:
    """Return the error function, within 2 ulp."""
    magnitude = k.abs(x)
    square = k.mul(x, x)
    first, *rest = _ERF[k.bits]
    near = k.fma(x, k.polynomial(square, (first - 1.0, *rest)), x)
    top = k.constant(_ERF_LIMIT[k.bits])
    clamped = k.select(k.compare(2, magnitude, top), top, magnitude)
    beyond = k.sub(clamped, k.constant(1.0))
    far = k.sub(k.constant(1.0), exp(k, k.polynomial(beyond, _ERF_TAIL[k.bits])))
    return k.select(k.less(magnitude, k.constant(1.0)), near, k.with_sign(far, x))
