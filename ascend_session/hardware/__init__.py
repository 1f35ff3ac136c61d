"""What is on this machine; what reads it takes the root of the host's file tree as an argument."""
