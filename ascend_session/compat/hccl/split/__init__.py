"""How gradients are cut into parts that are exchanged together."""
