"""The report pages in the admin, and what they add to the list of journal entries."""
