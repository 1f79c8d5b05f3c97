"""One request: its page, its posted forms, and the page of a personal link.

Its views are `request_page.review`, `request_page.colleagues` and `link_view.link`.
"""
