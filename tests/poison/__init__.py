"""A user's app whose handlers do all that handlers should not; EXTRA_APPS=tests.poison."""
