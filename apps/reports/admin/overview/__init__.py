"""The overview, the home page of the admin: is work flowing, how well, what is late."""
