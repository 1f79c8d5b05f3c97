"""Pages for people, made on the server: they work without JavaScript, and nothing of the kernel knows them.

Others use `response` (how a page is sent), `posted_form` (what came back) and `value_view` (JSON for people).
"""
