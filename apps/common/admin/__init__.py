"""The bases of every admin page of the platform, on unfold.

Nothing is imported here: services take words and addresses from `display` and `html`, in processes
that have no page.
"""
