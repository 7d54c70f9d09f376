"""The overview on the home page of the admin: throughput, success, and what is late."""
