"""The messages: mails, chat and webhook bodies, and how each is sent."""
