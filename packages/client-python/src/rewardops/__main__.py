"""`python -m rewardops`."""

import sys

from rewardops.cli import main

# A worker process imports this module under another name and must not start a second server.
if __name__ == "__main__":
    sys.exit(main())
