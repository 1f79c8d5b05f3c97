"""One's own settings, absences and saved views.

Its views are `settings_page.settings` and `saved_view_pages.saved`; the admin uses the forms of `personal_forms`.
"""
