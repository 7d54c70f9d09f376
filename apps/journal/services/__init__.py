"""Write entries: `from apps.journal import services as journal`, `journal.write([…])`."""

from apps.journal.services.writing import Entry, error_key, note, write

__all__ = ["Entry", "error_key", "note", "write"]
