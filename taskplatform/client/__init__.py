"""The package that other projects install as `taskplatform_client`: client, command line, outbox.

It imports nothing of the platform, and names its own modules by relative imports alone.
"""
