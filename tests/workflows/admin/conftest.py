"""The operator who looks at the admin."""

from tests.support.admin_pages import log_operator_in as log_operator_in
