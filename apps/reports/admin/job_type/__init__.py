"""The page of a job type that says how it goes now."""
