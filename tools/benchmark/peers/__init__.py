"""Other frameworks beside Cortado: one graph for all of them, and a worker for each."""
