"""One request: its page, its posted forms, and the page of a personal link."""
