"""Static pages of views: one piece of HTML that needs no kernel, no network and no other file.

Layout of a view in a page: a plain part (inline styles only, which survive where scripts and styles are removed), the
data as JSON, and the scripts that draw the view from the data and hide the plain part.
"""

import base64
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Final

from tessera.viz.base.payload import PACK_FROM, Json, as_text, deflated

CORE: Final = "core"
"""The script that all renderers stand on."""
LAZY: Final = frozenset({"graphviz"})
"""Scripts of large libraries (`frontend/src/lazy`), which live views send when a renderer asks for them."""


@lru_cache
def script(name: str) -> str:
    """Return a script of `static/`, built from `frontend/src` (`make frontend`)."""
    return files("tessera.viz").joinpath("static", f"{name}.js").read_text(encoding="utf-8")


def fragment(kind: str, data: Json, plain: str, scripts: Sequence[str] = ()) -> str:
    """Return a view as HTML for a cell's output.

    kind: the renderer; plain: the part without scripts; scripts: renderers that this one mounts inside of it
    """
    text = as_text(data)
    if len(text) < PACK_FROM:
        packed, text = "", text.replace("<", "\\u003c")
    else:
        packed, text = " data-packed", base64.b64encode(deflated(text)).decode("ascii")
    code = "\n".join(script(name) for name in dict.fromkeys((CORE, *scripts, kind)))
    return (
        f'<div class="tsr-view" data-kind="{kind}" data-lm-suppress-shortcuts="true">'
        f'<div class="tsr-plain">{plain}</div>'
        f'<script type="application/json" class="tsr-data"{packed}>{text}</script>'
        f"<script>{code}\nglobalThis.__tessera_v1.boot();</script></div>"
    )


def document(title: str, body: str) -> str:
    """Return a whole HTML document."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
        "<style>body{margin:12px;font-family:system-ui,sans-serif}"
        "@media (prefers-color-scheme: dark){body{background:#15181c;color:#e4e7eb}}</style></head>"
        f"<body><main>{body}</main></body></html>"
    )
