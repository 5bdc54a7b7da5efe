"""A real notebook kernel: completion, help, the progress of a search, its interruption, prompts of cells run again."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager, start_new_kernel

_PATIENCE = 120.0
CELL = "%%tessera\n@kernel\ndef k(x: f32[n], y: mut f32[n]):\n    "


class Notebook:
    """A kernel and what it sends."""

    def __init__(self, manager: KernelManager, client: Any) -> None:  # its calls are made at run time
        self.manager, self.client = manager, client

    def complete(self, code: str) -> list[str]:
        return self.client.complete(code, len(code), reply=True, timeout=_PATIENCE)["content"]["matches"]

    def inspect(self, code: str) -> str:
        content = self.client.inspect(code, len(code), reply=True, timeout=_PATIENCE)["content"]
        return re.sub(r"\x1b\[\d*m", "", content["data"].get("text/plain", ""))

    def messages(self, code: str) -> Iterator[tuple[str, dict[str, Any]]]:  # JSON of the protocol
        """Run a cell; give what it displays, and its errors, as it comes."""
        sent = self.client.execute(code)
        while True:
            message = self.client.get_iopub_msg(timeout=_PATIENCE)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return
            yield message["msg_type"], message["content"]

    def run(self, code: str) -> list[tuple[str, dict[str, Any]]]:  # JSON of the protocol
        return list(self.messages(code))


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder: Path = tmp_path_factory.mktemp("kernel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESSERA_CACHE_DIR", str(folder / "cache"))
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        manager, client = start_new_kernel(kernel_name="python3", startup_timeout=_PATIENCE)
    made = Notebook(manager, client)
    assert not [content for kind, content in made.run("%load_ext tessera_magics") if kind == "error"]
    yield made
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_names_of_the_language_complete(notebook: Notebook) -> None:
    assert "softmax" in notebook.complete(CELL + "tile.")
    assert set(notebook.complete("%%tessera\n@kernel\ndef k(x: f")) >= {"f16", "f32"}
    assert "float" not in notebook.complete("%%tessera\n@kernel\ndef k(x: f")
    assert notebook.complete(CELL + "for t in tile.range(n, pre")[0] == "prefetch="
    assert notebook.complete("%%tessera --target c")[:2] == ["cpu", "cuda"]


def test_an_operation_is_described(notebook: Notebook) -> None:
    shown = notebook.inspect(CELL + "tile.softmax")
    assert "tile.softmax(x, axis=-1)" in shown
    assert "y[r, :] = tile.softmax(x[r, :])" in shown
    assert "tile.softmax(x, axis=-1)" in notebook.inspect(CELL + "y[:] = tile.softmax(")


DEFINE = """%%tessera
@kernel
def gemm(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=64, BN=64, BK=32):
        tile.mma_sync(i, j, l)

import numpy as np
a = np.ones((256, 256), np.float32)
c = np.zeros_like(a)
gemm(a, a, c)
"""
SEARCH = "%%tessera\nfound = autotune.search(kernel=gemm, params={params}, args=(a, a, c))"


def test_a_search_shows_its_progress(notebook: Notebook) -> None:
    notebook.run(DEFINE)
    sent = notebook.run(SEARCH.format(params={"BM": [32, 64]}))
    kinds = [kind for kind, _ in sent]
    assert kinds.count("display_data") == 1
    assert "update_display_data" in kinds
    assert "error" not in kinds
    texts = [content["data"]["text/html"] for kind, content in sent if kind.endswith("display_data")]
    assert "tuning gemm: " in texts[0]
    assert "tuned gemm: 2 of 2 configurations" in texts[-1]


@pytest.mark.untraced
def test_an_interrupted_search_gives_the_best_so_far(notebook: Notebook) -> None:
    notebook.run(DEFINE)
    many = {"BM": [16, 32, 64, 128], "BN": [16, 32, 64, 128], "BK": [16, 32, 64, 128]}
    kinds: list[str] = []
    texts: list[str] = []
    stopped = 0.0
    for kind, content in notebook.messages(SEARCH.format(params=many)):
        kinds.append(kind)
        if kind.endswith("display_data"):
            if not texts:  # as soon as there is something to be seen
                stopped = time.monotonic()
                notebook.manager.interrupt_kernel()
            texts.append(content["data"]["text/html"])
    assert "error" not in kinds
    assert "tuning of gemm interrupted after " in texts[-1]
    assert time.monotonic() - stopped < 60
    (shown,) = [c for kind, c in notebook.run("found.interrupted, 'BM' in found.config") if kind == "execute_result"]
    assert shown["data"]["text/plain"] == "(True, True)"


def test_a_cell_that_runs_again_has_its_new_prompt(notebook: Notebook) -> None:
    code = "%%tessera --show tile\n@kernel\ndef twice(x: f32[64], y: mut f32[64]):\n    y[:] = 2.0 * x[:]"
    for _ in range(2):
        sent = notebook.run(code)
        count = next(content["execution_count"] for kind, content in sent if kind == "execute_input")
        (html,) = [content["data"]["text/html"] for kind, content in sent if kind == "display_data"]
        assert re.findall(r"Cell In\[\d+\]", html)[:1] == [f"Cell In[{count}]"]
