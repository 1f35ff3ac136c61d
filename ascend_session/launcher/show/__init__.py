"""What is shown of a launch: its ranks' log files are followed, and lines are drawn."""
