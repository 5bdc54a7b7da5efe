# pyright: basic
# The language's names have no Python types: what is checked strictly is everything around kernels.
"""The kernel behind `poisson` with an array of rates: each element draws from a stream of random bits of its own.

Below a rate of 10, inversion of the distribution function; above it, transformed rejection: Hörmann, "The transformed
rejection method for generating Poisson random variables", Insurance: Mathematics and Economics 12, 1993 (PTRS).
Nothing but additions, products, quotients, square roots and conversions is needed, which every target rounds alike.
"""

from __future__ import annotations

from typing import Final

from tessera import ceil_div, f32, i64, kernel, mut, tensor, tile, u32

MOST_INVERTED: Final = 10.0
MOST_COUNTED: Final = 127
"""Beyond what 32 bits reach for a mean of 10."""
MOST_TRIALS: Final = 64
"""Each is taken with a probability of 0.7 at least: the last one is never reached."""
_TURN: Final = 6.2831853
_LOG_2: Final = 0.69314718


def block_of(element, number, stream, k0, k1):
    """Four words of Philox 4x32-10 of the counter (element, its upper half, stream, number)."""
    c0, c1, c2, c3 = u32(element & 0xFFFFFFFF), u32(element >> 32), u32(stream), u32(number)
    for _ in range(10):
        high0, low0 = tile.mulhi(c0, u32(0xD2511F53)), c0 * u32(0xD2511F53)
        high1, low1 = tile.mulhi(c2, u32(0xCD9E8D57)), c2 * u32(0xCD9E8D57)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + u32(0x9E3779B9), k1 + u32(0xBB67AE85)
    return c0, c1, c2, c3


def fraction_of(word):
    """The middle of one of 2^24 parts of (0, 1)."""
    return (f32(word >> u32(8)) + 0.5) * 5.9604645e-08


def logarithm(x):
    """log x of a positive number from 2^-60 to 2^60, by the series of artanh."""
    power = 0.0
    for step in (32.0, 16.0, 8.0, 4.0, 2.0, 1.0):
        small = x < 2.0**-step
        large = x > 2.0**step
        x = x * 2.0**step if small else (x * 2.0**-step if large else x)
        power = power - step if small else (power + step if large else power)
    t = (x - 1.0) / (x + 1.0)
    s = t * t
    series = (
        (((((s * 0.15384616 + 0.18181819) * s + 0.22222222) * s + 0.2857143) * s + 0.4) * s) + 0.6666667
    ) * s + 2.0
    return power * _LOG_2 + t * series


def exponential(x):
    """exp(-x) of a number from 0 to 10, as a power of 16 of a short series."""
    y = x * 0.0625
    tail = 0.008333334 - y * (0.0013888889 - y * (0.0001984127 - y * 2.4801588e-05))
    root = 1.0 - y * (1.0 - y * (0.5 - y * (0.16666667 - y * (0.041666668 - y * tail))))
    for _ in range(4):
        root = root * root
    return root


def deviance(k, rate):
    """k log(k / rate) + rate - k, without cancellation where k is near the rate (Loader 2000)."""
    difference = k - rate
    v = difference / (k + rate)
    s = v * v
    near = difference * v + 2.0 * k * v * s * (
        0.33333334 + s * (0.2 + s * (0.14285715 + s * (0.11111111 + s * (0.09090909 + s * 0.07692308))))
    )
    return near if s < 0.04 else k * logarithm(k / rate) + rate - k


def inverted(word, mean, inverse):
    """The count where the distribution function passes a word of 2^32: masses are taken off it one after the other."""
    count = 0
    mass = exponential(mean)
    first = i64(mass * 4294967296.0)
    if i64(word) >= first:
        left = u32(i64(word) - first)
        part = u32(1)
        more = True
        while more:
            count += 1
            mass = mass * (mean * inverse[count])
            part = u32(mass * 4294967296.0)
            more = left >= part and count < MOST_COUNTED and (part > u32(0) or f32(count) < mean)
            left = left - part
    return count


def rejected(element, stream, k0, k1, mean):
    """The count by transformed rejection, for a mean of 10 and more."""
    root = tile.sqrt(mean)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    scale = 1.1239 + 1.1328 / (b - 3.4)
    sure = 0.9277 - 3.6224 / (b - 2.0)
    count = 0.0
    number = 0
    taken = False
    while not taken:
        number += 1
        words = block_of(element, number, stream, k0, k1)
        u, v = fraction_of(words[0]) - 0.5, fraction_of(words[1])
        side = 0.5 - abs(u)
        count = tile.floor((2.0 * a / side + b) * u + mean + 0.43)
        taken = side >= 0.07 and v <= sure
        if not taken and count >= 0.0 and (side >= 0.013 or v <= side):
            hat = v * scale / (a / (side * side) + b)
            if count == 0.0:
                taken = logarithm(hat) <= -mean
            else:
                mass = logarithm(hat * tile.sqrt(_TURN * count))
                taken = mass <= -deviance(count, mean) - 0.083333336 / count
        taken = taken or number >= MOST_TRIALS
    return count


@kernel
def poisson_counts(rate: tensor, key: tensor, inverse: tensor, stream: i64, counts: mut[tensor]):
    """counts[n]: of the Poisson distributions with these rates; -1 for a rate below 0 or NaN.

    A lane has four elements, which share a block of random words.  inverse: 1 / k
    """
    n = rate.shape[0]
    t = tile.linear_id()
    if t < ceil_div(n, 4):
        words = block_of(i64(t), 0, stream, key[0], key[1])
        for place in range(4):
            i = i64(t) * 4 + place
            if i < n:
                mean = rate[i]
                count = -1.0
                if mean >= 0.0 and mean < MOST_INVERTED:
                    word = words[0] if place == 0 else words[1] if place == 1 else words[2] if place == 2 else words[3]
                    count = f32(inverted(word, mean, inverse))
                elif mean >= MOST_INVERTED:
                    count = rejected(i, stream, key[0], key[1], mean)
                counts[i] = tile.cast(count, counts.dtype)
