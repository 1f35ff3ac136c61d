"""What is on this machine; every reader takes the root of the host's file tree as an argument."""
