"""Entry point: `l2g2g` and `python -m l2g2g`."""

import os

# Idle OpenMP threads sleep instead of spinning: on a shared machine spinning costs a factor of ten and more.
# It must be set before torch is imported; a user's own setting wins.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from l2g2g.cli import main

if __name__ == "__main__":
    main()
