"""Philox 4x32-10 against the vectors that its authors publish (Random123, kat_vectors)."""

import numpy as np
import pytest

from tessera.core.base.philox import philox, random_bits


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers(counter: tuple[int, ...], key: tuple[int, ...], words: str):
    made = philox([np.array(word, np.uint32) for word in counter], [np.array(word, np.uint32) for word in key])
    assert " ".join(f"{int(word):08x}" for word in made) == words


def test_elements_are_words_of_blocks():
    key = np.array([5, 77], np.uint32)
    bits = random_bits(key, 11, 3)
    for number in range(11):
        counter = [np.array(word, np.uint32) for word in (number // 4, 0, 3, 0)]
        assert bits[number] == philox(counter, [key[0], key[1]])[number % 4]
    assert random_bits(key, 0, 3).shape == (0,)
    assert not np.array_equal(random_bits(key, 11, 4), bits)
