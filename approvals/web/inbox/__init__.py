"""The inbox: its lists, rail, rows, menus and search, and the page around them."""
