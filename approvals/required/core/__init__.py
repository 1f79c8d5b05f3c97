"""What the gates of admin and API share: proposals, their seal, options, replay of a call.

The gates use `options.GateOptions` to read what a site declares, and `proposals` to start and to list requests.
"""
