"""The code of the documents that Tessera is built from, word for word, by the names in `documents.md`."""

import re
from pathlib import Path
from typing import Final

_TEXT: Final = Path(__file__).with_name("documents.md").read_text(encoding="utf-8")

BLOCKS: Final[dict[str, str]] = dict(re.findall(r"^## (\w+)\n\n```\w+\n(.*?)^```", _TEXT, re.DOTALL | re.MULTILINE))
"""Every block."""

KERNELS: Final[dict[str, str]] = {
    name: code for name, code in BLOCKS.items() if re.search("^@kernel", code, re.MULTILINE)
}
"""The blocks that define a kernel."""

DISTRIBUTED: Final[dict[str, str]] = dict(
    re.findall(
        r"^## (\w+)\n\n```\n(.*?)^```",
        Path(__file__).with_name("distributed_documents.txt").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
)
"""The blocks about meshes, letter for letter: the formatter leaves them alone."""
