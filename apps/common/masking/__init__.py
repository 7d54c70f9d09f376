"""Secrets in JSON and in texts: hidden from those who may not see them, and kept when they edit.

`redact` hides them, `merge` puts them back where an edit left their masks, `quote` is what a
message may say of a value. All go by one list of names, see `names`; so does `search`.
"""

from apps.common.masking.edits import merge
from apps.common.masking.names import is_secret
from apps.common.masking.patterns import MASK
from apps.common.masking.quoting import quote
from apps.common.masking.redaction import redact, redact_line

__all__ = ["MASK", "is_secret", "merge", "quote", "redact", "redact_line"]
