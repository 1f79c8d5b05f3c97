"""The messages: mails, chat and webhook bodies, and how each is sent.

`sending` and `digests` use `mail` and `webhook` to write one, `smtp` and `http_post` to send it.
"""
