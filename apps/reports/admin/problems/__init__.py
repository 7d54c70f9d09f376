"""The inbox of problems: its page and its rows."""
