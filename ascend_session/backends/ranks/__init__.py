"""How the ranks of a job on the stub find each other and exchange tensors."""
