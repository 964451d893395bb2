"""The installed HTTP implementations; tests run once with each."""

import sys

from rewardops.http_aiohttp import aiohttp_is_there

TRANSPORTS = ["streams", "aiohttp"] if aiohttp_is_there() else ["streams"]
if len(TRANSPORTS) == 1:
    print("aiohttp is not installed; the client is tested on the standard library", file=sys.stderr)
