"""What runs: the guardian with its loop, the ranks, what they report, signals."""
