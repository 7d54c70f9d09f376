"""The inbox of what is wrong: its page and its rows."""
