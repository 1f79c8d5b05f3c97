"""System checks of approvals."""
