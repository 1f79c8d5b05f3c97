"""System checks of approvals.

The app registers both modules: `checks` asks settings and code, `review_checks` asks the rows.
"""
