"""Reviews in the admin: the list, the page, and what is stored."""
