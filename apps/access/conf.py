"""Settings of access."""

from __future__ import annotations

from apps.common.conf import Conf, integer


class AccessConf(Conf):
    title = "Keys and sign-ins"

    FAILED_KEY_LIMIT = integer(
        20,
        "Wrong API keys per address and minute before that address has to wait.",
        minimum=1,
        maximum=10_000,
    )
    SIGN_IN_LIMIT = integer(
        20,
        "Sign-ins, right or wrong, per name and per address and minute, on devices where the name "
        "has not signed in; then it has to wait.",
        minimum=1,
        maximum=10_000,
    )


conf = AccessConf()
