"""A user's app with tasks of Django's Tasks API."""
