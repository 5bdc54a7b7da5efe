"""Programs as text."""

from frontend.kernels import array, build
from tessera.core.base.dtypes import f32
from tessera.core.program.text import to_text

TEXT = """@kernel
def k(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    v = x[i]
    if i < n:
        v = v + 1.0
    y[i] = v
"""

WANT = """kernel k(%x: array<nxf32>, %y: mut array<nxf32>)
  domain lanes n
  %0 = dim [symbol=n] : i64
  %i = id [of=lane] : i64
  %v = read %x, %i : f32
  %1 = cmp %i, %0 [predicate=lt] : bool
  %v_1 = if %1 : f32
  {
    %2 = const [value=1.0] : f32
    %v_2 = add %v, %2 : f32
    yield %v_2
  }
  {
    yield %v
  }
  write %y, %v_1, %i
"""


def test_text():
    assert to_text(build(TEXT, array(f32, 8), array(f32, 8))) == WANT
