"""Whether the Hugging Face hub answers, asked once: a machine without network fails at once and not after retries."""

import functools
import os
import socket
import sys
from urllib.parse import urlsplit

CONNECT_TIMEOUT_S = 5.0
PROXY_VARIABLES = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


@functools.cache
def hub_reachable() -> bool:
    """False when no connection to the hub can be made; behind a proxy it is taken to be there."""
    if any(os.environ.get(name) for name in PROXY_VARIABLES):
        return True
    url = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    address = (url.hostname or "", url.port or (80 if url.scheme == "http" else 443))
    try:
        socket.create_connection(address, CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def use_cache_if_unreachable() -> None:
    """Make this process, and those it starts, read hub files from the cache alone when the hub does not answer."""
    if hub_reachable():
        return
    os.environ["HF_HUB_OFFLINE"] = "1"
    # Libraries imported earlier have read the variable already.
    for name in ("huggingface_hub.constants", "datasets.config"):
        if name in sys.modules:
            sys.modules[name].HF_HUB_OFFLINE = True  # type: ignore[attr-defined]
