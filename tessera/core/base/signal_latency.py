"""How long a wait in the main thread may last before it looks at pending signals again.

A signal that comes between the interpreter's last look and a wait for a lock does not end the wait: whatever waits on
behalf of the user waits in steps of this length, so that Ctrl-C is delivered within 0.2 s.
"""

from typing import Final

LOOK: Final = 0.05
"""Seconds between two looks."""
