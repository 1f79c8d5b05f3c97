"""What the gates of admin and API share: proposals, their seal, options, replay of a call."""
