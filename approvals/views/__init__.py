"""The reviewer's pages. Views read and render; every answer goes through one door for decisions."""
