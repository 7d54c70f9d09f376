"""Django's backend of MariaDB and MySQL, with fewer round trips to the server."""
