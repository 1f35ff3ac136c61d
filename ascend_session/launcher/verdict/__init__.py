"""What became of it: the first failure and its cause, in sentences, and the result."""
