"""Make, hash and parse API keys; nothing here knows a stored key."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import unicodedata
from dataclasses import dataclass, field

MAX_HEADER_CHARACTERS = 512
MAX_CLIENT_ID_CHARACTERS = 64
RANDOM_CHARACTERS = 6
# Without the look-alikes 0 o 1 l i: an id is read out over the telephone.
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"
_CLIENT_ID = re.compile(rf"[a-z0-9-]{{1,{MAX_CLIENT_ID_CHARACTERS}}}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,128}")

UNREADABLE = (
    "The Authorization header is not readable; send it once, as "
    "'Authorization: Bearer <client-id>.<secret>' or as HTTP Basic '<client-id>:<secret>'."
)


@dataclass(frozen=True)
class Credentials:
    """The credentials of a caller; the secret itself is dropped as soon as it is hashed."""

    client_id: str
    digest: str = field(repr=False)


def new_client_id(name: str) -> str:
    """A public id made from the name: `Shop scanners` gives `shop-scanners-k7m2xq`."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_name)[:40].strip("-") or "client"
    return f"{slug}-{''.join(secrets.choice(_ALPHABET) for _ in range(RANDOM_CHARACTERS))}"


def new_secret() -> str:
    """256 random bits as 43 characters that need no quoting anywhere."""
    return secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """SHA-256 as 64 hex digits. A slow password hash would add nothing to 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def key_text(client_id: str, secret: str) -> str:
    """The key as one line of text."""
    return f"{client_id}.{secret}"


def is_client_id(text: str) -> bool:
    """Whether the text can be a client id."""
    return _CLIENT_ID.fullmatch(text) is not None


def read_header(header: str) -> Credentials:
    """The credentials of a Bearer or Basic header; ValueError describes the format.

    Two headers, which a server joins by a comma, fit neither form and are refused.
    """
    if len(header) > MAX_HEADER_CHARACTERS:
        raise ValueError(UNREADABLE)
    scheme, _, rest = header.partition(" ")
    if scheme.lower() == "bearer":
        client_id, _, secret = rest.strip(" ").partition(".")
    elif scheme.lower() == "basic":
        client_id, _, secret = _decoded(rest.strip(" ")).partition(":")
    else:
        raise ValueError(UNREADABLE)
    if not is_client_id(client_id) or not _SECRET.fullmatch(secret):
        raise ValueError(UNREADABLE)
    return Credentials(client_id, digest_of(secret))


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("ascii")
    except ValueError:
        # The cause would repeat the secret in a traceback.
        raise ValueError(UNREADABLE) from None
