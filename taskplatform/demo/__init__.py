"""`manage.py demo`: a company that inspects shops, and twenty executors that work for it."""
