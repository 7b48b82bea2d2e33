"""The classifier that users hold in hand, its replicas, and runs on disk."""
