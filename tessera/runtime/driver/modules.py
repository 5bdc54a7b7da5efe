"""An artifact's code in the memory of a GPU.

It stays there: unloading code waits for all that the GPU does (measured: for the 400 ms that another kernel had still
to run), and spoils what another library captures meanwhile; a kernel's code takes 10 KiB.
"""

from tessera.core.artifact import Artifact
from tessera.runtime.driver.driver import Driver


class DeviceCode:
    """The code in the current context.

    context, device: where it lies; function: what is launched
    shared: bytes of dynamic shared memory to ask for
    resident: blocks that run at a time; 0 where it is not needed (`bounded`)

    Raises CudaFailure when the driver refuses the code.
    """

    def __init__(self, driver: Driver, artifact: Artifact, *, bounded: bool) -> None:
        self.context, self.device = driver.context(), driver.device()
        self.function = driver.load(artifact.code, artifact.entry)
        self.shared = driver.allow_shared(self.function, artifact.resources.shared_bytes)
        rule = artifact.launch
        self.resident = driver.resident(self.function, rule.threads, self.shared, rule.cluster) if bounded else 0
        driver.used.add(self.device)
