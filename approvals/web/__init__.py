"""The reviewer's pages."""
