"""The inbox: its lists, rail, rows, menus and search, and the page around them.

Its views are those of `inbox_page`; pages of many requests read `lists`, `rows` and `rail`, and the page of one request
`presence` and `snoozes`.
"""
