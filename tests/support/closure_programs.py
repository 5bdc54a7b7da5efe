"""Random functions that close over all kinds of things, and changes of these things between calls.

A program is plain Python on arrays: what it gives when it is called anew is right.
"""

import functools
import random
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

DEFINITIONS: Final = """
scale = 2.0
count = 3
table = [1.0, 0.5, 2.0]
nested = {"a": [1.0, 2.0], "b": {"c": 0.5}, "unused": 1}
settings = types.SimpleNamespace(rate=0.5, inner=types.SimpleNamespace(slope=2.0))
weights = {"w": np.full(4, 0.5, np.float32), "b": np.full((), 0.25, np.float32)}
layers = [np.full(4, 1.0 + k, np.float32) for k in range(3)]
single = np.full(4, 1.5, np.float32)
steps = np.array([0.5, 0.25])
pair = (2.0, [0.5])

class Config:
    rate = 0.5
    names = ["rate"]

class Layer:
    def __init__(self, rate):
        self.rate, self.calls = rate, 0
        self.w = np.full(4, rate, np.float32)

    def __call__(self, v):
        return self.bend(v) * self.w

    def bend(self, v):
        return v * self.rate + scale

class Wide(Layer):
    pass

layer, wide = Layer(0.5), Wide(0.25)

def helper(v):
    return v * scale

def outer(v):
    return helper(v) + count

def chosen(v, rate=0.5, *, power=2):
    return v * rate * power

def made():
    held, array = 0.5, np.full(4, 0.5, np.float32)
    def inner(v):
        return v * held + array
    def change(value, elements):
        nonlocal held, array
        held, array = value, elements
    return inner, change

inner, change = made()
bound = functools.partial(chosen, rate=0.25)
method = layer.bend
activations = {"f": lambda v: v * scale, "g": abs}
"""

TERMS: Final = (
    "v * scale", "v - count", "v * table[1]", "sum([v * each for each in table])", "v * len(table)", "v * nested['b']['c']",
    "v * sum(nested['a'])", "v * settings.rate", "v * settings.inner.slope", "v * weights['w'] + weights['b']",
    "sum([v * each for each in layers])", "v * layers[0] - layers[2]", "v + single", "v * float(steps[0])",
    "v * pair[0] + pair[1][0]", "v * Config.rate", "v * getattr(Config, Config.names[0])", "layer(v)", "wide(v)",
    "wide.bend(v)", "helper(v)", "outer(v)", "chosen(v)", "chosen(v, power=count)", "inner(v)", "bound(v)", "method(v)",
    "activations['f'](v)", "[f for f in activations.values()][0](v)", "(lambda u: u * scale + count)(v)",
    "v * max(count, 2)", "functools.reduce(lambda a, b: a * b, table, v)", "v * (1.0 if 'x' in nested else 2.0)",
    "v * float(np.mean(steps))", "v * vars(settings)['rate']",
)  # fmt: skip

CHANGES: Final = (
    "scale = {f}", "count = {i}", "table[{i} % 3] = {f}", "table.append({f})", "table = [{f}, 1.0, {f}]",
    "nested['b']['c'] = {f}", "nested['a'].append({f})", "nested['a'] = [{f}]", "nested['unused'] = {i}",
    "nested['x'] = 1", "nested.pop('x', None)", "settings.rate = {f}", "settings.inner.slope = {f}",
    "settings.inner = types.SimpleNamespace(slope={f})", "settings.other = {f}", "weights['w'] = {a}",
    "weights['w'][:] = {f}", "weights['w'] = {a}.astype(np.float64)", "weights['w'] = single", "weights['b'] = {f}",
    "layers[{i} % 3] = {a}", "layers[0] = layers[2]", "layers[1] = single", "layers.reverse()", "layers.append({a})",
    "single = {a}", "single[{i} % 4] = {f}", "single = single[::-1]", "steps[0] = {f}", "steps = np.array([{f}, {f}])",
    "pair = ({f}, [{f}])", "pair[1][0] = {f}", "Config.rate = {f}", "Config.names = ['other']; Config.other = {f}",
    "layer.rate = {f}", "layer.calls = layer.calls + 1", "layer.w = {a}", "layer.w[:] = {f}", "wide = Wide({f})",
    "Layer.bend = lambda self, v: v * {f}", "Wide.bend = lambda self, v: v * self.rate - {f}", "wide.rate = -0.0",
    "def helper(v):\n    return v * scale + {f}", "def helper(v):\n    return v * count", "chosen.__defaults__ = ({f},)",
    "def chosen(v, rate={f}, *, power={i}):\n    return v * rate - power", "change({f}, {a})", "change(0.5, single)",
    "bound = functools.partial(chosen, rate={f})", "method = wide.bend", "activations['f'] = lambda v: v * {f}",
    "activations['f'] = helper", "max = lambda a, b: a * {f} + b", "scale = np.float32({f})", "scale = -0.0", "scale = 1",
    "scale = scale + 0.0", "table = list(table)", "helper.__code__ = (lambda v: v * {f}).__code__",
)  # fmt: skip


@dataclass
class ClosureProgram:
    """A random function, and the namespace that it reads.

    text: of the function; history: the changes so far
    """

    namespace: dict[str, Any]
    text: str
    random: random.Random
    history: list[str]

    @classmethod
    def drawn(cls, seed: int) -> "ClosureProgram":
        """Return a program of two to five terms."""
        drawn = random.Random(seed)
        namespace: dict[str, Any] = {"np": np, "types": types, "functools": functools, "__name__": "a_notebook"}
        exec(DEFINITIONS, namespace)
        terms = drawn.sample(TERMS, drawn.randint(2, 5))
        text = "def f(v):\n" + "".join(f"    v = {term}\n" for term in terms) + "    return v\n"
        exec(text, namespace)
        return cls(namespace, text, drawn, [])

    @property
    def function(self) -> Callable[..., Any]:
        """The function."""
        return self.namespace["f"]

    def change(self) -> None:
        """Change something."""
        numbers = (0.5, 0.75, 1.25, 2.0, -1.5)
        text = self.random.choice(CHANGES)
        while "{" in text:
            array = f"np.array({[self.random.choice(numbers) for _ in range(4)]}, np.float32)"
            text = text.replace("{f}", repr(self.random.choice(numbers)), 1)
            text = text.replace("{i}", repr(self.random.randint(1, 4)), 1).replace("{a}", array, 1)
        self.history.append(text)
        exec(text, self.namespace)
