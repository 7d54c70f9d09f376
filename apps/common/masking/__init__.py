"""Secrets in JSON and in texts: hidden from those who may not see them, and kept when they edit.

`redact` hides them, `merge` puts them back where an edit left their masks, `quote` and `kind_of`
say of a value what a message may. All go by one list of names, see `names`; so does `search`.
"""

from apps.common.masking.edits import kept, merge, require_hidden
from apps.common.masking.kept import Kept
from apps.common.masking.names import is_secret
from apps.common.masking.patterns import MASK
from apps.common.masking.quoting import kind_of
from apps.common.masking.redaction import quote, redact, redact_line, redact_some

__all__ = [
    "MASK",
    "Kept",
    "is_secret",
    "kept",
    "kind_of",
    "merge",
    "quote",
    "redact",
    "redact_line",
    "redact_some",
    "require_hidden",
]
