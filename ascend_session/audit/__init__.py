"""Find options without effect in existing scripts, without running them."""
