"""The command `trainyard`, and `python -m trainyard`."""

from __future__ import annotations

import signal
import sys

from trainyard import _native


def main() -> int:
    # The program handles Ctrl-C and a closed pipe itself; Python would only note them until it returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.main(["trainyard", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
