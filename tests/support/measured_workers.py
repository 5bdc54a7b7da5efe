"""Let compiler processes write down which lines they ran: `make coverage` loads this plugin, nothing else does.

A service ends its processes with SIGKILL, after which nothing is written.  Here each gets SIGTERM first, upon which
coverage saves its data.  Tests with the marker `untraced` are skipped: an interrupt inside of coverage's own code
leaves its lock taken.
"""

import subprocess
from contextlib import suppress

import pytest

from tessera.lowering.service.server import Worker

SECONDS = 20


@pytest.fixture(scope="session", autouse=True)
def _measured_workers() -> None:
    """End processes in a way that they can notice, for the whole run."""
    stop = Worker.stop

    def save_and_stop(self: Worker) -> None:
        self.closed = True  # before the process ends: who waits for its reply asks why it died
        if self.process.poll() is None:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=SECONDS)
        stop(self)

    Worker.stop = save_and_stop  # until the process ends: services end their workers at exit


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot run with a tracer."""
    for item in items:
        if item.get_closest_marker("untraced"):
            item.add_marker(pytest.mark.skip(reason="interrupts the tracer of coverage, too"))
