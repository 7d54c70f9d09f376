"""What other projects install as `taskplatform_client`: client, command line, Django outbox.

It imports nothing of the platform, and names its own modules by relative imports alone.
"""
