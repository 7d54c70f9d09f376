"""Problems: their page and its rows."""
