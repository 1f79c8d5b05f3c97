"""Ways in for one person: personal links, and the password asked again.

Others make and read links with `personal_links`, and ask for a password with `password_check`.
"""
