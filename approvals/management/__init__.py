"""The commands of approvals."""
