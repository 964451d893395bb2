"""Parsing of service URLs."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from rewardops.errors import INVALID_INPUT, RewardOpsError


@dataclass(frozen=True)
class Address:
    """The parts of a service's URL. `base` is the path before `/api`, without a trailing slash."""

    url: str
    https: bool
    host: str
    port: int
    base: str

    @property
    def host_header(self) -> str:
        """The value of the Host header: IPv6 in brackets, the scheme's default port omitted."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.https else 80) else f"{name}:{self.port}"


def parse_address(url: str) -> Address:
    """Parses a URL; `host:port` is accepted. Raises RewardOpsError (`invalid_input`)."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:
        port = None
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise RewardOpsError(
            f"{url!r} is not a service URL such as http://127.0.0.1:3000.",
            reason=INVALID_INPUT,
        )
    https = parts.scheme == "https"
    base = parts.path.rstrip("/")
    # A pasted URL may include the path of the API.
    for inside in ("/api/trpc", "/api"):
        base = base.removesuffix(inside)
    netloc = parts.netloc
    return Address(
        url=f"{parts.scheme}://{netloc}{base}",
        https=https,
        host=parts.hostname,
        port=port if port is not None else (443 if https else 80),
        base=base,
    )
